"""A runner that computes nothing: for tests of everything above the model, in milliseconds.

It ships with the package, so that whoever builds on the engine can test on it too.
"""

from __future__ import annotations

from collections.abc import Callable

from cbatch.clock import Clock, VirtualClock
from cbatch.engine.runner import CallTiming, Capacity, Failed, Sampled, StepPlan, StepResult, Work
from cbatch.engine.sequence import Sequence


def letters(seq: Sequence) -> int:
    """The default token rule: depends on prompt and position only, and never on the company."""
    return 97 + (int(seq.request.prompt.sum()) + 7 * seq.num_output) % 26


def one_millisecond(_decodes: int, _prefill_tokens: int) -> int:
    """The default step cost."""
    return 1_000_000


class FakeRunner:
    """Samples tokens by a rule and lets virtual time pass; checks that plans are consistent with what it was given.

    `cost_ns` maps (decode tokens, prefill tokens) of a call to its duration. A step is one call, or with `split_calls`
    one for decodes and one for prompts. `faults` maps a request id to the number
    of computed tokens at which it fails. `memory_cells` bounds `grow`.
    """

    def __init__(
        self,
        *,
        max_num_seqs: int = 8,
        cells_per_seq: int = 1 << 20,
        total_cells: int | None = None,
        clock: VirtualClock | None = None,
        next_token: Callable[[Sequence], int] = letters,
        cost_ns: Callable[[int, int], int] = one_millisecond,
        faults: dict[str, int] | None = None,
        memory_cells: int | None = None,
        split_calls: bool = False,
        keep_plans: bool = True,
    ) -> None:
        total = max_num_seqs * cells_per_seq if total_cells is None else total_cells
        self._capacity = Capacity(max_num_seqs, cells_per_seq, total)
        self._time = clock if clock is not None else VirtualClock()
        self.clock: Clock = self._time
        self.next_token = next_token
        self.cost_ns = cost_ns
        self.faults = faults if faults is not None else {}
        self.memory_cells = memory_cells
        self.split_calls = split_calls
        self.plans: list[StepPlan] = []
        """Every plan run, for tests to look at; empty without `keep_plans`."""
        self._keep_plans = keep_plans
        self._cells: dict[int, tuple[Sequence, int]] = {}

    @property
    def capacity(self) -> Capacity:
        return self._capacity

    def run(self, plan: StepPlan) -> StepResult:
        if self._keep_plans:
            self.plans.append(plan)
        for slot in plan.freed:
            self._cells.pop(slot, None)
        result = StepResult()
        for decodes, prefills in self._calls(plan):
            self._call(decodes, prefills, result)
        return result

    def _calls(self, plan: StepPlan) -> list[tuple[tuple[Work, ...], tuple[Work, ...]]]:
        """(decodes, prefills) of each call."""
        decodes = (*plan.decodes, *plan.padding)
        if decodes and plan.prefills and self.split_calls:
            return [(decodes, ()), ((), plan.prefills)]
        return [(decodes, plan.prefills)]

    def _call(self, decodes: tuple[Work, ...], prefills: tuple[Work, ...], result: StepResult) -> None:
        start = self.clock.now_ns()
        self._time.advance(self.cost_ns(len(decodes), sum(work.length for work in prefills)))
        kind = "decode" if not prefills else "mixed" if decodes else "prefill"
        works = (*decodes, *prefills)
        result.calls.append(CallTiming(kind, start, self.clock.now_ns(), works))
        for work in works:
            self._compute(work, result)

    def _compute(self, work: Work, result: StepResult) -> None:
        seq = work.seq
        assert seq.slot is not None
        owner, held = self._cells.get(seq.slot, (seq, 0))
        assert owner is seq, f"slot {seq.slot} still holds {owner.id}"
        assert held == work.start, f"{seq.id} continues at {work.start}, its slot holds {held}"
        self._cells[seq.slot] = (seq, work.start + work.length)
        if seq.id in self.faults and work.start + work.length >= self.faults[seq.id]:
            result.failed.append(Failed(seq, "fault injected"))
        elif work.samples:
            token = self.next_token(seq)
            text = "" if seq.request.is_end(token) else chr(token)
            result.sampled.append(Sampled(seq, token, self.clock.now_ns(), text))

    def finish(self, seq: Sequence) -> str:  # noqa: ARG002  (the protocol's name)
        return ""

    def grow(self, cells_per_seq: int) -> Capacity:
        if self.memory_cells is not None and cells_per_seq <= self.memory_cells:
            self._cells.clear()
            slots = min(self._capacity.max_num_seqs, self.memory_cells // cells_per_seq)
            self._capacity = Capacity(slots, cells_per_seq, slots * cells_per_seq)
        return self._capacity

    def abort(self) -> None:
        pass
