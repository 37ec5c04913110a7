"""The rates of a sweep, as a word on the command line says them."""

from __future__ import annotations

import math

from cbatch.errors import UsageError

MOST = 100
"""Rates of one sweep."""
_FORM = "give START:STOP:FACTORx such as 1:16:2x, START:STOP:STEP such as 1:16:5, or rates such as 1,2.5,4"


def parse_rates(text: str) -> tuple[float, ...]:
    """`1:16:2x` as (1, 2, 4, 8, 16), `1:16:5` as (1, 6, 11, 16), `4,1` as (1, 4); requests per second, ascending.

    STOP is included where a step lands on it. Raises `UsageError`.
    """
    try:
        rates = _range(text) if ":" in text else [float(part) for part in text.split(",")]
    except ValueError:
        raise UsageError(f"--sweep-rate {text}: {_FORM}") from None
    for rate in rates:
        if not (math.isfinite(rate) and rate > 0):
            raise UsageError(f"--sweep-rate {text}: {rate:g} is no rate; {_FORM}")
    return tuple(sorted(set(rates)))


def _range(text: str) -> list[float]:
    start_text, stop_text, step_text = text.split(":")
    start, stop, grows = float(start_text), float(stop_text), step_text.endswith("x")
    step = float(step_text.removesuffix("x"))
    if not (0 < start <= stop < math.inf) or not (1 if grows else 0) < step < math.inf:
        raise ValueError(text)
    count = math.floor((math.log(stop / start) / math.log(step) if grows else (stop - start) / step) + 1e-9) + 1
    if count > MOST:
        raise UsageError(f"--sweep-rate {text} makes {count:,} rates: give a larger step, for {MOST} at most")
    return [start * step**i if grows else start + step * i for i in range(count)]
