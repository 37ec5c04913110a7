"""Ways to run a job of the benchmarks: llama.cpp's defaults, cbatch's, or a profile's, through the same engine."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import closing
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple

from cbatch.cli import parts
from cbatch.cli.auto import settings_of
from cbatch.cli.defaults import run_options
from cbatch.cli.interpreter import tune_interpreter
from cbatch.cli.run_options import RunOptions
from cbatch.cli.sizing import cells_needed
from cbatch.clock import WallClock
from cbatch.config import ContextConfig, ModelConfig
from cbatch.driver import Driver
from cbatch.engine import Engine
from cbatch.feed import LookAhead
from cbatch.llama.memory import kv_bytes_per_cell
from cbatch.llama.model import Model
from cbatch.llama.resolve import ResolvedContext, resolve_context
from cbatch.llama.runner import LlamaRunner
from cbatch.llama.tokenizer import Tokenizer
from cbatch.metrics import RunAccumulator
from cbatch.tune.predict import Simulation
from cbatch.tune.profile import load_profile
from cbatch.tune.setting import of_llama_cpp
from tests.benchmarks.peers.cbatch_engine import requests_of
from tests.benchmarks.peers.jobs import BenchJob
from tests.benchmarks.peers.measured import Measured

LLAMA_CPP, UNTUNED = "llama.cpp", "untuned"


class Look(NamedTuple):
    """What a way comes to for a job."""

    settings: Mapping[str, Any]
    same: tuple[Any, ...]
    """Equal where two ways run the job alike."""
    predicted_s: float | None
    """By the profile's costs."""


@dataclass(frozen=True)
class Way:
    """`profile`: None is without one."""

    name: str
    profile: Path | None = None

    def settings(self, model: Model, options: RunOptions) -> dict[str, Any]:
        """Options that it sets."""
        if self.name == LLAMA_CPP:
            setting = of_llama_cpp(model)
            return {"kv_type": setting.kv_type, "flash_attn": setting.flash_attn}
        profile = None if self.profile is None else load_profile(self.profile)
        return {} if profile is None else settings_of(profile, options, ())


def look(path: Path, job: BenchJob, way: Way) -> Look:
    requests = [request for _, request in requests_of(job)]
    with Model(_config(path)) as model:
        options, settings, context = _ready(model, job, way)
        scheduler, resolved = parts.scheduler_config(options), resolve_context(model, context)
        same: tuple[ResolvedContext, Any] = (resolved, replace(scheduler, prefix_cache_bytes=0))
        profile = None if way.profile is None else load_profile(way.profile)
        if profile is None:
            return Look(settings, same, None)
        bytes_per_token = kv_bytes_per_cell(model, context)
        simulation = Simulation(profile.costs, context, scheduler, bytes_per_token, resolved.parking)
        return Look(settings, same, simulation.run(requests, context.max_num_seqs).seconds)


def measure(path: Path, job: BenchJob, way: Way) -> Measured:
    """As `cbatch run` would, but for its files; the model is loaded and warm when the clock starts."""
    tune_interpreter()
    jobs = requests_of(job)
    with Model(_config(path)) as model:
        options, _, context = _ready(model, job, way)
        limit = parts.most_cells(options, model)
        runner = LlamaRunner(model, Tokenizer(model), context, WallClock())
        with closing(runner), closing(LookAhead(jobs)) as feed:
            feed.first_window(parts.PATIENCE_S)
            totals = RunAccumulator()
            start = runner.clock.now_ns()
            engine = Engine(runner, parts.scheduler_config(options), log_calls=False)
            Driver(engine, feed, [totals], max_cells=limit).run()
            seconds = (runner.clock.now_ns() - start) / 1e9
        return Measured(seconds, totals.summary().output_tokens)


def _config(path: Path) -> ModelConfig:
    return parts.check_model(run_options({"inputs": ["-"], "model": str(path)}))[0]


def _ready(model: Model, job: BenchJob, way: Way) -> tuple[RunOptions, dict[str, Any], ContextConfig]:
    options = run_options({"inputs": ["-"], "model": str(model.config.path)})
    settings = way.settings(model, options)
    options = replace(options, **settings)
    limit = parts.most_cells(options, model)
    context, _ = parts.size_for_rows(options, model, cells_needed(requests_of(job)), all_read=True, limit=limit)
    return options, settings, context
