from __future__ import annotations

import json
import os
from collections import defaultdict
from dataclasses import replace
from decimal import Decimal
from fractions import Fraction
from pathlib import Path
from random import Random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cbatch.clock import VirtualClock
from cbatch.config import SchedulerConfig
from cbatch.engine import Engine, FakeRunner
from cbatch.errors import OutputError
from cbatch.metrics import Attribution
from cbatch.metrics.request import samples_of
from cbatch.report.timeline import CALLS, STEPS, WAITING, TimelineWriter, slot_track
from cbatch.types import Request, RequestOutput, RowRef, StepRecord
from tests.engine.factories import engine, request
from tests.engine.test_compaction import Streams

Event = dict[str, Any]
FIELDS = {  # phase: what it must have beside ph, pid, tid, ts, name, args
    "M": set(),
    "X": {"dur", "cat"},
    "C": set(),
    "b": {"cat", "id"},
    "e": {"cat", "id"},
}


def read(path: Path) -> list[Event]:
    """The events, their times as exact numbers of ns."""
    document = json.loads(path.read_text("ascii"), parse_float=Decimal)
    assert document.keys() == {"traceEvents"}
    for event in document["traceEvents"]:
        for name in ("ts", "dur"):
            if name in event:
                ns = Fraction(event[name]) * 1000
                assert ns.denominator == 1
                event[name] = int(ns)
    events: list[Event] = document["traceEvents"]
    return events


def check_format(events: list[Event]) -> None:
    """The rules of the Trace Event Format for the phases used."""
    for event in events:
        assert event.keys() - FIELDS[event["ph"]] == {"ph", "pid", "tid", "ts", "name", "args"}
        assert type(event["pid"]) is int
        assert type(event["tid"]) is int
        assert event["ts"] >= 0
        assert event.get("dur", 0) >= 0
        if event["ph"] == "C":
            assert all(isinstance(value, int) for value in event["args"].values())
    check_names(events)
    check_nesting(events)
    check_spans(events)


def check_names(events: list[Event]) -> None:
    named = {(e["name"], e["pid"], e["tid"] if e["name"] == "thread_name" else None) for e in events if e["ph"] == "M"}
    owners: dict[int, int] = {}
    for event in events:
        assert ("process_name", event["pid"], None) in named
        assert owners.setdefault(event["tid"], event["pid"]) == event["pid"]  # a tid belongs to one process
        if event["ph"] == "X":
            assert ("thread_name", event["pid"], event["tid"]) in named


def check_nesting(events: list[Event]) -> None:
    """Slices of a track are apart, or one lies in the other."""
    tracks = defaultdict(list)
    for event in events:
        if event["ph"] == "X":
            tracks[event["pid"], event["tid"]].append((event["ts"], -event["dur"]))
    for slices in tracks.values():
        open_ends: list[int] = []
        for start, negative in sorted(slices):
            while open_ends and open_ends[-1] <= start:
                open_ends.pop()
            assert not open_ends or start - negative <= open_ends[-1]
            open_ends.append(start - negative)


def check_spans(events: list[Event]) -> None:
    began = {(e["cat"], e["id"], e["name"]): e["ts"] for e in events if e["ph"] == "b"}
    ended = {(e["cat"], e["id"], e["name"]): e["ts"] for e in events if e["ph"] == "e"}
    assert began.keys() == ended.keys()
    assert len(began) == sum(e["ph"] == "b" for e in events)
    assert all(began[key] < ended[key] for key in began)


Ran = tuple[list[StepRecord], list[tuple[RowRef, RequestOutput]]]


