"""Does a request fit the context? What can't be run at all is told apart here from what only must wait.

What is done where it doesn't, by policy:

error            a prompt that is too long can't be run; max_tokens is cut to what the context holds
truncate-left    tokens of the prompt go, the first ones after those to keep; then max_tokens is cut
truncate-middle  so do tokens of its middle, so that its first and last halves stay
shift            the output goes on past the context: whenever that is full, the older half of its tokens after those to
                 keep is dropped. A prompt that is too long by itself is truncated as by truncate-left
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from cbatch.config import REFUSE, Overflow
from cbatch.types import Request


def fit_to_context(request: Request, limit: int, overflow: Overflow = REFUSE) -> Request | str:
    """The request as it can be run in `limit` KV cells, the most that a sequence may fill; or why it can't be.

    A prompt needs one cell a token. At most half of the limit may be kept, by `overflow`.
    """
    assert overflow.keep <= limit // 2
    prompt, room = int(request.prompt.size), _room_for_prompt(request, limit, overflow.keep)
    shifts = overflow.policy == "shift"
    if overflow.policy == "error" and prompt > limit:
        return (
            f"the prompt has {prompt} tokens, and the context holds {limit}: shorten it, raise --ctx, or have it cut "
            "by --on-overflow truncate-left"
        )
    if overflow.policy != "error" and prompt > (limit if shifts else room):
        request = _truncated(request, room, overflow)
    if request.cells_needed <= limit:
        return request
    if shifts:
        return replace(request, max_cells=limit, keep=min(overflow.keep, int(request.prompt.size)))
    most = limit - int(request.prompt.size) + 1
    return replace(request, sampling=replace(request.sampling, max_tokens=most))


def _room_for_prompt(request: Request, limit: int, keep: int) -> int:
    """Tokens that a prompt is cut to: its output finds room after it, up to half of what isn't kept."""
    return limit - min(request.sampling.max_tokens - 1, (limit - keep) // 2)


def _truncated(request: Request, room: int, overflow: Overflow) -> Request:
    size = int(request.prompt.size)
    head = max(overflow.keep, room // 2) if overflow.policy == "truncate-middle" else overflow.keep
    prompt = np.concatenate([request.prompt[:head], request.prompt[size - (room - head) :]])
    return replace(request, prompt=prompt, truncated_tokens=size - room)
