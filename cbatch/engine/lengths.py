"""How many tokens requests come to give, learned from those that have finished. Knows no queue and no clock."""

from __future__ import annotations

from cbatch.engine.sequence import Sequence
from cbatch.types import FinishReason, Request

_ENOUGH = 8
"""Finished sequences of one max_tokens from which on their mean counts for more than max_tokens itself."""


class OutputLengths:
    """Of one engine's sequences, by their max_tokens: a job's rows with the same limit are mostly of one kind."""

    def __init__(self) -> None:
        self.learned = 0
        """Finished sequences taken in."""
        self._seen: dict[int, tuple[int, int]] = {}
        """By max_tokens: sequences, and their output tokens."""

    def learn(self, seq: Sequence) -> None:
        """Take a sequence that has ended; what failed, was cancelled, or had no choice says nothing."""
        if seq.finish_reason not in (FinishReason.STOP, FinishReason.LENGTH) or _is_forced(seq.request):
            return
        limit = seq.request.sampling.max_tokens
        count, tokens = self._seen.get(limit, (0, 0))
        self._seen[limit] = count + 1, tokens + seq.num_output
        self.learned += 1

    def expected(self, request: Request) -> float:
        """Output tokens of one sequence of the request."""
        limit = request.sampling.max_tokens
        count, tokens = self._seen.get(limit, (0, 0))
        return limit if count < _ENOUGH or _is_forced(request) else tokens / count


def _is_forced(request: Request) -> bool:
    """Whether nothing but max_tokens can end the request well."""
    sampling = request.sampling
    return sampling.ignore_eos and not (sampling.stop or sampling.stop_token_ids)
