"""A finished replay, on stdout: for people as tables, for programs as JSON. Knows no progress."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from rich.console import Console, RenderableType
from rich.table import Table
from rich.text import Text

from cbatch.metrics import Distribution, ReplaySummary
from cbatch.metrics.percentiles import label
from cbatch.report.attribution import attribution_table
from cbatch.report.kv import kv_facts
from cbatch.report.latencies import METRICS, milliseconds, objectives_text, significant, too_few
from cbatch.report.layout import WIDTH, Paths, facts, figures, has_blocks, json_line, print_endings, width_of
from cbatch.report.text import duration, percent, rate

Latencies = Mapping[str, Distribution]
Group = list[RenderableType]


def replay_summary_json(summary: ReplaySummary, paths: Paths, notes: Sequence[str] = ()) -> str:
    """One JSON object in one line: the fields of `ReplaySummary.to_dict()`, `paths` and `notes`."""
    return json_line(summary.to_dict(), paths, notes)


def print_replay_summary(
    summary: ReplaySummary, paths: Paths, notes: Sequence[str] = (), *, console: Console | None = None
) -> None:
    """At most 80 columns wide, but for paths, which aren't cut or wrapped."""
    console = console if console is not None else Console()
    width = width_of(console)
    console.print(_facts(summary), width=width)
    for group in (_warning(summary), _throughput(summary), *_latency_groups(summary, width)):
        _print_group(console, group, width)
    if summary.completed > 0:
        _print_group(console, _attribution(summary, width, blocks=has_blocks(console)), width)
    print_endings(console, notes, paths)


def _print_group(console: Console, group: Group, width: int) -> None:
    """What belongs together, after an empty line."""
    if group:
        console.print()
    for part in group:
        console.print(part, width=width)


def _warning(summary: ReplaySummary) -> Group:
    found = summary.saturation
    if found is None or not found.saturated:
        return []
    return [
        Text(
            f"Saturated: the queue grew from {found.queue_middle:,} to {found.queue_end:,} while requests still "
            "arrived. The latencies below say how long the run was, not how the system behaves.",
            style="red",
        )
    ]


def _latency_groups(summary: ReplaySummary, width: int) -> list[Group]:
    """A table for each set of requests, and under the last one why figures are missing."""
    if summary.completed == 0:
        return []
    sets = [(f"Latency of {summary.completed:,} completed requests", summary.latencies)]
    missed = _counts((summary.failed, "failed"), (summary.unfinished, "unfinished"))
    if missed:
        sets.append((f"The same with {missed.replace(', ', ' and ')} as infinite", summary.adjusted))
    if summary.steady is not None and summary.steady.arrived < summary.arrived:
        sets.append((f"Of {summary.steady.arrived:,} that arrived in steady state", summary.steady.latencies))
    groups: list[Group] = [[_title(title), _latency_table(found, width)] for title, found in sets]
    missing = too_few([distribution for _, found in sets for distribution in found.values()])
    if missing is not None:
        groups[-1].append(_note(missing))
    return groups


def _attribution(summary: ReplaySummary, width: int, *, blocks: bool) -> Group:
    whole = milliseconds(sum(summary.attribution.values()))
    title = _title(f"Where the {whole} of a completed request went, in the mean")
    return [title, attribution_table(summary.attribution, width, blocks=blocks)]


def _title(text: str) -> Text:
    return Text(text, style="bold")


def _note(text: str) -> Text:
    return Text(text, style="dim")


def _facts(summary: ReplaySummary) -> Table:
    run = summary.run
    rows = [
        ("requests", _requests(summary)),
        ("finished", ", ".join(f"{reason} {count:,}" for reason, count in run.finish_reasons.items()) or "-"),
        ("tokens", f"{run.prompt_tokens:,} prompt, {run.output_tokens:,} output"),
        ("time", _time(summary)),
        ("rate", _rate(summary)),
        ("slip", _slip(summary.slip)),
        ("load", _load(summary)),
        ("queue", _queue(summary)),
        ("used", _used(summary)),
        *kv_facts(run),
    ]
    if summary.goodput_rps is not None:
        rows.append(("goodput", _goodput(summary)))
    return facts(rows)


