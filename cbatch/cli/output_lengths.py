"""How long outputs will get, in bounds, from some that were tried for a while. Knows neither time nor engine."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

import numpy as np

from cbatch.metrics.request import is_completed, samples_of
from cbatch.types import FinishReason, Request, RequestOutput

_SILVER = 2**0.5 - 1


class OutputLengths:
    """Bounds on how long outputs get, from some of which a part was broken off.

    The share of outputs longer than t is the product limit (Kaplan & Meier 1958), give or take its standard error
    (Greenwood 1926). To those seen comes a made-up one, which never ends for the upper bound and ended at once for the
    lower one, so that few outputs don't pass for certainty. Of what lies beyond the longest output seen nothing is
    known: it is all of max_tokens for the upper bound and nothing for the lower one.
    """

    def __init__(self, ended: Sequence[int], broken_off: Sequence[int]) -> None:
        """Tokens of outputs that the model ended, and of those that would have gone on."""
        self._longest = max([*ended, *broken_off], default=1)
        self._times, deaths = np.unique(np.array(ended, np.int64), return_counts=True)
        lengths = np.sort(np.array([*ended, *broken_off], np.int64))
        alive = lengths.size - np.searchsorted(lengths, self._times)
        error = np.sqrt(np.cumsum(deaths / ((alive + 1) * (alive + 1 - deaths))))
        upper = np.cumprod(1 - deaths / (alive + 1)) * (1 + error)
        lower = np.cumprod(1 - deaths / alive) * (1 - error) * lengths.size / (lengths.size + 1)
        self._longer = [np.minimum.accumulate(bound) for bound in (lower, upper)]

    def length(self, quantile: float, most: int, *, high: bool) -> int:
        """Of an output that is longer than a share of `quantile` (0 to 1) of all, with `most` tokens at most."""
        index = int(np.searchsorted(-self._longer[high], quantile - 1))
        if index < self._times.size:
            return min(most, int(self._times[index]))
        return most if high else min(most, self._longest)


def may_end(request: Request) -> bool:
    """Whether it can end before its max_tokens."""
    return bool(request.end_tokens or request.sampling.stop or request.sampling.stop_token_ids)


def output_lengths(requests: Iterable[Request], outputs: Sequence[RequestOutput], *, high: bool) -> Iterator[int]:
    """Of each sequence of the requests: as seen where it finished, else a bound."""
    seen = {output.id: samples_of(output) for output in outputs}
    begun = [s for samples in seen.values() for s in samples if s.token_ids.size and may_end(s.request)]
    known = OutputLengths(
        [int(s.token_ids.size) for s in begun if s.finish_reason is FinishReason.STOP],
        [int(s.token_ids.size) for s in begun if s.finish_reason is not FinishReason.STOP],
    )
    for number, request in enumerate(requests):
        samples = seen.get(request.id, ())
        for index in range(request.num_samples):  # of best_of samples, those that weren't chosen aren't given back
            sample = samples[index] if index < len(samples) else None
            # not in step with the order in which rows were tried
            quantile = (number + index / request.num_samples) * _SILVER % 1
            yield _length(request, sample, known, quantile, high=high)


def _length(
    request: Request, sample: RequestOutput | None, known: OutputLengths, quantile: float, *, high: bool
) -> int:
    most = request.sampling.max_tokens
    if not may_end(request):
        return most
    if sample is None or sample.token_ids.size == 0:
        return known.length(quantile, most, high=high)
    return most if high and not is_completed(sample) else int(sample.token_ids.size)
