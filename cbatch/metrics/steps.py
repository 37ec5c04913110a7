"""Totals over the steps of a run, in constant memory. Knows nothing of requests."""

from __future__ import annotations

from cbatch.types import StepRecord


class StepTotals:
    """Sums over step records, and the figures made of them. A figure is None while its divisor is 0.

    Between two steps no record speaks. What a step leaves running is taken to run on until the next one starts, so
    `concurrency` is exact; KV figures and slot utilisation are over the steps alone.
    """

    def __init__(self) -> None:
        self.steps = 0
        self._first_start_ns = 0
        self._last_end_ns = 0
        self._left_running = 0
        self._schedule_ns = 0
        self._prefill_ns = 0
        self._decode_ns = 0
        self._llama_ns = 0
        self._prefill_tokens = 0
        self._decode_tokens = 0
        self._busy_slots = 0
        self._total_slots = 0
        self._short_steps = 0
        self._running_ns = 0
        self._kv_used_ns = 0
        self._kv_reserved_ns = 0
        self._prompt_ns = 0.0
        self.restored_tokens = 0
        self.ideal_tokens = 0
        self.restore_ns = 0
        self.save_ns = 0
        self.preempted = 0
        self.moved = 0

    def add(self, record: StepRecord) -> None:
        """Take the next step; steps come in order."""
        self._add_spans(record)
        self.steps += 1
        self._schedule_ns += record.schedule_ns
        self._prefill_ns += record.prefill_call_ns + record.mixed_call_ns
        self._decode_ns += record.decode_call_ns + record.mixed_call_ns
        self._llama_ns += record.llama_ns
        self._prefill_tokens += record.prefill_tokens
        self._decode_tokens += record.decode_seqs
        self._busy_slots += record.slots_busy
        self._total_slots += record.slots_total
        self._short_steps += record.waiting > 0 and record.slots_busy < record.slots_total
        self._prompt_ns += record.prefill_call_ns + _prompt_part(record)
        self.restored_tokens += record.restored_tokens
        self.ideal_tokens += record.ideal_tokens
        self.restore_ns += record.restore_ns
        self.save_ns += record.save_ns
        self.preempted += record.preempted
        self.moved += record.moved

    def _add_spans(self, record: StepRecord) -> None:
        """What is weighted by time."""
        if self.steps == 0:
            self._first_start_ns = self._last_end_ns = record.start_ns
        self._running_ns += self._left_running * (record.start_ns - self._last_end_ns)
        span = record.end_ns - record.start_ns
        self._running_ns += record.slots_busy * span
        self._kv_used_ns += record.kv_used_cells * span
        self._kv_reserved_ns += record.kv_reserved_cells * span
        # A request that failed while it waited is in `finished` too, so the difference can be negative.
        self._left_running = max(0, record.slots_busy - record.finished)
        self._last_end_ns = record.end_ns

    @property
    def engine_ns(self) -> int:
        """Engine time, ns: last step end - first step start."""
        return self._last_end_ns - self._first_start_ns

    @property
    def llama_share(self) -> float | None:
        """Share of engine time inside llama_decode: sum(llama_ns) / engine time."""
        return ratio(self._llama_ns, self.engine_ns)

    @property
    def schedule_ns_per_step(self) -> float | None:
        """Mean scheduler time of a step, ns: sum(schedule_ns) / steps."""
        return ratio(self._schedule_ns, self.steps)

    @property
    def prefill_tokens_per_s(self) -> float | None:
        """Prompt tokens computed / seconds inside calls that held prompt chunks (mixed calls included)."""
        return per_second(self._prefill_tokens, self._prefill_ns)

    @property
    def decode_tokens_per_s(self) -> float | None:
        """Output tokens computed / seconds inside calls that held decodes (mixed calls included)."""
        return per_second(self._decode_tokens, self._decode_ns)

    @property
    def concurrency(self) -> float | None:
        """Time-weighted mean of running sequences over engine time."""
        return ratio(self._running_ns, self.engine_ns)

    @property
    def slot_utilisation(self) -> float | None:
        """Busy slot-steps / (steps x slots). Its complement is what static batching wastes."""
        return ratio(self._busy_slots, self._total_slots)

    @property
    def short_of_memory(self) -> float | None:
        """Share of steps in which some waited beside free slots: with continuous batching, for lack of KV cells."""
        return ratio(self._short_steps, self.steps)

    @property
    def kv_utilisation(self) -> float | None:
        """KV cells used / reserved, each integrated over step time."""
        return ratio(self._kv_used_ns, self._kv_reserved_ns)

    @property
    def kv_waste(self) -> float | None:
        """Share of reserved KV cells that stay unused: 1 - KV utilisation (Kwon et al., SOSP 2023, figure 2)."""
        return None if self.kv_utilisation is None else 1 - self.kv_utilisation

    @property
    def prefix_hit_rate(self) -> float | None:
        """Prompt tokens restored / (restored + computed). What preempted sequences compute again counts as computed."""
        return ratio(self.restored_tokens, self.restored_tokens + self._prefill_tokens)

    @property
    def ideal_prefix_hit_rate(self) -> float | None:
        """The same, had an unlimited cache restored all that it could. Too high while prompts are half computed."""
        return ratio(self.ideal_tokens, self.restored_tokens + self._prefill_tokens)

    @property
    def saved_ns(self) -> float | None:
        """Time that restored prompt tokens saved, ns: restored x (prefill ns / tokens computed) - restore - save.

        Below 0 where it took longer than computing them. Of mixed calls, the part by tokens is prefill.
        """
        per_token = ratio(self._prompt_ns, self._prefill_tokens)
        return None if per_token is None else self.restored_tokens * per_token - self.restore_ns - self.save_ns

    @property
    def restore_share(self) -> float | None:
        """Share of engine time spent on putting snapshots into slots: sum(restore_ns) / engine time."""
        return ratio(self.restore_ns, self.engine_ns)


def _prompt_part(record: StepRecord) -> float:
    """Of the time in mixed calls, what the prompt chunks took: by tokens."""
    tokens = record.prefill_tokens + record.decode_seqs + record.padding_seqs
    return record.mixed_call_ns * (ratio(record.prefill_tokens, tokens) or 0.0)


def ratio(part: float, whole: float) -> float | None:
    """part / whole; None where whole is 0."""
    return None if whole == 0 else part / whole


def per_second(count: int, ns: int) -> float | None:
    """count / seconds; None where no time passed."""
    return None if ns == 0 else count * 1e9 / ns
