"""Simulated replays, on stdout: for people as tables, for programs as JSON; and how far to trust them."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from types import MappingProxyType

from rich.console import Console
from rich.table import Table
from rich.text import Text

from cbatch.metrics import ReplaySummary
from cbatch.report.latencies import METRICS, milliseconds, significant
from cbatch.report.layout import Paths, figures, json_line, print_endings, printable, width_of
from cbatch.report.replay_summary import print_replay_summary
from cbatch.report.sweep import Points, print_sweep, sweep_json
from cbatch.report.text import one_line, percent, rate
from cbatch.sim.agreement import Agreement
from cbatch.sim.measured import Deviation

NO_PATHS: Paths = MappingProxyType({})
"""Of what isn't kept."""
_MEANS = ("ttft_ns", "tpot_ns", "e2e_ns")
_NAMES = {"requests_per_s": "requests/s", "output_tokens_per_s": "output tok/s"}


def simulation_json(
    summary: ReplaySummary,
    error: Deviation | None,
    measured: Sequence[Agreement] = (),
    notes: Sequence[str] = (),
    paths: Paths = NO_PATHS,
) -> str:
    """One JSON object in one line: `ReplaySummary.to_dict()`, `model_error` (null where it isn't known), `measured`
    (predicted and measured figures by name; empty where there is nothing to compare with), `paths` and `notes`."""
    record = {
        **summary.to_dict(),
        "model_error": _error_record(error),
        "measured": {each.name: {**each._asdict(), "off": each.off} for each in measured},
    }
    return json_line(record, paths, notes)


def print_simulation(
    summary: ReplaySummary,
    error: Deviation | None,
    measured: Sequence[Agreement] = (),
    notes: Sequence[str] = (),
    paths: Paths = NO_PATHS,
    *,
    console: Console | None = None,
) -> None:
    """The replay's summary, and below it what speaks for it; at most 80 columns wide."""
    console = console if console is not None else Console()
    print_replay_summary(summary, {}, console=console)
    _print_trust(error, measured, console)
    print_endings(console, notes, paths)


def variants_json(
    found: Mapping[str, ReplaySummary],
    error: Deviation | None,
    notes: Sequence[str] = (),
    paths: Paths = NO_PATHS,
) -> str:
    """One JSON object in one line: `variants` (`ReplaySummary.to_dict()` by name), `model_error`, `paths`, `notes`."""
    variants = {name: summary.to_dict() for name, summary in found.items()}
    return json_line({"variants": variants, "model_error": _error_record(error)}, paths, notes)


def print_variants(
    found: Mapping[str, ReplaySummary],
    error: Deviation | None,
    notes: Sequence[str] = (),
    paths: Paths = NO_PATHS,
    *,
    console: Console | None = None,
) -> None:
    """A row for each variant; at most 80 columns wide."""
    console = console if console is not None else Console()
    console.print(_variants_table(found, console), width=width_of(console))
    _print_trust(error, (), console)
    print_endings(console, notes, paths)


def sweep_simulation_json(
    points: Points,
    attainment: float,
    error: Deviation | None,
    notes: Sequence[str] = (),
    paths: Paths = NO_PATHS,
) -> str:
    """As `sweep_json`, with `model_error`."""
    record = json.loads(sweep_json(points, attainment, paths, notes))
    return json.dumps({**record, "model_error": _error_record(error)}, allow_nan=False)


def print_sweep_simulation(
    points: Points,
    attainment: float,
    error: Deviation | None,
    notes: Sequence[str] = (),
    paths: Paths = NO_PATHS,
    *,
    console: Console | None = None,
) -> None:
    """A row for each rate."""
    console = console if console is not None else Console()
    print_sweep(points, attainment, {}, console=console)
    _print_trust(error, (), console)
    print_endings(console, notes, paths)


def _error_record(error: Deviation | None) -> dict[str, float] | None:
    return None if error is None else error._asdict()


def _print_trust(error: Deviation | None, measured: Sequence[Agreement], console: Console) -> None:
    width = width_of(console)
    console.print()
    console.print(Text(_error_text(error), style="dim"), width=width)
    if measured:
        console.print()
        console.print(_agreement_table(measured), width=width)


def _error_text(error: Deviation | None) -> str:
    if error is None:
        return "The profile doesn't say how far its step costs are from measured steps."
    steps = f"{error.steps:,} measured steps that it wasn't fitted to"
    return (
        f"The cost model is off by {percent(error.mean)} of a step's time in the mean, p90 {percent(error.p90)}, "
        f"and by {_signed(error.total)} of the time of all, on {steps}."
    )


def _agreement_table(measured: Sequence[Agreement]) -> Table:
    table = figures("the same replay", ["predicted", "measured", "off"])
    for each in measured:
        show = significant if each.name in _NAMES else milliseconds
        name = _NAMES.get(each.name) or f"{METRICS[each.name]} mean"
        table.add_row(name, show(each.predicted), show(each.measured), _signed(each.off))
    return table


def _variants_table(found: Mapping[str, ReplaySummary], console: Console) -> Table:
    """Long names go on in the next line, so that figures keep their room."""
    has_objectives = any(summary.attainment is not None for summary in found.values())
    means = [METRICS[name] for name in _MEANS]
    table = figures("means", ["req/s", "output tok/s", *means, "slots", *(["SLO"] if has_objectives else [])])
    table.columns[0].no_wrap, table.columns[0].overflow = False, "fold"
    for name, summary in found.items():
        cells = [milliseconds(summary.latencies[metric].mean_ns) for metric in _MEANS]
        slots = percent(summary.run.slot_utilisation)
        met = [percent(summary.attainment)] if has_objectives else []
        throughput = significant(summary.run.requests_per_s), rate(summary.run.output_tokens_per_s)
        table.add_row(Text(printable(one_line(name), console)), *throughput, *cells, slots, *met)
    return table


def _signed(share: float) -> str:
    """`+1.4%`."""
    return f"{100 * share:+.1f}%"
