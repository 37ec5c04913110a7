from __future__ import annotations

import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len

from cbatch.report.text import duration, fit, latency, lines, one_line, pad, percent, rate, size

ANY = st.text(st.characters(), max_size=60)
"""Any unicode, surrogates included."""


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("two\nlines\r\n", "two↵lines↵"),
        ("a\tb\u2028c", "a b↵c"),
        ("\x1b[31mred\x07", "�[31mred�"),
        ("[bold]not markup[/]", "[bold]not markup[/]"),
        ("right \u202eto left", "right to left"),
        ("👩\u200d👧 👍\U0001f3fd ❤\ufe0f", "👩👧 👍 ❤"),
        ("\ud800", "�"),
    ],
)
def test_one_line(text: str, shown: str) -> None:
    assert one_line(text) == shown


def test_lines_keeps_newlines() -> None:
    assert lines("warning: \x1b[2J\n  do this") == "warning: �[2J\n  do this"


@given(ANY)
def test_nothing_that_steers_a_terminal_is_left(text: str) -> None:
    shown = one_line(text)
    assert not {unicodedata.category(char) for char in shown} & {"Cc", "Cf", "Cs", "Cn", "Co", "Zl", "Zp"}
    shown.encode()


@given(ANY, st.integers(0, 30))
def test_a_cut_text_has_at_most_its_width(text: str, width: int) -> None:
    assert cell_len(fit(text, width)) <= width
    assert cell_len(pad(text, width)) == width


def test_what_fits_isnt_cut() -> None:
    assert fit("日本", 4) == "日本"
    assert fit("日本語", 5) == "日本…"
    assert fit("日本語", 4) == "日…"
    assert fit("abc", 1) == "…"
    assert fit("abc", 0) == ""


@pytest.mark.parametrize(
    ("seconds", "shown"),
    [(None, "-"), (0, "0 s"), (59.4, "59 s"), (59.6, "1:00"), (185, "3:05"), (7385, "2:03:05"), (360_000, "100:00:00")],
)
def test_duration(seconds: float | None, shown: str) -> None:
    assert duration(seconds) == shown


@pytest.mark.parametrize(
    ("ns", "shown"),
    [(None, "-"), (8.14e6, "8.1 ms"), (810e6, "810 ms"), (12.34e9, "12.3 s"), (8100e9, "8,100 s"), (99.96e6, "100 ms")],
)
def test_latency(ns: float | None, shown: str) -> None:
    assert latency(ns) == shown


def test_size() -> None:
    sizes = [size(n) for n in (0, 2**20 * 8.13, 2**20 * 99.94, 2**20 * 99.96, 2**30, 2**30 * 1234.5)]
    assert sizes == ["0.0 MiB", "8.1 MiB", "99.9 MiB", "100 MiB", "1.0 GiB", "1,234 GiB"]


def test_rate_and_percent() -> None:
    assert [rate(value) for value in (None, 0, 8.14, 9.96, 1320.4)] == ["-", "0.0", "8.1", "10", "1,320"]
    assert [percent(value) for value in (None, 0, 0.413, 0.9912, 1)] == ["-", "0 %", "41 %", "99.1 %", "100 %"]
