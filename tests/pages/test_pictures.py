"""The sentences of pictures against the data, and that every picture can be drawn."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
from hypothesis import given
from hypothesis import strategies as st

from cbatch.clock import VirtualClock
from cbatch.config import SchedulerConfig
from cbatch.engine import Engine
from cbatch.outputs import RunWriter, write_run_json, write_sweep
from cbatch.pages import latencies, load, occupancy, rates, ratios, tables, waterfall
from cbatch.pages.comparison import read_comparison
from cbatch.pages.occupancy import Bars
from cbatch.pages.play import Group, read_play
from cbatch.pages.style import DARK, LIGHT, Picture, render
from cbatch.pages.sweep import Sweep, read_sweep
from cbatch.pages.words import latency, number, percent
from cbatch.sampling import SamplingParams
from cbatch.types import Job, Request, RowRef
from tests.engine.factories import request
from tests.engine.test_compaction import Streams
from tests.metrics.factories import spell
from tests.pages.directories import write_comparison, write_replay, write_sweep_directory
from tests.pages.html import PNG
from tests.replay.virtual import MS, poisson


def group(path: Path, index: int = 0, **options: object) -> Group:
    write_replay(path, **options)  # type: ignore[arg-type]
    return Group(path.name, (read_play(path),), index)


def drawn(picture: Picture | None) -> str:
    """The sentence of a picture that can be drawn on any paper."""
    assert picture is not None
    light, dark = render(picture, LIGHT), render(picture, DARK)
    assert light.startswith(PNG)
    assert light != dark
    assert light == render(picture, LIGHT), "the same data give the same bytes"
    return picture.sentence


def test_ttft_is_told_by_its_percentiles(tmp_path: Path) -> None:
    replay = group(tmp_path / "r")
    ttft = pq.read_table(tmp_path / "r" / "requests.parquet")["ttft_ns"].to_numpy()
    p50, p90, p99 = (latency(float(np.percentile(ttft, p))) for p in (50, 90, 99))
    assert drawn(latencies.distribution([replay], "ttft_ns")) == (
        f"Half of the requests got their first token within {p50}; nine of ten {p90}; 99 of 100 {p99}. "
        f"Within the SLO of {latency(100 * MS)}: {percent((ttft <= 100 * MS).mean())}."
    )


def test_few_requests_have_no_p99_and_unanswered_ones_are_told(tmp_path: Path) -> None:
    replay = group(tmp_path / "r", count=60, rate=60, deadline_ns=900 * MS)
    missed = replay.missed
    assert missed > 1
    sentence = drawn(latencies.distribution([replay], "tpot_ns"))
    assert "99 of 100" not in sentence
    assert sentence.endswith(f"Not answered: {missed} of 60 requests.")
    none_in_time = group(tmp_path / "s", count=60, rate=600, slots=1, deadline_ns=200 * MS)
    assert drawn(latencies.distribution([none_in_time], "tpot_ns")) == (
        f"Fewer than half of the requests were answered. Not answered: {none_in_time.missed} of 60 requests."
    )


def test_several_are_told_by_name(tmp_path: Path) -> None:
    groups = [group(tmp_path / "slow", 0, slots=1), group(tmp_path / "_$fast", 1, slots=4)]
    medians = [latency(one.distribution("e2e_ns").p50_ns) for one in groups]
    sentence = drawn(latencies.distribution(groups, "e2e_ns"))
    assert sentence.startswith(
        f"Half of the requests were answered within {medians[0]} (slow) and {medians[1]} (_$fast)"
    )


def test_an_ecdf_ends_at_the_share_that_was_answered() -> None:
    x, share = latencies.ecdf(np.array([3.0, 1.0, 2.0]), misses=1)
    assert x.tolist() == [1, 1, 2, 3]
    assert share.tolist() == [0, 0.25, 0.5, 0.75]


def test_an_ecdf_of_many_is_a_few_true_points() -> None:
    values = np.random.default_rng(0).exponential(size=100_000)
    x, share = latencies.ecdf(values, misses=0)
    assert x.size < 500
    assert (x[-1], share[-1]) == (values.max(), 1)
    for at, value in zip(x[1::50], share[1::50], strict=True):
        assert value == (values <= at).mean()


def test_latency_against_arrival_compares_the_halves(tmp_path: Path) -> None:
    """More than can be served: the later, the slower."""
    replay = group(tmp_path / "r", slots=1, rate=50)
    table = pq.read_table(tmp_path / "r" / "requests.parquet")
    arrival, ttft = (table[name].to_numpy() for name in ("arrival_ns", "ttft_ns"))
    early = arrival - arrival.min() <= np.ptp(arrival) / 2
    first, second = float(np.median(ttft[early])), float(np.median(ttft[~early]))
    assert second > 2 * first
    assert drawn(latencies.against_arrival([replay])) == (
        f"In the first half of the time the median TTFT was {latency(first)}, in the second half {latency(second)}."
    )


def test_only_arrivals_over_time_are_drawn_over_time(tmp_path: Path) -> None:
    run = group(tmp_path / "run", is_replay=False)
    at_once = group(tmp_path / "at-once", rate=1e12, count=30)
    assert latencies.against_arrival([run]) is None
    assert len(set(at_once.first.requests["arrival_ns"])) == 1
    assert latencies.against_arrival([at_once]) is None


def test_throughput_and_queue(tmp_path: Path) -> None:
    replay = group(tmp_path / "r")
    play, table = replay.first, pq.read_table(tmp_path / "r" / "requests.parquet")
    rate = table["output_tokens"].to_numpy().sum() * 1e9 / play.span_ns
    inside = (table["finished_ns"].to_numpy() - table["admitted_ns"].to_numpy()).sum() / play.span_ns
    sentence = drawn(load.throughput([replay]))
    assert f"to the last answer: {number(rate)}." in sentence
    assert f"running in the mean: {number(inside)}." in sentence
    came, left = play.came_ns, play.left_queue_ns
    assert f"waiting at once: {max(int(((came <= t) & (left > t)).sum()) for t in came)};" in sentence


def test_kv_is_told_as_the_run_has_it(tmp_path: Path) -> None:
    summary = write_replay(tmp_path / "r")
    replay = Group("r", (read_play(tmp_path / "r"),), 0)
    most = pq.read_table(tmp_path / "r" / "steps.parquet")["kv_used_cells"].to_numpy().max()
    sentence = drawn(load.kv([replay]))
    assert sentence.startswith(f"Of the reserved KV cells, {percent(summary.run.kv_utilisation)} held tokens")
    assert sentence.endswith(f"Most in use at once: {most} cells.")


def urgent_ones(count: int = 20) -> Iterator[Job]:
    """Every other request displaces the one before."""
    for i in range(count):
        at, sampling = (i // 2) * 400 * MS + (i % 2) * 50 * MS, SamplingParams(max_tokens=12, ignore_eos=True)
        yield RowRef(i, str(i), "", at), Request(str(i), np.arange(1, 4, dtype=np.int32), sampling, 1 - i % 2, at)


def test_who_gave_way_does_not_run_meanwhile(tmp_path: Path) -> None:
    summary = write_replay(tmp_path / "r", jobs=urgent_ones(), slots=1)
    replay = Group("r", (read_play(tmp_path / "r"),), 0)
    assert summary.run.preemptions == 10
    assert summary.run.concurrency is not None
    mean = summary.run.concurrency * summary.run.engine_ns / replay.first.span_ns
    assert mean < 1
    assert f"running in the mean: {number(mean)}." in drawn(load.throughput([replay]))
    sentence = drawn(occupancy.gantt([replay]))
    assert sentence.startswith(f"Requests were in a slot for {percent(mean)} of the time of the 1 slots")
    assert "or with one of 10 that were preempted" in sentence
    assert Bars.of(replay.first).start.size == 10


def test_bars_keep_their_slots() -> None:
    bars = Bars(np.array([0.0, 1, 2, 1, 0]), np.array([0.0, 0, 0, 5, 9]), np.zeros(5), np.array([9.0, 5, 20, 30, 12]))
    assert bars.rows(3).tolist() == bars.slot.tolist()


def test_a_bar_that_moved_into_a_slot_does_not_cover_the_one_before() -> None:
    """It came into slot 3 at 2 ms, and moved to slot 0, which the first one left at 7 ms."""
    bars = Bars(np.array([0.0, 1, 2, 0]), np.array([0.0, 0, 0, 2]), np.full(4, 3.0), np.array([7.0, 41, 7, 43]))
    assert bars.rows(4).tolist() == [0, 1, 2, 3]


@given(st.lists(st.tuples(st.integers(0, 40), st.integers(0, 20), st.integers(0, 3)), max_size=30))
def test_bars_never_overlap(wanted: list[tuple[int, int, int]]) -> None:
    """Of those that come, four at most are let in at a time, and end in any slot."""
    let_in: list[tuple[float, float, float]] = []
    for start, length, slot in sorted(wanted):
        if sum(end > start for _, end, _ in let_in) < 4:
            let_in.append((start, start + length, slot))
    came, left, slots = (np.array([each[i] for each in let_in], dtype=np.float64) for i in range(3))
    rows = Bars(slots, came, left, left).rows(4)
    for row in range(4):
        of_row = sorted(zip(came[rows == row], left[rows == row], strict=True))
        assert all(a[1] <= b[0] for a, b in pairwise(of_row))


def moving(path: Path) -> Group:
    """Eight that end one after the other, in slots whose gaps are closed."""
    path.mkdir()
    batch, refs = Engine(Streams(), SchedulerConfig(8)), [RowRef(i + 1, str(i), "", 0) for i in range(8)]
    with RunWriter(
        path, output_format="parquet", sample=[], model="fake", clock=VirtualClock(), token_bytes=spell
    ) as writer:
        for i in range(8):
            batch.add(request(str(i), max_tokens=20 + 10 * i if i % 2 else 10 + i, ignore_eos=True))
        while batch.has_work:
            for output in batch.step():
                writer.finished(refs[int(output.id)], output)
            assert batch.last_step is not None
            writer.step(batch.last_step, batch.view)
    write_run_json(path, {"status": "complete", "totals": {}})
    return Group(path.name, (read_play(path),), 0)


def test_requests_that_moved_are_drawn_apart(tmp_path: Path) -> None:
    run = moving(tmp_path / "r")
    bars = Bars.of(run.first)
    assert np.unique(bars.slot).size < 8, "some ended in one slot"
    assert sorted(bars.rows(8)) == list(range(8))
    assert " Some requests moved from slot to slot; each is drawn in one." in drawn(occupancy.gantt([run]))


def test_occupancy_counts_the_time_in_slots(tmp_path: Path) -> None:
    groups = [group(tmp_path / "two", 0), group(tmp_path / "four", 1, slots=4)]
    end = max(one.first.span_ns for one in groups)
    shares = []
    for one in groups:
        columns = one.first.requests
        shares.append((columns["finished_ns"] - columns["admitted_ns"]).sum() / (one.first.slots * end))
    sentence = drawn(occupancy.gantt(groups))
    assert f"{percent(shares[0])} (two) and {percent(shares[1])} (four)" in sentence


def test_of_many_requests_the_first_are_drawn(tmp_path: Path) -> None:
    replay = group(tmp_path / "r", count=2_000, rate=1_000, slots=8, tokens=1)
    cut_ns = Bars.of(replay.first).start[1_500]
    assert f"Only the first {latency(cut_ns)} are drawn" in drawn(occupancy.gantt([replay]))


def test_attribution_names_the_largest_parts(tmp_path: Path) -> None:
    replay = group(tmp_path / "r")
    parts = replay.parts_ns()
    total, largest = sum(parts.values()), max(parts, key=lambda name: parts[name])
    sentence = drawn(waterfall.attribution([replay]))
    assert sentence.startswith(f"A request took {latency(total)} in the mean, of which ")
    assert f"{percent(parts[largest] / total)} {waterfall.PARTS[largest][0]}" in sentence
    both = drawn(waterfall.attribution([replay, group(tmp_path / "s", 1, slots=1)]))
    assert both.startswith("r: a request took")
    assert " s: a request took" in both


def test_no_requests_make_no_pictures(tmp_path: Path) -> None:
    nothing = group(tmp_path / "r", count=3, deadline_ns=1)
    assert nothing.completed("e2e_ns").size == 0
    assert latencies.distribution([nothing], "ttft_ns") is None
    assert latencies.against_arrival([nothing]) is None
    assert waterfall.attribution([nothing]) is None


def test_a_sweep_is_told_from_its_lowest_to_its_highest_rate(tmp_path: Path) -> None:
    summaries = write_sweep_directory(tmp_path / "s")
    sweep = read_sweep(tmp_path / "s", "s")
    low, high = (latency(summary.adjusted["ttft_ns"].p99_ns) for summary in (summaries[0], summaries[-1]))
    assert drawn(rates.latency_by_rate([sweep], "ttft")) == (
        f"The p99 of the time to first token goes from {low} at 10.0\u00a0req/s to {high} at 80.0. "
        f"The SLO is {latency(100 * MS)}."
    )
    good = max(summary.goodput_rps or 0 for summary in summaries)
    assert f"most within the SLO: {number(good)}." in drawn(rates.served([sweep]))
    holding = [rate for rate, s in zip((10, 20, 40, 80), summaries, strict=True) if (s.attainment or 0) >= 0.9]
    assert 0 < len(holding) < 4
    assert drawn(rates.attainment([sweep])).endswith(f": {number(holding[-1])}\u00a0requests/s.")
    assert "10.0\u00a0req/s: a request took" in drawn(rates.attribution_by_rate(sweep, [sweep]))


def overloaded(path: Path, rates: tuple[float, ...], *, slots: int = 2) -> Sweep:
    """Replays that end after 5.3 s, whatever is left."""
    path.mkdir()
    summaries = []
    for rate in rates:
        jobs = poisson(rate, int(rate * 5), tokens=4, prompt=3)
        summaries.append(write_replay(path / f"rate-{rate:g}", jobs=jobs, slots=slots, deadline_ns=5_300 * MS))
    write_sweep(path, list(zip(rates, summaries, strict=True)))
    return read_sweep(path, path.name)


def test_a_latency_that_gets_infinite_is_told_and_marked(tmp_path: Path) -> None:
    sweep = overloaded(tmp_path / "s", (20.0, 40.0, 80.0, 160.0))
    p90 = sweep.percentiles("ttft")["p90"]
    assert np.isinf(p90).tolist() == [False, False, True, True]
    assert drawn(rates.latency_by_rate([sweep], "ttft")) == (
        f"The p90 of the time to first token goes from {latency(p90[0])} at 20.0\u00a0req/s to {latency(p90[1])} at "
        f"40.0, beyond which it is infinite. The SLO is {latency(100 * MS)}. The p99 is infinite wherever known."
    )
    shown = tables.rates(sweep)
    assert [row[shown.header.index("TTFT p90")] for row in shown.rows] == [*map(latency, p90[:2]), "∞", "∞"]
    assert shown.note == "Requests that weren't answered count as infinite."
    write_sweep_directory(tmp_path / "t", (10.0,))
    assert tables.rates(read_sweep(tmp_path / "t", "t")).note == ""


def test_the_highest_percentile_of_several_sweeps_may_get_infinite(tmp_path: Path) -> None:
    sweeps = [overloaded(tmp_path / name, (20.0, 40.0, 160.0), slots=slots) for name, slots in (("a", 2), ("b", 4))]
    picture = rates.latency_by_rate(sweeps, "ttft")
    assert drawn(picture).count("beyond which it is infinite (") == 2
    assert picture is not None
    assert picture.title.endswith(", p90")


def test_an_infinite_latency_may_be_followed_by_a_finite_one(tmp_path: Path) -> None:
    sweep = overloaded(tmp_path / "s", (20.0, 40.0))
    sweep.points["ttft_p90_ns"][0] = np.inf
    assert ", and is infinite at 1 of the 2 rates." in drawn(rates.latency_by_rate([sweep], "ttft"))


def test_a_sweep_without_requests_has_no_pictures(tmp_path: Path) -> None:
    (tmp_path / "s").mkdir()
    write_sweep(tmp_path / "s", [(1.0, write_replay(tmp_path / "s" / "rate-1", jobs=[]))])
    sweep = read_sweep(tmp_path / "s", "s")
    assert rates.latency_by_rate([sweep], "ttft") is None
    assert rates.served([sweep]) is None
    assert rates.attainment([sweep]) is None


def test_sweeps_stand_on_the_same_axes(tmp_path: Path) -> None:
    for name in "ab":
        write_sweep_directory(tmp_path / name, (10.0, 40.0))
    sweeps = [read_sweep(tmp_path / name, name) for name in "ab"]
    sentence = drawn(rates.latency_by_rate(sweeps, "tpot"))
    assert "(a) and from" in sentence
    assert "(b)." in sentence
    assert drawn(rates.served(sweeps))
    assert drawn(rates.attainment(sweeps))


def test_a_forest_counts_what_got_better_and_worse(tmp_path: Path) -> None:
    write_comparison(tmp_path / "c", repeats=1)
    comparison = read_comparison(tmp_path / "c", "c")
    assert drawn(ratios.forest(comparison)) == (
        "Against static: continuous is better in 1, worse in 1 and unclear in 1 (the interval holds 1) of 4 "
        "metrics. Arrows point to where a metric is better; intervals may go on beyond the edge."
    )
