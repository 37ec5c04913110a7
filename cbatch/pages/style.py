"""How pictures look: colours on light and on dark paper, and how one becomes a PNG. Knows no data.

Colours are those of Okabe and Ito (Color Universal Design, 2008), which people with any kind of colour vision can tell
apart; line styles tell more series than there are colours.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from io import BytesIO
from typing import Any

import matplotlib
from matplotlib.axes import Axes
from matplotlib.axis import Axis
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Patch
from matplotlib.ticker import FuncFormatter, LogLocator, NullLocator
from PIL import Image

from cbatch.pages.words import number, short

ORANGE, SKY, GREEN, YELLOW = "#E69F00", "#56B4E9", "#009E73", "#F0E442"
BLUE, VERMILION, PURPLE, GREY = "#0072B2", "#D55E00", "#CC79A7", "#888888"
WIDTH = 5.0
"""Of a picture, inches: with 10 pt text it can be read on a phone."""
DPI = 200
_COLOURS = 128
_LINES = ("-", "--", ":", "-.")
_LEGEND_HEIGHT = 0.2
_LEGEND_LETTERS = 56
_TICKS = {100.0: (1.0, 2.0, 5.0), 1_000.0: (1.0, 3.0)}
"""In a decade, up to a ratio of the largest to the smallest value; else 1 alone."""


@dataclass(frozen=True, slots=True)
class Theme:
    """Colours for one kind of paper."""

    paper: str
    ink: str
    faint: str
    series: tuple[str, ...]

    def colour(self, index: int) -> str:
        """Of the series `index`."""
        return self.series[index % len(self.series)]

    def mark(self, index: int) -> dict[str, Any]:
        """Colour of the series `index`, and a line style, which changes when the colours are used up."""
        return {"color": self.colour(index), "linestyle": _LINES[index // len(self.series) % len(_LINES)]}

    def settings(self) -> dict[Any, Any]:
        """For matplotlib."""
        names = ("text.color", "axes.labelcolor", "xtick.color", "ytick.color")
        return {
            **dict.fromkeys(names, self.ink),
            "figure.facecolor": self.paper,
            "savefig.facecolor": self.paper,
            "axes.facecolor": self.paper,
            "axes.edgecolor": self.faint,
            "grid.color": self.faint,
            "grid.linewidth": 0.6,
            "axes.grid": True,
            "axes.axisbelow": True,
            "axes.spines.top": False,
            "axes.spines.right": False,
            "axes.titlesize": 10,
            "legend.frameon": False,
            "legend.fontsize": 9,
            "font.size": 10,
            "lines.linewidth": 1.6,
            "text.parse_math": False,
        }


LIGHT = Theme("#ffffff", "#1b1f24", "#d0d7de", (BLUE, VERMILION, GREEN, PURPLE, ORANGE, SKY))
DARK = Theme("#15181c", "#e6e8eb", "#3d444d", (SKY, ORANGE, GREEN, PURPLE, VERMILION, YELLOW))


@dataclass(frozen=True, slots=True)
class Picture:
    """A figure that can be drawn on any paper, and the sentence that says what it shows."""

    name: str
    """For its file."""
    title: str
    sentence: str
    draw: Callable[[Figure, Theme], None]
    height: float = 3.0
    """Inches."""


def render(picture: Picture, theme: Theme, *, titled: bool = False) -> bytes:
    """The picture as a PNG."""
    with matplotlib.rc_context(), warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Glyph .* missing from")  # a name may be in any script
        matplotlib.rcdefaults()  # whatever the user's own are
        for name, value in theme.settings().items():
            matplotlib.rcParams[name] = value
        figure = Figure(figsize=(WIDTH, picture.height), layout="constrained")
        picture.draw(figure, theme)
        if titled:
            figure.suptitle(picture.title, fontsize=11)
        return _png(figure)


def _png(figure: Figure) -> bytes:
    """With a palette, which takes a third of the bytes."""
    file = BytesIO()
    figure.savefig(file, format="rgba", dpi=DPI)
    size = (round(figure.get_figwidth() * DPI), round(figure.get_figheight() * DPI))
    image = Image.frombytes("RGBA", size, file.getvalue()).convert("RGB")
    file = BytesIO()
    image.quantize(_COLOURS, dither=Image.Dither.NONE).save(file, format="png", optimize=True)
    return file.getvalue()


def panels(figure: Figure, count: int) -> list[Axes]:
    """`count` axes above one another, on one x axis."""
    return list(figure.subplots(count, 1, sharex=True, squeeze=False)[:, 0])


def legend(figure: Figure, keys: Sequence[tuple[str, Line2D | Patch]]) -> None:
    """Names and their marks, below the axes, where they cover nothing."""
    names = [short(name) for name, _ in keys]
    # matplotlib leaves out names that begin with an underscore
    names = [f" {name}" if name.startswith("_") else name for name in names]
    columns = min(len(keys), max(1, _LEGEND_LETTERS // (max(map(len, names)) + 6)))
    figure.legend([mark for _, mark in keys], names, loc="outside lower center", ncols=columns)


def legend_height(count: int) -> float:
    """Inches that a legend of `count` names takes at most."""
    return 0.0 if count < 2 else _LEGEND_HEIGHT * -(-count // 2) + 0.1


def line_key(theme: Theme, index: int) -> Line2D:
    return Line2D([], [], **theme.mark(index))


def block_key(colour: str) -> Patch:
    return Patch(color=colour)


def log_axis(axis: Axis, limits: tuple[float, float] | None = None) -> None:
    """A few ticks, as plain numbers, from `limits` or for what is drawn already."""
    low, high = axis.get_data_interval() if limits is None else limits
    subs = next((subs for ratio, subs in _TICKS.items() if high <= low * ratio), (1.0,))
    axis.set_major_locator(LogLocator(subs=subs, numticks=8))
    axis.set_minor_locator(NullLocator())
    axis.set_major_formatter(FuncFormatter(lambda value, _: _plain(value)))


def _plain(value: float) -> str:
    return f"{value:g}" if value < 1000 else number(value)


def unit_of(largest_ns: float) -> tuple[float, str]:
    """(ns of it, name) of the unit in which to draw times up to that."""
    return (1e6, "ms") if largest_ns < 5e9 else (1e9, "s")
