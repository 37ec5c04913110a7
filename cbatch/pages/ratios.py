"""The picture of a comparison: each metric's ratio to the baseline, with its interval (a forest plot)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

import numpy as np
from matplotlib.figure import Figure

from cbatch.pages.comparison import Comparison, Ratio
from cbatch.pages.style import Picture, Theme, legend, legend_height, line_key, log_axis
from cbatch.pages.words import listed, short

_MARKS = "osD^v"
_ARROWS: dict[str | None, str] = {"lower": "←", "higher": "→", None: " "}
_WIDEST = 3.0
_LEFT_OUT = ("_p50", "_p90")


def forest(comparison: Comparison) -> Picture | None:
    """Ratios of every variant but the baseline, a row a metric; of percentiles, the highest."""
    variants = [name for name in comparison.others if any(_drawn(r) for r in comparison.ratios if r.variant == name)]
    wanted = [metric for metric in comparison.metrics if not metric.endswith(_LEFT_OUT)]
    metrics = [m for m in wanted if any(_drawn(r) for v, r in comparison.of(m).items() if v in variants)]
    if not variants or not metrics:
        return None

    colours = {group.label: group.index for group in comparison.groups}

    limits = _limits([ratio for ratio in comparison.ratios if ratio.variant in variants and ratio.metric in metrics])

    def draw(figure: Figure, theme: Theme) -> None:
        axes = figure.subplots()
        axes.axvline(1, color=theme.ink, linewidth=1)
        for place, variant in enumerate(variants):
            index = colours[variant]
            shift = (place - (len(variants) - 1) / 2) * 0.7 / len(variants)
            style: dict[str, Any] = {"color": theme.colour(index), "fmt": _MARKS[index % len(_MARKS)]}
            found = [(row + shift, comparison.of(metric).get(variant)) for row, metric in enumerate(metrics)]
            for row, ratio in found:
                if ratio is not None and ratio.ratio is not None and _drawn(ratio):
                    axes.errorbar(ratio.ratio, row, xerr=_reach(ratio), markersize=4.5, capsize=2.5, **style)
        axes.set(xscale="log", xlabel=f"Ratio to {short(comparison.baseline)}", yticks=np.arange(len(metrics)))
        axes.set_yticklabels([_row_name(comparison, metric) for metric in metrics])
        axes.set_ylim(len(metrics) - 0.5, -0.5)
        axes.set_xlim(limits)
        log_axis(axes.xaxis, limits)
        if len(variants) > 1:
            legend(figure, [(variant, line_key(theme, colours[variant])) for variant in variants])

    rows = 0.16 + 0.09 * len(variants)
    height = 0.9 + rows * len(metrics) + legend_height(len(variants))
    title = f"Against {comparison.baseline}: ratios and their intervals"
    return Picture("ratios", title, _sentence(comparison, variants), draw, height)


def _drawn(ratio: Ratio) -> bool:
    """Whether a logarithmic axis has a place for it."""
    return ratio.ratio is not None and 0 < ratio.ratio < np.inf


def _limits(ratios: Sequence[Ratio]) -> tuple[float, float]:
    """Of the axis: all ratios, and intervals as far as they don't crowd these out."""
    points = [1.0, *(ratio.ratio for ratio in ratios if ratio.ratio is not None and _drawn(ratio))]
    lows = [ratio.low for ratio in ratios if ratio.low is not None]
    highs = [ratio.high for ratio in ratios if ratio.high is not None]
    low = max(min([*points, *lows]), min(points) / _WIDEST)
    high = min(max([*points, *highs]), max(points) * _WIDEST)
    return low / 1.1, high * 1.1


def _reach(ratio: Ratio) -> list[list[float]] | None:
    """Lengths of the interval to the left and to the right."""
    if ratio.ratio is None or ratio.low is None or ratio.high is None or not 0 < ratio.low <= ratio.high < np.inf:
        return None
    return [[max(0.0, ratio.ratio - ratio.low)], [max(0.0, ratio.high - ratio.ratio)]]


def _row_name(comparison: Comparison, metric: str) -> str:
    """With an arrow to where it's better."""
    ratio = next(iter(comparison.of(metric).values()))
    return f"{short(ratio.title, 22)} {_ARROWS[ratio.better]}"


def _sentence(comparison: Comparison, variants: Sequence[str]) -> str:
    told = [_verdicts(variant, [r for r in comparison.ratios if r.variant == variant]) for variant in variants]
    arrows = "Arrows point to where a metric is better; intervals may go on beyond the edge."
    return f"Against {comparison.baseline}: {' '.join(told)} {arrows}"


def _verdicts(variant: str, ratios: Sequence[Ratio]) -> str:
    counts = Counter(ratio.verdict for ratio in ratios)
    words = {"better": "better in {}", "worse": "worse in {}", "unclear": "unclear in {} (the interval holds 1)"}
    parts = [text.format(counts[verdict]) for verdict, text in words.items() if counts[verdict]]
    return f"{variant} is {listed(parts)} of {len(ratios)} metrics." if parts else f"{variant} has no intervals."
