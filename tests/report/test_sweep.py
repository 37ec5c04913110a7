from __future__ import annotations

import io
import json
from typing import Any

import pytest
from rich.cells import cell_len
from rich.console import Console

from cbatch.metrics import Objectives, ReplaySummary
from cbatch.report.sweep import Points, print_sweep, sweep_json
from tests.report.replays import make_replay

PATHS = {"sweep": "trace.cbatch/sweep.json"}


def point(
    asked: float,
    attainment: float | None,
    *,
    saturated: bool = False,
    unfinished: int = 0,
    completed: int = 996,
    **more: Any,
) -> tuple[float, ReplaySummary]:
    goodput = None if attainment is None else asked * attainment
    fields: dict[str, Any] = {
        "attainment": attainment,
        "goodput_rps": goodput,
        "requested_rate": asked,
        "realised_rate": asked * 1.01,
        **more,
    }
    return asked, make_replay(completed, unfinished=unfinished, saturated=saturated, **fields)


SWEEP = [
    point(16, 0.1, saturated=True, unfinished=120),
    point(1, 1.0),
    point(2, 0.995),
    point(4, 0.99),
    point(8, 0.97),
]


def printed(points: Points, width: int = 80, attainment: float = 0.99) -> list[str]:
    console = Console(file=io.StringIO(), width=width, record=True)
    print_sweep(points, attainment, PATHS, ["a note"], console=console)
    return [line.rstrip() for line in console.export_text().splitlines()]


def cells(line: str) -> list[str]:
    return line.replace(" ms", "ms").replace(" s ", "s ").replace(" %", "%").split()


def test_a_row_for_each_rate_ascending() -> None:
    rows = [cells(line) for line in printed(SWEEP)[2:7]]
    assert rows[0] == ["1.00", "1.01", "996", "500ms", "745ms", "750ms", "1.12s", "412", "1.00", "100%", "holds"]
    assert [row[0] for row in rows] == ["1.00", "2.00", "4.00", "8.00", "16.0"]
    assert [row[-1] for row in rows] == ["holds", "holds", "best", "fails", "saturated"]


def test_requests_that_never_ended_are_in_the_latencies() -> None:
    lines = printed(SWEEP)
    assert cells(lines[6])[3:7] == ["530ms", "inf", "795ms", "inf"]
    assert "Latencies count the 120 requests that failed or were unfinished as infinite." in lines


def test_the_highest_rate_is_named() -> None:
    text = " ".join(" ".join(printed(SWEEP)).split())
    assert (
        "Highest rate that held: 4.00 requests/s (8.00 failed), with 99.0 % of requests within TTFT 500 ms, "
        "TPOT 50 ms, the queue not growing." in text
    )
    assert "(the highest tried)" in " ".join(printed(SWEEP[1:3]))
    assert "No rate held" in " ".join(printed(SWEEP[:1]))
    assert "The lowest that failed is 16.0 requests/s." in " ".join(printed(SWEEP[:1]))


def test_without_objectives_nothing_is_judged() -> None:
    lines = printed([point(asked, None, saturated=asked == 2, objectives=Objectives()) for asked in (1, 2)])
    assert cells(lines[2])[-3:] == ["412", "-", "-"]
    assert cells(lines[3])[-1] == "saturated"
    assert "ighest rate" not in " ".join(lines)


def test_a_rate_without_requests_is_no_verdict() -> None:
    text = " ".join(" ".join(printed([point(1, None), *SWEEP[2:]])).split())
    assert "Highest rate that held: 4.00 requests/s (8.00 failed)" in text
    nothing = " ".join(" ".join(printed([point(1, None), point(2, None)])).split())
    assert "No rate can be judged: no request arrived. Give more of them, or a longer --duration." in nothing


@pytest.mark.parametrize("attainment", [0.5, 0.99])
def test_it_fits_80_columns(attainment: float) -> None:
    points = [
        point(0.1234, 0.9954, completed=42),
        point(1600, 0.9951, completed=12_345),
        point(1700, 0.1, saturated=True),
    ]
    lines = printed(points, 200, attainment)
    assert max(cell_len(line) for line in lines) <= 80
    assert "…" not in "".join(lines)
    assert "- stands for too few: p99 needs 100 values." in lines


def test_json_is_one_object() -> None:
    line = sweep_json(SWEEP, 0.99, PATHS, ["a note"])
    assert "\n" not in line
    record = json.loads(line)
    assert [(p["rate"], p["holds"]) for p in record["points"]] == [
        (1, True),
        (2, True),
        (4, True),
        (8, False),
        (16, False),
    ]
    assert record["capacity"] == {"rate": 4, "failing": 8, "attainment": 0.99}
    assert record["points"][4]["adjusted"]["ttft_ns"]["p99_ns"] == "inf"
    assert record["paths"] == PATHS
    assert record["notes"] == ["a note"]
