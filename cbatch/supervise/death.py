"""How a worker died, as its parent saw it, in words. Blames nobody."""

from __future__ import annotations

import signal
from dataclasses import dataclass

from cbatch.supervise.heartbeat import Heartbeat, Phase

_CRASHES = (signal.SIGSEGV, signal.SIGABRT, signal.SIGILL, signal.SIGBUS, signal.SIGFPE)


@dataclass(frozen=True, slots=True)
class Death:
    """One death by a signal, and what the heartbeat said then."""

    signal: int
    stalled_s: float | None = None
    """Where its parent killed it: how long it had shown no sign of life."""
    in_flight: tuple[int, ...] = ()
    """Numbers of the rows in slots."""
    tokenising: int = 0
    """Number of the row that was being tokenised; 0 for none."""
    cleared: tuple[int, ...] = ()
    """Suspects that had ended without harm."""
    answered: int = 0
    """Rows, the cleared ones included."""
    steps: int = 0
    phase: Phase = Phase.RUNNING

    @classmethod
    def of(cls, heartbeat: Heartbeat, number: int, stalled_s: float | None = None) -> Death:
        """Of a worker that ended by signal `number`."""
        return cls(
            number,
            stalled_s,
            tuple(heartbeat.in_flight),
            heartbeat.tokenising,
            tuple(heartbeat.cleared),
            heartbeat.finished,
            heartbeat.steps,
            heartbeat.phase,
        )

    @property
    def is_kill(self) -> bool:
        """Whether it says nothing of what the worker did."""
        return self.signal == signal.SIGKILL and self.stalled_s is None

    @property
    def name(self) -> str:
        """`SIGSEGV`, or `stalled`."""
        if self.stalled_s is not None:
            return "stalled"
        try:
            return signal.Signals(self.signal).name
        except ValueError:  # a real-time signal
            return f"signal {self.signal}"

    @property
    def cause(self) -> str:
        """What is known of why."""
        if self.stalled_s is not None:
            return f"no sign of life for {self.stalled_s:.0f} s"
        if self.signal == signal.SIGKILL:
            return "SIGKILL: likely the system was out of memory, unless you killed it"
        if self.signal in _CRASHES:
            return f"{self.name}: a crash in native code"
        return self.name

    @property
    def advice(self) -> str:
        """What may help against such deaths."""
        if self.stalled_s is not None:
            return (
                "give a longer --stall-timeout if steps may take that long, else check this build with `cbatch doctor`"
            )
        if self.signal == signal.SIGKILL:
            return (
                "to use less memory, lower --max-num-seqs, or start over (--force) with a lower --ctx or --kv-type q8_0"
            )
        return "check this build with `cbatch doctor`"
