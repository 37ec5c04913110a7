from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cbatch.report.slots import legend, slot_grid
from cbatch.types import EngineView, SlotView
from tests.report.factories import make_view


def view_of(*slots: SlotView, total: int) -> EngineView:
    return EngineView(slots, total, 0, 0, 0, 1)


def test_32_slots_are_bars_in_four_lines() -> None:
    grid = [line.plain for line in slot_grid(make_view(32, busy=3), 79, 6)]
    assert len(grid) == 4
    assert grid[0] == " 0 ▒······· ▌······· █······· ········ ········ ········ ········ ········ "
    assert [line[:3] for line in grid] == [" 0 ", " 8 ", "16 ", "24 "]


def test_phases_differ_without_colour() -> None:
    slots = SlotView(0, "a", "prefill", 1, 2), SlotView(1, "b", "decode", 1, 2)
    assert slot_grid(view_of(*slots, total=3), 14, 1)[0].plain == "0 ▒· █· ·· "
    assert slot_grid(view_of(*slots, total=3), 6, 1)[0].plain == "0 ▒▄·"


def test_256_slots_are_one_cell_each() -> None:
    grid = slot_grid(make_view(256), 79, 6)
    assert [line.cell_len for line in grid] == [4 + 64] * 4


def test_where_slots_dont_fit_their_phases_do() -> None:
    view = make_view(256, busy=128)
    (line,) = slot_grid(view, 59, 2)
    assert line.cell_len == 59
    assert line.plain.count("·") == pytest.approx(59 / 2, abs=1)
    assert "▒" in line.plain


@given(st.integers(1, 256), st.integers(20, 220), st.integers(1, 8), st.data())
def test_a_grid_keeps_its_size_however_busy(slots: int, width: int, rows: int, data: st.DataObject) -> None:
    busy = data.draw(st.integers(0, slots))
    grid = slot_grid(make_view(slots, busy=busy), width, rows)
    assert len(grid) <= rows
    assert max(line.cell_len for line in grid) <= width
    assert len(grid) == len(slot_grid(make_view(slots), width, rows))


def test_the_legend_leaves_out_what_doesnt_fit() -> None:
    view = make_view(32, busy=30, waiting=1047)
    assert legend(view, 79).plain == "30/32 busy  1,047 waiting  █ 24 decode  ▒ 6 prefill  · 2 free"
    assert legend(view, 45).plain == "30/32 busy  1,047 waiting  █ 24 decode"
