"""Tuning from start to end: a contest of settings, a survey of the best, slots by its cost model.

What the contest finds, and then the number of slots, is only taken if it is faster on whole rows too, in turns with
what it would replace. The survey comes between the two, so that it is made once, of the setting that is kept.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from cbatch.config import SchedulerConfig, padded
from cbatch.errors import UsageError
from cbatch.llama.memory import kv_bytes_per_cell
from cbatch.llama.resolve import resolve_context
from cbatch.tune.budget import Budget
from cbatch.tune.choice import HOPELESS, SlotOption
from cbatch.tune.company import Company
from cbatch.tune.confirm import PAIRS, Times, Way, confirm, rows_in_turns
from cbatch.tune.contest import Contest, contest
from cbatch.tune.divergence import with_divergence
from cbatch.tune.goal import Goal
from cbatch.tune.mix import Mix, Speeds
from cbatch.tune.predict import Simulation
from cbatch.tune.race import LEAST_GAIN
from cbatch.tune.result import Confirmation, Tried, Tuning
from cbatch.tune.setting import SLOTS, Setting, built_in, kernels, of_llama_cpp, short_name, variants
from cbatch.tune.slots import choose, slot_options
from cbatch.tune.survey import RUNNING, Costs, Stand, expected_s, stands, survey
from cbatch.tune.trials import Trials
from cbatch.tune.workbench import Workbench
from cbatch.types import Request

_KERNELS_UNTIL, _VARIANTS_UNTIL, _SETTING_UNTIL, _SURVEY_UNTIL, _SLOTS_UNTIL = 0.25, 0.42, 0.75, 0.93, 0.97
"""Shares of the budget after which nothing more of its kind is begun."""
_LOOKING_UNTIL = 0.95
"""After it no further number of slots is simulated."""
_TRIAL = 0.015
"""Of the budget, about what one trial may take."""
_SURVEY_TOKENS = 8
"""Prompt tokens of the survey, in those of the first trials."""
_REPETITIONS = 3
_FAR_FASTER = 1.2
"""In trials: then a setting is taken without having seen it on whole rows."""
_COMPANY = 0.2
"""CPUs: what is measured beside more of other work is told to be doubtful."""


@dataclass(frozen=True, slots=True)
class _Sized:
    """A setting with its costs, and what they predict of numbers of slots."""

    setting: Setting
    costs: Costs
    options: tuple[SlotOption, ...]


class Tuner:
    """One tuning. `scheduler` is that of the command that it is for, before anything was tuned.

    Once it is `stopped`, by whoever aborts what runs, nothing more is simulated either.
    """

    def __init__(
        self,
        workbench: Workbench,
        goal: Goal,
        scheduler: SchedulerConfig,
        budget: Budget,
        say: Callable[[str], None],
        *,
        stopped: Callable[[], bool] = lambda: False,
    ) -> None:
        self._workbench = workbench
        self._goal = goal
        self._scheduler = scheduler
        self._budget = budget
        self._say = say
        self._stopped = stopped
        self._requests = goal.sample(RUNNING[-1])
        self._mix = Mix.of(goal.requests, goal.shared_tokens)
        self.default, self.llama_cpp = built_in(workbench.model), of_llama_cpp(workbench.model)
        self._usual = min(SLOTS, self._most_slots(self.default))
        self._trials = Trials(workbench, self._mix, self._usual, _TRIAL * budget.seconds, self._say_speeds)
        self._speeds: dict[Setting, Speeds] = {}
        self._survey_tokens = 0
        self._begins_by = 1.0
        """Of the moments up to the survey, less where that takes so long that it has to begin earlier."""
        self._confirmations: list[Confirmation] = []
        self._notes: list[str] = []
        self._company = Company()

    def tune(self) -> tuple[Tuning, Costs]:
        """Raises `EngineError` or `UsageError` where cbatch's own rules don't work here."""
        lengths = f"{self._mix.prompt:,.0f} + {self._mix.outputs:,.0f} tokens"
        self._say(f"tuning for rows of about {lengths}, in up to {self._budget.seconds:g} s")
        self._calibrate()
        found = contest(
            kernels(self.default, self.llama_cpp, allow_kv_quant=self._goal.allow_kv_quant),
            variants,
            self._trials.trial,
            self._mix,
            llama_cpp=self.llama_cpp,
            time_for_kernels=self._budget.until(_KERNELS_UNTIL * self._begins_by),
            time_for_variants=self._budget.until(_VARIANTS_UNTIL * self._begins_by),
            refine=self._trials.for_ubatches,
        )
        tried = with_divergence(found.tried, self.default, self._goal, self._workbench)
        sized = self._size(self._confirmed_setting(found))
        option = self._confirmed_slots(sized)
        return self._tuning(tried, sized, option), sized.costs

    def _calibrate(self) -> None:
        self._trials.calibrate(self.default)
        self._survey_tokens = _SURVEY_TOKENS * self._trials.tokens
        seconds = self._budget.seconds
        left = _SURVEY_UNTIL * seconds - expected_s(self._stands(self.default), self._speeds[self.default])
        self._begins_by = max(0.0, min(1.0, left / seconds / _SETTING_UNTIL))
        if self._begins_by < 1:
            self._say(f"steps are slow here: measuring what they cost leaves {max(0.0, left):.0f} s to try settings")

    def _say_speeds(self, setting: Setting, speeds: Speeds) -> None:
        self._speeds[setting] = speeds
        rates = f"prefill {speeds.prefill_tokens_per_s:,.0f}, decode {speeds.decode_tokens_per_s:,.0f} tok/s"
        self._say(f"{short_name(setting)}: {rates}")

    def _most_slots(self, setting: Setting) -> int:
        rows = len(self._goal.requests) if self._goal.all_rows else RUNNING[-1]
        return self._workbench.most_slots(setting, min(rows, RUNNING[-1]), self._goal.cells)

    def _confirmed_setting(self, found: Contest) -> Setting:
        """The contest's best one, unless cbatch's own rules are as fast when both run in turns."""
        sure = found.best != self.default
        best = found.best if sure else found.runner_up
        if best is None:
            return self.default
        slots = min(self._usual, self._most_slots(best))
        self._say(f"{short_name(best)}: in turns with cbatch's own rules")
        ways = self._way(self.default, self._usual), self._way(best, slots)
        least = 1.0 if sure else 1 + LEAST_GAIN / 2
        confirmed = self._in_turns(*ways, _SETTING_UNTIL * self._begins_by, least)
        if confirmed is None:
            gain = next(each.over_default or 1.0 for each in found.tried if each.setting == best)
            confirmed = gain > _FAR_FASTER
            self._notes.append(
                f"{short_name(best)} was {gain:.2f} times as fast in short trials, without time to see on whole rows "
                f"(a larger --budget gives some): {'' if confirmed else 'not '}taken"
            )
        return best if confirmed else self.default

    def _confirmed_slots(self, sized: _Sized) -> SlotOption:
        """The number that the cost model finds best, unless the usual one is as fast when both run in turns."""
        chosen = choose(sized.options, self._goal, self._usual)
        usual = next((option for option in sized.options if option.slots == self._usual), chosen)
        if chosen == usual or not self._goal.for_throughput:
            return chosen
        self._say(f"{chosen.slots} slots: in turns with {usual.slots}")
        ways = self._way(sized.setting, usual.slots), self._way(sized.setting, chosen.slots)
        confirmed = self._in_turns(*ways, _SLOTS_UNTIL)
        if confirmed is None:
            self._notes.append(
                f"{chosen.slots} slots may be faster, by the cost model: there was no time to see on whole rows, "
                "which a larger --budget gives"
            )
        return chosen if confirmed else usual

    def _way(self, setting: Setting, slots: int) -> Way:
        tokens = max(slots, self._scheduler.max_num_batched_tokens)
        return Way(setting, slots, replace(self._scheduler, max_num_seqs=slots, max_num_batched_tokens=tokens))

    def _in_turns(self, usual: Way, chosen: Way, share: float, least: float = 1.0) -> bool | None:
        """Whether the second is that much faster on whole rows; None where there is no time for any."""
        pair_s = sum(self._mix.row_ns(self._speeds[way.setting]) for way in (usual, chosen)) / 1e9
        rows = rows_in_turns(self._requests, usual, chosen, pair_s, self._budget.left_s(share))
        if not rows:
            return None
        found = confirm(usual, chosen, rows, self._run, self._budget.rounds(share, PAIRS), least)
        self._confirmations.append(found)
        return found.holds

    def _run(self, way: Way, rows: Sequence[Request]) -> Times:
        cells = max(row.cells_needed for row in rows)
        with self._workbench.bench(way.setting, way.slots, cells, way.scheduler) as bench:
            steps = bench.run_rows(rows)
        self._trials.seen.setdefault(way.setting, []).extend(steps)
        return [step.total_ns for step in steps]

    def _size(self, setting: Setting) -> _Sized:
        """Survey a setting, and look at numbers of slots with its costs."""
        self._say(f"{short_name(setting)}: measuring what steps cost")
        most = self._most_slots(setting)
        costs = survey(
            self._stands(setting),
            lambda slots, cells: self._workbench.bench(setting, slots, cells),
            self._budget.rounds(_SURVEY_UNTIL, _REPETITIONS),
            self._trials.seen.get(setting, ()),
        )
        context = setting.context(most, padded(self._goal.cells), self._workbench.like)
        simulation = Simulation(
            costs.model,
            context,
            self._scheduler,
            bytes_per_token=kv_bytes_per_cell(self._workbench.model, context),
            parking=resolve_context(self._workbench.model, context).parking,
        )
        in_time = self._budget.until(_LOOKING_UNTIL)
        options = tuple(
            slot_options(
                simulation,
                self._goal,
                most,
                self._mix.context,
                usual=self._usual,
                goes_on=lambda: (in_time() or not self._goal.for_throughput) and not self._stopped(),
            )
        )
        if not options:
            stall_ms = (self._goal.most_stall_ns or 0) / 1e6
            raise UsageError(f"a step with a single token takes longer than --max-stall {stall_ms:g} ms: raise it")
        return _Sized(setting, costs, options)

    def _stands(self, setting: Setting) -> list[Stand]:
        trials = self._trials
        most = self._most_slots(setting)
        return stands(
            trials.mix,
            most,
            setting.ubatch,
            tokens=self._survey_tokens,
            steps=trials.steps,
            room=lambda slots, cells: self._workbench.room(setting, slots, cells),
            longest=max(self._workbench.model.n_ctx_train, self._goal.cells),
        )

    def _tuning(self, tried: Sequence[Tried], sized: _Sized, option: SlotOption) -> Tuning:
        if (busy := self._company.cpus) > _COMPANY:
            self._notes.append(f"other programs kept {busy:.1f} CPUs busy meanwhile: tune again when they have ended")
        if self._goal.rate is not None and max(each.attainment or 0.0 for each in sized.options) < HOPELESS:
            self._notes.append(
                f"no number of slots keeps requests within the limits at {self._goal.rate:g} requests/s, by the cost "
                "model: lower --request-rate, or give looser limits"
            )
        usual = next((each for each in sized.options if each.slots == self._usual), option)
        over = self._over_llama_cpp(tried, sized.setting)
        by_slots = option.tokens_per_s / usual.tokens_per_s if usual.tokens_per_s > 0 else 1.0
        return Tuning(
            tried=tuple(tried),
            default=self.default,
            llama_cpp=self.llama_cpp,
            setting=sized.setting,
            slots=option,
            slot_options=sized.options,
            error=sized.costs.error,
            gain=over * by_slots if over is not None and self._goal.for_throughput else None,
            usual_slots=self._usual,
            few_rows=self._goal.all_rows and option.slots == len(self._goal.requests) < SLOTS,
            is_default=sized.setting == self.default and option.slots == self._usual,
            confirmations=tuple(self._confirmations),
            seconds=self._budget.elapsed_s,
            notes=tuple(self._notes),
        )

    def _over_llama_cpp(self, tried: Sequence[Tried], setting: Setting) -> float | None:
        """How many times as fast a setting is: as seen on whole rows, else in trials."""
        for each in self._confirmations:
            if (each.setting, each.usual_setting) == (self.llama_cpp, setting):
                return 1 / each.ratio
        return next((each.over_llama_cpp for each in tried if each.setting == setting), None)
