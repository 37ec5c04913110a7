"""Short trials of settings with a job's mix, no longer than there is time for."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from cbatch.sim.measured import MeasuredStep
from cbatch.tune.mix import Mix, Speeds, speeds_of
from cbatch.tune.setting import Setting
from cbatch.tune.workbench import Workbench

_FIRST_TOKENS, _FIRST_STEPS = 64, 2
_MOST_TOKENS, _MOST_STEPS = 1024, 8


class Trials:
    """Trials of about `seconds` each, with `slots` sequences. The first one is `calibrate`."""

    def __init__(
        self, workbench: Workbench, mix: Mix, slots: int, seconds: float, say: Callable[[Setting, Speeds], None]
    ) -> None:
        self._workbench = workbench
        self._mix = mix
        self._slots = slots
        self._share_ns = seconds * 1e9 / 2
        self._say = say
        self.tokens, self.steps = _FIRST_TOKENS, _FIRST_STEPS
        self.seen: dict[Setting, list[MeasuredStep]] = {}
        """All steps of a setting, but those of the first trial."""

    def calibrate(self, setting: Setting) -> None:
        """See how much can be computed in a trial; this pays the costs of a first time too."""
        speeds = self.trial(setting)
        self.seen.clear()
        self.tokens = max(_FIRST_TOKENS, min(_MOST_TOKENS, int(self._share_ns / speeds.prompt_ns)))
        self.steps = max(_FIRST_STEPS, min(_MOST_STEPS, int(self._share_ns / speeds.step_ns)))

    def for_ubatches(self) -> None:
        """From now on with more tokens, as large ubatches stay empty with few."""
        self.tokens = min(2 * _MOST_TOKENS, 2 * self.tokens)

    @property
    def mix(self) -> Mix:
        """With a context that doesn't take too long to fill."""
        return replace(self._mix, context=min(self._mix.context, 2 * self.tokens))

    def trial(self, setting: Setting) -> Speeds:
        """Raises as `Context` where none of that kind can be made."""
        prompts = self._mix.prompts_of(self.tokens, self._slots)
        decodes = self.mix.decodes(self._slots, self.steps)
        with self._workbench.bench(setting, self._slots, max(prompts.cells, decodes.cells)) as bench:
            steps = bench.run(prompts), bench.run(decodes)
        self.seen.setdefault(setting, []).extend([*steps[0], *steps[1]])
        speeds = speeds_of(*steps, self._slots)
        self._say(setting, speeds)
        return speeds
