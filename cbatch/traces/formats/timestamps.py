"""Dates with a time of day to integer nanoseconds, exactly. Knows no columns."""

from __future__ import annotations

import re
from datetime import date

from cbatch.traces.formats.format import BadRow
from cbatch.traces.formats.values import show
from cbatch.traces.trace import SECOND

_EPOCH = date(1970, 1, 1).toordinal()
_TIMESTAMP = re.compile(
    r"(\d{4})-(\d\d)-(\d\d)[ T]([01]\d|2[0-3]):([0-5]\d):([0-5]\d)(?:\.(\d{1,9}))?(Z|[+-]\d\d:?[0-5]\d)?", re.ASCII
)


def parse_timestamp(value: object) -> tuple[int, str]:
    """Nanoseconds since 1970 in UTC, and how the time is written (`naive times with 7 fractional digits`).

    Reads `2023-11-16 18:17:03.9799600` and `2024-05-10 00:00:00+00:00`: up to 9 fractional digits, with or without a
    zone; a naive time is taken as UTC. `datetime` would do neither 7 digits nor nanoseconds. Raises `BadRow`.
    """
    match = _TIMESTAMP.fullmatch(value.strip()) if isinstance(value, str) else None
    if match is None:
        raise _bad(value)
    year, month, day, hour, minute, second, fraction, zone = match.groups()
    if not 1970 <= int(year) < 2100:
        raise BadRow(f"the time is {show(value)}: give a year from 1970 to 2099")
    try:
        days = date(int(year), int(month), int(day)).toordinal() - _EPOCH
    except ValueError:
        raise _bad(value) from None
    seconds = days * 86_400 + int(hour) * 3_600 + int(minute) * 60 + int(second) - _offset(zone)
    ns = seconds * SECOND + (int(fraction.ljust(9, "0")) if fraction else 0)
    return ns, _form(fraction, zone)


def _offset(zone: str | None) -> int:
    """Seconds east of UTC."""
    if zone is None or zone == "Z":
        return 0
    seconds = int(zone[1:3]) * 3_600 + int(zone[-2:]) * 60
    return -seconds if zone[0] == "-" else seconds


def _form(fraction: str | None, zone: str | None) -> str:
    digits = "no fraction" if fraction is None else f"{len(fraction)} fractional digits"
    return f"naive times with {digits}" if zone is None else f"times with a zone and {digits}"


def _bad(value: object) -> BadRow:
    return BadRow(f"the time is {show(value)}: write it like 2023-11-16 18:17:03.9799600, with at most 9 digits")
