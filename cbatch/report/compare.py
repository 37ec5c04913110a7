"""Variants of a run beside each other, on stdout: for people as tables, for programs as JSON. Knows no runs."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from rich.console import Console
from rich.table import Table
from rich.text import Text

from cbatch.metrics.bootstrap import Ratio
from cbatch.metrics.compare import Comparison, Row
from cbatch.metrics.divergence import Audit, Repeatability
from cbatch.metrics.percentiles import values_needed
from cbatch.report.latencies import significant
from cbatch.report.layout import Paths, json_line, print_endings, printable, width_of
from cbatch.report.text import fit, one_line

LABELS = {
    "output_throughput": "output tok/s",
    "request_throughput": "requests/s",
    "makespan": "makespan",
    "goodput": "good req/s",
    "attainment": "SLO met",
    "ttft_mean": "TTFT mean",
    "ttft_p50": "TTFT p50",
    "ttft_p90": "TTFT p90",
    "ttft_p99": "TTFT p99",
    "tpot_mean": "TPOT mean",
    "tpot_p99": "TPOT p99",
    "itl_pooled_p99": "ITL p99",
    "longest_stall": "stall",
    "e2e_mean": "e2e mean",
    "e2e_p99": "e2e p99",
    "queue_mean": "queue mean",
    "slot_utilisation": "slots busy",
    "idle_slot_steps": "idle slot-steps",
    "kv_utilisation": "KV used",
    "concurrency": "running",
}
"""What the table shows, and what it's called there, without units of time and shares. The JSON has everything."""

NAME = 20
_STYLES = {"better": "green", "worse": "red", None: ""}
_MARKS = {"better": " +", "worse": " -", None: "  "}
_WHY_DIFFERENT = (
    "Floating-point sums depend on the shape of the batch they are computed in, so where two tokens are almost "
    "equally likely, another batch can pick the other one, and what follows differs."
)


def comparison_json(
    comparison: Comparison,
    audits: Sequence[Audit],
    paths: Paths,
    notes: Sequence[str] = (),
    *,
    repeated: Sequence[Repeatability] = (),
) -> str:
    """One JSON object in one line: `Comparison.to_dict()` with `audit`, `repeatability`, `paths` and `notes`."""
    outputs = {"audit": [a.to_dict() for a in audits], "repeatability": [r.to_dict() for r in repeated]}
    return json_line({**comparison.to_dict(), **outputs}, paths, notes)


def print_comparison(
    comparison: Comparison,
    audits: Sequence[Audit],
    paths: Paths,
    notes: Sequence[str] = (),
    *,
    repeated: Sequence[Repeatability] = (),
    console: Console | None = None,
) -> None:
    """At most 80 columns wide, but for paths."""
    console = console if console is not None else Console()
    width = width_of(console)
    _print_lines(console, [_title(comparison)], width, "bold")
    for table in _tables(comparison, console, width):
        console.print()
        console.print(table, width=width)
    for lines, style in ((_footnotes(comparison), "dim"), (_outputs(comparison.baseline, audits, repeated), "")):
        if lines:
            console.print()
        _print_lines(console, lines, width, style)
    print_endings(console, notes, paths)


def _print_lines(console: Console, lines: Sequence[str], width: int, style: str) -> None:
    """Whatever the names of variants are."""
    for line in lines:
        console.print(Text(printable(one_line(line), console), style=style), width=width)


def _title(comparison: Comparison) -> str:
    repeats = comparison.repeats
    medians = "One repetition" if repeats == 1 else f"Medians of {repeats:,} repetitions"
    return f"{medians}, and ratios to {comparison.baseline} with 95 % intervals"


def _tables(comparison: Comparison, console: Console, width: int) -> list[Table]:
    """Two variants beside the baseline in each, or one where two don't fit; the baseline alone where it's the only."""
    others = [variant for variant in comparison.variants if variant != comparison.baseline]
    single = [_table(comparison, others[i : i + 1], console) for i in range(max(1, len(others)))]
    double = [_table(comparison, others[i : i + 2], console) for i in range(0, max(1, len(others)), 2)]
    roomy = console.options.update(max_width=2 * width)
    return double if all(console.measure(table, options=roomy).maximum <= width for table in double) else single


def _table(comparison: Comparison, variants: Sequence[str], console: Console) -> Table:
    table = Table(box=None, pad_edge=False, padding=(0, 1, 0, 0), header_style="dim")
    table.add_column("\n", style="bold", no_wrap=True)
    table.add_column("base\nmedian", justify="right", no_wrap=True)
    for variant in variants:
        table.add_column("\nmedian", justify="right", no_wrap=True)
        table.add_column(Text(printable(fit(variant, NAME), console) + "\nratio"), no_wrap=True)
    for key, label in LABELS.items():
        rows = {row.variant: row for row in comparison.rows if row.key == key}
        if rows:
            table.add_row(*_cells(label, rows, comparison.baseline, variants))
    return table


