"""Words and numbers for people: any text made safe to show, cut to a width in terminal cells, quantities with units."""

from __future__ import annotations

import unicodedata
from functools import lru_cache

from rich.cells import cell_len

ELLIPSIS = "…"
_SHOWN = {"\n": "↵", "\r": "", "\t": " ", "\u2028": "↵", "\u2029": "↵"}
_UNSAFE = ("Cc", "Cn", "Co", "Cs")
"""Controls, unassigned, private use, surrogates: no terminal agrees with another on them."""


def one_line(text: str) -> str:
    """`text` as one line without anything that steers a terminal or makes its width a matter of opinion.

    Newlines become ↵ and control characters �. Formatting characters (bidirectional overrides, joiners), variation
    selectors and skin tones go, so that every character is as wide as it is alone.
    """
    return "".join(map(_shown, text))


def lines(text: str) -> str:
    """As `one_line`, but with its newlines kept."""
    return "\n".join(one_line(line) for line in text.split("\n"))


@lru_cache(maxsize=4096)
def _shown(char: str) -> str:
    if char in _SHOWN:
        return _SHOWN[char]
    category = unicodedata.category(char)
    if category in _UNSAFE:
        return "�"
    if category == "Cf" or "\ufe00" <= char <= "\ufe0f" or "\U0001f3fb" <= char <= "\U0001f3ff":
        return ""
    return " " if category == "Zs" else char


@lru_cache(maxsize=4096)
def _width(char: str) -> int:
    """Cells of a character, on the safe side: terminals give some spacing marks a cell that rich doesn't."""
    return max(cell_len(char), 0 if unicodedata.category(char) in ("Mn", "Me") else 1)


@lru_cache(maxsize=64)
def fit(text: str, width: int) -> str:
    """`one_line(text)` in at most `width` cells; what is cut off is an ellipsis."""
    line = one_line(text)
    used, room = 0, 0
    for index, char in enumerate(line):
        used += _width(char)
        if used <= width - 1:
            room = index + 1
        if used > width:
            return line[:room] + ELLIPSIS if width > 0 else ""
    return line


def pad(text: str, width: int) -> str:
    """`fit(text, width)`, filled up with spaces."""
    line = fit(text, width)
    return line + " " * (width - cell_len(line))


def duration(seconds: float | None) -> str:
    """`8 s`, `3:05` (minutes), `2:03:05` (hours), or `-`."""
    if seconds is None:
        return "-"
    whole = round(seconds)
    if whole < 60:
        return f"{whole} s"
    minutes, rest = divmod(whole, 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"


def latency(ns: float | None) -> str:
    """`8.1 ms`, `810 ms`, `12.3 s`, `810 s`, or `-`."""
    if ns is None:
        return "-"
    value, unit = (ns / 1e6, "ms") if ns < 1e9 else (ns / 1e9, "s")
    return f"{value:.1f} {unit}" if value < 99.95 else f"{value:,.0f} {unit}"


def rate(per_second: float | None) -> str:
    """`8.1`, `1,320`, or `-`."""
    if per_second is None:
        return "-"
    return f"{per_second:,.1f}" if per_second < 9.95 else f"{per_second:,.0f}"


def percent(share: float | None) -> str:
    """`41 %`, or `-`; one decimal from 99 % up, where it matters."""
    if share is None:
        return "-"
    return f"{share * 100:.1f} %" if 0.99 <= share < 1 else f"{share * 100:.0f} %"


def size(num_bytes: float) -> str:
    """`8.1 MiB`, `810 MiB`, `1.2 GiB`."""
    value, unit = (num_bytes / 2**20, "MiB") if num_bytes < 2**30 else (num_bytes / 2**30, "GiB")
    return f"{value:.1f} {unit}" if value < 99.95 else f"{value:,.0f} {unit}"
