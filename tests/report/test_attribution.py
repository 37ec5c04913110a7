from __future__ import annotations

import io

from rich.console import Console

from cbatch.metrics import Attribution
from cbatch.report.attribution import PARTS, attribution_table

MEANS = dict(zip(Attribution._fields, (0.0, 5e8, 1e8, 2e8, 1e8, 0.0, 0.0, 1e8), strict=True))


def printed(parts: dict[str, float], *, blocks: bool) -> list[str]:
    console = Console(file=io.StringIO(), width=80, record=True)
    console.print(attribution_table(parts, 80, blocks=blocks))
    return [line.rstrip() for line in console.export_text().splitlines()[1:]]


def test_every_part_has_its_line() -> None:
    assert tuple(PARTS) == Attribution._fields
    lines = printed(MEANS, blocks=True)
    assert [line.split("  ")[0] for line in lines] == [title for title, _ in PARTS.values()]
    assert lines[1].split() == ["queue", "500", "ms", "50", "%", "█" * 21]
    assert lines[0].split() == ["slip", "0", "ms", "0", "%"]


def test_bars_of_plain_characters() -> None:
    assert [line.count("#") for line in printed(MEANS, blocks=False)] == [0, 21, 4, 8, 4, 0, 0, 4]


def test_no_time_at_all() -> None:
    lines = printed(dict.fromkeys(MEANS, 0.0), blocks=True)
    assert all(line.endswith("0 %") for line in lines)
