from __future__ import annotations

import io
import json
from collections.abc import Sequence

import pytest
from rich.cells import cell_len
from rich.console import Console

from cbatch.metrics.bootstrap import STATISTICS, Ratio
from cbatch.metrics.compare import METRICS, Comparison, Metric, Row
from cbatch.metrics.divergence import Audit, Difference, Repeatability
from cbatch.report.compare import LABELS, comparison_json, print_comparison

PATHS = {"report": "poisson.cbatch/compare.json"}
VALUES = {"ns": 812e6, "share": 0.743, "slot-steps": 12_345, "sequences": 7.4}
BETTER = (0.523, 0.481, 0.570)
WORSE = (1.25, 1.1, 1.402)
UNSURE = (0.985, 0.91, 1.066)


def make_comparison(
    variants: Sequence[str] = ("static", "continuous"),
    *,
    ratio: tuple[float | None, float | None, float | None] = BETTER,
    repeats: int = 3,
    dropped: int = 0,
    scale: float = 1.0,
    p99: bool = True,
) -> Comparison:
    """Every metric of every variant; the first is the baseline."""

    def rows(metric: Metric, statistic: str | None) -> list[Row]:
        median = VALUES.get(metric.unit, 412.3) * scale
        told = Ratio(*ratio, 100 - dropped, dropped)
        return [Row(metric, statistic, v, median, None if v == variants[0] else told) for v in variants]

    pairs = [(m, s) for m in METRICS for s in ((None,) if m.of_run else STATISTICS) if p99 or s != "p99"]
    return Comparison(tuple(variants), variants[0], repeats, tuple(row for pair in pairs for row in rows(*pair)))


def make_audit(same: int = 97, gaps: Sequence[float | None] = (0.01, 0.002, 0.25), unmatched: int = 0) -> Audit:
    examples = tuple(Difference(str(i), 3 + i, 1, 2, gap) for i, gap in enumerate(gaps))
    return Audit("continuous", 100, same, unmatched, examples)


def printed(
    comparison: Comparison,
    audits: Sequence[Audit] = (),
    repeated: Sequence[Repeatability] = (),
    *,
    width: int = 80,
    styles: bool = False,
) -> list[str]:
    console = Console(file=io.StringIO(), width=width, record=True, force_terminal=True, color_system="standard")
    print_comparison(comparison, audits, PATHS, ["a note"], repeated=repeated, console=console)
    return [line.rstrip() for line in console.export_text(styles=styles).splitlines()]


def line_of(lines: Sequence[str], label: str) -> str:
    return next(line for line in lines if line.startswith(label))


def text_of(lines: Sequence[str]) -> str:
    return " ".join(" ".join(lines).split())


def test_a_row_for_each_metric_with_medians_and_ratios() -> None:
    lines = printed(make_comparison())
    assert lines[0] == "Medians of 3 repetitions, and ratios to static with 95 % intervals"
    assert line_of(lines, "TTFT p99").split() == ["TTFT", "p99", "ms", "812", "812", "0.523", "[0.481,0.570]", "+"]
    assert line_of(lines, "slots busy").split()[2:5] == ["%", "74.3", "74.3"]
    assert line_of(lines, "idle slot-steps").split()[2:4] == ["12,345", "12,345"]
    for label in LABELS.values():
        assert any(line.startswith(label + " ") for line in lines), label


def test_better_and_worse_go_by_the_direction_of_the_metric() -> None:
    lines = printed(make_comparison())
    assert line_of(lines, "TTFT mean").endswith("] +")
    assert line_of(lines, "output tok/s").endswith("] -")
    assert line_of(lines, "running").endswith("]")  # neither is good in itself
    assert line_of(printed(make_comparison(ratio=WORSE)), "TTFT mean").endswith("] -")
    assert line_of(printed(make_comparison(ratio=UNSURE)), "TTFT mean").endswith("[0.910,1.066]")


def test_colours() -> None:
    styled = printed(make_comparison(), styles=True)
    assert any("\x1b[32m0.523" in line for line in styled)
    assert any("\x1b[31m0.523" in line for line in styled)
    plain = printed(make_comparison(ratio=UNSURE), styles=True)
    assert not any("\x1b[32m" in line or "\x1b[31m" in line for line in plain)


def test_a_ratio_without_an_interval_and_no_ratio() -> None:
    assert line_of(printed(make_comparison(ratio=(1.5, None, None))), "makespan").endswith(" 1.500")
    assert line_of(printed(make_comparison(ratio=(None, None, None))), "makespan").endswith(" -")


VARIANTS = ["sequential", "static", "padded", "continuous", "continuous+chunked", "a name as long as a paragraph"]


