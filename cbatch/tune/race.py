"""Which of several settings is fastest, on a shared machine: successive halving against a reference.

In each round every one that is left is tried once, and so is the reference. Other programs and a processor that gets
warm only ever make a trial slower, so what counts of a setting are its fastest prompt and its fastest step, beside the
reference's of the same rounds. From the second round on the slower half goes (Jamieson & Talwalkar 2016), and whatever
is far behind. Knows what a trial gives, and not how it is made.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from cbatch.errors import EngineError, UsageError
from cbatch.tune.mix import Mix, Speeds
from cbatch.tune.setting import Setting

LEAST_GAIN = 0.03
"""Below it a difference is taken for noise."""
_FAR, _HOPELESS = 0.85, 0.6
"""Of the best ratio: what is below isn't tried again, after some rounds and after the first one."""
LEAST_ROUNDS = 2
"""Once may be chance."""

Trial = Callable[[Setting], Speeds]


@dataclass
class Entrant:
    """A setting, and what its trials gave."""

    setting: Setting
    speeds: list[Speeds] = field(default_factory=list)
    """Of each round, as long as it was in the race."""
    ratio: float | None = None
    """How many times as fast as the reference."""
    refused: str | None = None
    """Why no context of this kind can be made."""

    @property
    def fastest(self) -> Speeds | None:
        return fastest(self.speeds) if self.speeds else None

    def noise(self, mix: Mix) -> float:
        """What its two fastest rounds differ by, as a share."""
        times = sorted(mix.row_ns(speeds) for speeds in self.speeds)
        return times[1] / times[0] - 1 if len(times) > 1 else 0.0


def fastest(speeds: Sequence[Speeds]) -> Speeds:
    """Of trials of one setting: the fastest prompt, and the fastest step."""
    return Speeds(min(s.prompt_ns for s in speeds), min(s.step_ns for s in speeds), speeds[0].running)


def race(
    settings: Sequence[Setting], trial: Trial, mix: Mix, *, time_left: Callable[[], bool], rounds: int = 3
) -> list[Entrant]:
    """The first setting is the reference. Those that there was no time for have no ratio."""
    reference, *others = (Entrant(setting) for setting in settings)
    left = others
    for number in range(1, rounds + 1):
        if not left or not time_left():
            break
        reference.speeds.append(trial(reference.setting))
        reference.ratio = 1.0
        for entrant in left:
            if time_left():
                _try(entrant, trial)
                entrant.ratio = _ratio(entrant, reference, mix)
        left = _survivors(left, number)
    return [reference, *others]


def _try(entrant: Entrant, trial: Trial) -> None:
    try:
        entrant.speeds.append(trial(entrant.setting))
    except (UsageError, EngineError) as error:
        entrant.refused = str(error)


def _ratio(entrant: Entrant, reference: Entrant, mix: Mix) -> float | None:
    """Of the rounds that the entrant was in, which are the first ones."""
    if not entrant.speeds:
        return None
    same = reference.speeds[: len(entrant.speeds)]
    return mix.row_ns(fastest(same)) / mix.row_ns(fastest(entrant.speeds))


def _survivors(entrants: Sequence[Entrant], rounds: int) -> list[Entrant]:
    ranked = sorted((e for e in entrants if e.ratio is not None and e.refused is None), key=_rank)
    best = max((e.ratio or 0.0 for e in ranked), default=0.0)
    if rounds < LEAST_ROUNDS:
        return [e for e in ranked if (e.ratio or 0.0) >= _HOPELESS * best]
    return [e for e in ranked[: max(1, -(-len(ranked) // 2))] if (e.ratio or 0.0) >= _FAR * best]


def _rank(entrant: Entrant) -> float:
    return -(entrant.ratio or 0.0)


def winner(entrants: Sequence[Entrant], mix: Mix) -> Entrant:
    """The fastest one if it beats the reference, which is the first, by more than noise; else the reference."""
    reference = entrants[0]
    best = min((e for e in entrants if len(e.speeds) >= LEAST_ROUNDS), key=_rank, default=reference)
    gain = (best.ratio or 1.0) - 1
    return best if gain > _noise(best, reference, mix) else reference


def runner_up(entrants: Sequence[Entrant], mix: Mix) -> Entrant | None:
    """The fastest one but the reference where, for all that noise hides, it may be faster; None where it can't be."""
    best = min((e for e in entrants[1:] if e.speeds and e.refused is None), key=_rank, default=None)
    if best is None:
        return None
    return best if (best.ratio or 0.0) > 1 + LEAST_GAIN - _noise(best, entrants[0], mix) else None


def _noise(entrant: Entrant, reference: Entrant, mix: Mix) -> float:
    return max(LEAST_GAIN, entrant.noise(mix), reference.noise(mix))
