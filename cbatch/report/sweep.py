"""Replays of one trace at several rates, as a table: where the latency turns up, and which rate still holds the SLO."""

from __future__ import annotations

from collections.abc import Sequence

from rich.console import Console
from rich.table import Table
from rich.text import Text

from cbatch.metrics import ReplaySummary
from cbatch.metrics.percentiles import label
from cbatch.replay import bracket, holds
from cbatch.report.latencies import milliseconds, objectives_text, significant, too_few
from cbatch.report.layout import Paths, json_line, print_endings, width_of
from cbatch.report.text import percent, rate

Points = Sequence[tuple[float, ReplaySummary]]
"""Requests per second asked for, and what came of it; every rate once."""


def _bracket(points: Points, attainment: float) -> tuple[float | None, float | None]:
    """The highest rate that holds below the lowest that doesn't, and that one; None where there is none."""
    held = {asked: holds(summary, attainment) for asked, summary in points}
    return bracket({asked: held_here for asked, held_here in held.items() if held_here is not None})


def sweep_json(points: Points, attainment: float, paths: Paths, notes: Sequence[str] = ()) -> str:
    """One JSON object in one line: `points` (the fields of `ReplaySummary.to_dict()`, with the `rate` asked for and
    whether it `holds`), ascending, `capacity`, `paths` and `notes`."""
    highest, failing = _bracket(points, attainment)
    record = {
        "points": [
            {"rate": asked, "holds": holds(summary, attainment), **summary.to_dict()}
            for asked, summary in _ascending(points)
        ],
        "capacity": {"rate": highest, "failing": failing, "attainment": attainment},
    }
    return json_line(record, paths, notes)


def print_sweep(
    points: Points, attainment: float, paths: Paths, notes: Sequence[str] = (), *, console: Console | None = None
) -> None:
    """A row for each rate, ascending, and the highest that holds; at most 80 columns wide, but for paths."""
    console = console if console is not None else Console()
    width = width_of(console)
    highest, failing = _bracket(points, attainment)
    console.print(_table(points, attainment, highest), width=width)
    for line in _footnotes(points):
        console.print(Text(line, style="dim"), width=width)
    if points and points[0][1].objectives.limits_ns:
        console.print()
        console.print(_capacity(points, attainment, highest, failing), width=width)
    print_endings(console, notes, paths)


def _ascending(points: Points) -> Points:
    return sorted(points, key=lambda point: point[0])


def _table(points: Points, attainment: float, highest: float | None) -> Table:
    shown = _percentiles(points)
    table = Table(box=None, pad_edge=False, padding=(0, 1, 0, 0), header_style="dim")
    names = [f"{metric}\n{label(p)}" for metric in ("TTFT", "TPOT") for p in shown]
    for name in ("asked\nreq/s", "came\nreq/s", "done\n", *names, "output\ntok/s", "good\nreq/s", "met\nSLO"):
        table.add_column(name, justify="right", no_wrap=True)
    table.add_column("", no_wrap=True)
    for asked, summary in _ascending(points):
        best = asked == highest
        table.add_row(*_cells(asked, summary, shown), _verdict(summary, attainment, best), style="bold" if best else "")
    return table


def _percentiles(points: Points) -> list[float]:
    """Of those asked for, the median (else the lowest) and the highest."""
    asked = sorted(p for p, _ in points[0][1].slip.percentiles) if points else []
    return sorted({50.0 if 50.0 in asked else asked[0], asked[-1]}) if asked else []


def _cells(asked: float, summary: ReplaySummary, shown: Sequence[float]) -> list[str]:
    latencies = [milliseconds(summary.adjusted[name].percentile(p)) for name in ("ttft_ns", "tpot_ns") for p in shown]
    return [
        significant(asked),
        significant(summary.realised_rate),
        f"{summary.completed:,}",
        *latencies,
        rate(summary.run.output_tokens_per_s),
        significant(summary.goodput_rps),
        percent(summary.attainment),
    ]


def _verdict(summary: ReplaySummary, attainment: float, best: bool) -> Text:
    if summary.saturation is not None and summary.saturation.saturated:
        return Text("saturated", "red")
    held = holds(summary, attainment)
    if held is None:
        return Text()
    return Text("best" if best else "holds", "green") if held else Text("fails", "yellow")


def _footnotes(points: Points) -> list[str]:
    found = []
    missed = sum(summary.failed + summary.unfinished for _, summary in points)
    if missed:
        found.append(f"Latencies count the {missed:,} requests that failed or were unfinished as infinite.")
    shown = set(_percentiles(points))
    reasons = too_few([summary.adjusted[name] for _, summary in points for name in ("ttft_ns", "tpot_ns")], shown)
    return [*found, *([] if reasons is None else [reasons])]


def _capacity(points: Points, attainment: float, highest: float | None, failing: float | None) -> Text:
    slo = f"{percent(attainment)} of requests within {objectives_text(points[0][1].objectives)}, the queue not growing"
    if highest is None and failing is None:
        return Text("No rate can be judged: no request arrived. Give more of them, or a longer --duration.", "yellow")
    if highest is None:
        return Text(f"No rate held: {slo}. The lowest that failed is {significant(failing)} requests/s.", "yellow")
    end = "the highest tried" if failing is None else f"{significant(failing)} failed"
    return Text(f"Highest rate that held: {significant(highest)} requests/s ({end}), with {slo}.", "bold")
