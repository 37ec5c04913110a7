"""Iteration-level scheduling (Orca, Yu et al. 2022; the one rule of vLLM's V1 scheduler), one plan a step.

A sequence's computed tokens catch up with its tokens; there is no separate prefill phase. Each step: waiting sequences
enter free slots, lowest slot first, or displace those of lower priority; every decoding sequence gets its one token;
what is left of the token budget goes to prompt chunks in order of admission, as much as possible to each
(Sarathi-Serve's chunked prefill, Agrawal et al. 2024), from where a shared prefix ends that is restored. Other rules of
admission make it a static batcher (`admission`). Knows nothing of llama.cpp, text, or real time.
"""

from __future__ import annotations

from typing import NamedTuple

from cbatch.config import SchedulerConfig
from cbatch.engine.draft import Draft
from cbatch.engine.kv import KVManager
from cbatch.engine.places import Places
from cbatch.engine.prefix_cache import PrefixCache
from cbatch.engine.runner import Capacity, Restore, Save, Shift, StepPlan, StepResult, Work
from cbatch.engine.sequence import Sequence
from cbatch.engine.waiting import WaitingQueue
from cbatch.types import FinishReason


class Load(NamedTuple):
    """How much runs and waits at one moment."""

    running: int
    waiting: int
    kv_reserved_cells: int


