"""The end of a job: who is let in first once nothing more will arrive, and what that is worth."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import groupby
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cbatch.config import SchedulerConfig
from cbatch.engine import Engine, FakeRunner
from cbatch.engine.drain import longest_first
from cbatch.engine.prefix_tree import Node
from cbatch.engine.sequence import Sequence
from cbatch.errors import UsageError
from cbatch.sampling import SamplingParams
from cbatch.types import Request
from tests.engine.factories import alone, request
from tests.engine.test_admission import list_schedule
from tests.engine.test_prefix_cache import prefilled, shared

LONG = 1 << 20


def forced(length: int, **fields: Any) -> Request:
    """A request with exactly so many output tokens, which are its id."""
    return request(str(length), max_tokens=length, ignore_eos=True, **fields)


def batch_of(requests: Iterable[Request], slots: int = 1, **config: Any) -> tuple[Engine, FakeRunner]:
    runner = FakeRunner(max_num_seqs=slots)
    batch = Engine(
        runner, SchedulerConfig(**{"max_num_seqs": slots, "max_num_batched_tokens": LONG, "drain": "longest", **config})
    )
    for each in requests:
        batch.add(each)
    return batch, runner


def admitted(runner: FakeRunner) -> list[str]:
    return [seq.id for plan in runner.plans for seq in plan.admitted]


def test_the_longest_goes_first_once_nothing_more_arrives() -> None:
    batch, runner = batch_of(map(forced, (3, 5, 2, 9, 4)))
    batch.step()
    assert batch.minds_end
    batch.end_arrivals()
    assert not batch.minds_end
    list(batch)
    assert admitted(runner) == ["3", "9", "5", "4", "2"]


@pytest.mark.parametrize("config", [{"drain": "arrival"}, {"batching": "static"}, {"batching": "padded"}])
def test_order_of_arrival_stays_where_it_is_asked_for_and_in_groups(config: dict[str, Any]) -> None:
    batch, runner = batch_of(map(forced, (3, 5, 2, 9, 4)), **config)
    assert not batch.minds_end
    batch.end_arrivals()
    list(batch)
    assert admitted(runner) == ["3", "5", "2", "9", "4"]


def test_where_nothing_is_known_of_lengths_nothing_changes() -> None:
    batch, runner = batch_of(request(name, max_tokens=50, end_tokens=frozenset(range(97, 123))) for name in "abcdef")
    batch.end_arrivals()
    list(batch)
    assert admitted(runner) == list("abcdef")


def test_a_higher_priority_comes_first_however_short_and_late() -> None:
    batch, runner = batch_of(
        [forced(7, priority=1), forced(9, priority=1, arrival_ns=5), forced(2, arrival_ns=LONG * LONG)]
    )
    batch.end_arrivals()
    list(batch)
    assert admitted(runner) == ["2", "9", "7"]


def test_what_comes_all_the_same_runs_last_and_the_next_load_in_order_of_arrival() -> None:
    batch, runner = batch_of(map(forced, (3, 5)))
    batch.end_arrivals()
    batch.add(forced(9))
    list(batch)
    assert admitted(runner) == ["5", "3", "9"]
    for each in map(forced, (3, 5)):
        batch.add(each)
    list(batch)
    assert admitted(runner)[3:] == ["3", "5"]


def test_who_gave_way_has_a_slot_again_before_those_that_had_none() -> None:
    runner = FakeRunner(max_num_seqs=2, cells_per_seq=200, total_cells=200)
    config = SchedulerConfig(2, kv_overcommit=True, share_cells=False, drain="longest")
    batch = Engine(runner, config)
    for each in map(forced, (130, 120, 110, 140)):
        batch.add(each)
    batch.end_arrivals()
    outputs = list(batch)
    preempted = [seq.id for plan in runner.plans for seq in plan.preempted]
    assert preempted
    order = admitted(runner)
    assert order[order.index(preempted[0]) + 1] == preempted[0]
    assert len(outputs) == 4


def test_lengths_are_learned_as_the_job_goes() -> None:
    """The rows with the higher max_tokens stop at their first token: after eight of them the others go ahead."""
    end = frozenset(range(97, 123))
    rows = [request(f"short {i}", max_tokens=100, end_tokens=end) for i in range(20)]
    rows += [request(f"long {i}", max_tokens=50) for i in range(5)]
    batch, runner = batch_of(rows)
    batch.end_arrivals()
    list(batch)
    order = [name.split()[0] for name in admitted(runner)]
    assert [(kind, len(list(run))) for kind, run in groupby(order)] == [("short", 8), ("long", 5), ("short", 12)]


def test_an_unknown_order_is_refused() -> None:
    with pytest.raises(UsageError, match="drain is 'shortest': give one of arrival, longest"):
        SchedulerConfig(drain="shortest")


def test_rows_of_one_prefix_stay_together_where_their_longest_would_come() -> None:
    lengths = {"a": (5, 40, 7, 6), "b": (30, 31, 32), "c": (50, 3)}
    rows = []
    for seed, (name, of_group) in enumerate(lengths.items()):
        for i, (length, prompt) in enumerate(zip(of_group, shared(len(of_group), 300, 20, seed), strict=True)):
            rows.append(Request(f"{name}{i}", prompt, SamplingParams(max_tokens=length, ignore_eos=True)))
    mixed = [rows[i] for i in np.random.default_rng(3).permutation(len(rows))]
    batch, runner = batch_of(mixed, prefix_cache_bytes=1 << 20, group_prefixes=True)
    batch.end_arrivals()
    list(batch)
    assert admitted(runner) == ["c0", "c1", "a1", "a2", "a3", "a0", "b2", "b1", "b0"]
    assert prefilled(runner) == 3 * 300 + len(rows) * 20
    loose, runner = batch_of(mixed, prefix_cache_bytes=1 << 20)
    loose.end_arrivals()
    list(loose)
    assert admitted(runner) == ["c0", "a1", "b2", "b1", "b0", "a2", "a3", "a0", "c1"]


def test_within_a_prefix_of_all_rows_the_longest_goes_first() -> None:
    prompts = shared(6, 300, 20)
    rows = [
        Request(str(n), prompt, SamplingParams(max_tokens=n, ignore_eos=True))
        for n, prompt in zip((3, 8, 5, 9, 1, 4), prompts, strict=True)
    ]
    batch, runner = batch_of(rows, prefix_cache_bytes=1 << 20, group_prefixes=True)
    batch.end_arrivals()
    list(batch)
    assert admitted(runner) == ["9", "8", "5", "4", "3", "1"]


class Waits:
    """A drawn queue: sequences with lengths, priorities, and chains of prefixes."""

    def __init__(self, made: list[tuple[int, int, tuple[int, ...]]]) -> None:
        nodes: dict[tuple[int, ...], Node] = {}
        self.seqs = [Sequence(request(str(i), priority=priority), i) for i, (_, priority, _) in enumerate(made)]
        self.lengths = {seq.id: length for seq, (length, _, _) in zip(self.seqs, made, strict=True)}
        self.prefixes = {
            seq: [nodes.setdefault(way[: depth + 1], Node(None, np.zeros(0, np.int32))) for depth in range(len(way))]
            for seq, (_, _, way) in zip(self.seqs, made, strict=True)
        }

    def order(self) -> list[Sequence]:
        return longest_first(self.seqs, lambda wanted: self.lengths[wanted.id], self.prefixes.__getitem__)


ways = st.lists(st.integers(0, 2), max_size=3).map(tuple)


@given(st.lists(st.tuples(st.integers(1, 6), st.integers(-1, 1), ways), max_size=14))
def test_any_queue_is_sorted_by_priority_then_groups_then_lengths(made: list[tuple[int, int, tuple[int, ...]]]) -> None:
    waits = Waits(made)
    order = waits.order()
    assert sorted(order, key=waits.seqs.index) == waits.seqs
    priorities = [seq.request.priority for seq in order]
    assert priorities == sorted(priorities)
    for priority in set(priorities):
        equals = [seq for seq in order if seq.request.priority == priority]
        for node in {node for seq in equals for node in waits.prefixes[seq]}:
            inside = [node in waits.prefixes[seq] for seq in equals]
            assert [within for within, _ in groupby(inside)].count(True) == 1  # together
        _check_sorted(waits, equals, 0)


def _check_sorted(waits: Waits, seqs: list[Sequence], depth: int) -> None:
    """Groups and single sequences at one level come in order of their longest, which a group begins with."""
    tops = []
    for node, run in groupby(seqs, lambda seq: (waits.prefixes[seq] + [None] * 4)[depth] or seq):
        members = list(run)
        tops.append(max(waits.lengths[seq.id] for seq in members))
        if isinstance(node, Node):
            _check_sorted(waits, members, depth + 1)
    assert tops == sorted(tops, reverse=True)


@given(
    st.lists(st.tuples(st.integers(1, 20), st.integers(-1, 1), st.integers(1, 30)), min_size=1, max_size=20),
    st.integers(1, 4),
    st.integers(0, 12),
)
def test_every_row_runs_once_with_its_own_tokens(rows: list[tuple[int, int, int]], slots: int, before: int) -> None:
    wanted = [
        request(str(i), prompt, length, priority=priority, end_tokens=frozenset({99, 110}), ignore_eos=bool(i % 2))
        for i, (length, priority, prompt) in enumerate(rows)
    ]
    batch, runner = batch_of(wanted, slots, preempt="off")
    outputs = []
    for _ in range(before):
        outputs += batch.step()
    started = admitted(runner)
    batch.end_arrivals()
    while batch.has_work:
        outputs += batch.step()
        batch.check_integrity()
    assert sorted(output.id for output in outputs) == sorted(each.id for each in wanted)
    assert {output.id: output.token_ids.tolist() for output in outputs} == {each.id: alone(each) for each in wanted}
    priorities = [wanted[int(name)].priority for name in admitted(runner)[len(started) :]]
    assert priorities == sorted(priorities)


def job_r(seed: int) -> list[Request]:
    """96 rows of 32 to 256 tokens, outputs exponential with mean 48 in 8 to 192."""
    rng = np.random.default_rng(seed)
    return [
        request(
            str(i),
            int(rng.integers(32, 257)),
            int(np.clip(rng.exponential(48), 8, 192)),
            ignore_eos=True,
        )
        for i in range(96)
    ]


def test_ragged_jobs_end_close_to_the_shortest_time_that_could_be() -> None:
    """A step takes 1 ms whatever runs in it, so that a makespan is a number of steps."""
    beyond = {"arrival": 0, "longest": 0}
    for seed in range(8):
        rows = job_r(seed)
        lengths = [row.sampling.max_tokens for row in rows]
        bound = max(max(lengths), -(-sum(lengths) // 32))
        for drain, order in (("arrival", lengths), ("longest", sorted(lengths, reverse=True))):
            batch, runner = batch_of(rows, 32, drain=drain)
            batch.end_arrivals()
            list(batch)
            steps = runner.clock.now_ns() // 1_000_000
            assert steps == list_schedule(order, 32)
            beyond[drain] += steps - bound
        assert steps <= bound * (4 / 3 - 1 / (3 * 32))  # Graham's bound for the order last played
    assert beyond["longest"] <= 0.1 * beyond["arrival"]
    assert beyond["arrival"] > 100
