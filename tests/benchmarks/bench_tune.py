"""Whether `cbatch tune` keeps its word, on this machine: two tunings, then jobs with what they chose, in turns.

    python -m tests.benchmarks.bench_tune [--jobs U R P] [--repeat 2] [--budget 120] [--profiles A.json B.json]
        [--rows N] [--model smollm2] [-o tune.parquet]

Jobs are those of tests/benchmarks/peers/jobs.py. Each is run through the same engine with llama.cpp's defaults,
cbatch's untuned ones, and what each tuning chose, every time in a process of its own. Ways that come to the same are
run once. --profiles takes earlier ones in place of tuning.

A ratio is of output tokens/s in the same repetition. Goals:

    tuned / llama.cpp's defaults          1.5 on U, 1.3 on R (set on a processor with AMX)
    tuned / untuned                       0.97 on each job
    one tuning / the other                0.95 to 1.05 on U, which is what is tuned for
    predicted / measured time of a job    0.9 to 1.1
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from cbatch.cli.auto import in_words
from cbatch.llama import machine
from cbatch.llama.locate import resolve_model
from tests.benchmarks.bench_peers import rotated
from tests.benchmarks.peers.contention import CpuTime
from tests.benchmarks.peers.jobs import JOBS, BenchJob, make_jobs
from tests.benchmarks.peers.measured import Measured, isolated
from tests.benchmarks.peers.results import FOREIGN_CPUS
from tests.benchmarks.peers.vocabulary import words_of
from tests.benchmarks.tuned_ways import LLAMA_CPP, UNTUNED, Look, Way, look, measure

TUNED_FOR = "U"
"""Rows that are as long as `cbatch tune` takes them to be."""
LEAST_TUNED, MOST_APART, MOST_OFF = 0.97, 0.05, 0.1
_WARM_UP_ROWS, _WARM_UP_OUTPUT = 2, 4


@dataclass(frozen=True)
class Result:
    """One pass over a job, for all `ways` that come to the same."""

    job: BenchJob
    ways: tuple[str, ...]
    repetition: int
    measured: Measured
    foreign_cpus: float


class Results:
    def __init__(self) -> None:
        self._found: list[Result] = []
        self._looks: dict[tuple[str, str], Look] = {}

    def add(self, result: Result) -> None:
        self._found.append(result)

    def saw(self, job: BenchJob, way: Way, found: Look) -> None:
        self._looks[job.name, way.name] = found

    def of(self, job: str, way: str) -> list[Result]:
        return [each for each in self._found if each.job.name == job and way in each.ways]

    def ratios(self, job: str, way: str, other: str) -> list[float]:
        """Of the way's output tokens/s to the other's, by repetition."""
        pairs = zip(self.of(job, way), self.of(job, other), strict=False)
        return [ours.measured.tokens_per_s / theirs.measured.tokens_per_s for ours, theirs in pairs]

    def off(self, job: str, way: str) -> float | None:
        """Predicted / measured time."""
        predicted = self._looks[job, way].predicted_s
        if predicted is None:
            return None
        return predicted / median(each.measured.seconds for each in self.of(job, way))

    def table(self, job: BenchJob, ways: Sequence[Way]) -> Iterator[str]:
        yield f"{job.name}: {len(job.rows)} rows, {job.output_tokens:,} output tokens"
        yield f"  {'way':10} {'tok/s':>6}  {'x llama.cpp':18} {'x untuned':18} {'time':>7} {'predicted':>10}  settings"
        for way in ways:
            some, found = self.of(job.name, way.name), self._looks[job.name, way.name]
            speed = median(each.measured.tokens_per_s for each in some)
            seconds = median(each.measured.seconds for each in some)
            off = self.off(job.name, way.name)
            told = "" if off is None or found.predicted_s is None else f"{found.predicted_s:.1f} ({off - 1:+.0%})"
            ratios = [_spread(self.ratios(job.name, way.name, other)) for other in (LLAMA_CPP, UNTUNED)]
            settings = in_words(found.settings) or "defaults"
            yield f"  {way.name:10} {speed:6.1f}  {ratios[0]:18} {ratios[1]:18} {seconds:5.1f} s {told:>10}  {settings}"
        if busy := sum(each.foreign_cpus > FOREIGN_CPUS for each in self._found if each.job.name == job.name):
            yield f"  {busy} passes had company: other work kept more than {FOREIGN_CPUS:g} CPUs busy"

    def verdicts(self, jobs: Sequence[BenchJob], tuned: Sequence[Way]) -> Iterator[str]:
        """The goals that hold on any processor."""
        for job in jobs:
            for way in tuned:
                ratio, off = median(self.ratios(job.name, way.name, UNTUNED)), self.off(job.name, way.name)
                yield f"{_mark(ratio >= LEAST_TUNED)} {job.name}, {way.name} / untuned: {ratio:.3f}"
                if off is not None:
                    yield f"{_mark(abs(off - 1) <= MOST_OFF)} {job.name}, {way.name}, predicted / measured: {off:.3f}"
            ratio = median(self.ratios(job.name, tuned[0].name, tuned[-1].name))
            mark = _mark(abs(ratio - 1) < MOST_APART) if job.name == TUNED_FOR else " " * 6
            yield f"{mark} {job.name}, one tuning / the other: {ratio:.3f}"

    def write(self, path: Path) -> None:
        """One row a way and repetition."""
        pq.write_table(pa.Table.from_pylist([row for each in self._found for row in self._rows(each)]), path)

    def _rows(self, result: Result) -> Iterator[dict[str, Any]]:
        for way in result.ways:
            found = self._looks[result.job.name, way]
            yield {
                "job": result.job.name,
                "way": way,
                "settings": in_words(found.settings) or "defaults",
                "repetition": result.repetition,
                "seconds": result.measured.seconds,
                "predicted_s": found.predicted_s,
                "output_tokens_per_s": result.measured.tokens_per_s,
                "foreign_cpus": result.foreign_cpus,
            }


def _spread(ratios: Sequence[float]) -> str:
    return f"{median(ratios):.2f} ({min(ratios):.2f}..{max(ratios):.2f})" if ratios else ""


def _mark(holds: bool) -> str:
    return "met   " if holds else "missed"


def compare(path: Path, job: BenchJob, ways: Sequence[Way], repeat: int, results: Results) -> None:
    alike: dict[tuple[Any, ...], list[Way]] = {}
    for way in ways:
        found = isolated(look, path, job, way)
        results.saw(job, way, found)
        alike.setdefault(found.same, []).append(way)
    for same in alike.values():
        isolated(measure, path, job.first(_WARM_UP_ROWS, _WARM_UP_OUTPUT), same[0])
    for turn in range(repeat):
        for same in rotated(list(alike.values()), turn, repeat):
            before = CpuTime.now()
            measured = isolated(measure, path, job, same[0])
            names = tuple(way.name for way in same)
            results.add(Result(job, names, turn, measured, CpuTime.now().foreign_since(before)))
            told = f"{job.name} {turn + 1}/{repeat}  {', '.join(names)}: {measured.tokens_per_s:.1f} output tok/s"
            print(f"  {told}", file=sys.stderr, flush=True)
    print("\n".join(results.table(job, ways)), flush=True)


def tune(model: Path, profile: Path, budget: float) -> Path:
    """The profile, once it is there; what is found goes to stdout."""
    start = time.perf_counter()
    command = [sys.executable, "-m", "cbatch", "tune", "--model", str(model), "--budget", f"{budget:g}", "-q"]
    subprocess.run([*command, "--profile", str(profile)], check=True)
    print(f"the whole command took {time.perf_counter() - start:.1f} s of {budget:g} s\n", flush=True)
    return profile


def parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--jobs", nargs="+", choices=JOBS, default=list(JOBS))
    parser.add_argument("--repeat", type=int, default=2)
    parser.add_argument("--budget", type=float, default=120)
    parser.add_argument("--profiles", nargs="+", type=Path)
    parser.add_argument("--rows", type=int, help="at most so many of each job, for a try")
    parser.add_argument("--model", default="smollm2")
    parser.add_argument("-o", "--output", type=Path)
    return parser.parse_args()


def main() -> None:
    given = parse_arguments()
    model = resolve_model(given.model)
    print(f"{machine.cpu_name()}, {machine.default_threads()} threads, {model.stem}, {machine.library_version()}")
    results = Results()
    with tempfile.TemporaryDirectory() as folder:
        profiles = given.profiles or [tune(model, Path(folder, f"{name}.json"), given.budget) for name in "ab"]
        tuned = [Way(f"tuned {number}", profile) for number, profile in enumerate(profiles, 1)]
        ways = [Way(LLAMA_CPP), Way(UNTUNED), *tuned]
        jobs = make_jobs(given.jobs, isolated(words_of, model), given.rows)
        try:
            for job in jobs:
                compare(model, job, ways, given.repeat, results)
        finally:
            if given.output is not None:
                results.write(given.output)
    print("\n".join(results.verdicts(jobs, tuned)))


if __name__ == "__main__":
    main()
