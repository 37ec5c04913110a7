"""The worker's own account of where its rows are: told to the heartbeat around everything that may die.

Not imported by the package: the parent process does without the engine and numpy.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator, Mapping

from cbatch.engine.runner import Capacity, Move, Restore, Runner, Shift, StepPlan, StepResult, Swap, Work
from cbatch.engine.sequence import Sequence
from cbatch.feed.quarantine import CRASHED
from cbatch.supervise.heartbeat import Heartbeat, Phase
from cbatch.types import EngineView, Job, Request, RequestOutput, Row, RowFault, RowRef, StepRecord


class Watch:
    """Tells `heartbeat` which row is being tokenised and which are in slots. An `Observer`, and a `Watcher`.

    A row in a slot counts as in flight until the end of the step in which it ends: so whatever dies inside the engine's
    step, be it in sampling or detokenising, is put down to the rows in slots.
    """

    def __init__(self, heartbeat: Heartbeat, condemned: Mapping[int, str] | None = None) -> None:
        """Rows in `condemned` aren't encoded, and become faults with the message there."""
        self._heartbeat = heartbeat
        self._condemned = {} if condemned is None else condemned
        self._numbers: dict[str, int] = {}
        """Of the rows under way, by request id."""
        self._in_flight: set[int] = set()
        self._some_ended = False
        self._turn = threading.Condition()
        self._suspended = False

    def encode(self, rows: Iterable[Row | RowFault], encode: Callable[[Row], Request | RowFault]) -> Iterator[Job]:
        """One job for each row."""
        for row in rows:
            if isinstance(row, RowFault):
                yield row
            elif row.ref.number in self._condemned:
                yield RowFault(row.ref, CRASHED, self._condemned[row.ref.number])
            else:
                yield self._encode(row, encode)

    def _encode(self, row: Row, encode: Callable[[Row], Request | RowFault]) -> Job:
        with self._turn:
            self._turn.wait_for(lambda: not self._suspended)
            self._heartbeat.tokenising = row.ref.number
        try:
            request = encode(row)
        finally:
            with self._turn:
                self._heartbeat.tokenising = 0
                self._turn.notify_all()
        if isinstance(request, RowFault):
            return request
        self._numbers[request.id] = row.ref.number
        return row.ref, request

    def beat(self) -> None:
        """The driver's loop goes on."""
        self._heartbeat.beat()

    def suspend(self) -> None:
        """Returns once no row is being tokenised; none will be until `resume`."""
        with self._turn:
            self._suspended = True
            self._turn.wait_for(lambda: not self._heartbeat.tokenising)

    def resume(self) -> None:
        """Let rows be tokenised again."""
        with self._turn:
            self._suspended = False
            self._turn.notify_all()

    def cleared(self, number: int) -> None:
        """A suspect has ended without harm."""
        self._heartbeat.clear(number)

    def ending(self) -> None:
        """The engine makes no more steps: what comes may take long."""
        self._heartbeat.phase = Phase.ENDING

    def begin(self, plan: StepPlan) -> None:
        """A step begins, with the rows of the plan in slots."""
        numbers = self._numbers
        touched: list[Work | Swap | Move | Restore | Shift] = [*plan.decodes, *plan.prefills, *plan.padding]
        touched += (*plan.swaps, *plan.moves, *plan.restores, *plan.shifts)
        ids = {each.seq.request.id for each in touched}
        self._in_flight = {numbers[request_id] for request_id in ids if request_id in numbers}
        self._heartbeat.step(self._in_flight)

    def step(self, record: StepRecord, view: Callable[[], EngineView]) -> None:  # noqa: ARG002 (Observer)
        if self._some_ended:
            self._some_ended = False
            self._heartbeat.mark(self._in_flight)

    def finished(self, ref: RowRef, output: RequestOutput) -> None:  # noqa: ARG002 (Observer)
        self._heartbeat.finished += 1
        self._ended(ref)

    def fault(self, fault: RowFault) -> None:
        self._ended(fault.ref)

    def _ended(self, ref: RowRef) -> None:
        if self._numbers.get(ref.id) == ref.number:  # a faulty row may have another's id
            del self._numbers[ref.id]
            self._in_flight.discard(ref.number)
            self._some_ended = True


class WatchedRunner:
    """A `Runner` that tells a watch before each plan which rows it is about, and otherwise is the one inside."""

    def __init__(self, inner: Runner, watch: Watch) -> None:
        self._inner = inner
        self._watch = watch
        self.clock = inner.clock

    @property
    def capacity(self) -> Capacity:
        return self._inner.capacity

    def run(self, plan: StepPlan) -> StepResult:
        self._watch.begin(plan)
        return self._inner.run(plan)

    def finish(self, seq: Sequence) -> str:
        return self._inner.finish(seq)

    def grow(self, cells_per_seq: int) -> Capacity:
        return self._inner.grow(cells_per_seq)

    def num_tokens(self, slot: int) -> int:
        return self._inner.num_tokens(slot)

    def abort(self) -> None:
        self._inner.abort()