class Scheduler:
    """Decides what runs in each step."""

    def __init__(self, config: SchedulerConfig, capacity: Capacity) -> None:
        self.config = config
        self.prefixes = PrefixCache(config.prefix_cache_bytes, keep=config.keep_prefixes, capacity=capacity)
        self.places = Places(config, capacity, self.prefixes)
        self.kv_used_after_step = 0
        """Cells filled when the last step ended, before its finished sequences gave theirs back."""
        self.kv_shared_after_step = 0
        """Of these, the ones that hold what another one holds too."""
        self._step = 0
        self._set_budget(capacity)

    def _set_budget(self, capacity: Capacity) -> None:
        self.budget = min(self.config.max_num_batched_tokens, capacity.max_batched_tokens)

    def resize(self, capacity: Capacity) -> None:
        """Take over a new context. No sequence may be running; its slots are all empty."""
        self.places.resize(capacity)
        self.kv_used_after_step = 0
        self._set_budget(capacity)

    @property
    def waiting(self) -> WaitingQueue:
        return self.places.waiting

    @property
    def running(self) -> list[Sequence]:
        """In order of admission."""
        return self.places.running

    @property
    def kv(self) -> KVManager:
        return self.places.kv

    def add(self, seq: Sequence) -> None:
        self.places.add(seq)

    def cells_wanting(self) -> int | None:
        """Cells that the next sequence needs and no slot can hold, once nothing runs; else None."""
        head = self.waiting.peek()
        if head is None or self.running or self.kv.fits(head.request.cells_needed):
            return None
        return head.request.cells_needed

    def refuse_head(self, now_ns: int) -> Sequence:
        """Fail the next sequence, which no context can hold."""
        seq = self.waiting.peek()
        assert seq is not None
        self.places.withdraw(seq)
        message = f"needs {seq.request.cells_needed} KV cells, and a sequence can have {self.kv.static_cells} at most"
        seq.finish(FinishReason.ERROR, now_ns, f"{message}: shorten the prompt or max_tokens, or use fewer slots")
        return seq

    def schedule(self, now_ns: int) -> StepPlan:
        """Admit what fits, then share out the token budget."""
        draft = Draft()
        self.places.grow(draft)
        if not draft.preempted:  # else there is no room, and who just gave way is next
            self.places.admit(draft, now_ns)
        self.places.compact(draft)
        self._fill(draft)
        for seq in draft.preempted:
            self.waiting.push(seq)
        freed = self.places.slots.freed
        plan = draft.plan(self._step, tuple(freed))
        if not plan.empty:  # an empty plan isn't run, so what it says to free is still to be freed
            freed.clear()
            self._step += 1
        return plan

    @property
    def wakes_ns(self) -> int | None:
        """When a step may have something to do though nothing arrives; None if only an arrival can bring that."""
        return self.places.admission.wakes_ns(len(self.running), self.waiting)

    def _fill(self, draft: Draft) -> None:
        """Share out the token budget."""
        draft.padding = self._padding()
        prompts = []
        for seq in self.running:
            if seq.snapshot is not None:
                self._restore(draft, Restore(seq, seq.snapshot, seq.snapshot.num_tokens))
            if seq.is_full:
                self._shift(draft, seq)
            if seq.is_decoding:
                draft.decodes.append(Work(seq, seq.num_computed, 1))
            else:
                prompts.append(seq)
        self._chunk(draft, prompts, self.budget - len(draft.padding) - len(draft.decodes))

    def _padding(self) -> list[Work]:
        """One more token for every held sequence that can go on; nobody will see it."""
        if not self.places.admission.pads:
            return []
        return [Work(seq, seq.num_computed, 1) for seq in self.places.held if self._can_pad(seq)]

    def _can_pad(self, seq: Sequence) -> bool:
        assert seq.slot is not None
        ended_well = seq.finish_reason in (FinishReason.STOP, FinishReason.LENGTH)
        return ended_well and seq.error is None and self.kv.room(seq.slot) > 0

    def _chunk(self, draft: Draft, prompts: list[Sequence], budget: int) -> None:
        for seq in prompts:
            if budget <= 0:
                return
            if seq.num_computed == 0 and not self._begin(draft, seq):
                continue
            count = min(seq.num_pending, seq.room)
            if self.config.whole_prompts and count > budget and draft.prefills:
                return  # it comes first in one of the next steps; who is behind it doesn't overtake it
            count = min(count, budget)
            if self.config.prefill_chunk is not None:
                count = min(count, self.config.prefill_chunk)
            save_at = None if seq.num_dropped else self.prefixes.next_save(seq)
            if save_at is not None and save_at <= seq.num_computed + count:
                count = save_at - seq.num_computed
                draft.saves.append(Save(seq, save_at, self.config.share_cells))
            draft.prefills.append(Work(seq, seq.num_computed, count))
            budget -= count

    def _begin(self, draft: Draft, seq: Sequence) -> bool:
        """Restore what can be restored of a prompt; False if it had better wait for what another one computes."""
        if seq.num_dropped:  # its context is no prompt any more
            return True
        if self.prefixes.must_wait(seq):
            return False
        restore = self.prefixes.begin(seq)
        draft.ideal_tokens += seq.known_tokens
        seq.known_tokens = 0  # once is enough, though it may begin again
        if restore is not None:
            self._restore(draft, restore)
            if seq.num_output == 0:
                seq.cached_tokens = restore.length
                draft.restored_tokens += restore.length
        return True

    def _restore(self, draft: Draft, restore: Restore) -> None:
        seq = restore.seq
        assert seq.slot is not None
        draft.restores.append(restore)
        seq.snapshot = None
        seq.num_computed = restore.length
        if restore.snapshot.shared:
            self.kv.share(seq.slot, restore.snapshot, restore.length)
        else:
            self.kv.set_used(seq.slot, restore.length)

    def _shift(self, draft: Draft, seq: Sequence) -> None:
        """Make room for the next token of a sequence that has filled its cells."""
        assert seq.slot is not None
        draft.shifts.append(Shift(seq, seq.request.keep, seq.drop_half()))
        self.kv.set_used(seq.slot, seq.num_computed)

    def update(self, plan: StepPlan, result: StepResult, now_ns: int) -> list[Sequence]:
        """Take a step's result; returns the sequences that finished with it, their slots already free."""
        for swap in plan.swaps:
            swap.seq.snapshot = result.saved.get(swap.seq)
        failed = {failure.seq: failure.message for failure in result.failed}
        self._advance(plan, result, failed)
        self.kv_used_after_step = self.kv.used
        self.prefixes.take(plan, result, self.places.keep)
        self.kv_shared_after_step = self.prefixes.holdings.shared
        if self.kv.capacity.holes_cost:
            self.places.compaction.learn(plan, result)
        self._fail(failed, now_ns)
        for prompt_logprobs in result.prompt_logprobs:
            prompt_logprobs.seq.prompt_logprobs += prompt_logprobs.places
        for seq, token, at_ns, stopped, logprobs in result.sampled:
            seq.append(token, at_ns, stopped=stopped, logprobs=logprobs)
        return self.places.leave()

    def _advance(self, plan: StepPlan, result: StepResult, failed: dict[Sequence, str]) -> None:
        """Note how far each sequence has come."""
        for seq, start, length in (*plan.decodes, *plan.prefills, *plan.padding):
            if seq not in failed:
                self._set_computed(seq, start + length)
        for seq, length in result.rewound.items():
            if seq not in failed:
                self.prefixes.release(seq)
                seq.cached_tokens = min(seq.cached_tokens, length)
                self._set_computed(seq, length)

    def _set_computed(self, seq: Sequence, length: int) -> None:
        assert seq.slot is not None
        seq.num_computed = length
        self.kv.set_used(seq.slot, length)

    def _fail(self, failed: dict[Sequence, str], now_ns: int) -> None:
        for seq, message in failed.items():
            if seq.finish_reason is None:
                seq.finish(FinishReason.ERROR, now_ns, message)
            else:
                seq.error = message  # its output was handed on long ago: only the padding ends

    def load(self) -> Load:
        return Load(len(self.running), len(self.waiting), self.kv.reserved)

    def cancel(self, seq: Sequence, now_ns: int) -> None:
        """End a waiting or running sequence between two steps."""
        if seq in self.waiting:
            self.places.withdraw(seq)
            seq.finish(FinishReason.CANCELLED, now_ns)
        else:
            assert seq in self.running
            seq.finish(FinishReason.CANCELLED, now_ns)
            self.places.leave()

    def withdraw(self, seq: Sequence) -> None:
        """A waiting sequence goes, without an ending."""
        self.places.withdraw(seq)

    def check_integrity(self) -> None:
        """Assert the invariants of places and prefixes. For tests."""
        self.places.check_integrity()
        self.prefixes.check_integrity()