def _counts(*parts: tuple[int, str]) -> str:
    """`4 failed, 3 unfinished`; what there is none of is left out."""
    return ", ".join(f"{count:,} {name}" for count, name in parts if count)


def _requests(summary: ReplaySummary) -> str:
    ended = _counts((summary.completed, "completed"), (summary.failed, "failed"), (summary.unfinished, "unfinished"))
    return f"{summary.arrived:,} arrived" + (f": {ended}" if ended else "")


def _time(summary: ReplaySummary) -> str:
    seconds = summary.run.duration_ns / 1e9
    clock = f" ({duration(seconds)})" if seconds >= 60 else ""
    return f"{seconds:,.1f} s{clock} from the first arrival to the last end"


def _rate(summary: ReplaySummary) -> str:
    arrived = f"{significant(summary.realised_rate)} requests/s arrived"
    if summary.requested_rate is None:
        return arrived
    return f"{arrived}, {significant(summary.requested_rate)} asked for"


def _slip(slip: Distribution) -> str:
    shown = [f"{label(p)} {milliseconds(value)}" for p, value in slip.percentiles if value is not None]
    return ", ".join([f"mean {milliseconds(slip.mean_ns)}", *shown])


def _load(summary: ReplaySummary) -> str:
    return f"at most {summary.peak_running:,} running, {summary.peak_waiting:,} waiting"


def _queue(summary: ReplaySummary) -> str:
    found = summary.saturation
    if found is None:
        return "can't be judged: too few, too short, all at once, or a closed loop"
    verdict = "saturated" if found.saturated else "not saturated"
    return f"{verdict}: {found.queue_middle:,} waiting halfway, {found.queue_end:,} at the last arrival"


def _used(summary: ReplaySummary) -> str:
    slots, kv = percent(summary.run.slot_utilisation), percent(summary.run.kv_utilisation)
    return f"engine {percent(summary.busy_share)} of the time, slots {slots} in steps, {kv} of reserved KV"


def _goodput(summary: ReplaySummary) -> str:
    met = f"{percent(summary.attainment)} of those arrived met {objectives_text(summary.objectives)}"
    return f"{significant(summary.goodput_rps)} requests/s; {met}"


def _throughput(summary: ReplaySummary) -> Group:
    """The whole run, and the steady state beside it."""
    table = figures("", ("requests/s", "output tok/s", "all tok/s", "running", "during"))
    run, steady = summary.run, summary.steady
    whole = (rate(run.output_tokens_per_s), rate(run.total_tokens_per_s), significant(run.concurrency))
    table.add_row("whole", significant(run.requests_per_s), *whole, milliseconds(run.duration_ns))
    if steady is None:
        return [table, _note(f"No steady state: {summary.no_steady_state}.")]
    kept = (rate(steady.output_tokens_per_s), "", significant(steady.concurrency))
    lasted = milliseconds(steady.end_ns - steady.start_ns)
    table.add_row("steady", significant(steady.requests_per_s), *kept, lasted)
    return [table]


def _latency_table(latencies: Latencies, width: int) -> Table:
    """Metrics side by side, so that as many percentiles as asked for have room; a metric that isn't there is blank."""
    table = figures("", list(METRICS.values()), min_width=9 if width == WIDTH else 0)
    shown = [latencies.get(name) for name in METRICS]
    if any(found is not None and found.mean_ns is not None for found in shown):
        table.add_row("mean", *("" if found is None else milliseconds(found.mean_ns) for found in shown))
    for p, _ in latencies["e2e_ns"].percentiles:
        table.add_row(label(p), *("" if found is None else milliseconds(found.percentile(p)) for found in shown))
    return table
