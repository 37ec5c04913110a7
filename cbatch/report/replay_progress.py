"""What a running replay has done so far. Knows no terminal and no trace: the views read `figures()`.

Written on the engine's thread after every step, read on a view's thread a few times a second.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass

from cbatch.clock import Clock
from cbatch.metrics.objectives import Objectives
from cbatch.metrics.percentiles import Distribution
from cbatch.metrics.request import is_completed, slip
from cbatch.report.attainment import Attainment, AttainmentCounter
from cbatch.report.progress import LAST_REQUESTS, Figures, Progress
from cbatch.report.rates import SECOND, PerSecond, Rate
from cbatch.types import EngineView, RequestOutput, RowFault, RowRef, StepRecord


@dataclass(frozen=True, slots=True)
class ReplayFigures:
    """A replay at one moment."""

    run: Figures
    """What it has in common with every job; its rows are the requests that ended."""
    span_s: float | None
    """Of the trace, from its beginning to the last arrival."""
    total: int | None
    """Requests of the trace."""
    arrived: int
    running: int
    """In the last step."""
    waiting: int
    """All others that have arrived and not ended, whether the engine knows of them or not."""
    waiting_peak: int
    arrivals: Rate
    """Requests per second from the beginning on, as `completions`."""
    completions: Rate
    queue: tuple[float, ...]
    """Mean of `waiting` by second, oldest first, at most 120."""
    slip: Distribution
    """Over the last 1000 requests that the engine was told of and that ended."""
    slo: tuple[Attainment, ...]
    """All objectives together, then each; the only one, or none."""

    @property
    def draining(self) -> bool:
        """Whether nothing more will arrive."""
        late = self.span_s is not None and self.run.elapsed_s > self.span_s
        return late or self.arrived == self.total


class ReplayProgress:
    """Listens to the driver (a `cbatch.types.Observer`) and keeps what the views of a replay show.

    `arrived` is asked for the number of requests that have arrived since the beginning, after every step and for every
    picture, on either thread.
    """

    def __init__(
        self,
        clock: Clock,
        *,
        objectives: Objectives,
        arrived: Callable[[], int],
        total: int | None,
        span_s: float | None,
    ) -> None:
        self._clock = clock
        self._ask_arrived = arrived
        self._total = total
        self._span_s = span_s
        self._lock = threading.Lock()
        self._run = Progress(clock)
        self._attained = AttainmentCounter(objectives)
        self._slip_ns: deque[int] = deque(maxlen=LAST_REQUESTS)
        self._ended = 0
        self._busy = 0
        self._stopping = False
        self.begin()

    def begin(self) -> None:
        """The replay starts now; to be called again if the clock is set back after the construction."""
        with self._lock:
            self._run.begin()
            self._began_ns = self._clock.now_ns()
            self._looked_ns = 0
            self._arrived = self._waiting = self._waiting_peak = 0
            self._arrivals, self._completions, self._queue = PerSecond(), PerSecond(), PerSecond()

    def stopping(self) -> None:
        """The user asked to stop: what waits won't be run."""
        self._stopping = True
        self._run.stopping()

    def step(self, record: StepRecord, view: Callable[[], EngineView]) -> None:
        with self._lock:
            self._run.step(record, view)
            self._busy = record.slots_busy
            self._look()

    def finished(self, ref: RowRef, output: RequestOutput) -> None:
        with self._lock:
            self._run.finished(ref, output)
            self._ended += 1
            self._slip_ns.append(slip(output.request.arrival_ns, output.enqueued_ns))
            self._attained.add(output)
            if is_completed(output):
                at = max(0, output.finished_ns - self._began_ns)
                self._completions.add(at, at, 1)

    def fault(self, fault: RowFault) -> None:
        with self._lock:
            self._run.fault(fault)
            self._ended += 1
            self._attained.add(None)

    def figures(self) -> ReplayFigures:
        """Everything at this moment; may be called from any thread."""
        with self._lock:
            running = self._look()
            return ReplayFigures(
                run=self._run.figures(),
                span_s=self._span_s,
                total=self._total,
                arrived=self._arrived,
                running=running,
                waiting=self._waiting,
                waiting_peak=self._waiting_peak,
                arrivals=self._arrivals.summary(self._looked_ns),
                completions=self._completions.summary(self._looked_ns),
                queue=self._queue.history(self._looked_ns),
                slip=Distribution.of(self._slip_ns),
                slo=self._attained.attainments(),
            )

    def _look(self) -> int:
        """Take in what arrived since the last look, as if evenly over that time; returns how many run.

        Until a step has ended nobody hears whom it admitted, so whoever wasn't in the last one counts as waiting.
        """
        since, now = self._looked_ns, max(self._looked_ns, self._clock.now_ns() - self._began_ns)
        before, self._arrived = self._arrived, self._ask_arrived()
        self._queue.add(since, now, self._waiting * (now - since) / SECOND)
        self._arrivals.add(since, now, self._arrived - before)
        self._looked_ns = now
        inside = max(0, self._arrived - self._ended)
        running = min(self._busy, inside)
        self._waiting = 0 if self._stopping else inside - running
        self._waiting_peak = max(self._waiting_peak, self._waiting)
        return running
