"""Which of several settings is fastest, on a machine whose speed drifts: successive halving against a reference.

In each round every one that is left is tried once, and so is the reference, so that what counts is the ratio of two
times that were measured within seconds. After a round the slower half goes (Jamieson & Talwalkar 2016), and whatever
is far behind. Knows what a trial gives, and not how it is made.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from statistics import median

from cbatch.errors import EngineError, UsageError
from cbatch.tune.mix import Mix, Speeds
from cbatch.tune.setting import Setting

LEAST_GAIN = 0.03
"""Below it a difference is taken for noise."""
_FAR = 0.85
"""Of the best ratio: what is below isn't tried again."""
_LEAST_ROUNDS = 2
"""Once may be chance."""

Trial = Callable[[Setting], Speeds]


@dataclass
class Entrant:
    """A setting, and what its trials gave."""

    setting: Setting
    speeds: list[Speeds] = field(default_factory=list)
    ratios: list[float] = field(default_factory=list)
    """How many times as fast as the reference, in each round."""
    refused: str | None = None
    """Why no context of this kind can be made."""

    @property
    def ratio(self) -> float | None:
        return median(self.ratios) if self.ratios else None

    @property
    def spread(self) -> float:
        """Half of what ratios differ by."""
        return (max(self.ratios) - min(self.ratios)) / 2 if self.ratios else 0.0

    @property
    def typical(self) -> Speeds | None:
        """Medians."""
        if not self.speeds:
            return None
        prompt, step = median(s.prompt_ns for s in self.speeds), median(s.step_ns for s in self.speeds)
        return Speeds(prompt, step, self.speeds[0].running)


def race(
    settings: Sequence[Setting], trial: Trial, mix: Mix, *, time_left: Callable[[], bool], rounds: int = 3
) -> list[Entrant]:
    """The first setting is the reference. Those that there was no time for have no ratio."""
    reference, *others = (Entrant(setting) for setting in settings)
    left = others
    for _ in range(rounds):
        if not left or not time_left():
            break
        reference.speeds.append(trial(reference.setting))
        reference.ratios.append(1.0)
        base = mix.row_ns(reference.speeds[-1])
        for entrant in left:
            if time_left():
                _try(entrant, trial, mix, base)
        left = _survivors(left)
    return [reference, *others]


def _try(entrant: Entrant, trial: Trial, mix: Mix, base_ns: float) -> None:
    try:
        entrant.speeds.append(trial(entrant.setting))
    except (UsageError, EngineError) as error:
        entrant.refused = str(error)
    else:
        entrant.ratios.append(base_ns / mix.row_ns(entrant.speeds[-1]))


def _survivors(entrants: Sequence[Entrant]) -> list[Entrant]:
    ranked = sorted((e for e in entrants if e.ratio is not None and e.refused is None), key=_rank)
    best = max((e.ratio or 0.0 for e in ranked), default=0.0)
    return [e for e in ranked[: max(1, -(-len(ranked) // 2))] if (e.ratio or 0.0) >= _FAR * best]


def _rank(entrant: Entrant) -> float:
    return -(entrant.ratio or 0.0)


def winner(entrants: Sequence[Entrant], mix: Mix) -> Entrant:
    """The fastest one if it beats the reference by more than noise, else the reference, which is the first.

    Noise is what its ratios differ by, and the reference's own times from round to round, as a share.
    """
    reference = entrants[0]
    best = min((e for e in entrants if len(e.ratios) >= _LEAST_ROUNDS), key=_rank, default=reference)
    gain = (best.ratio or 1.0) - 1
    return best if gain > max(LEAST_GAIN, best.spread, _noise(reference, mix)) else reference


def runner_up(entrants: Sequence[Entrant], mix: Mix) -> Entrant | None:
    """The fastest one but the reference where, for all that noise hides, it may be faster; None where it can't be."""
    best = min((e for e in entrants[1:] if e.ratios and e.refused is None), key=_rank, default=None)
    if best is None:
        return None
    noise = max(LEAST_GAIN, best.spread, _noise(entrants[0], mix))
    return best if (best.ratio or 0.0) > 1 + LEAST_GAIN - noise else None


def _noise(reference: Entrant, mix: Mix) -> float:
    times = [mix.row_ns(speeds) for speeds in reference.speeds]
    return (max(times) - min(times)) / 2 / median(times) if times else 0.0
