"""What a file's times look like: how they are written, what they count, their order and their grid. Knows no file."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from cbatch.traces.findings import Finding, duration
from cbatch.traces.formats.format import UNIT_NAMES, UNITS_NS, Format
from cbatch.traces.ticks import Ticks
from cbatch.traces.trace import SECOND

_ENOUGH = 10
"""Requests below which a rate says nothing of the unit."""
_SLOW, _FAST = 0.01, 1000.0
"""Requests per second below which seconds look like milliseconds, and above which milliseconds look like seconds."""
_CROWDED = 1.1
"""Requests a tick above which it is worth a word."""


class Times:
    """Sees every arrival of a file once, in order."""

    def __init__(self, form: Format, unit: str | None) -> None:
        self._form, self._unit = form, unit
        self._forms: Counter[str] = Counter()
        self._ticks = Ticks()
        self._first_ns = self._least_ns = self._most_ns = 0
        self._back = self._back_ns = self._fractions = 0

    def see(self, arrival_ns: int, time_form: str) -> None:
        if self._ticks.requests == 0:
            self._first_ns = self._least_ns = self._most_ns = arrival_ns
        if time_form:
            self._forms[time_form] += 1
        if self._unit is not None and arrival_ns % UNITS_NS[self._unit]:
            self._fractions += 1
        if arrival_ns < self._most_ns:
            self._back += 1
            self._back_ns = max(self._back_ns, self._most_ns - arrival_ns)
        self._least_ns, self._most_ns = min(self._least_ns, arrival_ns), max(self._most_ns, arrival_ns)
        self._ticks.see(arrival_ns)

    def findings(self) -> Iterator[Finding]:
        if self._form.time is None:
            message = f"{self._form.about} have no times: give an arrival process, such as --request-rate"
            yield Finding("info", "no_times", message)
        elif self._ticks.requests:
            yield from self._about_forms()
            yield from self._about_unit()
            yield from self._about_order()
            yield from self._about_ticks()

    def _about_forms(self) -> Iterator[Finding]:
        column, forms = self._form.time, self._forms.most_common()
        if len(forms) == 1:
            message = f"{column} holds {forms[0][0]}: read exactly, to the nanosecond{_as_utc(forms[0][0])}"
            yield Finding("info", "time_format", message)
        elif forms:
            shown = ", ".join(f"{count:,} are {form}" for form, count in forms[:4])
            naive = ", the naive ones as UTC" if any(_as_utc(form) for form, _ in forms) else ""
            message = f"{column} is written in {len(forms)} ways ({shown}): each is read exactly{naive}"
            yield Finding("warning", "mixed_time_formats", message)

    def _about_unit(self) -> Iterator[Finding]:
        if self._unit is None:
            return
        rate, requests = self._rate(), self._ticks.requests
        figures = f"{requests:,} requests over {duration(self._most_ns - self._least_ns)}"
        rated = figures if rate is None else f"{figures}, {rate:.3g} a second"
        message = f"{self._form.time} is read as {UNIT_NAMES[self._unit]}: {rated}"
        yield Finding("info", "time_unit", message)
        doubt = self._unit_doubt(rate)
        if doubt is not None:
            other = "ms" if self._unit == "s" else "s"
            fix = f"if {self._form.time} counts {UNIT_NAMES[other]}, give --time-unit {other}"
            yield Finding("warning", "unit_doubt", f"read as {UNIT_NAMES[self._unit]}, {doubt}: {fix}")

    def _unit_doubt(self, rate: float | None) -> str | None:
        requests = self._ticks.requests
        if requests < _ENOUGH or rate is None:
            return None
        if self._unit == "ms" and 2 * self._fractions > requests:
            return f"{self._fractions:,} of {requests:,} times have a fraction"
        if (self._unit == "ms" and rate > _FAST) or (self._unit == "s" and rate < _SLOW and not self._fractions):
            return f"there are {rate:.3g} requests a second"
        return None

    def _rate(self) -> float | None:
        """Mean requests per second."""
        span_ns = self._most_ns - self._least_ns
        return (self._ticks.requests - 1) * SECOND / span_ns if span_ns else None

    def _about_order(self) -> Iterator[Finding]:
        if self._form.from_first and self._unit is not None and self._first_ns:
            message = f"the first arrival is at {duration(self._first_ns)}: arrivals are counted from it"
            yield Finding("info", "first_arrival", message)
        if self._back:
            found = f"{self._back:,} requests arrive before one above them, by up to {duration(self._back_ns)}"
            yield Finding("warning", "times_go_back", f"{found}: they are sorted by arrival")

    def _about_ticks(self) -> Iterator[Finding]:
        tick, per_time = self._ticks.tick_ns(), self._ticks.requests / self._ticks.times
        if tick is not None and per_time >= _CROWDED:
            found = f"arrivals fall on ticks of {duration(tick)}, {per_time:.3g} requests at each time that has any"
            effect = "kept as they are, they arrive in batches; give --request-rate for arrivals of another process"
            yield Finding("warning", "quantised_times", f"{found}: {effect}")


def _as_utc(form: str) -> str:
    return ", as UTC" if form.startswith("naive") else ""
