"""Pictures of latencies: their distributions, and how they go with the time of arrival."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from cbatch.pages.files import Column
from cbatch.pages.play import Group, Play
from cbatch.pages.style import Picture, Theme, legend, legend_height, line_key, log_axis, panels, unit_of
from cbatch.pages.words import each, latency, percent

_POINTS = 400
"""Of a curve."""
_DOTS = 1_500
"""Of a group; more cover one another."""
_SLOWEST = 50
_FAR = 3.0
_WIDE = 20.0
"""Ratio of largest to smallest from which on an axis is logarithmic."""
_WORDS = {
    "ttft_ns": ("TTFT", "Time to first token", "got their first token within"),
    "tpot_ns": ("TPOT", "Time per output token", "had a mean time per output token of at most"),
    "e2e_ns": ("e2e", "End-to-end latency", "were answered within"),
}


def distribution(groups: Sequence[Group], name: str) -> Picture | None:
    """The share of requests within each latency `name`; a request that wasn't answered is in none."""
    shown = [group for group in groups if group.completed(name).size]
    if not shown:
        return None
    short, title, _ = _WORDS[name]

    def draw(figure: Figure, theme: Theme) -> None:
        axes = figure.subplots()
        curves = [group.completed(name) for group in shown]
        scale, unit = unit_of(max(float(np.percentile(values, 99)) for values in curves))
        for group, values in zip(shown, curves, strict=True):
            x, share = ecdf(values, group.missed)
            axes.step(x / scale, share * 100, where="post", **theme.mark(group.index))
        _limit(axes, _objective(shown, name), scale, theme)
        if _is_wide(curves):
            axes.set_xscale("log")
            log_axis(axes.xaxis)
        axes.set(xlabel=f"{title} ({unit})", ylabel="Requests (%)", ylim=(0, 101))
        _names(figure, shown, theme)

    sentence = _distribution_sentence(shown, name)
    height = 3.0 + legend_height(len(shown))
    return Picture(short.lower(), f"{title}: how many requests within it", sentence, draw, height)


def ecdf(values: Column, misses: int) -> tuple[Column, Column]:
    """(x, share of all at or under x), ascending, at most `_POINTS` points, the first at share 0.

    `misses` count among all and never have a value.
    """
    ranks = np.unique(np.linspace(1, values.size, min(values.size, _POINTS)).round().astype(np.int64))
    x = np.sort(values)[ranks - 1]
    return np.concatenate([x[:1], x]), np.concatenate([[0.0], ranks / (values.size + misses)])


def against_arrival(groups: Sequence[Group]) -> Picture | None:
    """TTFT and e2e of the requests of each group's first replay, where they arrived."""
    replays = [group for group in groups if _arrives_over_time(group.first)]
    if not replays:
        return None

    def draw(figure: Figure, theme: Theme) -> None:
        pair = panels(figure, 2)
        for axes, name in zip(pair, ("ttft_ns", "e2e_ns"), strict=True):
            _scatter(axes, replays, name, theme)
        figure.align_ylabels()
        pair[-1].set_xlabel("Arrival (s since the first)")
        _names(figure, replays, theme)

    title, height = "Latency against arrival time", 4.2 + legend_height(len(replays))
    return Picture("arrival", title, _arrival_sentence(replays), draw, height)


def _arrives_over_time(play: Play) -> bool:
    """Whether the requests that were answered came at times of their own, and not all at once."""
    arrivals = play.requests["arrival_ns"][play.requests["completed"] == 1]
    return play.is_replay and arrivals.size > 0 and bool(np.ptp(arrivals) > 0)


def _scatter(axes: Axes, groups: Sequence[Group], name: str, theme: Theme) -> None:
    dots = [_dots(group.first, name) for group in groups]
    values = [y for _, y in dots if y.size]
    scale, unit = unit_of(max((float(y.max()) for y in values), default=0.0))
    for group, (x, y) in zip(groups, dots, strict=True):
        axes.scatter(x / 1e9, y / scale, s=7, alpha=0.7, linewidths=0, color=theme.colour(group.index))
    if values and _is_wide(values):
        axes.set_yscale("log")
        log_axis(axes.yaxis)
    _limit(axes, _objective(groups, name), scale, theme, vertical=False)
    axes.set_ylabel(f"{_WORDS[name][0]} ({unit})")


