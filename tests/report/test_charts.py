from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from cbatch.report.charts import bar, sparkline


def test_a_bar_fills_by_eighths() -> None:
    assert bar(0, 4) == "    "
    assert bar(1, 4) == "████"
    assert bar(0.5, 3) == "█▌ "
    assert bar(1 / 32, 4) == "▏   "


@given(st.floats(-2, 2), st.integers(0, 50))
def test_a_bar_has_its_width(share: float, width: int) -> None:
    assert len(bar(share, width)) == width


def test_a_sparkline_scales_to_its_tallest() -> None:
    assert sparkline([0, 1, 4, 8], 4) == [" ▁▄█"]
    assert sparkline([0.001, 8], 2) == ["▁█"]
    assert sparkline([0, 0], 3) == ["   "]
    assert sparkline([], 3) == ["   "]


def test_sparklines_of_one_scale() -> None:
    assert sparkline([2, 4], 2, top=8) == ["▂▄"]
    assert sparkline([2, 4], 2, top=0) == ["  "]


def test_a_tall_sparkline_stacks_its_lines() -> None:
    assert sparkline([2, 8, 16], 3, height=2) == ["  █", "▂██"]


def test_a_sparkline_shows_the_newest() -> None:
    assert sparkline([8, 8, 1, 4], 2) == ["▂█"]


@given(st.lists(st.floats(0, 1e9), max_size=200), st.integers(0, 150), st.integers(1, 4))
def test_a_sparkline_has_its_size(values: list[float], width: int, height: int) -> None:
    lines = sparkline(values, width, height)
    assert [len(line) for line in lines] == [width] * height
