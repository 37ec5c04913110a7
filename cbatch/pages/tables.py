"""The figures of a report as tables of text. Knows no HTML."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import chain

import numpy as np

from cbatch.pages.comparison import Comparison, Ratio
from cbatch.pages.files import figure, lookup
from cbatch.pages.load import kv_cells
from cbatch.pages.play import Group, Play, model_name
from cbatch.pages.sweep import Sweep
from cbatch.pages.waterfall import PARTS
from cbatch.pages.words import counted, latency, number, percent, printable, quantity

_PERCENTILES = (50.0, 90.0, 99.0)


@dataclass(frozen=True, slots=True)
class Table:
    """A caption, a header, and rows whose first cell names them."""

    caption: str
    header: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    note: str = ""
    """A sentence below."""


def facts(groups: Sequence[Group]) -> Table:
    """What ran and what came of it, a column a group."""
    ways: dict[str, Callable[[Play], str]] = {
        "Status": lambda play: play.status,
        "Model": model_name,
        "Started": lambda play: printable(str(play.record.get("started") or "–"))[:19].replace("T", " "),
        "Slots": lambda play: str(play.slots),
        "Requests": _requests,
        "Rate asked for": lambda play: _rate(figure(play.total(), "requested_rate")),
        "Rate that came": lambda play: _rate(figure(play.total(), "realised_rate")),
        "Queue": _saturation,
        "Time": lambda play: latency(play.span_ns),
        "Output tokens/s": lambda play: number(play.output_tokens_per_s),
        "Goodput": lambda play: _rate(figure(play.total(), "goodput_rps")),
        "Within the SLO": lambda play: percent(figure(play.total(), "attainment")),
        "Slot utilisation": lambda play: percent(play.run_total("slot_utilisation")),
        "KV used of reserved": _kv_used,
        "Prompt tokens restored": _restored,
        "Preemptions": _preemptions,
    }
    rows = [
        (name, *(way(group.first) if group.has_requests else _alone(name, group, way) for group in groups))
        for name, way in ways.items()
    ]
    told = [row for row in rows if any(cell != "–" for cell in row[1:])]
    return Table("What ran", ("", *(group.label for group in groups)), tuple(told))


def _alone(name: str, group: Group, way: Callable[[Play], str]) -> str:
    """Of a group without requests, only what run.json says."""
    return way(group.first) if name in ("Status", "Model", "Started") else "–"


def _requests(play: Play) -> str:
    ended = f"{play.answered:,} completed, {play.missed:,} not"
    samples = play.requests["row"].size
    return ended if samples == np.unique(play.requests["row"]).size else f"{ended}; {counted(samples, 'sample')}"


def _rate(per_second: float | None) -> str:
    return quantity(per_second, "requests/s")


def _saturation(play: Play) -> str:
    saturated = lookup(play.total(), "saturation", "saturated")
    return "–" if not isinstance(saturated, bool) else "grows to the end: saturated" if saturated else "not saturated"


def _kv_used(play: Play) -> str:
    used, reserved = kv_cells(play)
    return percent(used / reserved) if reserved else "–"


def _restored(play: Play) -> str:
    """Only where there were any."""
    if not play.run_total("restored_tokens"):
        return "–"
    rate, ideal = (percent(play.run_total(name)) for name in ("prefix_hit_rate", "ideal_prefix_hit_rate"))
    return f"{rate}, {ideal} at best"


def _preemptions(play: Play) -> str:
    """Only where there were any."""
    preemptions = play.run_total("preemptions")
    return f"{preemptions:,.0f}" if preemptions else "–"


def latencies(groups: Sequence[Group]) -> Table | None:
    """Percentiles of every group; requests that weren't answered count as infinite."""
    rows = []
    for group in groups:
        for name, title in (("ttft_ns", "TTFT"), ("tpot_ns", "TPOT"), ("e2e_ns", "e2e")):
            if group.completed(name).size and (group.first.is_replay or name != "ttft_ns"):
                found = group.distribution(name)
                who = title if len(groups) == 1 else f"{group.label}: {title}"
                rows.append((who, latency(found.mean_ns), *(latency(found.percentile(p)) for p in _PERCENTILES)))
    note = "Requests that weren't answered count as infinite, so that there is no mean. p99 needs 100 requests."
    header = ("", "mean", *(f"p{p:g}" for p in _PERCENTILES))
    return Table("Latencies", header, tuple(rows), note) if rows else None


