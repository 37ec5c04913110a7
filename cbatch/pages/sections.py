"""What a report shows: a section of pictures and tables for each kind of directory. Knows no HTML and no files."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TypeVar

from cbatch.pages import latencies, load, memory, occupancy, rates, ratios, tables, waterfall
from cbatch.pages.comparison import Comparison
from cbatch.pages.play import Group
from cbatch.pages.style import Picture
from cbatch.pages.sweep import Sweep
from cbatch.pages.tables import Table
from cbatch.pages.words import printable

_T = TypeVar("_T")


@dataclass(frozen=True, slots=True)
class Section:
    """A part of the page under one heading."""

    title: str
    notices: tuple[str, ...]
    """What a reader has to know before the figures."""
    tables: tuple[Table, ...]
    pictures: tuple[Picture, ...]
    details: tuple[Table, ...] = ()
    """Tables behind the pictures."""


def plays_section(groups: Sequence[Group]) -> Section:
    """Runs and replays, side by side."""
    shown = [group for group in groups if group.has_requests]
    notices = [notice for group in groups for notice in (*_endings(group), *_notes(group))]
    if not shown:
        notices.append("There is nothing to draw: no request has finished.")
    return Section(
        " and ".join(group.label for group in groups) if len(groups) < 3 else f"{len(groups)} directories side by side",
        tuple(notices),
        _present([tables.facts(groups), tables.latencies(shown)]),
        _play_pictures(shown),
        _present([memory.memory(shown), tables.attribution(shown)]),
    )


def _play_pictures(groups: Sequence[Group]) -> tuple[Picture, ...]:
    replays = [group for group in groups if group.first.is_replay]
    return _present(
        [
            latencies.distribution(replays, "ttft_ns"),
            latencies.distribution(groups, "tpot_ns"),
            latencies.against_arrival(groups),
            load.throughput(groups),
            occupancy.gantt(groups),
            waterfall.attribution(groups),
            load.kv(groups),
        ]
    )


def _endings(group: Group) -> list[str]:
    """Of plays that aren't complete."""
    found = []
    for play in group.plays:
        if play.status != "complete":
            found.append(f"{group.label}: {_UNFINISHED.get(play.status, _UNKNOWN)} (status {play.status}).")
        if play.record.get("error"):
            found.append(f"{group.label}: {printable(str(play.record['error']).strip().splitlines()[-1])}")
    return list(dict.fromkeys(found))


def _notes(group: Group) -> list[str]:
    """What its plays say of themselves."""
    told = [play.record.get("notes") for play in group.plays]
    found = [f"{group.label}: {printable(str(note))}" for notes in told if isinstance(notes, list) for note in notes]
    return list(dict.fromkeys(found))


_UNFINISHED = {
    "running": "this isn't finished: it still runs, or was killed. Figures are of what is on disk",
    "failed": "this broke off; figures are of what had finished",
    "stopped": "this was stopped on request; figures are of what had finished",
    "aborted": "this was stopped on request; figures are of what had finished",
    "time_up": "its time was up before all requests had finished; those count as not answered",
}
_UNKNOWN = "run.json doesn't say that it has finished"


def sweeps_section(sweeps: Sequence[Sweep]) -> Section:
    """Rate sweeps, side by side."""
    pictures = [
        rates.latency_by_rate(sweeps, "ttft"),
        rates.latency_by_rate(sweeps, "tpot"),
        rates.served(sweeps),
        rates.attainment(sweeps),
        *(rates.attribution_by_rate(sweep, sweeps) for sweep in sweeps),
    ]
    return Section(
        "Rate sweep: " + ", ".join(sweep.label for sweep in sweeps),
        tuple(note for sweep in sweeps for note in sweep.notes),
        tuple(tables.rates(sweep) for sweep in sweeps),
        _present(pictures),
    )


def comparison_section(comparison: Comparison) -> Section:
    """Variants beside the baseline."""
    shown = [group for group in comparison.groups if group.has_requests]
    unfinished = [notice for group in comparison.groups for notice in _endings(group)]
    return Section(
        f"Comparison: {comparison.label}",
        (*comparison.notes, *unfinished),
        _present([tables.metrics(comparison), tables.audit(comparison), tables.repeatable(comparison)]),
        _present([ratios.forest(comparison), *_play_pictures(shown)]),
        _present([tables.latencies(shown), tables.attribution(shown)]),
    )


def _present(found: Iterable[_T | None]) -> tuple[_T, ...]:
    return tuple(one for one in found if one is not None)
