"""Coarse to fine: first types of KV with and without flash attention, then one change after another of the best."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from cbatch.tune.mix import Mix
from cbatch.tune.race import Entrant, Trial, race, runner_up, winner
from cbatch.tune.result import Tried
from cbatch.tune.setting import Setting

Variants = Callable[[Setting], Iterable[Setting]]


@dataclass(frozen=True, slots=True)
class Contest:
    """What was tried, with the first setting as 1."""

    tried: tuple[Tried, ...]
    best: Setting
    """That beat all before it by more than noise."""
    runner_up: Setting | None
    """Where that is the first one: the kernels that may be faster, for all that noise hides."""


def contest(
    kernels: Sequence[Setting],
    variants: Variants,
    trial: Trial,
    mix: Mix,
    *,
    llama_cpp: Setting,
    time_for_kernels: Callable[[], bool],
    time_for_variants: Callable[[], bool],
    refine: Callable[[], None],
) -> Contest:
    """The first of `kernels` are cbatch's own rules; `llama_cpp`, what others are set beside, is one of them too.

    `refine` is called before variants are tried.
    """
    entrants = race(kernels, trial, mix, time_left=time_for_kernels)
    best, second = winner(entrants, mix), runner_up(entrants, mix)
    ratio = best.ratio or 1.0
    found = [(each, 1.0) for each in entrants]
    setting, seen = best.setting, set(kernels)
    refine()
    while time_for_variants() and (others := [each for each in variants(setting) if each not in seen]):
        seen.update(others)
        entrants = race([setting, *others], trial, mix, time_left=time_for_variants)
        found += [(each, ratio) for each in entrants[1:]]
        best = winner(entrants, mix)
        if best is entrants[0]:
            break
        setting, ratio = best.setting, ratio * (best.ratio or 1.0)
    unsure = second.setting if second is not None and setting == kernels[0] else None
    return Contest(tuple(_tried(found, llama_cpp, mix)), setting, unsure)


def _tried(found: Sequence[tuple[Entrant, float]], llama_cpp: Setting, mix: Mix) -> Iterable[Tried]:
    """Of each entrant, and how much faster its race's reference was than the first setting."""
    of_llama_cpp = next((each.ratio for each, _ in found if each.setting == llama_cpp), None)
    for entrant, base in found:
        over = None if entrant.ratio is None else entrant.ratio * base
        speeds = entrant.fastest
        yield Tried(
            setting=entrant.setting,
            speeds=speeds,
            tokens_per_s=None if speeds is None else mix.outputs * 1e9 / mix.row_ns(speeds),
            over_default=over,
            over_llama_cpp=None if over is None or of_llama_cpp is None else over / of_llama_cpp,
            refused=entrant.refused,
        )
