"""Whether a shared prefix is worth saving or restoring, from measured times. Knows no tokens and no snapshots.

All in tokens of prefill: what a snapshot costs is compared with the prompt tokens that it saves.
"""

from __future__ import annotations

from cbatch.engine.runner import StepResult

_GUESS = 0.02
"""Of a token's prefill time, what saving or restoring it takes, until it's measured: 0.006 to 0.01 on CPUs."""
_OVERHEAD = 16.0
"""Tokens: what one more chunk costs, and one more call to the library."""
_KEPT = 0.9
"""Of the sums, at each measurement: so that later ones count more."""


class _Rate:
    """ns per token over the last measurements; None before the first."""

    def __init__(self) -> None:
        self._ns = 0.0
        self._tokens = 0.0

    def add(self, ns: int, tokens: int) -> None:
        if tokens > 0 and ns > 0:
            self._ns = self._ns * _KEPT + ns
            self._tokens = self._tokens * _KEPT + tokens

    @property
    def value(self) -> float | None:
        return self._ns / self._tokens if self._tokens else None


class PrefixCosts:
    """Of this machine and model, learned as steps go by."""

    def __init__(self) -> None:
        self._prefill = _Rate()
        self._save = _Rate()
        self._restore = _Rate()

    def learn(self, result: StepResult, saved_tokens: int, restored_tokens: int) -> None:
        """Take the times of a step that saved and restored so many tokens."""
        for call in result.calls:
            if call.kind == "prefill":
                self._prefill.add(call.end_ns - call.start_ns, sum(work.length for work in call.works))
        self._save.add(result.save_ns, saved_tokens)
        self._restore.add(result.restore_ns, restored_tokens)

    def worth_saving(self, users: int, new_tokens: int, length: int) -> bool:
        """Whether a snapshot of `length` tokens pays where `users` would else compute `new_tokens` of them."""
        restore, save = self._share(self._restore), self._share(self._save)
        return users * (new_tokens - restore * length) - save * length > _OVERHEAD

    def worth_restoring(self, new_tokens: int, length: int) -> bool:
        """Whether restoring a snapshot of `length` tokens is cheaper than to compute `new_tokens`."""
        return new_tokens > self._share(self._restore) * length

    def _share(self, rate: _Rate) -> float:
        """Of a token's prefill time."""
        if rate.value is None or self._prefill.value is None:
            return _GUESS
        return rate.value / self._prefill.value