def attribution(groups: Sequence[Group]) -> Table | None:
    """Mean of each part of e2e, a column a group."""
    found = [(group.label, group.parts_ns()) for group in groups]
    found = [(label, parts) for label, parts in found if parts]
    if not found:
        return None
    rows = [(PARTS[name][0], *(latency(parts[name]) for _, parts in found)) for name in PARTS]
    total = ("e2e", *(latency(sum(parts.values())) for _, parts in found))
    return Table("Parts of the mean end-to-end latency", ("", *(label for label, _ in found)), (*rows, total))


def rates(sweep: Sweep) -> Table:
    """A row a rate."""
    names = [
        (f"{metric.upper()} {p}", values)
        for metric in ("ttft", "tpot")
        for p, values in sweep.percentiles(metric).items()
    ]
    header = (
        "asked req/s",
        "came req/s",
        *(name for name, _ in names),
        "output tok/s",
        "goodput req/s",
        "within SLO",
        "",
    )
    rows = [
        (
            number(point("request_rate")),
            number(point("realised_rate")),
            *(latency(float(values[i])) for _, values in names),
            number(point("output_tokens_per_s")),
            number(point("goodput_rps")),
            percent(point("attainment")),
            "saturated" if sweep.saturated[i] else "",
        )
        for i, point in enumerate(_point(sweep, i) for i in range(sweep.rates.size))
    ]
    infinite = any(np.isinf(values).any() for _, values in names)
    note = "Requests that weren't answered count as infinite." if infinite else ""
    return Table(f"Rates of {sweep.label}", header, tuple(rows), note)


def _point(sweep: Sweep, index: int) -> Callable[[str], float]:
    return lambda name: float(sweep.points[name][index])


def metrics(comparison: Comparison) -> Table:
    """A row a metric: every variant's median, and its ratio to the baseline with the interval."""
    names = [comparison.baseline, *comparison.others]
    rows = []
    for metric in comparison.metrics:
        found = comparison.of(metric)
        cells = [_cells(found.get(name), name == comparison.baseline) for name in names]
        title = next(iter(found.values())).title
        rows.append((title, *chain.from_iterable(cells)))
    others = [cell for name in comparison.others for cell in (name, "ratio (interval)", "")]
    header = ("", f"{comparison.baseline} (baseline)", *others)
    return Table("Medians over the repetitions, and ratios to the baseline", header, tuple(rows))


def _cells(ratio: Ratio | None, is_baseline: bool) -> tuple[str, ...]:
    if ratio is None:
        return ("–",) if is_baseline else ("–", "–", "")
    median = _quantity(ratio.median, ratio.unit)
    return (median,) if is_baseline else (median, ratio.ratio_text, ratio.verdict)


def _quantity(value: float | None, unit: str) -> str:
    if unit == "ns":
        return latency(value)
    return percent(value) if unit == "share" else quantity(value, unit)


def audit(comparison: Comparison) -> Table | None:
    """A row a variant: how many of its outputs are the baseline's."""
    rows = [
        (
            audit.variant,
            f"{audit.same:,} of {audit.requests:,}",
            percent(audit.share),
            number(audit.median_gap),
            "; ".join(audit.examples) or "–",
        )
        for audit in comparison.audits
    ]
    header = ("", "Same tokens", "Share", "Median gap of logits", "Where they first differ")
    note = (
        "Sums of floating-point numbers depend on the shape of the batch that computes them, so that of two tokens "
        "that are almost equally likely, another one may win; what follows then differs too."
    )
    title = f"Outputs that are the same as those of {comparison.baseline}"
    return Table(title, header, tuple(rows), note) if rows else None


def repeatable(comparison: Comparison) -> Table | None:
    """A row a variant: how many of its outputs were the same in every repetition."""
    rows = [(variant, f"{same:,} of {requests:,}") for variant, requests, same in comparison.repeatable]
    return Table("Outputs that were the same in every repetition", ("", "Requests"), tuple(rows)) if rows else None
