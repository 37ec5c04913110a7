from __future__ import annotations

import io
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console
from rich.text import Text

from cbatch.report.rates import Rate
from cbatch.report.replay_panels import FOOTER, replay_frame, sweep_title
from cbatch.report.replay_progress import ReplayFigures
from tests.report.factories import make_replay_figures, make_view

SIZES = [(20, 5), (60, 15), (80, 24), (120, 40), (200, 50), (300, 80)]
SLOTS = [1, 32, 256]
OBJECTIVES = [0, 1, 4]
ERRORS = tuple((f"row-{n}", f"trace.parquet:{n}: the prompt is too long " * 9) for n in range(3))


def plain(figures: ReplayFigures, width: int, height: int) -> list[str]:
    return [line.plain for line in replay_frame(figures, "cbatch replay  poisson.parquet", width, height)]


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("slots", SLOTS)
@pytest.mark.parametrize("color_system", [None, "standard"])
def test_printed_it_fits(size: tuple[int, int], slots: int, color_system: str | None) -> None:
    width, height = size
    console = Console(file=io.StringIO(), force_terminal=True, color_system=color_system, width=width, record=True)  # type: ignore[arg-type]
    lines = replay_frame(make_replay_figures(slots, errors=ERRORS), "model " * 60, width, height)
    console.print(*lines, sep="\n")
    printed = console.export_text().splitlines()
    assert len(printed) == len(lines) <= height - 1
    assert max(Text(line).cell_len for line in printed) <= width - 1


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("slots", SLOTS)
@pytest.mark.parametrize("objectives", OBJECTIVES)
def test_its_height_depends_on_size_slots_and_objectives_only(
    size: tuple[int, int], slots: int, objectives: int
) -> None:
    full = make_replay_figures(slots, errors=ERRORS, objectives=objectives, late=True)
    silent = Rate(0.0, 0.0, ())
    bare = replace(
        make_replay_figures(slots, total=None, span_s=None, objectives=objectives),
        arrived=0, waiting=0, waiting_peak=0, arrivals=silent, completions=silent, queue=(),
    )  # fmt: skip
    bare = replace(bare, run=replace(bare.run, rows_ok=0, engine=make_view(slots, busy=0)))
    assert len(replay_frame(full, "t", *size)) == len(replay_frame(bare, "t", *size))


@given(st.integers(1, 310), st.integers(1, 90), st.sampled_from(SLOTS), st.sampled_from(OBJECTIVES))
def test_any_terminal_gets_what_fits(width: int, height: int, slots: int, objectives: int) -> None:
    lines = replay_frame(make_replay_figures(slots, errors=ERRORS, objectives=objectives), "model", width, height)
    assert 1 <= len(lines) <= max(1, height - 1)
    assert max(line.cell_len for line in lines) <= max(1, width - 1)


@given(
    st.lists(st.tuples(st.text(st.characters()), st.text(st.characters())), max_size=5),
    st.sampled_from(SIZES),
    st.text(st.characters(), max_size=99),
)
def test_no_text_breaks_it(texts: list[tuple[str, str]], size: tuple[int, int], title: str) -> None:
    width, height = size
    lines = replay_frame(make_replay_figures(errors=tuple(texts)), title, width, height)
    assert max(line.cell_len for line in lines) <= width - 1
    assert not any("\n" in line.plain or "\x1b" in line.plain for line in lines)


def test_32_slots_and_two_objectives_at_80x24() -> None:
    lines = plain(make_replay_figures(errors=ERRORS), 80, 24)
    text = "\n".join(lines)
    for part in (
        "cbatch replay  poisson.parquet",
        "1:06:40 of 2:30:00",
        " arrived 124,538/200,000  completed 123,456  failed 3",
        "arrived      31 req/s  mean      31  ",
        "done         30 req/s  mean      31  ",
        "waiting   1,079        peak   2,345  ",
        "output    4,123 tok/s  mean   3,987  ",
        "prefill  13,200 tok/s  mean  12,800  ",
        "TTFT    p50 20.0 s   p90 36.0 s   p99 39.6 s   last 999 requests",
        "slip    p50 0.5 ms   p90 0.9 ms   p99 1.0 ms   last 999 requests",
        "SLO     all              91 %  last 100   88 %  of 123,459 ended",
        "        ttft 500 ms      91 %  last 100   88 %  of 123,459 ended",
        "        tpot 50 ms       91 %  last 100   88 %  of 123,459 ended",
        "used 15 %  reserved  31 %  of 65,536 cells",
        "32/32 busy  1,079 waiting  █ 25 decode  ▒ 7 prefill",
        "errors  3  row-2: trace.parquet:2: the prompt",
        FOOTER,
    ):
        assert part in text
    assert len(lines) == 23


def test_the_bar_shows_what_arrived_beside_what_completed() -> None:
    figures = make_replay_figures(total=100)
    figures = replace(figures, arrived=75, run=replace(figures.run, rows_ok=50))
    bar = plain(figures, 80, 24)[1].split(" arrived")[0]
    assert bar == "█" * 20 + "▒" * 10 + "─" * 10


def test_arrivals_and_completions_have_one_scale() -> None:
    figures = replace(
        make_replay_figures(), arrivals=Rate(8, 8, (8.0, 8.0)), completions=Rate(1, 1, (2.0, 1.0)), queue=(1.0, 5.0)
    )
    charts = {line.split()[0]: line.split()[-1] for line in plain(figures, 80, 24) if line}
    assert (charts["arrived"], charts["done"], charts["waiting"]) == ("██", "▂▁", "▂█")


def test_without_objectives_there_is_no_slo() -> None:
    assert "SLO" not in "\n".join(plain(make_replay_figures(objectives=0), 80, 24))


def test_the_end_of_a_replay_is_named() -> None:
    figures = make_replay_figures()
    assert plain(figures, 80, 24)[0].endswith("1:06:40 of 2:30:00")
    assert plain(replace(figures, arrived=200_000), 80, 24)[0].endswith("1:06:40 of 2:30:00  draining")
    assert plain(make_replay_figures(span_s=None), 80, 24)[0].endswith(" 1:06:40")
    stopping = replace(figures, run=replace(figures.run, stopping=True))
    assert plain(stopping, 80, 24)[0].endswith("1:06:40 of 2:30:00  stopping")


def test_a_late_driver_is_red() -> None:
    def styles(figures: ReplayFigures) -> set[str]:
        (line,) = (line for line in replay_frame(figures, "t", 80, 24) if line.plain.startswith("slip"))
        return {str(span.style) for span in line.spans}

    assert "red" in styles(make_replay_figures(late=True))
    assert "red" not in styles(make_replay_figures())


def test_the_engine_may_not_have_started() -> None:
    text = "\n".join(plain(make_replay_figures(None, total=None), 80, 24))
    assert "starting" in text
    assert " arrived 124,538  completed 123,456  failed 0" in text
    assert "errors  none" in text


def test_no_background_and_no_black_or_white() -> None:
    for line in replay_frame(make_replay_figures(errors=ERRORS, late=True), "t", 80, 24):
        for span in line.spans:
            assert str(span.style) in ("", "bold", "dim", "green", "magenta", "cyan", "red")


def test_the_title_of_a_sweep() -> None:
    assert sweep_title("cbatch replay  SmolLM2", 4.0, 3, 5) == "4 req/s (rate 3 of 5)  cbatch replay  SmolLM2"
    assert sweep_title("cbatch replay", 5.65685, 7, None) == "5.657 req/s (rate 7)  cbatch replay"