def run(path: Path, seed: int, *, split: bool, **config: Any) -> Ran:
    """A random run on the fake runner, told to a timeline as the driver tells it; urgent requests displace others."""
    random, clock = Random(seed), VirtualClock()
    runner = FakeRunner(
        max_num_seqs=3,
        clock=clock,
        cost_ns=lambda decodes, prefill: decodes * 1_001 + prefill * 333 + random.choice((0, 1_234_567)),
        faults={"7": 5, "8": 1},
        split_calls=split,
    )
    chunks = {"max_num_batched_tokens": random.randint(4, 20), "prefill_chunk": random.choice((None, 3))}
    batcher, _ = engine(runner, **chunks, **config)
    refs = {str(n): RowRef(n, f"row {n}", "", 0) for n in range(1, 13)}
    left = list(refs)
    steps, outputs = [], []
    with TimelineWriter(path) as timeline:
        while left or batcher.has_work:
            while left and random.random() < 0.6:
                batcher.add(any_request(left.pop(), random))
            if random.random() < 0.2:
                clock.advance(random.randrange(5_000_000))
            ended = [batcher.cancel(next(iter(batcher._live)))] if batcher.has_work and random.random() < 0.02 else []
            for output in (*ended, *batcher.step()):
                outputs.append((refs[output.id], output))
                timeline.finished(*outputs[-1])
            if batcher.last_step is not None:
                steps.append(batcher.last_step)
                timeline.step(steps[-1], batcher.view)
    return steps, outputs


def any_request(name: str, random: Random) -> Request:
    n = random.choice((1, 1, 1, 3))
    wanted = request(name, random.randint(1, 12), random.randint(1, 6), priority=random.randint(0, 2), n=n)
    return replace(wanted, fork_seeds=(1, 2)[: n - 1])


@given(st.integers(0, 10**6), st.booleans(), st.sampled_from(["swap", "recompute"]), st.booleans())
def test_a_random_run(
    tmp_path_factory: pytest.TempPathFactory, seed: int, split: bool, preempt: str, overcommit: bool
) -> None:
    path = tmp_path_factory.mktemp("timeline") / "t.json"
    steps, outputs = run(path, seed, split=split, preempt=preempt, kv_overcommit=overcommit)
    events = read(path)
    check_format(events)
    slices = defaultdict(list)
    for event in events:
        if event["ph"] == "X":
            slices[event["pid"], event["tid"]].append((event["name"], event["ts"], event["ts"] + event["dur"]))
    calls = [call for record in steps for call in record.call_log]
    assert slices[STEPS] == [(f"step {record.step}", record.start_ns, record.end_ns) for record in steps]
    assert slices[CALLS] == [(call.kind, call.start_ns, call.end_ns) for call in calls]
    expected = defaultdict(list)
    for call in calls:
        for work in call.computed:
            expected[slot_track(work.slot)].append((work.phase, call.start_ns, call.end_ns))
    for track, wanted in expected.items():
        found = [each for each in slices[track] if not each[0].startswith("row")]
        assert sorted(found) == sorted(wanted)
    check_requests(events, steps, outputs)
    waited = {
        ref.id: output.enqueued_ns
        for ref, output in outputs
        if output.enqueued_ns != (output.finished_ns if output.admitted_ns is None else output.admitted_ns)
    }
    assert {e["args"]["request"]: e["ts"] for e in events if e["ph"] == "b"} == waited


def check_requests(
    events: list[Event], steps: list[StepRecord], outputs: list[tuple[RowRef, RequestOutput]]
) -> dict[str, list[Event]]:
    """The slices of a sample are the times that it spent in slots, and what was computed of it lies in them."""
    slices = defaultdict(list)
    for event in events:
        if event.get("cat") == "request":
            slices[event["name"].removeprefix("row ")].append(event)
    for _, output in outputs:
        for sample in samples_of(output):
            check_sample(sample, slices[f"{output.id}#{sample.sample}" if sample.sample else output.id])
    for call in (call for record in steps for call in record.call_log):
        for work in call.computed:
            inside = [e for e in slices[work.id] if e["tid"] == slot_track(work.slot).tid]
            assert any(e["ts"] <= call.start_ns and call.end_ns <= e["ts"] + e["dur"] for e in inside)
    return slices


def check_sample(sample: RequestOutput, slices: list[Event]) -> None:
    if sample.admitted_ns is None:
        assert not slices
        return
    assert slices[0]["ts"] == sample.admitted_ns
    in_slots = sample.finished_ns - sample.admitted_ns - sample.times.preempted_ns
    assert sum(e["dur"] for e in slices) == in_slots
    if sample.slot is not None:
        last = slices[-1]
        assert (last["tid"], last["ts"] + last["dur"]) == (slot_track(sample.slot).tid, sample.finished_ns)


