"""The samples of one request: sequences with the same prompt, each with its own random stream."""

from __future__ import annotations

import math
from dataclasses import replace

from cbatch.engine.sequence import Sequence
from cbatch.types import FinishReason, Request, RequestOutput


class Group:
    """The sequences of a request, and the outputs of those that have ended."""

    def __init__(self, request: Request, enqueued_ns: int) -> None:
        self.request = request
        self.unfinished = [Sequence(request, enqueued_ns, sample) for sample in range(request.num_samples)]
        self._outputs: list[RequestOutput] = []

    @property
    def untouched(self) -> bool:
        """Whether none of the sequences has had a slot."""
        return not self._outputs and all(seq.admitted_ns is None for seq in self.unfinished)

    def take(self, seq: Sequence, output: RequestOutput) -> None:
        """A sequence has ended."""
        self.unfinished.remove(seq)
        self._outputs.append(output)

    def output(self) -> RequestOutput:
        """The request's, once all have ended: the first of its n samples, or the best n where `best_of` is more.

        Best is the highest mean log-probability of its tokens, as for OpenAI's `best_of`.
        """
        outputs = sorted(self._outputs, key=lambda output: output.sample)
        n = self.request.sampling.n
        if n < len(outputs):
            outputs = sorted(outputs, key=_goodness, reverse=True)[:n]
        if self.request.sampling.logprobs is None:  # they served to choose, at most
            outputs = [replace(output, logprobs=None) for output in outputs]
        return replace(outputs[0], others=tuple(outputs[1:])) if len(outputs) > 1 else outputs[0]


def _goodness(output: RequestOutput) -> float:
    """Failures are worse than anything."""
    failed = output.finish_reason in (FinishReason.ERROR, FinishReason.CANCELLED)
    mean = math.nan if output.logprobs is None else output.logprobs.mean
    return -math.inf if failed or math.isnan(mean) else mean
