"""Metrics of one request. Each is a pure function of its timestamps; knows nothing of steps or other requests.

Timestamps are integer nanoseconds on the run's clock, and so are differences of them. The two quotients (`tpot`,
`normalized_latency`) are float64 nanoseconds, so that their formulas hold without rounding. A metric whose
timestamps never happened is None, never 0.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from cbatch.types import FinishReason, RequestOutput

COMPLETED = (FinishReason.STOP, FinishReason.LENGTH)


def is_completed(output: RequestOutput) -> bool:
    """Whether the request ended as it should: with `stop` or `length`."""
    return output.finish_reason in COMPLETED


def samples_of(output: RequestOutput) -> tuple[RequestOutput, ...]:
    """All samples of a request, the first one first: the others' own `others` are empty."""
    return (output, *output.others)


def slip(arrival_ns: int, enqueued_ns: int) -> int:
    """Lateness of the driver, ns: enqueued - arrival."""
    return enqueued_ns - arrival_ns


def queue(arrival_ns: int, admitted_ns: int | None) -> int | None:
    """Time until the request first gets a slot, ns: admitted - arrival."""
    return None if admitted_ns is None else admitted_ns - arrival_ns


def ttft(arrival_ns: int, first_token_ns: int | None) -> int | None:
    """Time to first token, ns: first_token - arrival.

    Counted from the intended arrival, so that a driver that falls behind doesn't look good (coordinated omission).
    """
    return None if first_token_ns is None else first_token_ns - arrival_ns


def itl(token_ns: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    """Inter-token latencies, ns: token[i + 1] - token[i]; int64[n] gives int64[n - 1], or int64[0] when n < 2.

    Tokens that one step emitted together have 0 between them.
    """
    return np.diff(token_ns)


def tpot(first_token_ns: int | None, finished_ns: int, output_tokens: int) -> float | None:
    """Time per output token after the first, ns: (finished - first_token) / (n - 1); None when n < 2."""
    if first_token_ns is None or output_tokens < 2:
        return None
    return (finished_ns - first_token_ns) / (output_tokens - 1)


def e2e(arrival_ns: int, finished_ns: int) -> int:
    """End-to-end latency, ns: finished - arrival."""
    return finished_ns - arrival_ns


def normalized_latency(arrival_ns: int, finished_ns: int, output_tokens: int) -> float | None:
    """End-to-end latency per output token, ns: e2e / n; None when n = 0.

    As in Orca (Yu et al., OSDI 2022) and vLLM (Kwon et al., SOSP 2023).
    """
    if output_tokens == 0:
        return None
    return e2e(arrival_ns, finished_ns) / output_tokens


@dataclass(frozen=True, slots=True)
class RequestMetrics:
    """The scalar metrics of one request, in nanoseconds; None where the request never got that far."""

    slip_ns: int
    queue_ns: int | None
    ttft_ns: int | None
    tpot_ns: float | None
    e2e_ns: int
    normalized_latency_ns: float | None

    @classmethod
    def of(cls, output: RequestOutput) -> RequestMetrics:
        """Metrics of a finished request. One that failed counts to its failure, not to its last token."""
        arrival, tokens = output.request.arrival_ns, int(output.token_ids.size)
        return cls(
            slip_ns=slip(arrival, output.enqueued_ns),
            queue_ns=queue(arrival, output.admitted_ns),
            ttft_ns=ttft(arrival, output.first_token_ns),
            tpot_ns=tpot(output.first_token_ns, output.finished_ns, tokens),
            e2e_ns=e2e(arrival, output.finished_ns),
            normalized_latency_ns=normalized_latency(arrival, output.finished_ns, tokens),
        )
