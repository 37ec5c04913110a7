"""How figures are told in sentences, tables and on axes: three digits and a unit. Knows no metric.

A unit stands behind a space at which no line breaks.
"""

from __future__ import annotations

import math
import unicodedata
from collections.abc import Sequence

NBSP = "\u00a0"


def number(value: float | None) -> str:
    """`0.251`, `4.03`, `1,320`, `∞`, or `–` for nothing: three digits."""
    if value is None or math.isnan(value):
        return "–"
    if math.isinf(value):
        return "∞"
    return f"{value:,.0f}" if abs(value) >= 99.95 or value == 0 else f"{value:#.3g}"


def quantity(value: float | None, unit: str) -> str:
    """`1,320 tok/s`, `∞`, or `–`."""
    told = number(value)
    return told if told in ("–", "∞") or unit == "" else f"{told}{NBSP}{unit}"


def latency(ns: float | None) -> str:
    """`0.0312 ms`, `810 ms`, `1.25 s`, `∞`, or `–`."""
    if ns is None:
        return number(ns)
    return quantity(ns / 1e6, "ms") if ns < 999.5e6 else quantity(ns / 1e9, "s")


def percent(share: float | None) -> str:
    """`41 %`, or `–`; one decimal from 99 % up, where it matters."""
    if share is None or math.isnan(share):
        return "–"
    return f"{share * 100:.1f}{NBSP}%" if 0.99 <= share < 1 else f"{share * 100:.0f}{NBSP}%"


def counted(count: int, noun: str) -> str:
    """`1 request`, `1,200 requests`."""
    return f"{count:,} {noun}" if count == 1 else f"{count:,} {noun}s"


def each(labels: Sequence[str], texts: Sequence[str]) -> str:
    """`164 ms` where there is one, else `164 ms (static) and 80 ms (continuous)`."""
    if len(texts) == 1:
        return texts[0]
    return listed([f"{text} ({label})" for label, text in zip(labels, texts, strict=True)])


def listed(parts: Sequence[str]) -> str:
    """`a`, `a and b`, `a, b and c`."""
    return parts[0] if len(parts) == 1 else f"{', '.join(parts[:-1])} and {parts[-1]}"


def printable(text: str) -> str:
    """As characters that any page and font can take: control characters and lone surrogates become escapes."""
    return "".join(_escaped(char) if unicodedata.category(char) in ("Cc", "Cs") else char for char in text)


def _escaped(char: str) -> str:
    return char.encode("unicode_escape").decode("ascii")


def short(text: str, most: int = 28) -> str:
    """`text` cut to fit into a picture."""
    return text if len(text) <= most else f"{text[: most - 1]}…"
