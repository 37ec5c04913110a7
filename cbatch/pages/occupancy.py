"""The slots over time as a Gantt picture: a row a slot, a bar a request."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from matplotlib.axes import Axes
from matplotlib.collections import PolyCollection
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from cbatch.pages.files import Column
from cbatch.pages.play import Group, Play
from cbatch.pages.style import BLUE, ORANGE, SKY, VERMILION, Picture, Theme, block_key, legend, panels
from cbatch.pages.words import counted, each, latency, percent, short

_BARS = 1_500
"""Of a group; more can't be told apart."""
_PANELS = 6
_WIDE = 0.01
"""Share of the width from which on bars get a line around them; it would cover thinner ones."""


@dataclass(frozen=True, slots=True)
class Bars:
    """Requests that had a slot, in the order in which they got it; times in ns since the first arrival."""

    slot: Column
    start: Column
    first_token: Column
    """The end, where there was none."""
    end: Column

    @classmethod
    def of(cls, play: Play) -> Bars:
        names = ("admitted_ns", "first_token_ns", "finished_ns")
        start, token, end = (play.since_start(name) for name in names)
        there = ~np.isnan(start) & ~np.isnan(play.requests["slot"])
        order = np.flatnonzero(there)[np.argsort(start[there], kind="stable")]
        token = np.where(np.isnan(token), end, token)
        return cls(play.requests["slot"][order], start[order], token[order], end[order])

    def until(self, end_ns: float) -> Bars:
        """What of them lies before `end_ns`."""
        there = self.start < end_ns
        first_token, end = np.minimum(self.first_token[there], end_ns), np.minimum(self.end[there], end_ns)
        return Bars(self.slot[there], self.start[there], first_token, end)

    def busy_share(self, slots: int, end_ns: float) -> float:
        """Time of slots from admission to finish / (slots x the time until `end_ns`)."""
        return float((self.end - self.start).sum()) / (slots * end_ns)


def gantt(groups: Sequence[Group]) -> Picture | None:
    """Slots of each group's first play, all on one time axis; of many requests, those that got a slot first."""
    there = [(group, Bars.of(group.first)) for group in groups if group.has_requests]
    there = [(group, bars) for group, bars in there if bars.start.size and bars.end.max() > 0]
    shown = there[:_PANELS]
    if not shown:
        return None
    end_ns = min([_legible_until(bars) for _, bars in shown if bars.start.size > _BARS], default=_last(shown))
    cut = [(group, bars.until(end_ns)) for group, bars in shown]
    height = [min(2.4, max(0.9, 0.4 + 0.06 * group.first.slots)) for group, _ in cut]

    def draw(figure: Figure, theme: Theme) -> None:
        rows = panels(figure, len(cut))
        for axes, (group, bars) in zip(rows, cut, strict=True):
            _draw_bars(axes, bars, end_ns, theme)
            axes.set(ylabel="Slot", ylim=(group.first.slots - 0.5, -0.5), xlim=(0, end_ns / 1e9))
            axes.grid(False)
            axes.yaxis.set_major_locator(MaxNLocator(nbins=5, integer=True))
            if len(cut) > 1:
                axes.set_title(short(group.label, 40), loc="left")
        rows[-1].set_xlabel("Time (s since the first arrival)")
        prefill, decode = _colours(theme)
        legend(figure, [("until the first token", block_key(prefill)), ("decode", block_key(decode))])

    sentence = _sentence(cut, end_ns, cut_off=end_ns < _last(shown), left_out=len(there) - len(shown))
    return Picture("slots", "Slot occupancy", sentence, draw, 0.9 + sum(height) + 0.2 * (len(cut) - 1))


def _last(shown: Sequence[tuple[Group, Bars]]) -> float:
    return max(float(bars.end.max()) for _, bars in shown)


def _legible_until(bars: Bars) -> float:
    return float(bars.start[_BARS])


def _colours(theme: Theme) -> tuple[str, str]:
    """(until the first token, after it)."""
    return (VERMILION, SKY) if theme.series[0] == BLUE else (ORANGE, BLUE)


def _draw_bars(axes: Axes, bars: Bars, end_ns: float, theme: Theme) -> None:
    prefill, decode = _colours(theme)
    width = 0.4 if np.median(bars.end - bars.start) > _WIDE * end_ns else 0.0
    for start, end, colour in ((bars.start, bars.first_token, prefill), (bars.first_token, bars.end, decode)):
        boxes = _boxes(bars.slot, start / 1e9, end / 1e9)
        axes.add_collection(PolyCollection(list(boxes), facecolors=colour, edgecolors=theme.paper, linewidths=width))


def _boxes(slot: Column, start: Column, end: Column) -> npt.NDArray[np.float64]:
    """Corners, float64[n, 4, 2]."""
    low, high = slot - 0.42, slot + 0.42
    corners = [(start, low), (start, high), (end, high), (end, low)]
    return np.stack([np.stack(corner, axis=1) for corner in corners], axis=1)


def _sentence(cut: Sequence[tuple[Group, Bars]], end_ns: float, *, cut_off: bool, left_out: int) -> str:
    labels = [group.label for group, _ in cut]
    shares = [percent(bars.busy_share(group.first.slots, end_ns)) for group, bars in cut]
    slots = [str(group.first.slots) for group, _ in cut]
    first = f" Only the first {latency(end_ns)} are drawn, of more requests than can be told apart." if cut_off else ""
    others = f" {counted(left_out, 'directory' if left_out == 1 else 'directorie')} more left out." if left_out else ""
    return (
        f"Requests were in a slot for {each(labels, shares)} of the time of the {each(labels, slots)} slots; "
        f"gaps are slots without a request.{first}{others}"
    )
