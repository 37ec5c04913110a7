"""What a row costs beside its model: many short rows through reading, scheduling and writing, over the fake runner.

    python -m tests.benchmarks.bench_rows [--rows 1000000] [--resume]

Goals: resident memory grows by less than 50 MB between row 10,000 and the end, a row takes less than 200 us, and with
--resume, where nine tenths of the rows are done, the first step begins within 5 s.
The parts are put together as `cbatch run` does it; a stub in place of the tokenizer makes four tokens of each prompt,
and each answer has four. The fake runner computes nothing, but its own bookkeeping is in the figures.
"""

from __future__ import annotations

import argparse
import gc
import os
import subprocess
import sys
import tempfile
import time
import tracemalloc
from collections.abc import Callable, Iterable, Iterator
from contextlib import closing
from pathlib import Path
from typing import NamedTuple

import numpy as np
import psutil
import pyarrow as pa

from cbatch.cli.app import choose_allocator
from cbatch.cli.interpreter import tune_interpreter
from cbatch.clock import VirtualClock, WallClock
from cbatch.config import SchedulerConfig
from cbatch.driver import Driver, Ending
from cbatch.engine import Engine, FakeRunner
from cbatch.feed import WINDOW, LookAhead
from cbatch.inputs import READ_FAULTS, read_rows
from cbatch.llama.encode import stream_seed
from cbatch.metrics import RunAccumulator
from cbatch.outputs import RunWriter, open_stored
from cbatch.report.progress import Progress
from cbatch.sampling import SamplingParams
from cbatch.types import EngineView, Job, Request, RequestOutput, Row, RowFault, RowRef, StepRecord

SLOTS = 32
TOKENS = 4
SETTLED = 10_000
"""Rows after which memory should grow no more."""
LOOK_EVERY = 1_000
"""Rows between two looks at the memory."""


class InstantTime(VirtualClock):
    """The run's own time, which the fake runner can't advance: its calls take no time of their own."""

    def __init__(self, clock: WallClock) -> None:
        super().__init__()
        self._clock = clock

    def now_ns(self) -> int:
        return self._clock.now_ns()

    def advance(self, ns: int) -> None:
        pass


class Meter:
    """An `Observer` that looks at this process: from row `settled` on, how much its memory grows."""

    def __init__(self, settled: int) -> None:
        self.settled = settled
        self.rows = 0
        self.first_step_s: float | None = None
        self.base = self.peak = 0
        self.stop_at: tuple[int, Callable[[], None]] | None = None

    def step(self, record: StepRecord, view: Callable[[], EngineView]) -> None:
        if self.first_step_s is None:
            self.first_step_s = time.perf_counter()

    def finished(self, ref: RowRef, output: RequestOutput) -> None:
        self.rows += 1
        if self.rows % LOOK_EVERY == 0:
            self._look()
        if self.stop_at is not None and self.rows == self.stop_at[0]:
            self.stop_at[1]()

    def fault(self, fault: RowFault) -> None:
        raise AssertionError(fault)

    def _look(self) -> None:
        if self.rows == self.settled:
            gc.collect()
            self.base = resident()
        self.peak = max(self.peak, resident())


class Measured(NamedTuple):
    """One run over all rows that weren't done."""

    rows: int
    growth: int
    """Of the resident memory after the first rows, up to the last one, bytes."""
    end_growth: int
    """The same, the final form of the outputs included."""
    wall_s: float
    cpu_s: float
    """Of all threads."""
    first_step_s: float
    """From the opening of the outputs on."""
    kept: int
    """What Python and Arrow hold when all rows are done and written, bytes; of Python what `tracemalloc` traced."""
    end_s: float
    """For the final form of the outputs, which `wall_s` and `cpu_s` don't hold."""


def resident() -> int:
    """Bytes."""
    return int(psutil.Process().memory_info().rss)


def write_rows(path: Path, rows: int, id_form: str = "customer-{}") -> Path:
    """Short ones, with a field to carry."""
    with path.open("w") as file:
        for i in range(1, rows + 1):
            row_id = id_form.format(i)
            file.write(f'{{"id": "{row_id}", "prompt": "Is it good? Review {i}: fine.", "stars": {i % 5}}}\n')
    return path


