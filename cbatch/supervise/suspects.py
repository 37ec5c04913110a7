"""Which rows may be to blame for the deaths of workers, and which are. Knows no processes.

A row in flight at a death has a strike. The next worker runs rows with one strike in groups of about the square root of
their number, and those with more one by one, each group with nothing beside it; who ends is cleared. So one row of n is
found at the third death, and of 3 or fewer at the second; where they are by SIGKILL, at the fourth.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Sequence

from cbatch.supervise.death import Death
from cbatch.supervise.heartbeat import Phase

_STRIKES = 2
"""Deaths, the last one alone, that are enough to be condemned."""
_STRIKES_KILLED = 4
"""The same where SIGKILL ended the process: somebody may have sent it, or another program have used up the memory."""
_MOST_FRUITLESS = 5
"""Deaths in a row without an answer between them."""
_MOST_LOADING = 3
"""Deaths of workers that never got as far as a step."""


class Suspects:
    """Told of each death. Deaths by chance condemn nobody: whom they hit is cleared by the next worker."""

    def __init__(self, again: str = "the same command") -> None:
        """`again` is what the user is told to give to go on."""
        self._again = again
        self._strikes: dict[int, int] = {}
        self._last: Death | None = None
        self._fruitless: list[Death] = []
        self._ever_stepped = False
        self.condemned: dict[int, str] = {}
        """By row number, why it isn't to be run again."""

    @property
    def groups(self) -> list[list[int]]:
        """Rows that the next worker must run a group at a time, with nothing beside it."""
        again = sorted(row for row, strikes in self._strikes.items() if strikes > 1)
        once = sorted(row for row, strikes in self._strikes.items() if strikes == 1)
        size = max(1, math.isqrt(len(once)))
        return [[row] for row in again] + [once[i : i + size] for i in range(0, len(once), size)]

    def record(self, death: Death) -> str | None:
        """Take in a death; returns why it is of no use to start another worker, if so."""
        self._count(death)
        for row in death.cleared:
            self._strikes.pop(row, None)
        last, self._last = self._last, death
        if death.tokenising and last is not None and death.tokenising == last.tokenising:
            self._forgive(last.in_flight)
            self._condemn(death.tokenising, death, "while it was being tokenised")
            self._last = None
        else:
            self._strike(death)
        return self._diagnosis()

    def _count(self, death: Death) -> None:
        self._ever_stepped |= death.steps > 0
        # what only suspects answered, a few at a time, is no progress if it dies again as soon as many rows run
        among_suspects = self._strikes.keys() >= set(death.in_flight)
        if death.answered > (0 if among_suspects else len(death.cleared)):
            self._fruitless.clear()
        self._fruitless.append(death)

    def _strike(self, death: Death) -> None:
        for row in death.in_flight:
            self._strikes[row] = self._strikes.get(row, 0) + 1
        enough = _STRIKES_KILLED if death.is_kill else _STRIKES
        if len(death.in_flight) == 1 and not death.tokenising and self._strikes[death.in_flight[0]] >= enough:
            self._condemn(death.in_flight[0], death, "the last time with no other row in flight")

    def _forgive(self, rows: Iterable[int]) -> None:
        for row in rows:
            if self._strikes.get(row) == 1:
                del self._strikes[row]
            elif row in self._strikes:
                self._strikes[row] -= 1

    def _condemn(self, row: int, death: Death, when: str) -> None:
        self._strikes.pop(row, None)
        self.condemned[row] = (
            f"the process died each time that it came to this row, {when} ({death.cause}): "
            f"change the row or leave it out; {death.advice}; --retry-failed tries the row again"
        )

    def _diagnosis(self) -> str | None:
        deaths = self._fruitless
        loading = not self._ever_stepped and not any(death.tokenising for death in deaths)
        if len(deaths) < (_MOST_LOADING if loading else _MOST_FRUITLESS):
            return None
        advice = deaths[-1].advice
        if loading:
            when = "before the first step, while the model was being loaded"
        elif deaths[-1].phase is Phase.ENDING:
            when = "while the results were being put into their final form"
        elif deaths[-1].cleared:
            when = "whenever many rows ran at once, though they run in small groups"
            advice = f"try a lower --max-num-seqs; {advice}"
        else:
            when = "without a row answered between"
        return (
            f"the worker died {len(deaths)} times in a row {when} ({_names(deaths)}; the last: {deaths[-1].cause}): "
            f"{advice}. What was finished is kept, and {self._again} goes on from there"
        )


def _names(deaths: Sequence[Death]) -> str:
    """`SIGSEGV 3 times, SIGKILL once`."""
    counts = Counter(death.name for death in deaths).most_common()
    return ", ".join(f"{name} {'once' if count == 1 else f'{count} times'}" for name, count in counts)
