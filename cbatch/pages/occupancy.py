"""The slots over time as a Gantt picture: a row a slot, a bar a request.

Tables have a request's last slot only. When a preempted one ran isn't known, so it isn't drawn; where others moved from
slot to slot, a bar keeps to one row.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
from matplotlib.axes import Axes
from matplotlib.collections import PolyCollection
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from cbatch.pages.files import Column
from cbatch.pages.play import Group, Play, lasting
from cbatch.pages.style import BLUE, ORANGE, SKY, VERMILION, Picture, Theme, block_key, legend, panels
from cbatch.pages.words import counted, each, latency, percent, short

_BARS = 1_500
"""Of a group; more can't be told apart."""
_PANELS = 6
_WIDE = 0.01
"""Share of the width from which on bars get a line around them; it would cover thinner ones."""


@dataclass(frozen=True, slots=True)
class Bars:
    """Requests that had a slot and kept it, in the order in which they got it; times in ns since the first arrival."""

    slot: Column
    """The last one."""
    start: Column
    first_token: Column
    """The end, where there was none."""
    end: Column

    @classmethod
    def of(cls, play: Play) -> Bars:
        names = ("admitted_ns", "first_token_ns", "finished_ns")
        start, token, end = (play.since_start(name) for name in names)
        slot = play.requests["slot"]
        order = np.lexsort((slot, start))
        order = order[~np.isnan(start[order]) & ~np.isnan(slot[order]) & (play.requests["preempted_ns"][order] == 0)]
        token = np.where(np.isnan(token), end, token)
        return cls(slot[order], start[order], token[order], end[order])

    def until(self, end_ns: float) -> Bars:
        """What of them lies before `end_ns`."""
        there = self.start < end_ns
        first_token, end = np.minimum(self.first_token[there], end_ns), np.minimum(self.end[there], end_ns)
        return Bars(self.slot[there], self.start[there], first_token, end)

    def rows(self, slots: int) -> npt.NDArray[np.int64]:
        """A row for each, int64[n]: its slot, or the lowest free one where another bar is there still.

        Bars in a row don't overlap. No more are needed than slots: each bar was in one, all the time.
        """
        rows, free_from = self.slot.astype(np.int64), np.full(slots, -np.inf)
        for i, (row, start, end) in enumerate(zip(rows, self.start, self.end, strict=True)):
            if free_from[row] > start:
                rows[i] = np.argmax(free_from <= start)
            free_from[rows[i]] = end
        return rows


class _Panel(NamedTuple):
    """What is drawn of a group."""

    group: Group
    bars: Bars
    rows: npt.NDArray[np.int64]
    busy_share: float
    """Of the time of its slots."""
    preempted: int
    """Requests that aren't drawn."""

    @classmethod
    def of(cls, group: Group, bars: Bars, end_ns: float) -> _Panel:
        play, drawn = group.first, bars.until(end_ns)
        preempted = (play.since_start("admitted_ns") < end_ns) & (play.requests["preempted_ns"] > 0)
        return cls(
            group, drawn, drawn.rows(play.slots), play.mean_running_until(end_ns) / play.slots, int(preempted.sum())
        )

    @property
    def moved(self) -> bool:
        return bool((self.rows != self.bars.slot).any())


def gantt(groups: Sequence[Group]) -> Picture | None:
    """Slots of each group's first play, all on one time axis; of many requests, those that got a slot first."""
    there = [(group, Bars.of(group.first)) for group in lasting(groups)]
    there = [(group, bars) for group, bars in there if bars.start.size]
    shown = there[:_PANELS]
    if not shown:
        return None
    last_ns = max(group.first.span_ns for group, _ in shown)
    end_ns = min([_legible_until(bars) for _, bars in shown if bars.start.size > _BARS], default=last_ns)
    cut = [_Panel.of(group, bars, end_ns) for group, bars in shown]
    height = [min(2.4, max(0.9, 0.4 + 0.06 * panel.group.first.slots)) for panel in cut]

    def draw(figure: Figure, theme: Theme) -> None:
        beneath = panels(figure, len(cut))
        for axes, panel in zip(beneath, cut, strict=True):
            _draw_bars(axes, panel, end_ns, theme)
            axes.set(ylabel="Slot", ylim=(panel.group.first.slots - 0.5, -0.5), xlim=(0, end_ns / 1e9))
            axes.grid(False)
            axes.yaxis.set_major_locator(MaxNLocator(nbins=5, integer=True, min_n_ticks=1))
            if len(cut) > 1:
                axes.set_title(short(panel.group.label, 40), loc="left")
        beneath[-1].set_xlabel("Time (s since the first arrival)")
        prefill, decode = _colours(theme)
        legend(figure, [("until the first token", block_key(prefill)), ("decode", block_key(decode))])

    sentence = _sentence(cut, end_ns, cut_off=end_ns < last_ns, left_out=len(there) - len(shown))
    return Picture("slots", "Slot occupancy", sentence, draw, 0.9 + sum(height) + 0.2 * (len(cut) - 1))


def _legible_until(bars: Bars) -> float:
    return float(bars.start[_BARS])


def _colours(theme: Theme) -> tuple[str, str]:
    """(until the first token, after it)."""
    return (VERMILION, SKY) if theme.series[0] == BLUE else (ORANGE, BLUE)


def _draw_bars(axes: Axes, panel: _Panel, end_ns: float, theme: Theme) -> None:
    bars, (prefill, decode) = panel.bars, _colours(theme)
    width = 0.4 if np.median(bars.end - bars.start) > _WIDE * end_ns else 0.0
    for start, end, colour in ((bars.start, bars.first_token, prefill), (bars.first_token, bars.end, decode)):
        boxes = _boxes(panel.rows, start / 1e9, end / 1e9)
        axes.add_collection(PolyCollection(list(boxes), facecolors=colour, edgecolors=theme.paper, linewidths=width))


def _boxes(rows: npt.NDArray[np.int64], start: Column, end: Column) -> npt.NDArray[np.float64]:
    """Corners, float64[n, 4, 2]."""
    low, high = rows - 0.42, rows + 0.42
    corners = [(start, low), (start, high), (end, high), (end, low)]
    return np.stack([np.stack(corner, axis=1) for corner in corners], axis=1)


def _sentence(cut: Sequence[_Panel], end_ns: float, *, cut_off: bool, left_out: int) -> str:
    labels = [panel.group.label for panel in cut]
    shares = [percent(panel.busy_share) for panel in cut]
    slots = [str(panel.group.first.slots) for panel in cut]
    gaps = "gaps are slots without a request"
    preempted = sum(panel.preempted for panel in cut)
    if preempted:
        gaps += f", or with one of {preempted:,} that were preempted, whose times in a slot aren't recorded"
    moved = " Some requests moved from slot to slot; each is drawn in one." if any(p.moved for p in cut) else ""
    first = f" Only the first {latency(end_ns)} are drawn, of more requests than can be told apart." if cut_off else ""
    others = f" {counted(left_out, 'directory' if left_out == 1 else 'directorie')} more left out." if left_out else ""
    return (
        f"Requests were in a slot for {each(labels, shares)} of the time of the {each(labels, slots)} slots; "
        f"{gaps}.{moved}{first}{others}"
    )
