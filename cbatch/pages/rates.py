"""Pictures of rate sweeps: latency, goodput, attainment and throughput against the rate, with the SLO."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from cbatch.pages.curves import Curve, curve_keys, draw_curves, draw_limit
from cbatch.pages.files import Column
from cbatch.pages.style import Picture, Theme, legend, legend_height, log_axis, panels, unit_of
from cbatch.pages.sweep import Sweep
from cbatch.pages.waterfall import stacked
from cbatch.pages.words import each, latency, listed, number, percent, quantity

_RATE = "Requests per second asked for"
_TITLES = {"ttft": "Time to first token", "tpot": "Time per output token"}


def latency_by_rate(sweeps: Sequence[Sweep], metric: str) -> Picture | None:
    """Percentiles of `ttft` or `tpot` against the rate: of one sweep all, of several the highest that all have."""
    if len(sweeps) == 1:
        found = [(name, values) for name, values in sweeps[0].percentiles(metric).items() if _finite(values)]
        curves = [Curve(name, sweeps[0], values, index) for index, (name, values) in enumerate(found)]
    else:
        top = _highest_of_all(sweeps, metric)
        curves = [Curve(s.label, s, s.percentiles(metric)[top], i) for i, s in enumerate(sweeps) if top is not None]
    if not curves:
        return None

    def draw(figure: Figure, theme: Theme) -> None:
        axes = figure.subplots()
        scale, unit = unit_of(max(float(np.nanmax(curve.finite)) for curve in curves))
        draw_curves(axes, [curve._replace(values=curve.values / scale) for curve in curves], theme)
        draw_limit(axes, _common([sweep.objective_ns(f"{metric}_ns") for sweep in sweeps]), scale, theme)
        axes.set(xlabel=_RATE, ylabel=f"{_TITLES[metric]} ({unit})", yscale="log")
        log_axis(axes.yaxis)
        legend(figure, curve_keys(curves, theme))

    name = curves[-1].name if len(sweeps) == 1 else _highest_of_all(sweeps, metric)
    title = f"{_TITLES[metric]} against the rate" + (f", {name}" if len(sweeps) > 1 else "")
    sentence = _latency_sentence(curves if len(sweeps) > 1 else curves[-1:], metric, str(name)) + _never_finite(
        sweeps, metric
    )
    return Picture(f"rate-{metric}", title, sentence, draw, 3.0 + legend_height(len(curves) + 2))


def _highest_of_all(sweeps: Sequence[Sweep], metric: str) -> str | None:
    """The highest percentile that every sweep knows at every rate, and that isn't infinite at all of them."""
    known = ({name for name, values in s.percentiles(metric).items() if _known(values)} for s in sweeps)
    return max(set.intersection(*known), key=lambda name: float(name[1:]), default=None)


def served(sweeps: Sequence[Sweep]) -> Picture | None:
    """Requests completed per second, those within the SLO among them, and output tokens per second."""
    sweeps = [sweep for sweep in sweeps if _any(sweep.points["requests_per_s"])]
    if not sweeps:
        return None
    requests, tokens = [], []
    for index, sweep in enumerate(sweeps):
        good, points = index if len(sweeps) > 1 else 1, sweep.points
        requests.append(Curve(_name(sweep, "completed", sweeps), sweep, points["requests_per_s"], index))
        if _any(points["goodput_rps"]):
            name = _name(sweep, "within the SLO", sweeps)
            requests.append(Curve(name, sweep, points["goodput_rps"], good, dashed=True))
        tokens.append(Curve(sweep.label, sweep, points["output_tokens_per_s"], index))

    def draw(figure: Figure, theme: Theme) -> None:
        above, below = panels(figure, 2)
        dotted: dict[str, Any] = {"color": theme.ink, "linewidth": 1, "linestyle": (0, (1, 2))}
        asked = np.geomspace(min(s.rates.min() for s in sweeps), max(s.rates.max() for s in sweeps), 50)
        above.plot(asked, asked, **dotted)
        draw_curves(above, requests, theme)
        top = max(float(np.nanmax(curve.values)) for curve in requests)
        above.set(ylabel="Requests/s", ylim=(0, top * 1.15))
        draw_curves(below, tokens, theme)
        below.set(xlabel=_RATE, ylabel="Output tokens/s")
        below.set_ylim(bottom=0)
        legend(figure, [*curve_keys(requests, theme), ("all that was asked for", Line2D([], [], **dotted))])

    height = 4.2 + legend_height(len(requests) + 2)
    return Picture("rate-served", "Throughput and goodput against the rate", _served_sentence(sweeps), draw, height)