def _dots(play: Play, name: str) -> tuple[Column, Column]:
    """(arrival, latency) of completed requests, ns: of many, evenly picked ones and the slowest."""
    there = (play.requests["completed"] == 1) & ~np.isnan(play.requests[name])
    arrival, values = play.since_start("arrival_ns")[there], play.requests[name][there]
    if values.size > _DOTS:
        evenly = np.linspace(0, values.size - 1, _DOTS - _SLOWEST).astype(np.int64)
        picked = np.union1d(evenly, np.argsort(values)[-_SLOWEST:])
        arrival, values = arrival[picked], values[picked]
    return arrival, values


def _is_wide(curves: Sequence[Column]) -> bool:
    low = min(float(np.percentile(values, 1)) for values in curves)
    high = max(float(np.percentile(values, 99)) for values in curves)
    return 0 < low * _WIDE < high


def _limit(axes: Axes, limit_ns: float | None, scale: float, theme: Theme, *, vertical: bool = True) -> None:
    """A line at the objective, where it isn't so far off that it would crowd out the rest."""
    low, high = axes.dataLim.intervalx if vertical else axes.dataLim.intervaly
    if limit_ns is None or not low / _FAR < limit_ns / scale < high * _FAR:
        return
    along = axes.axvline if vertical else axes.axhline
    along(limit_ns / scale, color=theme.ink, linestyle=(0, (4, 3)), linewidth=1)
    at = (limit_ns / scale, 0.02) if vertical else (0.995, limit_ns / scale)
    where = axes.get_xaxis_transform() if vertical else axes.get_yaxis_transform()
    axes.text(*at, " SLO", transform=where, va="bottom", ha="left" if vertical else "right", fontsize=9)


def _objective(groups: Sequence[Group], name: str) -> float | None:
    """The limit on `name`, where the groups have one and the same."""
    limits = {group.first.objective_ns(name) for group in groups}
    return limits.pop() if len(limits) == 1 else None


def _names(figure: Figure, groups: Sequence[Group], theme: Theme) -> None:
    if len(groups) > 1:
        legend(figure, [(group.label, line_key(theme, group.index)) for group in groups])


def _distribution_sentence(groups: Sequence[Group], name: str) -> str:
    labels, found = [group.label for group in groups], [group.distribution(name) for group in groups]
    words = {50.0: f"Half of the requests {_WORDS[name][2]}", 90.0: "nine of ten", 99.0: "99 of 100"}
    parts = []
    for p, start in words.items():
        values = [distribution.percentile(p) for distribution in found]
        if None not in values and any(value != np.inf for value in values):
            parts.append(f"{start} {each(labels, [latency(value) for value in values])}")
    told = "; ".join(parts) if parts else "Fewer than half of the requests were answered"
    missed = [f"{group.missed:,} of {group.missed + group.answered:,} requests" for group in groups]
    wasnt = f" Not answered: {each(labels, missed)}." if any(group.missed for group in groups) else ""
    return f"{told}.{_within(groups, name)}{wasnt}"


def _within(groups: Sequence[Group], name: str) -> str:
    """How many meet the objective."""
    limit = _objective(groups, name)
    if limit is None:
        return ""
    met = [int((group.completed(name) <= limit).sum()) for group in groups]
    shares = [percent(count / (group.answered + group.missed)) for count, group in zip(met, groups, strict=True)]
    return f" Within the SLO of {latency(limit)}: {each([group.label for group in groups], shares)}."


def _arrival_sentence(groups: Sequence[Group]) -> str:
    labels = [group.label for group in groups]
    halves = [_halves(group.first) for group in groups]
    early, late = ([latency(half[i]) for half in halves] for i in (0, 1))
    picked = [group for group in groups if group.first.requests["completed"].sum() > _DOTS]
    some = f" Of the {sum(group.first.requests['completed'].sum() for group in picked):,.0f} dots, some are drawn."
    return (
        f"In the first half of the time the median TTFT was {each(labels, early)}, in the second half "
        f"{each(labels, late)}.{some if picked else ''}"
    )


def _halves(play: Play) -> tuple[float, float]:
    """Median TTFT, ns, of what arrived in the first and in the second half of the arrivals' span."""
    there = (play.requests["completed"] == 1) & ~np.isnan(play.requests["ttft_ns"])
    arrival, values = play.since_start("arrival_ns"), play.requests["ttft_ns"]
    early = arrival <= arrival.max() / 2
    first, second = values[there & early], values[there & ~early]
    return (float(np.median(first)) if first.size else np.nan, float(np.median(second)) if second.size else np.nan)
