"""Pictures of attribution: the parts of the end-to-end latency, one after another or stacked."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from cbatch.pages.play import Group
from cbatch.pages.style import (
    BLUE,
    GREEN,
    GREY,
    ORANGE,
    PURPLE,
    SKY,
    VERMILION,
    YELLOW,
    Picture,
    Theme,
    block_key,
    legend,
    legend_height,
    unit_of,
)
from cbatch.pages.words import latency, listed, percent, short

PARTS = {
    "slip_ns": ("slip", GREY),
    "queue_ns": ("queue", YELLOW),
    "prefill_ns": ("own prefill", VERMILION),
    "decode_ns": ("own decode", BLUE),
    "others_prefill_ns": ("others' prefill", ORANGE),
    "others_decode_ns": ("others' decode", SKY),
    "preempted_ns": ("preempted", PURPLE),
    "other_ns": ("other", GREEN),
}
"""Name and colour of each part, in the order in which they mostly happen."""
_TITLE = "Where the time of a request went"
_TOLD = 3
"""Parts that a sentence names."""
Bars = Sequence[tuple[str, Mapping[str, float]]]
"""Label, and parts in ns."""


def attribution(groups: Sequence[Group]) -> Picture | None:
    """Where the mean request's time went: a waterfall, or stacked bars of several groups."""
    found = [(group.label, group.parts_ns()) for group in groups]
    bars = [(label, parts) for label, parts in found if sum(parts.values()) > 0]
    if not bars:
        return None
    return _waterfall(bars[0][1]) if len(bars) == 1 else stacked("attribution", _TITLE, bars, bars)


def stacked(name: str, title: str, bars: Bars, told: Bars) -> Picture:
    """A bar for each label, of the parts one after another; the sentence is about those `told`."""
    names = [part for part in PARTS if any(parts[part] > 0 for _, parts in bars)]

    def draw(figure: Figure, theme: Theme) -> None:
        axes = figure.subplots()
        scale, unit = unit_of(max(sum(parts.values()) for _, parts in bars))
        rows, left = np.arange(len(bars)), np.zeros(len(bars))
        for part in names:
            width = np.array([parts[part] for _, parts in bars]) / scale
            axes.barh(rows, width, left=left, color=PARTS[part][1], edgecolor=theme.paper, linewidth=0.5)
            left += width
        axes.set(xlabel=f"Mean end-to-end latency ({unit})", yticks=rows)
        _name_rows(axes, [short(label, 20) for label, _ in bars])
        legend(figure, [(PARTS[part][0], block_key(PARTS[part][1])) for part in names])

    sentence = " ".join(f"{label}: {_sentence(parts)}" for label, parts in told)
    return Picture(name, title, sentence, draw, 1.0 + 0.32 * len(bars) + legend_height(len(names)))


def _waterfall(parts: Mapping[str, float]) -> Picture:
    total = sum(parts.values())

    def draw(figure: Figure, _: Theme) -> None:
        axes = figure.subplots()
        scale, unit = unit_of(total)
        sizes = np.array([parts[part] for part in PARTS]) / scale
        ends = np.cumsum(sizes)
        rows = np.arange(len(PARTS))
        axes.barh(rows, sizes, left=ends - sizes, color=[colour for _, colour in PARTS.values()])
        for row, (end, part) in enumerate(zip(ends, PARTS, strict=True)):
            axes.text(end, row, f" {latency(parts[part])}", va="center", fontsize=9)
        axes.set(xlabel=f"Mean end-to-end latency ({unit})", yticks=rows, xlim=(0, total / scale * 1.2))
        _name_rows(axes, [name for name, _ in PARTS.values()])

    sentence = _sentence(parts)
    sentence = sentence[0].upper() + sentence[1:]
    return Picture("attribution", _TITLE, sentence, draw, 3.2)


def _name_rows(axes: Axes, names: Sequence[str]) -> None:
    axes.set_yticklabels(names)
    axes.invert_yaxis()
    axes.grid(visible=False, axis="y")


def _sentence(parts: Mapping[str, float]) -> str:
    """The whole, and its largest parts."""
    total = sum(parts.values())
    largest = sorted((name for name in parts if parts[name] > 0), key=lambda name: -parts[name])[:_TOLD]
    told = [f"{percent(parts[name] / total)} {PARTS[name][0]}" for name in largest]
    return f"a request took {latency(total)} in the mean, of which {listed(told)}."
