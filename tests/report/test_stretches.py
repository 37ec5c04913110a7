from __future__ import annotations

from cbatch.report.stretches import Stretches


def test_a_stretch_lasts_until_its_sequence_leaves_the_slot() -> None:
    known = Stretches()
    known.step(0, {"a": 0, "b": 1})
    known.step(10, {"b": 1})  # a lost its slot
    known.step(20, {"a": 0, "b": 1})  # and has it again
    known.step(30, {"b": 0})  # b moved
    assert list(known.until("a", 50)) == [(0, 0, 10), (0, 20, 30)]
    assert list(known.until("b", 50)) == [(1, 0, 30), (0, 30, 50)]


def test_none_lasts_beyond_the_end_of_its_sequence() -> None:
    known = Stretches()
    known.step(0, {"a": 0})
    known.step(10, {})
    assert list(known.until("a", 7)) == [(0, 0, 7)]


def test_what_is_forgotten_is_not_known() -> None:
    known = Stretches()
    known.step(0, {"a": 0})
    assert "a" in known
    known.forget("a")
    known.forget("a")
    assert "a" not in known
    assert list(known.until("a", 5)) == []
