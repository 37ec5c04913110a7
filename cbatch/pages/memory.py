"""The KV memory of runs, and what other ways of giving it out would have held, as a table. Draws nothing."""

from __future__ import annotations

from collections.abc import Sequence

from cbatch.pages.play import Group, Play
from cbatch.pages.tables import Table
from cbatch.pages.words import number, quantity

_WAYS = {
    "static": "Static reservation",
    "per_slot": "Reserved for prompt and max_tokens",
    "pooled": "A cell for each token",
    "shared": "The same, shared prefixes once",
}


def memory(groups: Sequence[Group]) -> Table | None:
    """A row a way, of each group's first play; None where no run.json tells of one."""
    rows = [row for group in groups for row in _rows(group, alone=len(groups) == 1)]
    note = (
        "As the paged-attention literature compares them (Kwon et al., SOSP 2023). Means are over the time of the "
        "steps. More than one token a cell: sequences share it. Sequences held: by the memory of the run, were they "
        "like those that ran."
    )
    header = ("", "peak", "mean", "tokens a cell", "sequences held")
    return Table("KV memory, by the way it is given out", header, tuple(rows), note) if rows else None


def _rows(group: Group, *, alone: bool) -> list[tuple[str, ...]]:
    play = group.first
    return [
        (
            title if alone else f"{group.label}: {title}",
            _amount(play, way, "peak"),
            _amount(play, way, "mean"),
            number(play.run_total("kv_memory", way, "tokens_per_cell")),
            number(play.run_total("kv_memory", way, "sequences")),
        )
        for way, title in _WAYS.items()
        if play.run_total("kv_memory", way, "peak_cells")
    ]


def _amount(play: Play, way: str, which: str) -> str:
    """In bytes where the run knew them, else in cells."""
    held = play.run_total("kv_memory", way, f"{which}_bytes")
    if held is None:
        return quantity(play.run_total("kv_memory", way, f"{which}_cells"), "cells")
    return quantity(held / 2**20, "MiB") if held < 999.5 * 2**20 else quantity(held / 2**30, "GiB")
