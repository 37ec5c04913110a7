"""What a trace is like, in one pass: rate, burstiness, lengths, priorities, reuse. Numbers only; displays nothing."""

from __future__ import annotations

from array import array
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from cbatch.traces.reuse import PrefixReuse
from cbatch.traces.trace import SECOND, TraceRequest

BINS = 60
_Ints = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Histogram:
    """Counts of `counts[i]` values in bins of equal width: [edges[i], edges[i + 1]), the last one with its end."""

    edges: tuple[float, ...]
    """One more than counts."""
    counts: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class LengthStats:
    """Of the requests that have the length, in tokens; percentiles interpolate linearly, as `numpy.percentile`."""

    count: int
    total: int
    mean: float
    min: int
    p50: float
    p90: float
    p99: float
    max: int
    histogram: Histogram
    """Bins of a whole number of lengths each, so that each has as many to hold."""


@dataclass(frozen=True, slots=True)
class TraceStats:
    """A trace in numbers; None where it has too few requests to say."""

    num_requests: int
    first_ns: int | None
    last_ns: int | None
    span_ns: int
    """Last arrival - first arrival."""
    request_rate: float | None
    """Realised, per second: (n - 1) / span."""
    gap_cv: float | None
    """Coefficient of variation of the gaps between arrivals: their standard deviation / their mean; 1 for Poisson."""
    burstiness: float | None
    """Shape of the gamma gaps that vary as much: 1 / cv**2, as `--burstiness`; None also where all gaps are equal."""
    dispersion: float | None
    """Index of dispersion: variance / mean of the arrivals in each whole second since the first; 1 for Poisson."""
    arrivals: Histogram | None
    """Over the span; edges in seconds."""
    prompt_tokens: LengthStats | None
    num_text_prompts: int
    """Prompts given as text, whose tokens the trace doesn't tell."""
    output_tokens: LengthStats | None
    num_natural_outputs: int
    """Outputs without a forced length."""
    priorities: Mapping[int, int]
    """Requests by priority, ascending."""
    num_sessions: int
    tenants: Mapping[str, int]
    """Requests by tenant, most first."""
    reusable_tokens: int
    """Prompt tokens that earlier requests had in the same place, by their prefix ids."""

    @property
    def prefix_reuse(self) -> float | None:
        """Reusable share of the prompt tokens, with a cache without bounds."""
        return None if self.prompt_tokens is None else self.reusable_tokens / self.prompt_tokens.total

    @classmethod
    def of(cls, requests: Iterable[TraceRequest], bins: int = BINS) -> TraceStats:
        """Of requests in order of arrival; histograms have at most `bins` bins."""
        tally = _Tally()
        for request in requests:
            tally.add(request)
        return tally.stats(bins)


class _Tally:
    """What the pass keeps: three numbers a request, and what differs between requests."""

    def __init__(self) -> None:
        self._arrivals = array("q")
        self._prompts = array("q")
        self._outputs = array("q")
        self._priorities: Counter[int] = Counter()
        self._sessions: set[str] = set()
        self._tenants: Counter[str] = Counter()
        self._reuse = PrefixReuse()
        self._reusable = 0

    def add(self, request: TraceRequest) -> None:
        self._arrivals.append(request.arrival_ns)
        if request.prompt_tokens is not None:
            self._prompts.append(request.prompt_tokens)
        if request.output_tokens is not None:
            self._outputs.append(request.output_tokens)
        self._priorities[request.priority] += 1
        if request.session_id is not None:
            self._sessions.add(request.session_id)
        if request.tenant is not None:
            self._tenants[request.tenant] += 1
        self._reusable += self._reuse.add(request)

    def stats(self, bins: int) -> TraceStats:
        arrivals = np.array(self._arrivals, np.int64)
        n = arrivals.size
        span = int(arrivals[-1] - arrivals[0]) if n else 0
        cv = gap_cv(arrivals)
        return TraceStats(
            num_requests=n,
            first_ns=int(arrivals[0]) if n else None,
            last_ns=int(arrivals[-1]) if n else None,
            span_ns=span,
            request_rate=(n - 1) * SECOND / span if span else None,
            gap_cv=cv,
            burstiness=None if cv is None or cv == 0 else 1 / cv**2,
            dispersion=dispersion(arrivals),
            arrivals=_over_time(arrivals, bins) if n else None,
            prompt_tokens=_lengths(self._prompts, bins),
            num_text_prompts=n - len(self._prompts),
            output_tokens=_lengths(self._outputs, bins),
            num_natural_outputs=n - len(self._outputs),
            priorities=dict(sorted(self._priorities.items())),
            num_sessions=len(self._sessions),
            tenants=dict(self._tenants.most_common()),
            reusable_tokens=self._reusable,
        )


def gap_cv(arrivals: _Ints) -> float | None:
    """Standard deviation / mean of the gaps between arrivals, int64[n] ns ascending; None under two gaps or all 0."""
    gaps = np.diff(arrivals)
    if gaps.size < 2 or not gaps.any():
        return None
    return float(gaps.std() / gaps.mean())


def dispersion(arrivals: _Ints, bin_ns: int = SECOND) -> float | None:
    """Variance / mean of the arrivals in each whole bin since the first of int64[n] ns ascending; None under two bins.

    Cox and Lewis, The Statistical Analysis of Series of Events, 1966.
    """
    if arrivals.size == 0:
        return None
    number = (arrivals - arrivals[0]) // bin_ns
    whole = int(number[-1])  # the last bin isn't over
    if whole < 2:
        return None
    # by runs, because a trace of months has more seconds than requests
    _, counts = np.unique(number[number < whole], return_counts=True)
    mean = counts.sum() / whole
    return float((counts**2).sum() / whole - mean**2) / float(mean)


def _over_time(arrivals: _Ints, bins: int) -> Histogram:
    first, span = int(arrivals[0]), int(arrivals[-1] - arrivals[0])
    bins = bins if span else 1
    starts = [first - (-span * i // bins) for i in range(bins)]  # first + span * i / bins, up to a whole ns
    before = np.append(np.searchsorted(arrivals, starts), arrivals.size)
    edges = tuple((first + span * i / bins) / SECOND for i in range(bins + 1))
    return Histogram(edges, tuple(np.diff(before).tolist()))


def _lengths(values: array[int], bins: int) -> LengthStats | None:
    if not values:
        return None
    lengths = np.array(values, np.int64)
    low, high = int(lengths.min()), int(lengths.max())
    p50, p90, p99 = (float(p) for p in np.percentile(lengths, (50, 90, 99), method="linear"))
    width = -(-(high - low + 1) // bins)
    counts = np.bincount((lengths - low) // width)
    edges = tuple(float(low + width * i) for i in range(counts.size + 1))
    return LengthStats(
        count=lengths.size,
        total=int(lengths.sum()),
        mean=float(lengths.mean()),
        min=low,
        p50=p50,
        p90=p90,
        p99=p99,
        max=high,
        histogram=Histogram(edges, tuple(counts.tolist())),
    )
