"""Pictures of load over time: throughput, queue and running requests, and the KV cache."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from cbatch.pages.files import Column
from cbatch.pages.over_time import edges, mean_inside, peak_inside, spread
from cbatch.pages.play import Group, Play, lasting
from cbatch.pages.style import Picture, Theme, legend, legend_height, line_key, panels
from cbatch.pages.words import counted, each, number, percent

_SINCE = "Time (s since the first arrival)"


def throughput(groups: Sequence[Group]) -> Picture | None:
    """Output tokens per second, requests waiting and sequences running, over the time of each group's first play."""
    shown = lasting(groups)
    if not shown:
        return None

    def draw(figure: Figure, theme: Theme) -> None:
        tokens, waiting, running = panels(figure, 3)
        for group in shown:
            play = group.first
            at = edges(play.span_ns)
            style = theme.mark(group.index)
            _stairs(tokens, at, _tokens_per_s(play, at), style)
            _stairs(waiting, at, mean_inside(at, play.came_ns, play.left_queue_ns), style)
            _stairs(running, at, play.mean_running(at), style)
        for axes, name in (
            (tokens, "Output\n(tokens/s)"),
            (waiting, "Waiting\n(requests)"),
            (running, "Running\n(requests)"),
        ):
            axes.set_ylabel(name)
            axes.set_ylim(bottom=0)
        running.set_xlabel(_SINCE)
        figure.align_ylabels()
        _names(figure, shown, theme)

    title, height = "Throughput and queue over time", 4.6 + legend_height(len(shown))
    return Picture("throughput", title, _throughput_sentence(shown), draw, height)


def _tokens_per_s(play: Play, at: Column) -> Column:
    start, end = (play.steps[name] - play.origin_ns for name in ("start_ns", "end_ns"))
    return spread(at, start, end, play.steps["output_tokens"]) * 1e9 / np.diff(at)


def _stairs(axes: Axes, at: Column, values: Column, style: dict[str, Any]) -> None:
    axes.stairs(values, at / 1e9, baseline=None, linewidth=1.4, **style)


def _throughput_sentence(groups: Sequence[Group]) -> str:
    labels = [group.label for group in groups]
    rates = [f"{number(group.first.output_tokens_per_s)}" for group in groups]
    waiting = [f"{peak_inside(group.first.came_ns, group.first.left_queue_ns):,}" for group in groups]
    running = [f"{number(group.first.mean_running_until(group.first.span_ns))}" for group in groups]
    return (
        f"Output tokens per second from the first arrival to the last answer: {each(labels, rates)}. "
        f"Most requests waiting at once: {each(labels, waiting)}; running in the mean: {each(labels, running)}."
    )


def kv(groups: Sequence[Group]) -> Picture | None:
    """KV cells that hold tokens, and those reserved, over the time of each group's first play."""
    shown = [group for group in lasting(groups) if kv_cells(group.first)[1] > 0]
    if not shown:
        return None

    def draw(figure: Figure, theme: Theme) -> None:
        axes = figure.subplots()
        for group in shown:
            colour = theme.colour(group.index)
            at = edges(group.first.span_ns)
            used, reserved = _cells_over_time(group.first, at)
            _stairs(axes, at, reserved, {"color": colour, "linestyle": ":"})
            _stairs(axes, at, used, {"color": colour, "linestyle": "-"})
            if len(shown) == 1:
                axes.stairs(used, at / 1e9, fill=True, color=colour, alpha=0.25)
        axes.set(xlabel=_SINCE, ylabel="KV cells (tokens)")
        axes.set_ylim(bottom=0)
        marks = [
            ("used", Line2D([], [], color=theme.ink)),
            ("reserved", Line2D([], [], color=theme.ink, linestyle=":")),
        ]
        named = [(group.label, line_key(theme, group.index)) for group in shown] if len(shown) > 1 else []
        legend(figure, [*marks, *named])

    height = 3.0 + legend_height(2 + (len(shown) if len(shown) > 1 else 0))
    return Picture("kv", "KV cache: used against reserved", _kv_sentence(shown), draw, height)


def kv_cells(play: Play) -> tuple[float, float]:
    """(used, reserved) cells, each integrated over the time of the steps, cell-ns."""
    length = play.steps["end_ns"] - play.steps["start_ns"]
    used, reserved = (float((play.steps[f"kv_{name}_cells"] * length).sum()) for name in ("used", "reserved"))
    return used, reserved


def _cells_over_time(play: Play, at: Column) -> tuple[Column, Column]:
    start, end = (play.steps[name] - play.origin_ns for name in ("start_ns", "end_ns"))
    used, reserved = (
        spread(at, start, end, play.steps[f"kv_{name}_cells"] * (end - start)) / np.diff(at)
        for name in ("used", "reserved")
    )
    return used, reserved


def _kv_sentence(groups: Sequence[Group]) -> str:
    labels = [group.label for group in groups]
    cells = [kv_cells(group.first) for group in groups]
    shares = [percent(used / reserved) for used, reserved in cells]
    most = [counted(int(group.first.steps["kv_used_cells"].max()), "cell") for group in groups]
    return (
        f"Of the reserved KV cells, {each(labels, shares)} held tokens, over the time of the steps; the rest "
        f"stayed empty. Most in use at once: {each(labels, most)}."
    )


def _names(figure: Figure, groups: Sequence[Group], theme: Theme) -> None:
    if len(groups) > 1:
        legend(figure, [(group.label, line_key(theme, group.index)) for group in groups])
