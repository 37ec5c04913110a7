"""When waiting sequences may enter free slots. Knows how many run and wait, and nothing of what they are.

continuous   at once, whenever a slot is free (Orca, Yu et al. 2022: iteration-level)
static       a group together, and no other until its slowest has ended (request-level)
padded       static, and slots whose sequence has ended go on computing until then, as padded batches do
"""

from __future__ import annotations

from typing import Protocol

from cbatch.config import SchedulerConfig
from cbatch.engine.waiting import WaitingQueue


class Admission(Protocol):
    """A rule of admission."""

    keeps_slots: bool
    """Whether slots stay taken until all that run have ended."""
    pads: bool
    """Whether kept slots are computed."""

    def allowed(self, running: int, waiting: WaitingQueue, now_ns: int) -> int:
        """How many may enter now, if there are slots and cells for them."""
        ...

    def wakes_ns(self, running: int, waiting: WaitingQueue) -> int | None:
        """When some may enter though nothing arrives or ends; None if that doesn't matter."""
        ...


class Continuous:
    """Whoever waits enters as soon as there is room."""

    keeps_slots = pads = False

    def allowed(self, running: int, waiting: WaitingQueue, now_ns: int) -> int:  # noqa: ARG002 (Admission)
        return len(waiting)

    def wakes_ns(self, running: int, waiting: WaitingQueue) -> int | None:  # noqa: ARG002 (Admission)
        return None


class Static:
    """Up to `size` enter when nothing runs: at once if there are as many, else when the first has waited enough."""

    keeps_slots = True

    def __init__(self, size: int, wait_ns: int, *, pads: bool) -> None:
        self.pads = pads
        self._size = size
        self._wait_ns = wait_ns

    def allowed(self, running: int, waiting: WaitingQueue, now_ns: int) -> int:
        if running > 0 or len(waiting) == 0:
            return 0
        full = len(waiting) >= self._size
        return min(len(waiting), self._size) if full or now_ns >= self._due_ns(waiting) else 0

    def wakes_ns(self, running: int, waiting: WaitingQueue) -> int | None:
        return self._due_ns(waiting) if running == 0 and len(waiting) > 0 else None

    def _due_ns(self, waiting: WaitingQueue) -> int:
        return waiting.first_enqueued_ns() + self._wait_ns


def make_admission(config: SchedulerConfig) -> Admission:
    """The rule that `config.batching` names."""
    if config.batching == "continuous":
        return Continuous()
    return Static(config.max_num_seqs, config.static_wait_ns, pads=config.batching == "padded")
