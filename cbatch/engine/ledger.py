"""Where each running sequence's time goes: inside calls for itself, or inside calls for others. Knows no metrics.

Two running totals grow with every call, time for prompts and time for outputs. A sequence keeps their values when it
got its slot and when its own last call ended, and what of the growth was its own; the rest was others'.
"""

from __future__ import annotations

from collections.abc import Collection
from collections.abc import Sequence as Items

from cbatch.engine.runner import CallTiming
from cbatch.engine.sequence import Sequence
from cbatch.types import FinishReason, TimeSplit


class _Account:
    """Of one sequence: totals at its start and after its last own call, and its own part."""

    __slots__ = (
        "decode_from",
        "decode_ns",
        "decode_seen",
        "paused_at",
        "preempted_ns",
        "prefill_from",
        "prefill_ns",
        "prefill_seen",
    )

    def __init__(self, prefill_ns: int, decode_ns: int) -> None:
        self.prefill_from = self.prefill_seen = prefill_ns
        self.decode_from = self.decode_seen = decode_ns
        self.prefill_ns = 0
        self.decode_ns = 0
        self.preempted_ns = 0
        self.paused_at: tuple[int, int, int] | None = None
        """When it lost its slot, and the totals at that time; None while it has one."""

    def resume(self, now_ns: int, prefill_ns: int, decode_ns: int) -> None:
        """It has a slot again: what went on meanwhile doesn't count."""
        if self.paused_at is not None:
            since_ns, prefill_then, decode_then = self.paused_at
            self.preempted_ns += now_ns - since_ns
            self.prefill_from += prefill_ns - prefill_then
            self.decode_from += decode_ns - decode_then
            self.paused_at = None


class Ledger:
    """Keeps the books of one engine. A call's time counts for prompts and outputs in proportion to its tokens."""

    def __init__(self) -> None:
        self._prefill_ns = 0
        self._decode_ns = 0
        self._accounts: dict[Sequence, _Account] = {}

    def open(self, seqs: Items[Sequence], now_ns: int) -> None:
        """These got a slot just now, or got one again."""
        for seq in seqs:
            account = self._accounts.get(seq)
            if account is None:
                self._accounts[seq] = _Account(self._prefill_ns, self._decode_ns)
            else:
                account.resume(now_ns, self._prefill_ns, self._decode_ns)

    def pause(self, seqs: Items[Sequence], now_ns: int) -> None:
        """These lost their slot just now."""
        for seq in seqs:
            self._accounts[seq].paused_at = (now_ns, self._prefill_ns, self._decode_ns)

    def add(self, call: CallTiming, decoding: Collection[Sequence]) -> None:
        """A call has ended; `decoding` are the sequences for which it computed an output token."""
        if not call.works:
            return
        tokens = sum([work.length for work in call.works])
        decodes = sum([work.length for work in call.works if work.seq in decoding])
        duration = call.end_ns - call.start_ns
        decode_ns = duration * decodes // tokens
        prefill_ns = duration - decode_ns
        self._prefill_ns += prefill_ns
        self._decode_ns += decode_ns
        for seq, _, _ in call.works:
            account = self._accounts.get(seq)
            if account is None:  # padding: it has ended
                continue
            if seq in decoding:
                account.decode_ns += decode_ns
            else:
                account.prefill_ns += prefill_ns
            account.prefill_seen = self._prefill_ns
            account.decode_seen = self._decode_ns

    def close(self, seq: Sequence) -> TimeSplit:
        """The sequence has finished: with a token of its own last call, or, if it failed or was cancelled, just now."""
        account = self._accounts.pop(seq, None)
        if account is None:
            return TimeSplit()
        assert seq.finished_ns is not None
        account.resume(seq.finished_ns, self._prefill_ns, self._decode_ns)
        if seq.finish_reason in (FinishReason.STOP, FinishReason.LENGTH):
            prefill_ns, decode_ns = account.prefill_seen, account.decode_seen
        else:
            prefill_ns, decode_ns = self._prefill_ns, self._decode_ns
        return TimeSplit(
            prefill_ns=account.prefill_ns,
            decode_ns=account.decode_ns,
            others_prefill_ns=prefill_ns - account.prefill_from - account.prefill_ns,
            others_decode_ns=decode_ns - account.decode_from - account.decode_ns,
            preempted_ns=account.preempted_ns,
        )