@pytest.mark.parametrize("batching", ["continuous", "static"])
def test_a_request_that_moves_has_a_slice_in_each_slot(tmp_path: Path, batching: str) -> None:
    batcher, steps, outputs = Engine(Streams(), SchedulerConfig(8, batching=batching)), [], []
    for i in range(8):
        batcher.add(request(str(i), max_tokens=20 + 10 * i if i % 2 else 10 + i, ignore_eos=True))
    with TimelineWriter(tmp_path / "t.json") as timeline:
        while batcher.has_work:
            for output in batcher.step():
                outputs.append((RowRef(1, output.id, "", 0), output))
                timeline.finished(*outputs[-1])
            assert batcher.last_step is not None
            steps.append(batcher.last_step)
            timeline.step(steps[-1], batcher.view)
    events = read(tmp_path / "t.json")
    check_format(events)
    slices = check_requests(events, steps, outputs)
    moves = sum(record.moved for record in steps)
    assert moves >= 3
    assert sum(map(len, slices.values())) == 8 + moves


def test_a_padded_batch_computes_on_outside_of_requests(tmp_path: Path) -> None:
    batcher, _ = engine(FakeRunner(max_num_seqs=2), max_num_seqs=2, batching="padded")
    for name, tokens in (("a", 2), ("b", 5)):
        batcher.add(request(name, 4, tokens))
    with TimelineWriter(tmp_path / "t.json") as timeline:
        while batcher.has_work:
            for output in batcher.step():
                timeline.finished(RowRef(1, output.id, "", 0), output)
            assert batcher.last_step is not None
            timeline.step(batcher.last_step, batcher.view)
    events = read(tmp_path / "t.json")
    check_format(events)
    assert [(e["name"], e["dur"] // 10**6) for e in events if e.get("cat") == "request"] == [("a", 2), ("b", 5)]
    assert sum(e.get("cat") == "tokens" for e in events) == 10


@pytest.mark.parametrize("split", [True, False])
def test_a_call_lies_in_its_request(tmp_path: Path, split: bool) -> None:
    run(tmp_path / "t.json", 3, split=split)
    events = read(tmp_path / "t.json")
    requests = [e for e in events if e.get("cat") == "request"]
    works = [e for e in events if e.get("cat") == "tokens"]
    for work in works:
        around = [
            r
            for r in requests
            if r["tid"] == work["tid"] and r["ts"] <= work["ts"] and work["ts"] + work["dur"] <= r["ts"] + r["dur"]
        ]
        assert len(around) == 1
    kinds = {e["name"] for e in events if (e["pid"], e["tid"]) == CALLS}
    assert ("mixed" in kinds) is not split


def test_what_is_shown_of_a_request(tmp_path: Path) -> None:
    _, outputs = run(tmp_path / "t.json", 2, split=True)
    events = read(tmp_path / "t.json")
    shown = {e["name"]: e["args"] for e in events if e.get("cat") == "request"}
    for ref, output in outputs:
        assert output.admitted_ns is not None
        args = shown[ref.id]
        assert args["prompt_tokens"] == output.request.prompt.size
        assert args["output_tokens"] == output.token_ids.size
        assert args["finish_reason"] == output.finish_reason.value
        assert args.get("error") == output.error
        parts = [args[f"{name[:-3]}_ms"] * 10**6 for name in Attribution._fields]
        assert tuple(map(round, parts)) == Attribution.of(output)
        assert ("ttft_ms" in args) is (output.first_token_ns is not None)


def test_counters_hold_over_a_step_and_fall_to_0_when_nothing_runs(tmp_path: Path) -> None:
    batcher, _ = engine(FakeRunner(max_num_seqs=2))
    with TimelineWriter(tmp_path / "t.json") as timeline:
        for name in "abc":
            batcher.add(request(name, 4, 2))
        while batcher.has_work:
            batcher.step()
            assert batcher.last_step is not None
            timeline.step(batcher.last_step, batcher.view)
    counts = [(e["ts"] // 10**6, e["args"]) for e in read(tmp_path / "t.json") if e["name"] == "requests"]
    assert counts == [
        (0, {"waiting": 1, "running": 2}),
        (1, {"waiting": 1, "running": 2}),
        (2, {"waiting": 1, "running": 0}),
        (2, {"waiting": 0, "running": 1}),
        (3, {"waiting": 0, "running": 1}),
        (4, {"waiting": 0, "running": 0}),
    ]


def test_any_id_is_written_in_one_line_of_ascii(tmp_path: Path) -> None:
    batcher, _ = engine()
    batcher.add(request("a", max_tokens=1))
    with TimelineWriter(tmp_path / "t.json") as timeline:
        (output,) = batcher.step()
        timeline.finished(RowRef(1, 'é\n"\\\udcff\x1b', "", 0), output)
        assert batcher.last_step is not None
        timeline.step(batcher.last_step, batcher.view)
    (shown,) = [e["name"] for e in read(tmp_path / "t.json") if e.get("cat") == "request"]
    assert shown == 'é↵"\\��'


def test_a_run_that_broke_off_is_readable(tmp_path: Path) -> None:
    path = tmp_path / "t.json"

    def break_off() -> None:
        batcher, _ = engine()
        batcher.add(request("a", 4, 9))
        with TimelineWriter(path) as timeline:
            batcher.step()
            assert batcher.last_step is not None
            timeline.step(batcher.last_step, batcher.view)
            assert os.listdir(tmp_path) == [".t.json.tmp"]
            raise RuntimeError("broken off")

    with pytest.raises(RuntimeError):
        break_off()
    assert os.listdir(tmp_path) == ["t.json"]
    events = read(path)
    check_format(events)
    assert [e["name"] for e in events if e.get("cat") == "tokens"] == ["prefill"]


def test_a_run_without_a_step_is_readable(tmp_path: Path) -> None:
    timeline = TimelineWriter(tmp_path / "t.json")
    timeline.close()
    timeline.close()
    check_format(read(tmp_path / "t.json"))


def test_a_place_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(OutputError, match=r"timeline .*none/t\.json can't be written: No such file"):
        TimelineWriter(tmp_path / "none" / "t.json")


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no /dev/full here")
def test_a_full_disk_names_the_path_once(tmp_path: Path) -> None:
    (tmp_path / ".t.json.tmp").symlink_to("/dev/full")
    timeline = TimelineWriter(tmp_path / "t.json")
    with pytest.raises(OutputError, match=r"t\.json can't be written: No space left"):
        timeline.close()
    timeline.close()
    assert os.listdir(tmp_path) == []


def test_a_request_that_is_cancelled_after_the_last_step_has_its_slice(tmp_path: Path) -> None:
    batcher, _ = engine()
    batcher.add(request("a", 4, 9))
    with TimelineWriter(tmp_path / "t.json") as timeline:
        batcher.step()
        assert batcher.last_step is not None
        timeline.step(batcher.last_step, batcher.view)
        timeline.finished(RowRef(1, "a", "", 0), batcher.cancel("a"))
    (found,) = [e for e in read(tmp_path / "t.json") if e.get("cat") == "request"]
    assert (found["ts"], found["dur"], found["args"]["finish_reason"]) == (0, 10**6, "cancelled")


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no /dev/full here")
def test_what_ended_is_not_written_after_an_error(tmp_path: Path) -> None:
    (tmp_path / ".t.json.tmp").symlink_to("/dev/full")
    batcher, _ = engine()
    batcher.add(request("a"))
    (output,) = list(batcher)
    timeline = TimelineWriter(tmp_path / "t.json")
    timeline.finished(RowRef(1, "a" * 100_000, "", 0), output)
    with pytest.raises(OutputError, match="No space left"):
        timeline.close()
    timeline.close()


def test_waiting_spans_of_a_request_that_never_ran(tmp_path: Path) -> None:
    batcher, runner = engine()
    batcher.add(request("a"))
    clock = runner.clock
    assert isinstance(clock, VirtualClock)
    clock.advance(1_500)
    output = batcher.cancel("a")
    with TimelineWriter(tmp_path / "t.json") as timeline:
        timeline.finished(RowRef(3, "a", "", 0), output)
    events = [e for e in read(tmp_path / "t.json") if e["ph"] != "M"]
    assert [(e["ph"], e["id"], e["ts"], (e["pid"], e["tid"])) for e in events] == [
        ("b", "3", 0, WAITING),
        ("e", "3", 1_500, WAITING),
    ]