def num_tables(lines: Sequence[str]) -> int:
    return sum(line.startswith("   ") and "base" in line for line in lines)


@pytest.mark.parametrize("count", range(1, 7))
@pytest.mark.parametrize("scale", [1e-5, 0.05, 1, 13, 1e4])
@pytest.mark.parametrize("ratio", [BETTER, (1.1, 0.00001, 12_345.6), (1e9, 99_999.4, 1e12)])
def test_it_fits_80_columns(count: int, scale: float, ratio: tuple[float, float, float]) -> None:
    lines = printed(make_comparison(VARIANTS[:count], scale=scale, ratio=ratio), [make_audit()], width=200)
    assert max(cell_len(line) for line in lines) <= 80
    assert "…" not in "".join(lines).replace("a name as long as a…", "")


@pytest.mark.parametrize("count", range(1, 7))
def test_two_variants_stand_beside_the_baseline(count: int) -> None:
    assert num_tables(printed(make_comparison(VARIANTS[:count]))) == max(1, count // 2)


def test_a_narrow_terminal_has_one_variant_a_table() -> None:
    lines = printed(make_comparison(VARIANTS[:4]), width=60)
    assert max(cell_len(line) for line in lines) <= 60
    assert num_tables(lines) == 3
    assert "…" not in "".join(lines)


def test_any_name_can_be_shown_on_any_terminal() -> None:
    names = ("stätic\x1b[2J", "[bold]größer als der Rest, und zwar viel[/bold]")
    file = io.BytesIO()
    console = Console(file=io.TextIOWrapper(file, encoding="ascii", write_through=True), width=80)
    print_comparison(make_comparison(names), [Audit(names[1], 9, 9, 0, ())], {}, console=console)
    text = file.getvalue().decode("ascii")
    assert "\x1b" not in text
    assert "[bold]gr\\xf6" in text


def test_one_repetition_says_what_it_cannot_know() -> None:
    text = text_of(printed(make_comparison(repeats=1)))
    assert text.startswith("One repetition, and ratios to static")
    assert "Repeat at least 3 times." in text
    assert "One repetition" not in text_of(printed(make_comparison()))


def test_what_was_dropped_and_what_is_missing_is_told() -> None:
    text = text_of(printed(make_comparison(dropped=12)))
    assert "continuous: 12 of 100 requests didn't complete in every repetition of both, and are left out" in text
    assert "left out" not in text_of(printed(make_comparison()))
    assert "No p99 of requests: it needs 100 that completed." in text_of(printed(make_comparison(p99=False)))
    assert "No p99" not in text_of(printed(make_comparison()))


@pytest.mark.parametrize(
    ("audit", "expected"),
    [
        (make_audit(100, ()), "continuous: 100 of 100 outputs are the same tokens as those of static."),
        (
            make_audit(),
            "97 of 100 outputs are the same tokens as those of static; the first difference of the 3 others has a "
            "logit gap of 0.01 in the median, 0.25 at most.",
        ),
        (make_audit(99, [0.031]), "; the first difference of the other one has a logit gap of 0.031."),
        (make_audit(60, [0.01, None, 0.03]), " in the median, 0.03 at most (2 looked at)."),
        (make_audit(98, [None, None]), "; the first difference of the 2 others is at tokens 4 to 5."),
        (make_audit(99, [None]), "; the first difference of the other one is at token 4."),
        (make_audit(100, (), unmatched=7), "those of static; 7 more completed in one of the two only."),
    ],
)
def test_audits(audit: Audit, expected: str) -> None:
    text = text_of(printed(make_comparison(), [audit]))
    assert expected in text
    assert ("Floating-point sums depend on the shape of the batch" in text) == (audit.same < 100)


def test_repeatability() -> None:
    text = text_of(printed(make_comparison(), repeated=[Repeatability("static", 3, 100, 98)]))
    assert "static: 98 of 100 outputs are the same in all 3 repetitions. Floating-point sums" in text
    assert "repetitions." not in text_of(printed(make_comparison(), repeated=[Repeatability("static", 1, 100, 100)]))


def test_json_is_one_object() -> None:
    repeated = [Repeatability("static", 3, 100, 98)]
    line = comparison_json(make_comparison(), [make_audit()], PATHS, ["a note"], repeated=repeated)
    assert "\n" not in line
    record = json.loads(line)
    assert (record["baseline"], record["variants"], record["repeats"]) == ("static", ["static", "continuous"], 3)
    assert record["metrics"][1]["ratio"] == 0.523
    assert record["audit"][0]["share"] == 0.97
    assert record["repeatability"] == [{"variant": "static", "repeats": 3, "requests": 100, "same": 98}]
    assert (record["paths"], record["notes"]) == (PATHS, ["a note"])
