from __future__ import annotations

import io
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console
from rich.text import Text

from cbatch.report.panels import FOOTER, frame
from cbatch.report.progress import Figures
from tests.report.factories import make_figures, make_view

SIZES = [(60, 15), (80, 24), (120, 40), (200, 50)]
SLOTS = [1, 32, 256]
ANSWERS = tuple(
    (f"row-{n}", text) for n, text in enumerate(["short", "two\nlines", "日本語の答え " * 40, "👩\u200d👧" * 90])
)
ERRORS = tuple((f"row-{n}", f"prompts.jsonl:{n}: not JSON " * 9) for n in range(3))


def plain(figures: Figures, width: int, height: int) -> list[str]:
    return [line.plain for line in frame(figures, "cbatch run  SmolLM2-135M-Instruct.Q4_K_M.gguf", width, height)]


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("slots", SLOTS)
@pytest.mark.parametrize("color_system", [None, "standard"])
def test_printed_it_fits(size: tuple[int, int], slots: int, color_system: str | None) -> None:
    width, height = size
    console = Console(file=io.StringIO(), force_terminal=True, color_system=color_system, width=width, record=True)  # type: ignore[arg-type]
    lines = frame(make_figures(slots, answers=ANSWERS, errors=ERRORS), "model " * 30, width, height)
    console.print(*lines, sep="\n")
    printed = console.export_text().splitlines()
    assert len(printed) == len(lines) <= height - 1
    assert max(Text(line).cell_len for line in printed) <= width - 1


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("slots", SLOTS)
def test_its_height_depends_on_size_and_slots_only(size: tuple[int, int], slots: int) -> None:
    full = make_figures(slots, answers=ANSWERS * 2, errors=ERRORS)
    bare = replace(full, answers=(), errors=(), rows_total=None, engine=make_view(slots, busy=0))
    assert len(frame(full, "t", *size)) == len(frame(bare, "t", *size))


@given(
    st.lists(st.tuples(st.text(st.characters()), st.text(st.characters())), max_size=5),
    st.sampled_from(SIZES),
    st.text(st.characters(), max_size=99),
)
def test_no_text_breaks_it(texts: list[tuple[str, str]], size: tuple[int, int], title: str) -> None:
    width, height = size
    rows = tuple(texts)
    lines = frame(make_figures(32, answers=rows, errors=rows), title, width, height)
    assert max(line.cell_len for line in lines) <= width - 1
    assert not any("\n" in line.plain or "\x1b" in line.plain for line in lines)


@given(st.integers(1, 60), st.integers(1, 30), st.sampled_from(SLOTS))
def test_tiny_terminals_get_what_fits(width: int, height: int, slots: int) -> None:
    lines = frame(make_figures(slots, answers=ANSWERS), "model", width, height)
    assert 1 <= len(lines) <= max(1, height - 1)
    assert max(line.cell_len for line in lines) <= max(1, width - 1)


def test_32_slots_at_80x24() -> None:
    text = "\n".join(plain(make_figures(32, answers=ANSWERS, errors=ERRORS), 80, 24))
    for part in (
        "SmolLM2-135M-Instruct.Q4_K_M.gguf",
        "1:06:40  ETA 2:13:20",
        "123,459/200,000 rows  62 %  3 failed",
        "output    4,123 tok/s  mean   3,987",
        "prefill  13,200 tok/s  mean  12,800",
        "p50 20.0 s   p90 36.0 s   p99 39.6 s   last 999 rows",
        "used 15 %  reserved  31 %  of 65,536 cells",
        "32/32 busy  47 waiting  █ 25 decode  ▒ 7 prefill",
        "errors  3  row-2: prompts.jsonl:2: not JSON",
        "row-1        two↵lines",
        FOOTER,
    ):
        assert part in text


def test_the_engine_may_not_have_started() -> None:
    text = "\n".join(plain(make_figures(None, total=None), 80, 24))
    assert "starting" in text
    assert "123,456 rows, more to read" in text
    assert "errors  none" in text


def test_stopping_takes_the_place_of_the_eta() -> None:
    first = plain(make_figures(stopping=True), 80, 24)[0]
    assert first.endswith("stopping")
    assert "ETA" not in first


def test_no_background_and_no_black_or_white() -> None:
    for line in frame(make_figures(32, answers=ANSWERS, errors=ERRORS), "t", 80, 24):
        for span in line.spans:
            assert str(span.style) in ("", "bold", "dim", "green", "magenta", "cyan", "red")
