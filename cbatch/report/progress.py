"""What a running job has done so far. Knows no terminal: the views read `figures()`.

Written on the engine's thread after every step, read on a view's thread a few times a second.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

from cbatch.clock import Clock
from cbatch.metrics.percentiles import Distribution
from cbatch.metrics.request import tpot, ttft
from cbatch.report.eta import TokenEta
from cbatch.report.rates import SECOND, PerSecond, Rate
from cbatch.types import EngineView, FinishReason, Job, RequestOutput, RowFault, RowRef, StepRecord

VIEW_EVERY_NS = SECOND // 4
LAST_REQUESTS = 1000
"""Latency percentiles are over this many finished requests, the last ones."""
LAST_ANSWERS = 5
LAST_ERRORS = 3
KEPT_CHARS = 500
"""Of an answer or error message."""
STALLED_NS = 10 * SECOND
"""A step may take this long before its silence shows as a rate of 0."""


@dataclass(frozen=True, slots=True)
class Figures:
    """A job at one moment."""

    elapsed_s: float
    rows_ok: int
    rows_failed: int
    rows_total: int | None
    """None until the inputs are exhausted."""
    prefill: Rate
    """Tokens per second from the first step on, as `output`."""
    output: Rate
    ttft: Distribution
    """Over the last 1000 answered requests, as `tpot`."""
    tpot: Distribution
    eta_s: float | None
    stopping: bool
    """The user asked to stop: only running rows are finished."""
    errors: tuple[tuple[str, str], ...]
    """(row id, message), the last few, newest last."""
    answers: tuple[tuple[str, str], ...]
    """(row id, beginning of the text), the last few, newest last."""
    engine: EngineView | None
    """None before the first step."""

    @property
    def rows_done(self) -> int:
        return self.rows_ok + self.rows_failed


class Progress:
    """Listens to the driver (a `cbatch.types.Observer`) and keeps what the views show.

    An observer hears of no row before it ends, so jobs are to be read through `reading`, which there is no ETA without.
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._started_ns = clock.now_ns()
        self._first_step_ns: int | None = None
        self._last_step_ns = 0
        self._idle = False
        self._ok = 0
        self._failed = 0
        self._read = 0
        self._total: int | None = None
        self._stopping = False
        self._eta = TokenEta()
        self._prefill = PerSecond()
        self._output = PerSecond()
        self._ttft_ns: deque[int] = deque(maxlen=LAST_REQUESTS)
        self._tpot_ns: deque[float] = deque(maxlen=LAST_REQUESTS)
        self._errors: deque[tuple[str, str]] = deque(maxlen=LAST_ERRORS)
        self._answers: deque[tuple[str, str]] = deque(maxlen=LAST_ANSWERS)
        self._engine: EngineView | None = None
        self._engine_ns = 0

    def begin(self) -> None:
        """Count time and rates from now; the clock may have been set back."""
        with self._lock:
            now = self._clock.now_ns()
            self._started_ns = self._first_step_ns = self._last_step_ns = self._engine_ns = now

    def reading(self, jobs: Iterable[Job]) -> Iterator[Job]:
        """Hand `jobs` through, noting them; at their end the total is known. On any one thread."""
        for job in jobs:
            with self._lock:
                self._read += 1
                if not isinstance(job, RowFault):
                    ref, request = job
                    self._eta.read(ref.number, request)
            yield job
        self.set_total(self._read)

    def set_total(self, rows: int) -> None:
        """How many rows the inputs have, faulty ones included, where it is known before they are all read."""
        self._total = rows

    def stopping(self) -> None:
        """The user asked to stop: what isn't running won't be run."""
        self._stopping = True

    def step(self, record: StepRecord, view: Callable[[], EngineView]) -> None:
        with self._lock:
            if self._first_step_ns is None:
                self._first_step_ns = record.start_ns
            self._last_step_ns = record.end_ns
            start, end = record.start_ns - self._first_step_ns, record.end_ns - self._first_step_ns
            self._prefill.add(start, end, record.prefill_tokens)
            self._output.add(start, end, record.output_tokens)
            self._eta.step(record)
            drained = record.finished == record.slots_busy
            if self._engine is None or record.end_ns - self._engine_ns >= VIEW_EVERY_NS or drained:
                self._engine, self._engine_ns = view(), record.end_ns
            self._idle = drained and self._engine.waiting == 0

    def finished(self, ref: RowRef, output: RequestOutput) -> None:
        if output.finish_reason is FinishReason.CANCELLED:
            return
        with self._lock:
            self._eta.finished(ref.number, output)
            if output.finish_reason is FinishReason.ERROR:
                self._fail(ref, output.error or "failed")
                return
            self._ok += 1
            self._answers.append((ref.id, output.text[:KEPT_CHARS]))
            self._time(output)

    def fault(self, fault: RowFault) -> None:
        with self._lock:
            self._eta.refused(fault.ref.number)
            self._fail(fault.ref, fault.message)

    def figures(self) -> Figures:
        """Everything at this moment; may be called from any thread."""
        now = self._clock.now_ns()
        with self._lock:
            since = self._first_step_ns if self._first_step_ns is not None else now
            until = (now if self._idle else max(self._last_step_ns, now - STALLED_NS)) - since
            return Figures(
                elapsed_s=(now - self._started_ns) / SECOND,
                rows_ok=self._ok,
                rows_failed=self._failed,
                rows_total=self._total,
                prefill=self._prefill.summary(until),
                output=self._output.summary(until),
                ttft=Distribution.of(self._ttft_ns),
                tpot=Distribution.of(self._tpot_ns),
                eta_s=self._seconds_left(),
                stopping=self._stopping,
                errors=tuple(self._errors),
                answers=tuple(self._answers),
                engine=self._engine,
            )

    def _fail(self, ref: RowRef, message: str) -> None:
        self._failed += 1
        self._errors.append((ref.id, message[:KEPT_CHARS]))

    def _time(self, output: RequestOutput) -> None:
        first = ttft(output.request.arrival_ns, output.first_token_ns)
        each = tpot(output.first_token_ns, output.finished_ns, int(output.token_ids.size))
        if first is not None:
            self._ttft_ns.append(first)
        if each is not None:
            self._tpot_ns.append(each)

    def _seconds_left(self) -> float | None:
        if self._total is None or self._stopping:
            return None
        return self._eta.seconds(max(0, self._total - self._read))
