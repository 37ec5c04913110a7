"""Curves over the rates of sweeps, drawn: what is saturated or infinite, and limits. Knows no metric."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
from matplotlib.axes import Axes
from matplotlib.lines import Line2D

from cbatch.pages.files import Column
from cbatch.pages.style import Theme, log_axis
from cbatch.pages.sweep import Sweep

_UP = "^"
"""Marks what is infinite."""
_WIDE = 7.5
"""Ratio of the highest to the lowest rate from which on their axis is logarithmic."""


class Curve(NamedTuple):
    """A value for each rate of a sweep."""

    name: str
    sweep: Sweep
    values: Column
    """Infinite ones aren't drawn but marked, at the upper edge."""
    colour: int
    dashed: bool = False

    @property
    def finite(self) -> Column:
        """With NaN in place of what is infinite."""
        return np.where(self.infinite, np.nan, self.values)

    @property
    def infinite(self) -> npt.NDArray[np.bool_]:
        return np.isinf(self.values)

    def style(self, theme: Theme) -> dict[str, Any]:
        """For matplotlib."""
        return {**theme.mark(self.colour), **({"linestyle": "--"} if self.dashed else {})}


def draw_curves(axes: Axes, curves: Sequence[Curve], theme: Theme) -> None:
    """Lines with dots, hollow where the queue grew to the end."""
    for index, curve in enumerate(curves):
        rates, values, hollow = curve.sweep.rates, curve.finite, curve.sweep.saturated
        colour = theme.colour(curve.colour)
        axes.plot(rates, values, **curve.style(theme))
        axes.scatter(rates[~hollow], values[~hollow], color=colour, s=22, zorder=3)
        empty: dict[str, Any] = {"facecolors": theme.paper, "edgecolors": colour}
        axes.scatter(rates[hollow], values[hollow], s=26, zorder=3, **empty)
        _mark_infinite(axes, rates[curve.infinite], colour, 5 + 6 * (1 - (index + 1) / len(curves)))
    all_rates = np.concatenate([curve.sweep.rates for curve in curves])
    if all_rates.max() > all_rates.min() * _WIDE:
        axes.set_xscale("log")
        log_axis(axes.xaxis)


def _mark_infinite(axes: Axes, rates: Column, colour: str, size: float) -> None:
    """At the upper edge, whatever the scale is; later ones are smaller, so that those below them show."""
    edge: dict[str, Any] = {"transform": axes.get_xaxis_transform(), "clip_on": False, "in_layout": False}
    axes.plot(rates, np.ones_like(rates), color=colour, linestyle="none", marker=_UP, markersize=size, zorder=3, **edge)


def curve_keys(curves: Sequence[Curve], theme: Theme) -> list[tuple[str, Line2D]]:
    """Of a legend: each curve by its name, and the marks that some have."""
    found = [(curve.name, Line2D([], [], **curve.style(theme))) for curve in curves]
    hollow = Line2D([], [], color=theme.ink, marker="o", markerfacecolor=theme.paper, linestyle="none")
    above = Line2D([], [], color=theme.ink, marker=_UP, linestyle="none")
    found += [("saturated", hollow)] if any(curve.sweep.saturated.any() for curve in curves) else []
    return [*found, ("infinite", above)] if any(curve.infinite.any() for curve in curves) else found


def draw_limit(axes: Axes, limit: float | None, scale: float, theme: Theme) -> None:
    """A line across, where there is a limit; `scale` of its units are one of the axis."""
    if limit is None:
        return
    axes.axhline(limit / scale, color=theme.ink, linestyle=(0, (4, 3)), linewidth=1)
    axes.text(0.005, limit / scale, "SLO", transform=axes.get_yaxis_transform(), va="bottom", fontsize=9)