def _cells(label: str, rows: dict[str, Row], baseline: str, variants: Sequence[str]) -> Iterator[str | Text]:
    """All medians of a row have one unit, told beside its name."""
    unit, divisor = _scale(list(rows.values()))
    yield f"{label} {unit}".rstrip()
    yield _figure(rows[baseline].median, divisor)
    for variant in variants:
        row = rows[variant]
        yield _figure(row.median, divisor)
        yield Text(_ratio(row.ratio) + _MARKS[row.verdict], _STYLES[row.verdict])


def _scale(rows: Sequence[Row]) -> tuple[str, float]:
    """The unit in which the greatest median is easy to read, and what to divide by."""
    if rows[0].metric.unit == "share":
        return "%", 0.01
    if rows[0].metric.unit != "ns":
        return "", 1
    greatest = max((row.median for row in rows if row.median is not None), default=0.0)
    return ("ms", 1e6) if greatest < 10e9 else ("s", 1e9)


def _figure(value: float | None, divisor: float) -> str:
    """Three digits, in 6 columns at most up to 10^12."""
    shown = None if value is None else value / divisor
    for limit, size, suffix in ((1e9, 1e9, "G"), (1e6, 1e6, "M"), (1e5, 1e3, "k")):
        if shown is not None and shown >= limit:
            return significant(shown / size) + suffix
    return significant(shown)


def _ratio(ratio: Ratio | None) -> str:
    """`0.523 [0.481,0.570]`; `0.523` where there is no interval."""
    if ratio is None or ratio.ratio is None:
        return "-"
    if ratio.low is None or ratio.high is None:
        return _digits(ratio.ratio)
    return f"{_digits(ratio.ratio)} [{_digits(ratio.low)},{_digits(ratio.high)}]"


def _digits(ratio: float) -> str:
    """In 6 columns at most: three decimals below 10, then one, then none; what has no room, as a power of ten."""
    if 0 < ratio < 0.0005 or ratio >= 99_999.5:
        return f"{ratio:.0e}"
    return f"{ratio:.3f}" if ratio < 9.9995 else f"{ratio:.1f}" if ratio < 999.95 else f"{ratio:,.0f}"


def _footnotes(comparison: Comparison) -> list[str]:
    found = [f"+ better than {comparison.baseline}, - worse: the interval excludes 1. Elsewhere no difference is seen."]
    if comparison.repeats == 1:
        found.append(
            "One repetition: how much runs differ from each other isn't in the intervals, and that alone can make "
            "a difference look sure. Figures of the whole run have none. Repeat at least 3 times."
        )
    if {"e2e_p90", "e2e_p99"} - {row.key for row in comparison.rows} == {"e2e_p99"}:
        found.append(f"No p99 of requests: it needs {values_needed(99):,} that completed.")
    return [*found, *_dropped(comparison)]


def _dropped(comparison: Comparison) -> Iterator[str]:
    """Requests that the ratios leave out, by variant; every request that completed has an e2e."""
    for row in comparison.rows:
        if row.key == "e2e_mean" and row.ratio is not None and row.ratio.dropped:
            yield (
                f"{row.variant}: {row.ratio.dropped:,} of {row.ratio.pairs + row.ratio.dropped:,} requests didn't "
                "complete in every repetition of both, and are left out of the ratios of latencies."
            )


def _outputs(baseline: str, audits: Sequence[Audit], repeated: Sequence[Repeatability]) -> list[str]:
    compared: list[Audit | Repeatability] = [*audits, *repeated]
    lines = [_audit(baseline, audit) for audit in audits]
    lines += [_repeatability(found) for found in repeated if found.repeats > 1]
    return [*lines, _WHY_DIFFERENT] if any(found.same < found.requests for found in compared) else lines


def _audit(baseline: str, audit: Audit) -> str:
    text = f"{audit.variant}: {audit.same:,} of {audit.requests:,} outputs are the same tokens as those of {baseline}"
    if audit.same < audit.requests:
        text += f"; {_difference(audit)}"
    if audit.unmatched:
        text += f"; {audit.unmatched:,} more completed in one of the two only"
    return text + "."


def _difference(audit: Audit) -> str:
    others, gaps = audit.requests - audit.same, len(audit.gaps)
    which = "the other one" if others == 1 else f"the {others:,} others"
    if audit.median_gap is None or audit.max_gap is None:
        return f"the first difference of {which} is at {_places(audit)}"
    seen = "" if gaps == others else f" ({gaps:,} looked at)"
    told = f"{audit.median_gap:.2g}" + ("" if gaps == 1 else f" in the median, {audit.max_gap:.2g} at most")
    return f"the first difference of {which} has a logit gap of {told}{seen}"


def _places(audit: Audit) -> str:
    """Where the examples part, counted from 1."""
    places = sorted(example.position + 1 for example in audit.examples)
    return f"token {places[0]:,}" if len(places) == 1 else f"tokens {places[0]:,} to {places[-1]:,}"


def _repeatability(found: Repeatability) -> str:
    same = f"{found.same:,} of {found.requests:,} outputs"
    return f"{found.variant}: {same} are the same in all {found.repeats:,} repetitions."
