"""Does a request fit the context? What can't be run at all is told apart here from what only must wait."""

from __future__ import annotations

from dataclasses import replace

from cbatch.types import Request


def fit_to_context(request: Request, limit: int) -> Request | str:
    """The request, its max_tokens cut where prompt and output together pass `limit` cells; or why it can't run.

    `limit` is the most KV cells a sequence may fill. A prompt needs one cell a token.
    """
    prompt = int(request.prompt.size)
    if prompt > limit:
        return f"the prompt has {prompt} tokens, and the context holds {limit}: shorten it or raise --ctx"
    if request.cells_needed <= limit:
        return request
    return replace(request, sampling=replace(request.sampling, max_tokens=limit - prompt + 1))
