"""A runner that computes nothing and lets as much virtual time pass as the cost model says.

Knows how many tokens every slot holds, and not which. Plans become calls by the rules of the real runner
(`cbatch.engine.compose`), and calls ubatches by those of llama.cpp (`cbatch.sim.ubatches`).
"""

from __future__ import annotations

from collections.abc import Container
from dataclasses import dataclass
from weakref import WeakSet

from cbatch.clock import Clock, VirtualClock
from cbatch.config import ContextConfig
from cbatch.engine.compose import Call, compose
from cbatch.engine.runner import CallTiming, Capacity, Move, Restore, Sampled, Shift, StepPlan, StepResult, Work
from cbatch.engine.sequence import Sequence
from cbatch.sim.costs import StepCostModel
from cbatch.sim.ubatches import Spans, Ubatch, cut_pool, cut_streams, spans_of

_NO_LIMIT = 2**31
NO_TOKEN = -1
"""What is sampled: no token of any vocabulary, so it ends nothing."""


@dataclass(frozen=True, eq=False)
class SimulatedSnapshot:
    """As of so many tokens."""

    num_tokens: int
    num_bytes: int
    shared: bool = False


class SimulatedRunner:
    """Runs plans on `config`'s context as `costs` say; every sequence goes on to its `max_tokens`.

    `bytes_per_token` of KV fill the budget of the prefix cache. In one pool, up to `parking` snapshots share its cells
    and cost nothing.
    """

    def __init__(
        self,
        costs: StepCostModel,
        config: ContextConfig,
        *,
        clock: VirtualClock | None = None,
        bytes_per_token: float = 0.0,
        parking: int = 0,
    ) -> None:
        self.costs = costs
        self._config = config
        self._streams = config.kv_mode == "split"
        self._time = clock if clock is not None else VirtualClock()
        self.clock: Clock = self._time
        self._bytes_per_token = bytes_per_token
        self._parking = parking if not self._streams else 0
        self._parked: WeakSet[SimulatedSnapshot] = WeakSet()
        self._held: dict[int, int] = {}
        """Tokens by slot."""

    @property
    def capacity(self) -> Capacity:
        config = self._config
        return Capacity(
            config.max_num_seqs,
            config.cells_per_seq if self._streams else config.total_cells,
            config.total_cells,
            config.max_num_batched_tokens,
            holes_cost=self._streams,
        )

    def run(self, plan: StepPlan) -> StepResult:
        result = StepResult()
        self._pass(self.costs.overhead_ns(len(plan.decodes) + len(plan.prefills)))
        self._prepare(plan, result)
        for call in compose(plan, streams=self._streams, ubatch=self._config.ubatch, max_outputs=_NO_LIMIT):
            due = _without(call, result.rewound) if result.rewound else call
            if due.works:
                self._execute(due, result)
        self._save_after(plan, result)
        return result

    def _prepare(self, plan: StepPlan, result: StepResult) -> None:
        for seq, slot in plan.swaps:
            self._save(seq, slot, result, share=False)
        for slot in plan.freed:
            self._held.pop(slot, None)
        for move in plan.moves:
            self._move(move, result)
        for restore in plan.restores:
            self._restore(restore, result)
        for shift in plan.shifts:
            self._shift(shift)

    def _execute(self, call: Call, result: StepResult) -> None:
        works, spans = call.works, spans_of(call.works)
        self._fill(works, spans)
        start = self.clock.now_ns()
        self._pass(self.costs.call_ns(self._ubatches(spans)))
        result.calls.append(CallTiming(call.kind, start, self.clock.now_ns(), tuple(works)))
        sampling = [work.seq for work, span in zip(works, spans, strict=True) if span.outputs and work.samples]
        result.sample_ns += self._pass(self.costs.sample_ns(len(sampling)))
        now = self.clock.now_ns()
        result.sampled += [Sampled(seq, NO_TOKEN, now) for seq in sampling]

    def _ubatches(self, spans: Spans) -> list[Ubatch]:
        if self._streams:
            return cut_streams(spans, self._config.ubatch)
        return cut_pool(spans, self._config.ubatch, sum(self._held.values()))

    def _fill(self, works: list[Work], spans: Spans) -> None:
        held = self._held
        for work, (slot, start, length, _) in zip(works, spans, strict=True):
            before = held.get(slot, 0)
            assert before == start, f"{work.seq.id} continues at {start}, its slot {slot} holds {before}"
            held[slot] = start + length

    def _save_after(self, plan: StepPlan, result: StepResult) -> None:
        for seq, length, share in plan.saves:
            if seq.slot is not None and self._held.get(seq.slot) == length:
                self._save(seq, seq.slot, result, share=share)

    def _save(self, seq: Sequence, slot: int, result: StepResult, *, share: bool) -> None:
        length = self._held[slot]
        shared = share and len(self._parked) < self._parking
        taken = SimulatedSnapshot(length, round(length * self._bytes_per_token), shared)
        if shared:
            self._parked.add(taken)
        else:
            result.save_ns += self._pass(length * self.costs.save_ns)
        result.saved[seq] = taken

    def _move(self, move: Move, result: StepResult) -> None:
        """Through the host, as streams are moved."""
        seq, source = move
        assert seq.slot is not None
        self._held.pop(seq.slot, None)  # of a finished one, whose slot is only kept by a rule
        if source not in self._held:  # a prompt of one token that isn't computed yet
            assert seq.num_computed == 0, f"{seq.id} is moved from slot {source}, which has lost its KV"
            result.rewound[seq] = 0
            return
        length = self._held[seq.slot] = self._held.pop(source)
        result.move_ns += self._pass(length * (self.costs.save_ns + self.costs.restore_ns))

    def _restore(self, restore: Restore, result: StepResult) -> None:
        seq, snapshot, length = restore
        assert seq.slot is not None
        assert seq.slot not in self._held, f"{seq.id} is restored into slot {seq.slot}, which isn't empty"
        self._held[seq.slot] = length
        if not snapshot.shared:
            result.restore_ns += self._pass(snapshot.num_tokens * self.costs.restore_ns)

    def _shift(self, shift: Shift) -> None:
        assert shift.seq.slot is not None
        self._held[shift.seq.slot] -= shift.length

    def _pass(self, ns: float) -> int:
        whole = round(ns)
        self._time.advance(whole)
        return whole

    def finish(self, seq: Sequence) -> str:  # noqa: ARG002  (the protocol's name)
        return ""

    def grow(self, cells_per_seq: int) -> Capacity:  # noqa: ARG002  (the context is made for the longest at once)
        return self.capacity

    def num_tokens(self, slot: int) -> int:
        return self._held.get(slot, 0)

    def abort(self) -> None:
        """Nothing takes long."""


def _without(call: Call, lost: Container[Sequence]) -> Call:
    """What has lost its KV begins again in the next step."""
    return Call(call.kind, [work for work in call.works if work.seq not in lost])