def encode(rows: Iterable[Row | RowFault]) -> Iterator[Job]:
    """As `cbatch.llama.encode.Encoder` does it, without a model."""
    for row in rows:
        if isinstance(row, RowFault):
            yield row
            continue
        text = str(row.content)
        prompt = np.array([1, len(text), len(text) % 7, 5], np.int32)
        seed = stream_seed(0, row.ref.id, row.sampling.seed)
        arrival_ns = row.ref.arrival_ns
        yield row.ref, Request(row.ref.id, prompt, row.sampling, row.priority, arrival_ns, stream_seed=seed)


def play(source: Path, directory: Path, *, settled: int, window: int = WINDOW, stop_at: int | None = None) -> Measured:
    """Run the rows that aren't done in `directory`, or the first `stop_at` of them."""
    clock, meter = WallClock(), Meter(settled)
    started_s, cpu_s = time.perf_counter(), time.process_time()
    directory.mkdir(exist_ok=True)
    stored = open_stored(directory, "parquet")
    clock.restart(stored.clock_ns)
    rows = read_rows(
        [str(source)],
        defaults=SamplingParams(max_tokens=TOKENS),
        clock=clock,
        done=stored.done,
        taken=stored.taken(READ_FAULTS),
    )
    progress, totals = Progress(clock), RunAccumulator(1024.0)
    feed = LookAhead(progress.reading(encode(rows)), window=window)
    with closing(feed):
        jobs, _ = feed.first_window(2.0)
        runner = FakeRunner(max_num_seqs=SLOTS, cells_per_seq=2048, clock=InstantTime(clock), keep_plans=False)
        engine = Engine(runner, SchedulerConfig(SLOTS, prefix_cache_bytes=1 << 30, group_prefixes=True))
        with RunWriter(
            directory,
            output_format="parquet",
            sample=[job.ref if isinstance(job, RowFault) else job[0] for job in jobs],
            model="fake.gguf",
            clock=clock,
            token_bytes=lambda token: b"",
            carried_types=rows.carried_types,
            stored=stored,
        ) as writer:
            driver = Driver(engine, feed, [writer, totals, progress, meter], max_cells=2048, backlog=window)
            if stop_at is not None:
                meter.stop_at = (stop_at, driver.stop)
            outcome = driver.run()
            ran_s, ran_cpu_s = time.perf_counter() - started_s, time.process_time() - cpu_s
            if outcome.ending is Ending.COMPLETE:
                writer.complete()
            gc.collect()
            kept = tracemalloc.get_traced_memory()[0] + pa.total_allocated_bytes()
    assert totals.summary().rows_ok == meter.rows
    assert meter.first_step_s is not None
    return Measured(
        rows=meter.rows,
        growth=meter.peak - meter.base,
        end_growth=max(meter.peak, resident()) - meter.base,
        wall_s=ran_s,
        cpu_s=ran_cpu_s,
        first_step_s=meter.first_step_s - started_s,
        kept=kept,
        end_s=time.perf_counter() - started_s - ran_s,
    )


def show(name: str, measured: Measured) -> None:
    rows = measured.rows
    print(
        f"{name}: {rows:,} rows, {measured.wall_s / rows * 1e6:.0f} us a row ({measured.cpu_s / rows * 1e6:.0f} us of "
        f"CPU), first step after {measured.first_step_s:.2f} s, {measured.end_s:.1f} s for the final form; "
        f"resident memory +{measured.growth / 1e6:.1f} MB, with the final form +{measured.end_growth / 1e6:.1f} MB, "
        f"to {resident() / 1e6:.0f} MB",
        flush=True,
    )


def _as_the_program() -> None:
    """Set this process as `cbatch run` is; the allocator only counts where Arrow isn't loaded yet."""
    before = dict(os.environ)
    choose_allocator()
    if os.environ != before:
        os.execv(sys.executable, sys.orig_argv)
    tune_interpreter()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--resume", action="store_true", help="stop at nine tenths, and go on in a new process")
    parser.add_argument("--go-on", type=Path, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    _as_the_program()
    if arguments.go_on is not None:
        show("resumed", play(arguments.go_on / "rows.jsonl", arguments.go_on / "out", settled=SETTLED))
        return
    with tempfile.TemporaryDirectory(prefix="cbatch-rows-") as folder:
        source, directory = write_rows(Path(folder) / "rows.jsonl", arguments.rows), Path(folder) / "out"
        stop_at = arguments.rows * 9 // 10 if arguments.resume else None
        show("run", play(source, directory, settled=SETTLED, stop_at=stop_at))
        if arguments.resume:
            command = [sys.executable, "-m", "tests.benchmarks.bench_rows", "--go-on", folder]
            subprocess.run(command, check=True)


if __name__ == "__main__":
    main()
