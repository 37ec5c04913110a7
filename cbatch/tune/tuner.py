"""Tuning from start to end: a contest of settings, a survey of the best, slots by its cost model, a confirmation."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from statistics import median

from cbatch.config import SchedulerConfig, padded
from cbatch.errors import UsageError
from cbatch.llama.memory import kv_bytes_per_cell
from cbatch.llama.resolve import resolve_context
from cbatch.tune.choice import SlotOption
from cbatch.tune.confirm import Way, confirm, run_rows
from cbatch.tune.contest import contest
from cbatch.tune.divergence import TEXT, Choices, choices, divergence
from cbatch.tune.goal import Goal
from cbatch.tune.mix import Mix, Speeds, shortened
from cbatch.tune.predict import Simulation
from cbatch.tune.race import LEAST_GAIN
from cbatch.tune.result import Confirmed, Tried, Tuning
from cbatch.tune.setting import SLOTS, Setting, built_in, describe, kernels, of_llama_cpp, variants
from cbatch.tune.slots import choose, slot_options
from cbatch.tune.survey import RUNNING, Costs, stands, survey
from cbatch.tune.trials import Trials
from cbatch.tune.workbench import Workbench
from cbatch.types import Request

_KERNELS_UNTIL, _VARIANTS_UNTIL, _SURVEY_UNTIL, _CONFIRM_UNTIL = 0.3, 0.45, 0.55, 0.8
"""Shares of the budget after which nothing more of its kind is begun."""
_TRIAL = 0.015
"""Of the budget, about what one trial may take."""
_REPETITIONS = 3
_MOST_ROWS = 128
"""Of a run to confirm the choice."""
_PAIR = 2.5
"""Times what the choice takes: both runs, of which the other one may be slower."""
_LEAST_SHARE = 0.1
"""Of a row: shorter ones would tell nothing of the job."""
_DIVERGENCE_TEXTS = 8


@dataclass(frozen=True, slots=True)
class _Sized:
    """A setting with its costs, and the slots that were chosen for it."""

    setting: Setting
    costs: Costs
    simulation: Simulation
    options: tuple[SlotOption, ...]
    option: SlotOption


class Tuner:
    """One tuning. `scheduler` is that of a run, before anything was tuned."""

    def __init__(
        self,
        workbench: Workbench,
        goal: Goal,
        scheduler: SchedulerConfig,
        *,
        budget_s: float,
        say: Callable[[str], None],
    ) -> None:
        self._workbench = workbench
        self._goal = goal
        self._scheduler = scheduler
        self._budget_ns = budget_s * 1e9
        self._say = say
        self._begun = workbench.clock.now_ns()
        self._requests = goal.sample()
        self._cells = max(request.cells_needed for request in self._requests)
        self._mix = Mix.of(goal.requests, goal.shared_tokens)
        model = workbench.model
        self.default, self.llama_cpp = built_in(model), of_llama_cpp(model)
        self._usual = min(SLOTS, self._most_slots(self.default))
        self._trials = Trials(workbench, self._mix, self._usual, _TRIAL * budget_s, self._say_speeds)
        self._notes: list[str] = []

    def tune(self) -> tuple[Tuning, Costs]:
        """Raises `EngineError` or `UsageError` where cbatch's own rules don't work here."""
        self._trials.calibrate(self.default)
        found = contest(
            kernels(self.default, self.llama_cpp, allow_kv_quant=self._goal.allow_kv_quant),
            variants,
            self._trials.trial,
            self._mix,
            time_for_kernels=self._before(_KERNELS_UNTIL),
            time_for_variants=self._before(_VARIANTS_UNTIL),
            refine=self._trials.for_ubatches,
        )
        tried = self._with_divergence(found.tried)
        sized = self._size(found.best)
        sized, confirmed = self._confirmed(sized)
        return self._tuning(tried, sized, confirmed), sized.costs

    def _before(self, share: float) -> Callable[[], bool]:
        return lambda: self._elapsed_ns < share * self._budget_ns

    @property
    def _elapsed_ns(self) -> int:
        return self._workbench.clock.now_ns() - self._begun

    def _say_speeds(self, setting: Setting, speeds: Speeds) -> None:
        rates = f"prefill {speeds.prefill_tokens_per_s:,.0f}, decode {speeds.decode_tokens_per_s:,.0f} tok/s"
        self._say(f"{describe(setting)}: {rates}")

    def _most_slots(self, setting: Setting) -> int:
        rows = len(self._goal.requests) if self._goal.all_rows else RUNNING[-1]
        return self._workbench.most_slots(setting, min(rows, RUNNING[-1]), self._cells)

    def _size(self, setting: Setting) -> _Sized:
        """Survey a setting and choose its slots."""
        self._say(f"{describe(setting)}: measuring what steps cost")
        most = self._most_slots(setting)
        trials = self._trials
        wanted = stands(trials.mix, most, setting.ubatch, tokens=4 * trials.tokens, steps=trials.steps)
        costs = survey(
            wanted,
            lambda slots, cells: self._workbench.bench(setting, slots, cells),
            repetitions=_REPETITIONS,
            time_left=self._before(_SURVEY_UNTIL),
        )
        context = setting.context(most, padded(self._cells), self._workbench.like)
        model = self._workbench.model
        simulation = Simulation(
            costs.model,
            context,
            self._scheduler,
            bytes_per_token=kv_bytes_per_cell(model, context),
            parking=resolve_context(model, context).parking,
        )
        options = tuple(slot_options(simulation, self._goal, self._requests, most, self._mix.context))
        if not options:
            stall_ms = (self._goal.most_stall_ns or 0) / 1e6
            raise UsageError(f"a step with a single token takes longer than --max-stall {stall_ms:g} ms: raise it")
        return _Sized(setting, costs, simulation, options, choose(options, self._goal, self._usual))

    def _confirmed(self, sized: _Sized) -> tuple[_Sized, Confirmed | None]:
        """The choice, unless cbatch's own rules are as fast when both run in turns."""
        usual = sized.setting == self.default and sized.option.slots == self._usual
        if usual or not self._goal.for_throughput:
            return sized, None
        confirmed = self._confirm(sized)
        if median(confirmed.ratios) > 1 + LEAST_GAIN:
            return sized, confirmed
        self._notes.append("in turns, the choice wasn't faster than cbatch's own rules by more than noise: kept those")
        again = sized if sized.setting == self.default else self._size(self.default)
        kept = next(option for option in again.options if option.slots == self._usual)
        return replace(again, option=kept), None

    def _confirm(self, sized: _Sized) -> Confirmed:
        slots = sized.option.slots
        self._say(f"{describe(sized.setting)}, {slots} slots: in turns with cbatch's own rules")
        rows = self._requests[: min(_MOST_ROWS, math.lcm(slots, self._usual))]  # full slots to the end with either
        rows = self._short(rows, sized)
        ours = Way(sized.setting, slots, sized.simulation.with_slots(slots))
        theirs = Way(self.default, self._usual, replace(self._scheduler, max_num_seqs=self._usual))
        return confirm(
            theirs,
            ours,
            rows,
            lambda way, requests: run_rows(self._workbench, way, requests),
            predicted_s=sized.simulation.run(rows, slots).seconds,
            time_left=self._before(_CONFIRM_UNTIL),
        )

    def _short(self, rows: list[Request], sized: _Sized) -> list[Request]:
        """The rows, shortened alike so that a pair of runs fits into what is left of the budget."""
        left_s = (self._budget_ns - self._elapsed_ns) / 1e9
        share = left_s / (_PAIR * sized.simulation.run(rows, sized.option.slots).seconds)
        return rows if share >= 1 else [shortened(row, max(_LEAST_SHARE, share)) for row in rows]

    def _with_divergence(self, tried: Sequence[Tried]) -> list[Tried]:
        if not any(each.setting.quantised and each.speeds is not None for each in tried):
            return list(tried)
        usual = self._choices(self.default)
        return [
            replace(each, divergence=divergence(usual, self._choices(each.setting)))
            if each.setting.quantised and each.speeds is not None
            else each
            for each in tried
        ]

    def _choices(self, setting: Setting) -> Choices:
        texts = [request.prompt for request in self._requests[:_DIVERGENCE_TEXTS]]
        if self._goal.made_up:
            texts = [self._workbench.tokenizer.tokenize(TEXT, parse_special=False)]
        slots = min(len(texts), self._usual)
        with closing(self._workbench.runner(setting, slots, max(text.size for text in texts) + 1)) as runner:
            return choices(runner, texts)

    def _tuning(self, tried: Sequence[Tried], sized: _Sized, confirmed: Confirmed | None) -> Tuning:
        usual = next((option for option in sized.options if option.slots == self._usual), sized.option)
        over = next((each.over_llama_cpp for each in tried if each.setting == sized.setting), None)
        by_slots = sized.option.tokens_per_s / usual.tokens_per_s if usual.tokens_per_s > 0 else 1.0
        return Tuning(
            tried=tuple(tried),
            default=self.default,
            llama_cpp=self.llama_cpp,
            setting=sized.setting,
            slots=sized.option,
            slot_options=sized.options,
            error=sized.costs.error,
            gain=None if over is None else over * by_slots,
            is_default=sized.setting == self.default and sized.option.slots == self._usual,
            confirmed=confirmed,
            seconds=self._elapsed_ns / 1e9,
            notes=tuple(self._notes),
        )
