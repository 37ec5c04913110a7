"""cbatch without its command line and files: runner, engine and driver as `cbatch run` puts them together.

As with the peers, the model is loaded and warm, and prompts are tokens, when the clock starts.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from pathlib import Path

import numpy as np

from cbatch.cli import parts
from cbatch.cli.auto import auto_options
from cbatch.cli.defaults import run_options
from cbatch.cli.interpreter import tune_interpreter
from cbatch.cli.run_options import RunOptions
from cbatch.cli.sizing import cells_needed
from cbatch.clock import WallClock
from cbatch.driver import Driver
from cbatch.engine import Engine
from cbatch.feed import LookAhead
from cbatch.llama.model import Model
from cbatch.llama.runner import LlamaRunner
from cbatch.llama.tokenizer import Tokenizer
from cbatch.metrics import RunAccumulator
from cbatch.sampling import SamplingParams
from cbatch.types import Job, Request, RowRef
from tests.benchmarks.peers.flags import Flags
from tests.benchmarks.peers.jobs import BenchJob
from tests.benchmarks.peers.measured import Measured


def requests_of(job: BenchJob) -> list[tuple[RowRef, Request]]:
    return [
        (
            RowRef(i, str(i), f"{job.name}:{i}", 0),
            Request(str(i), np.array(row.prompt), SamplingParams(max_tokens=row.output, ignore_eos=True)),
        )
        for i, row in enumerate(job.rows, 1)
    ]


def choose(path: Path, job: BenchJob) -> Flags:
    """What cbatch would run the job with."""
    with _runner(path, requests_of(job)) as (runner, _, _):
        resolved = runner.context.resolved
        return Flags(
            slots=resolved.max_num_seqs,
            type_k=resolved.type_k,
            type_v=resolved.type_v,
            flash_attn=resolved.flash_attn,
            ubatch=resolved.ubatch,
            threads=resolved.threads,
            unified=resolved.kv_mode == "unified",
        )


def measure(path: Path, job: BenchJob) -> Measured:
    jobs = requests_of(job)
    with _runner(path, jobs) as (runner, options, limit), closing(LookAhead(jobs)) as feed:
        feed.first_window(parts.PATIENCE_S)
        engine = Engine(runner, parts.scheduler_config(options))
        totals = RunAccumulator()
        start = runner.clock.now_ns()
        Driver(engine, feed, [totals], max_cells=limit).run()
        seconds = (runner.clock.now_ns() - start) / 1e9
        summary = totals.summary()
        return Measured(seconds, summary.output_tokens, summary.llama_share)


@contextmanager
def _runner(path: Path, jobs: Sequence[Job]) -> Iterator[tuple[LlamaRunner, RunOptions, int]]:
    """A runner for the jobs, the options that it has, and the most cells that a row may fill."""
    tune_interpreter()
    options = run_options({"inputs": ["-"], "model": str(path)})
    config, _ = parts.check_model(options)
    options, _ = auto_options(options, config, given=(), enabled=options.auto)
    with Model(config) as model:
        limit = parts.most_cells(options, model)
        context, _ = parts.size_for_rows(options, model, cells_needed(jobs), all_read=True, limit=limit)
        with closing(LlamaRunner(model, Tokenizer(model), context, WallClock())) as runner:
            yield runner, options, limit
