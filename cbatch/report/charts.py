"""Bars and sparklines from characters. Knows numbers and cells; nothing of what they mean."""

from __future__ import annotations

import math
from collections.abc import Sequence

VERTICAL = " ▁▂▃▄▅▆▇█"
HORIZONTAL = " ▏▎▍▌▋▊▉█"


def bar(share: float, width: int) -> str:
    """A horizontal bar, filled to `share` (0 to 1) in eighths of a cell; exactly `width` cells, padded with spaces."""
    eighths = round(min(1.0, max(0.0, share)) * width * 8)
    full, part = divmod(eighths, 8)
    return (HORIZONTAL[8] * full + (HORIZONTAL[part] if part else "")).ljust(width)


def sparkline(values: Sequence[float], width: int, height: int = 1, top: float | None = None) -> list[str]:
    """The last `width` of `values` as columns: `height` lines of `width` cells.

    `top` is as high as the chart: None is the tallest shown, so that charts of one scale are given one. Anything above
    0 shows.
    """
    shown = values[-width:] if width > 0 else ()
    top = max(shown, default=0.0) if top is None else top
    eighths = [math.ceil(value / top * height * 8) if top > 0 else 0 for value in shown]
    return [
        "".join(VERTICAL[min(8, max(0, level - 8 * below))] for level in eighths).ljust(width)
        for below in reversed(range(height))
    ]
