"""Iteration-level scheduling (Orca, Yu et al. 2022; the one rule of vLLM's V1 scheduler), one plan a step.

A sequence's computed tokens catch up with its tokens; there is no separate prefill phase. Each step: waiting sequences
enter free slots, lowest slot first; every decoding sequence gets its one token; what is left of the token budget goes
to prompt chunks in order of admission, as much as possible to each (Sarathi-Serve's chunked prefill, Agrawal et al.
2024). Other rules of admission make it a static batcher (`admission`). Knows nothing of llama.cpp, text, or real time.
"""

from __future__ import annotations

import heapq
from typing import NamedTuple

from cbatch.config import SchedulerConfig
from cbatch.engine.admission import make_admission
from cbatch.engine.kv import KVManager
from cbatch.engine.runner import Capacity, StepPlan, StepResult, Work
from cbatch.engine.sequence import Sequence
from cbatch.engine.waiting import WaitingQueue
from cbatch.types import EngineView, FinishReason, SlotView


class Load(NamedTuple):
    """How much runs and waits at one moment."""

    running: int
    waiting: int
    kv_reserved_cells: int


class Scheduler:
    """Decides what runs in each step, and owns slots and KV accounting."""

    def __init__(self, config: SchedulerConfig, capacity: Capacity) -> None:
        self.config = config
        self.waiting = WaitingQueue()
        self.running: list[Sequence] = []
        """In order of admission."""
        self.held: list[Sequence] = []
        """Finished sequences whose slots stay taken, by the rule of admission."""
        self.padded: list[Sequence] = []
        """Held ones that were computed on after they had finished, and are let go now: the runner is to forget them."""
        self._admission = make_admission(config)
        self._step = 0
        self._freed: list[int] = []
        self.resize(capacity)

    def resize(self, capacity: Capacity) -> None:
        """Take over a new context. No sequence may be running; its slots are all empty."""
        assert not self.running
        assert not self.held
        self.num_slots = min(self.config.max_num_seqs, capacity.max_num_seqs)
        self.budget = min(self.config.max_num_batched_tokens, capacity.max_batched_tokens)
        self.kv = KVManager(capacity)
        self.kv_used_after_step = 0
        """Cells filled when the last step ended, before its finished sequences gave theirs back."""
        self._free_slots = list(range(self.num_slots))
        self._freed.clear()

    def add(self, seq: Sequence) -> None:
        self.waiting.push(seq)

    def cells_wanting(self) -> int | None:
        """Cells that the next sequence needs and no slot can hold, once nothing runs; else None."""
        head = self.waiting.peek()
        if head is None or self.running or self.kv.fits(head.request.cells_needed):
            return None
        return head.request.cells_needed

    def refuse_head(self, now_ns: int) -> Sequence:
        """Fail the next sequence, which no context can hold."""
        seq = self.waiting.pop()
        room = min(self.kv.capacity.cells_per_seq, self.kv.capacity.total_cells)
        message = f"needs {seq.request.cells_needed} KV cells, and a sequence can have {room} at most"
        seq.finish(FinishReason.ERROR, now_ns, f"{message}: shorten the prompt or max_tokens, or use fewer slots")
        return seq

    def schedule(self, now_ns: int) -> StepPlan:
        """Admit what fits, then share out the token budget."""
        admitted = self._admit(now_ns)
        padding = self._padding()
        budget = self.budget - len(padding)
        decodes, prompts = [], []
        for seq in self.running:
            if seq.num_computed >= seq.num_prompt and seq.num_pending == 1:
                decodes.append(Work(seq, seq.num_computed, 1))
            else:
                prompts.append(seq)
        prefills = self._chunks(prompts, budget - len(decodes))
        plan = StepPlan(self._step, tuple(self._freed), tuple(decodes), tuple(prefills), admitted, tuple(padding))
        if not plan.empty:  # an empty plan isn't run, so what it says to free is still to be freed
            self._freed.clear()
            self._step += 1
        return plan

    @property
    def wakes_ns(self) -> int | None:
        """When a step may have something to do though nothing arrives; None if only an arrival can bring that."""
        return self._admission.wakes_ns(len(self.running), self.waiting)

    def _admit(self, now_ns: int) -> int:
        admitted = 0
        allowed = self._admission.allowed(len(self.running), self.waiting, now_ns)
        while self._free_slots and admitted < allowed:
            seq = self.waiting.peek()
            if seq is None or not self.kv.can_admit(cells := self._cells_for(seq)):
                break
            self.waiting.pop()
            seq.slot = heapq.heappop(self._free_slots)
            self.kv.admit(seq.slot, cells)
            if seq.admitted_ns is None:
                seq.admitted_ns = now_ns
            self.running.append(seq)
            admitted += 1
        return admitted

    def _cells_for(self, seq: Sequence) -> int:
        """What to reserve: as much as it can come to fill; in a padded batch, which goes on past that, a full share."""
        needed = seq.request.cells_needed
        if not self._admission.pads:
            return needed
        share = min(self.kv.capacity.cells_per_seq, self.kv.capacity.total_cells // self.num_slots)
        return max(needed, share)

    def _padding(self) -> list[Work]:
        """One more token for every held sequence that can go on; nobody will see it."""
        if not self._admission.pads:
            return []
        return [Work(seq, seq.num_computed, 1) for seq in self.held if self._can_pad(seq)]

    def _can_pad(self, seq: Sequence) -> bool:
        assert seq.slot is not None
        ended_well = seq.finish_reason in (FinishReason.STOP, FinishReason.LENGTH)
        return ended_well and seq.error is None and self.kv.room(seq.slot) > 0

    def _chunks(self, prompts: list[Sequence], budget: int) -> list[Work]:
        longest = self.config.prefill_chunk
        chunks = []
        for seq in prompts:
            count = min(seq.num_pending, budget)
            if longest is not None:
                count = min(count, longest)
            if count <= 0:
                break
            chunks.append(Work(seq, seq.num_computed, count))
            budget -= count
        return chunks

    def update(self, plan: StepPlan, result: StepResult, now_ns: int) -> list[Sequence]:
        """Take a step's result; returns the sequences that finished with it, their slots already free."""
        failed = {failure.seq: failure.message for failure in result.failed}
        for seq, start, length in (*plan.decodes, *plan.prefills, *plan.padding):
            if seq in failed:
                continue
            seq.num_computed = result.rewound.get(seq, start + length)
            assert seq.slot is not None
            self.kv.set_used(seq.slot, seq.num_computed)
        self.kv_used_after_step = self.kv.used
        for seq, message in failed.items():
            if seq.finish_reason is None:
                seq.finish(FinishReason.ERROR, now_ns, message)
            else:
                seq.error = message  # its output was handed on long ago: only the padding ends
        for seq, token, at_ns, text, stopped in result.sampled:
            seq.append(token, at_ns, text)
            if seq.finish_reason is not None:
                continue
            reason = _ending(seq, token, stopped)
            if reason is not None:
                seq.finish(reason, at_ns)
        return self._release()

    def _release(self) -> list[Sequence]:
        """Take finished sequences out of those that run, and let go of slots and cells that aren't kept."""
        finished = [seq for seq in self.running if seq.finish_reason is not None]
        if finished:
            self.running = [seq for seq in self.running if seq.finish_reason is None]
            self.held += finished
            if not (self._admission.keeps_slots and self.running):
                self._let_go()
        return finished

    def _let_go(self) -> None:
        for seq in self.held:
            assert seq.slot is not None
            self.kv.free(seq.slot)
            heapq.heappush(self._free_slots, seq.slot)
            self._freed.append(seq.slot)
        if self._admission.pads:
            self.padded += self.held
        self.held.clear()

    def load(self) -> Load:
        return Load(len(self.running), len(self.waiting), self.kv.reserved)

    def cancel(self, seq: Sequence, now_ns: int) -> None:
        """End a waiting or running sequence between two steps."""
        if seq in self.waiting:
            self.waiting.withdraw(seq)
            seq.finish(FinishReason.CANCELLED, now_ns)
        else:
            assert seq in self.running
            seq.finish(FinishReason.CANCELLED, now_ns)
            self._release()

    def view(self) -> EngineView:
        """What runs and waits now, for display."""
        slots = sorted((_slot_view(seq) for seq in self.running), key=lambda view: view.slot)
        return EngineView(
            slots=tuple(slots),
            slots_total=self.num_slots,
            waiting=len(self.waiting),
            kv_used_cells=self.kv.used,
            kv_reserved_cells=self.kv.reserved,
            kv_total_cells=self.kv.capacity.total_cells,
        )

    def check_integrity(self) -> None:
        """Assert that every slot is free or has one sequence, and that cells are accounted for. For tests."""
        self.kv.check_integrity()
        seqs = [*self.running, *self.held]
        taken = [seq.slot for seq in seqs if seq.slot is not None]
        assert len(taken) == len(seqs)
        assert sorted([*taken, *self._free_slots]) == list(range(self.num_slots))
        assert self.kv.used == sum(seq.num_computed for seq in seqs)
        assert self.kv.reserved == sum(self._cells_for(seq) for seq in seqs)
        assert self.running or not self.held
        for seq in self.running:
            assert seq.finish_reason is None
            assert 0 <= seq.num_computed < seq.num_tokens


def _ending(seq: Sequence, token: int, stopped: bool) -> FinishReason | None:
    if stopped or seq.request.is_end(token):
        return FinishReason.STOP
    if seq.num_output >= seq.request.sampling.max_tokens:
        return FinishReason.LENGTH
    return None


def _slot_view(seq: Sequence) -> SlotView:
    assert seq.slot is not None
    if seq.num_output:
        return SlotView(seq.slot, seq.id, "decode", seq.num_output, seq.request.sampling.max_tokens)
    return SlotView(seq.slot, seq.id, "prefill", seq.num_computed, seq.num_prompt)
