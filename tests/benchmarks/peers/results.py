"""All measurements, and what cbatch is worth beside each: as a table and as Parquet. Measures nothing."""

from __future__ import annotations

import statistics
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from tests.benchmarks.peers.measured import Measured

REFERENCE = "cbatch"
"""The peer that all others are compared with."""
FOREIGN_CPUS = 0.1
"""From here on a measurement is told to have had company."""

SCHEMA = pa.schema(
    [
        ("job", pa.string()),
        ("peer", pa.string()),
        ("flags", pa.string()),
        ("repetition", pa.int32()),
        ("seconds", pa.float64()),
        ("output_tokens_per_s", pa.float64()),
        ("ratio", pa.float64()),
        ("llama_share", pa.float64()),
        ("beside_s", pa.float64()),
        ("peak_bytes", pa.int64()),
        ("foreign_cpus", pa.float64()),
    ]
)


@dataclass(frozen=True, slots=True)
class Result:
    """One peer's pass over one job."""

    job: str
    peer: str
    flags: str
    repetition: int
    measured: Measured
    foreign_cpus: float
    """CPUs that others kept busy meanwhile."""


class Results:
    """In the order in which they were measured."""

    def __init__(self) -> None:
        self._found: list[Result] = []

    def add(self, result: Result) -> None:
        self._found.append(result)

    def ratio(self, result: Result) -> float | None:
        """cbatch's output tokens/s / the result's, in the same repetition; None where cbatch wasn't measured."""
        for other in self._found:
            if (other.job, other.repetition, other.peer) == (result.job, result.repetition, REFERENCE):
                return other.measured.tokens_per_s / result.measured.tokens_per_s
        return None

    def table(self, job: str) -> Iterator[str]:
        """A line for each peer and its flags; `*` is at the best of those that differ in slots alone."""
        groups: dict[tuple[str, str], list[Result]] = {}
        for result in self._found:
            if result.job == job:
                groups.setdefault((result.peer, result.flags), []).append(result)
        best = _best({key: _median_rate(some) for key, some in groups.items()})
        measures = f"{'in llama_decode':>15} {'beside steps':>13} {'memory':>7}"
        yield f"  {'peer':20} {'flags':42} {'tok/s':>7}  {'ratio':>5} {'':12} {measures}"
        for (peer, flags), some in groups.items():
            mark = "*" if (peer, flags) in best else " "
            measured = f"{_share(some):>15} {_beside(some):>13} {_peak(some):>7}"
            yield f"{mark} {peer:20} {flags:42} {_median_rate(some):7.1f}  {self._ratios(some)} {measured}"
        if disturbed := sum(result.foreign_cpus > FOREIGN_CPUS for some in groups.values() for result in some):
            yield f"  {disturbed} measurements had company: other work kept more than {FOREIGN_CPUS:g} CPUs busy"

    def _ratios(self, some: Sequence[Result]) -> str:
        ratios = [ratio for ratio in map(self.ratio, some) if ratio is not None]
        if not ratios:
            return " " * 18
        return f"{statistics.median(ratios):5.2f} ({min(ratios):.2f}..{max(ratios):.2f})"

    def write(self, path: Path) -> None:
        """One row a measurement."""
        rows = [
            {
                "job": result.job,
                "peer": result.peer,
                "flags": result.flags,
                "repetition": result.repetition,
                "seconds": result.measured.seconds,
                "output_tokens_per_s": result.measured.tokens_per_s,
                "ratio": self.ratio(result),
                "llama_share": result.measured.llama_share,
                "beside_s": result.measured.beside_s,
                "peak_bytes": result.measured.peak_bytes,
                "foreign_cpus": result.foreign_cpus,
            }
            for result in self._found
        ]
        pq.write_table(pa.Table.from_pylist(rows, SCHEMA), path)


def _median_rate(some: Sequence[Result]) -> float:
    return statistics.median(result.measured.tokens_per_s for result in some)


def _share(some: Sequence[Result]) -> str:
    shares = [result.measured.llama_share for result in some if result.measured.llama_share is not None]
    return f"{statistics.median(shares):.4f}" if shares else ""


def _beside(some: Sequence[Result]) -> str:
    found = [(m.beside_s, m.seconds) for m in (result.measured for result in some) if m.beside_s is not None]
    if not found:
        return ""
    share = statistics.median(beside / seconds for beside, seconds in found)
    return f"{statistics.median(beside for beside, _ in found):.2f} s {share:.1%}"


def _peak(some: Sequence[Result]) -> str:
    peaks = [result.measured.peak_bytes for result in some if result.measured.peak_bytes is not None]
    return f"{max(peaks) / 1e6:.0f} MB" if peaks else ""


def _best(rates: dict[tuple[str, str], float]) -> set[tuple[str, str]]:
    """Of each peer that was tried with its defaults in several numbers of slots, the fastest."""
    tried: dict[str, dict[tuple[str, str], float]] = {}
    for key, rate in rates.items():
        if key[1].endswith("slots, defaults"):
            tried.setdefault(key[0], {})[key] = rate
    return {max(some, key=some.__getitem__) for some in tried.values() if len(some) > 1}
