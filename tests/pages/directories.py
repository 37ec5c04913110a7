"""Directories as cbatch writes them, of replays on the fake runner and a virtual clock."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from cbatch.clock import VirtualClock
from cbatch.metrics import ReplaySummary
from cbatch.metrics.objectives import Objectives
from cbatch.outputs import RunWriter, write_run_json, write_sweep
from cbatch.types import Job
from tests.metrics.factories import spell
from tests.replay.virtual import MS, play, poisson

SLO = Objectives({"ttft": 100.0 * MS})


def write_replay(
    directory: Path,
    *,
    count: int = 120,
    rate: float = 40.0,
    slots: int = 2,
    tokens: int = 4,
    seed: int = 0,
    deadline_ns: int | None = None,
    is_replay: bool = True,
    jobs: Iterable[Job] | None = None,
    **record: Any,
) -> ReplaySummary:
    """`record` goes into run.json; `jobs` take the place of random ones."""
    directory.mkdir(parents=True)
    jobs = poisson(rate, count, tokens=tokens, prompt=3, seed=seed) if jobs is None else jobs
    with RunWriter(
        directory, output_format="parquet", sample=[], model="fake", clock=VirtualClock(), token_bytes=spell
    ) as writer:
        summary, _ = play(
            jobs, slots=slots, objectives=SLO, deadline_ns=deadline_ns, cost_ns=_cost_ns, observers=[writer]
        )
    totals: Mapping[str, object] = summary.to_dict() if is_replay else summary.run.to_dict()
    told = {"status": "complete", "started": "2025-01-31T12:00:00.000+00:00", "model": {"path": "/models/fake.gguf"}}
    replay = {"replay": {"objectives": SLO.to_dict(), "requested_rate": rate}} if is_replay else {}
    options = {"options": {"attainment": 0.9}}
    write_run_json(directory, {**told, **options, **replay, "error": None, "notes": [], "totals": totals, **record})
    return summary


def _cost_ns(decodes: int, prompts: int) -> int:
    return 8 * MS + decodes * MS + prompts * MS // 2


def change(path: Path, **fields: Any) -> None:
    """Set fields of a JSON file."""
    record = json.loads(path.read_text("utf-8"))
    path.write_text(json.dumps({**record, **fields}), "utf-8")


def write_sweep_directory(directory: Path, rates: tuple[float, ...] = (10.0, 20.0, 40.0, 80.0)) -> list[ReplaySummary]:
    points = [(rate, write_replay(directory / f"rate-{rate:g}", rate=rate)) for rate in rates]
    write_sweep(directory, points)
    return [summary for _, summary in points]


def entry(
    metric: str, variant: str, median: float, ratio: float | None, better: str | None = "lower"
) -> dict[str, Any]:
    """A metric of compare.json, with an interval of 10 % to both sides."""
    ends = {"low": None, "high": None} if ratio is None else {"low": ratio * 0.9, "high": ratio * 1.1}
    return {
        "metric": metric,
        "unit": "ns",
        "better": better,
        "variant": variant,
        "median": median,
        "ratio": ratio,
        **ends,
    }


def write_comparison(directory: Path, repeats: int = 2) -> None:
    """Two slots against four."""
    for variant, slots in (("static", 2), ("continuous", 4)):
        for number in range(1, repeats + 1):
            write_replay(directory / variant / str(number), slots=slots, rate=60.0)
    metrics = [
        entry("ttft_mean", "static", 400.0 * MS, None),
        entry("ttft_mean", "continuous", 100.0 * MS, 0.25),
        entry("tpot_mean", "static", 10.0 * MS, None),
        entry("tpot_mean", "continuous", 15.0 * MS, 1.5),
        entry("e2e_p99", "static", 500.0 * MS, None),
        entry("e2e_p99", "continuous", 510.0 * MS, 1.02),
        entry("concurrency", "static", 2.0, None, better=None),
        entry("concurrency", "continuous", 4.0, 2.0, better=None),
    ]
    example = {"id": "7", "position": 3, "baseline_token": 5, "variant_token": 6, "gap": 0.0125}
    audit = {
        "variant": "continuous",
        "requests": 120,
        "same": 117,
        "share": 0.975,
        "unmatched": 0,
        "median_gap": 0.0125,
    }
    record = {
        "variants": ["static", "continuous"],
        "baseline": "static",
        "repeats": repeats,
        "metrics": metrics,
        "audit": [{**audit, "examples": [example]}],
        "repeatability": [{"variant": "static", "repeats": repeats, "requests": 120, "same": 120}],
        "notes": ["a step takes longer with more sequences here"],
    }
    (directory / "compare.json").write_text(json.dumps(record), "utf-8")
