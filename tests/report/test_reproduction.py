"""The table of a published study."""

from __future__ import annotations

import io
import json

from rich.console import Console

from cbatch.metrics.bootstrap import Ratio
from cbatch.metrics.reproduction import NO_RATIO, RATE_AT_LATENCY, Finding, Reproduction
from cbatch.report.reproduction import print_reproduction, reproduction_json

PATHS = {"preset": "seed.preset/preset.json"}


def make_reproduction(*, repeats: int = 3, capacity: float | None = 2.5) -> Reproduction:
    medians = {"static": 2.5e9, "continuous": 0.5e9}
    rates = {"static": None, "continuous": 2.25}
    findings = (
        Finding("load-0.5", "ttft_mean", "ns", medians, Ratio(0.2, 0.18, 0.22, 3, 0), 0.2),
        Finding("load-0.95", "ttft_mean", "ns", medians, NO_RATIO._replace(ratio=0.2), None),
        Finding("all", RATE_AT_LATENCY, "requests/s", rates, NO_RATIO, 36.9),
    )
    return Reproduction("seed", "A study", "other hardware.", 0.25, 64, repeats, capacity, findings, 128, 127)


def printed(found: Reproduction) -> list[str]:
    file = io.StringIO()
    print_reproduction(found, PATHS, ["a note"], console=Console(file=file, width=200))
    return file.getvalue().splitlines()


def row(lines: list[str], name: str) -> list[str]:
    (line,) = (line for line in lines if line.startswith(name))
    return line.removeprefix(name).split()


def test_the_table_has_measured_and_published_ratios() -> None:
    lines = printed(make_reproduction())
    assert all(len(line) <= 80 for line in lines)
    assert row(lines, "TTFT mean") == ["static", "continuous", "ratio", "published"]
    assert row(lines, "load-0.5") == ["2.50", "s", "500", "ms", "0.20", "[0.18,", "0.22]", "0.20"]
    assert row(lines, "load-0.95") == ["2.50", "s", "500", "ms", "0.20", "-"]
    assert row(lines, "at 2x idle e2e/token") == ["-", "2.25", "-", "36.90"]


def test_it_says_what_was_played_and_why_ratios_differ() -> None:
    text = " ".join(printed(make_reproduction()))
    assert "64 requests a point, each 3 times, lengths 0.25 of the published ones" in text
    assert "shares of 2.50 requests/s" in text
    assert "other hardware." in text
    assert "127 of 128 outputs are the same" in text
    assert "a note" in text
    assert "preset.json" in text


def test_it_says_what_there_is_only() -> None:
    text = " ".join(printed(make_reproduction(repeats=1, capacity=None)))
    assert "each once" in text
    assert "shares of" not in text


def test_json_is_the_record_with_paths_and_notes() -> None:
    found = make_reproduction()
    record = json.loads(reproduction_json(found, PATHS, ["a note"]))
    assert record == {**json.loads(json.dumps(found.to_dict())), "paths": PATHS, "notes": ["a note"]}