def attainment(sweeps: Sequence[Sweep]) -> Picture | None:
    """The share of requests that meet the SLO against the rate."""
    found = [Curve(s.label, s, s.points["attainment"] * 100, i) for i, s in enumerate(sweeps)]
    curves = [curve for curve in found if _any(curve.values)]
    if not curves:
        return None
    wanted = _common([curve.sweep.wanted for curve in curves])

    def draw(figure: Figure, theme: Theme) -> None:
        axes = figure.subplots()
        draw_curves(axes, curves, theme)
        draw_limit(axes, None if wanted is None else wanted * 100, 1, theme)
        axes.set(xlabel=_RATE, ylabel="Requests within the SLO (%)", ylim=(0, 103))
        keys = curve_keys(curves, theme)[0 if len(curves) > 1 else 1 :]
        if keys:
            legend(figure, keys)

    title, sentence = "Requests within the SLO against the rate", _attainment_sentence(curves, wanted)
    return Picture("rate-slo", title, sentence, draw, 3.0 + legend_height(len(curves) + 1))


def attribution_by_rate(sweep: Sweep, sweeps: Sequence[Sweep]) -> Picture | None:
    """Where the mean request's time went at each rate."""
    found = zip(sweep.rates.tolist(), sweep.parts_ns(), strict=True)
    bars = [(quantity(rate, "req/s"), parts) for rate, parts in found if sum(parts.values()) > 0]
    title = "Where the time of a request went, by rate" + (f" ({sweep.label})" if len(sweeps) > 1 else "")
    name = _name(sweep, "rate-attribution", sweeps)
    return stacked(name, title, bars, [bars[0], bars[-1]]) if bars else None


def _name(sweep: Sweep, name: str, sweeps: Sequence[Sweep]) -> str:
    return name if len(sweeps) == 1 else f"{sweep.label}, {name}"


def _common(limits: Sequence[float | None]) -> float | None:
    """The limit, where all have the same."""
    return limits[0] if len(set(limits)) == 1 else None


def _any(values: Column) -> bool:
    return not bool(np.isnan(values).all())


def _finite(values: Column) -> bool:
    return bool(np.isfinite(values).any())


def _known(values: Column) -> bool:
    return _finite(values) and not bool(np.isnan(values).any())


def _latency_sentence(curves: Sequence[Curve], metric: str, name: str) -> str:
    ends = []
    for curve in curves:
        values, rates = curve.values, curve.sweep.rates
        known = np.flatnonzero(np.isfinite(values))
        first, last = known[0], known[-1]
        low, high = quantity(rates[first], "req/s"), number(rates[last])
        infinite = _infinite(curve.infinite, last)
        ends.append(f"from {latency(values[first])} at {low} to {latency(values[last])} at {high}{infinite}")
    limit = _common([curve.sweep.objective_ns(f"{metric}_ns") for curve in curves])
    limits = "" if limit is None else f" The SLO is {latency(limit)}."
    told = each([curve.sweep.label for curve in curves], ends)
    return f"The {name} of the {_TITLES[metric].lower()} goes {told}.{limits}"


def _infinite(infinite: npt.NDArray[np.bool_], last: int) -> str:
    """Where a latency is so, in words; `last` is the highest rate at which it isn't."""
    if not infinite.any():
        return ""
    if infinite[:last].any():
        return f", and is infinite at {infinite.sum()} of the {infinite.size} rates"
    return ", beyond which it is infinite"


def _never_finite(sweeps: Sequence[Sweep], metric: str) -> str:
    """What has no curve at all."""
    if len(sweeps) > 1:
        return ""
    names = [name for name, values in sweeps[0].percentiles(metric).items() if _any(values) and not _finite(values)]
    return f" The {listed(names)} {'is' if len(names) == 1 else 'are'} infinite wherever known." if names else ""


def _served_sentence(sweeps: Sequence[Sweep]) -> str:
    labels = [sweep.label for sweep in sweeps]
    best = [f"{number(float(np.nanmax(sweep.points['requests_per_s'])))}" for sweep in sweeps]
    tokens = [f"{number(float(np.nanmax(sweep.points['output_tokens_per_s'])))}" for sweep in sweeps]
    good = [(s.label, s.points["goodput_rps"]) for s in sweeps if _any(s.points["goodput_rps"])]
    within = (
        each([label for label, _ in good], [number(float(np.nanmax(values))) for _, values in good]) if good else ""
    )
    slo = f"; most within the SLO: {within}" if within else ""
    return (
        f"Most requests completed per second: {each(labels, best)}{slo}. "
        f"Most output tokens per second: {each(labels, tokens)}."
    )


def _attainment_sentence(curves: Sequence[Curve], wanted: float | None) -> str:
    labels = [curve.sweep.label for curve in curves]
    if wanted is None:
        ends = [f"from {percent(c.values[0] / 100)} to {percent(c.values[-1] / 100)}" for c in curves]
        return f"The share of requests within the SLO goes {each(labels, ends)} as the rate rises."
    held = [_highest_held(curve.sweep, wanted) for curve in curves]
    return (
        f"The highest rate that keeps {percent(wanted)} of the requests within the SLO, below the lowest that doesn't: "
        f"{each(labels, held)}."
    )


def _highest_held(sweep: Sweep, wanted: float) -> str:
    """As the search for the capacity counts it: the highest that holds below the lowest that doesn't."""
    holds = (sweep.points["attainment"] >= wanted) & ~sweep.saturated
    failing = np.flatnonzero(~holds)
    below = failing[0] if failing.size else holds.size
    return quantity(sweep.rates[below - 1], "requests/s") if below > 0 else "none"
