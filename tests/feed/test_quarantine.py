"""Suspects run a group at a time with nothing beside them; whatever else comes is kept, in order."""

from __future__ import annotations

import threading

from hypothesis import given, settings
from hypothesis import strategies as st

from cbatch.config import SchedulerConfig
from cbatch.driver import Driver, Ending
from cbatch.engine import Engine, FakeRunner
from cbatch.feed import CRASHED, LookAhead, Quarantine
from cbatch.types import Job, RowFault
from tests.test_driver import Recorder, job, ref


class Watching:
    """A watcher that keeps what it hears."""

    def __init__(self) -> None:
        self.suspended = False
        self.ended: list[int] = []
        self.beats = 0

    def beat(self) -> None:
        self.beats += 1

    def suspend(self) -> None:
        assert not self.suspended
        self.suspended = True

    def resume(self) -> None:
        assert self.suspended
        self.suspended = False

    def cleared(self, number: int) -> None:
        self.ended.append(number)


def drive(jobs: list[Job], groups: list[list[int]], slots: int = 4) -> tuple[Recorder, list[set[int]], Watching]:
    """Also which rows were in slots, step by step."""
    runner = FakeRunner(max_num_seqs=slots)
    engine = Engine(runner, SchedulerConfig(max_num_seqs=slots, share_cells=False))
    watching, seen = Watching(), Recorder()
    feed = Quarantine(LookAhead(jobs, window=5), groups, watching)
    assert Driver(engine, feed, [seen, feed], max_cells=100, backlog=5).run().ending is Ending.COMPLETE
    assert not watching.suspended
    plans = [{int(work.seq.request.id) for work in (*plan.decodes, *plan.prefills)} for plan in runner.plans]
    return seen, plans, watching


def numbers(jobs: list[Job]) -> list[int]:
    return [each.ref.number if isinstance(each, RowFault) else each[0].number for each in jobs]


def crashed(number: int) -> RowFault:
    return RowFault(ref(number), CRASHED, "it kills")


def all_of(count: int) -> list[Job]:
    return [job(number) for number in range(1, count + 1)]


def settled(jobs: list[Job], groups: list[list[int]]) -> tuple[Quarantine, Watching]:
    """A feed that has read all there is."""
    watching = Watching()
    inner = LookAhead(jobs)
    inner.first_window(5)
    return Quarantine(inner, groups, watching), watching


def test_without_suspects_it_isnt_felt() -> None:
    feed, watching = settled(all_of(5), [])
    assert feed.num_ready == 5
    assert numbers(feed.take(2)) == [1, 2]
    assert numbers(feed.take(9)) == [3, 4, 5]
    assert feed.exhausted
    assert watching.beats == 2


def test_groups_run_one_after_another_and_the_rest_after_them() -> None:
    feed, watching = settled(all_of(8), [[5], [2, 7]])
    assert numbers(feed.take(9)) == [5]
    assert watching.suspended
    assert feed.take(9) == []
    assert feed.num_ready == 7
    feed.fault(RowFault(ref(5), "prompt_too_long", "no"))
    assert not watching.suspended
    assert numbers(feed.take(9)) == [2, 7]
    feed.fault(RowFault(ref(7), "x", "y"))
    assert feed.take(9) == []
    assert not feed.exhausted
    feed.fault(RowFault(ref(2), "x", "y"))
    assert numbers(feed.take(3)) == [1, 3, 4]
    assert numbers(feed.take(9)) == [6, 8]
    assert feed.exhausted
    assert watching.ended == [5, 7, 2]


def test_a_limit_below_a_groups_size_splits_it() -> None:
    feed, _ = settled(all_of(4), [[2, 3, 4]])
    assert numbers(feed.take(2)) == [2, 3]
    for number in (2, 3):
        feed.fault(RowFault(ref(number), "x", "y"))
    assert feed.take(0) == []
    assert numbers(feed.take(2)) == [4]


def test_suspects_that_arent_there_are_given_up_as_soon_as_a_later_row_comes() -> None:
    gate = threading.Event()

    def reading() -> list[Job]:
        gate.wait(5)
        return all_of(0)

    def stream() -> object:
        yield job(1)
        yield job(9)
        yield from reading()

    inner = LookAhead(stream())  # type: ignore[arg-type]
    watching = Watching()
    feed = Quarantine(inner, [[3, 4], [5]], watching)
    while inner.num_ready < 2:
        feed.wait(0.01)
    assert feed.take(9) == []
    assert sorted(watching.ended) == [3, 4, 5]
    assert numbers(feed.take(9)) == [1, 9]
    gate.set()


def test_suspects_that_never_come_dont_keep_the_run_from_ending() -> None:
    seen, _, watching = drive(all_of(9), [[3, 50], [60]])
    assert len(seen.outputs) == 9
    assert set(watching.ended) == {3, 50, 60}


def test_a_row_that_crashed_is_held_back_until_another_is_answered() -> None:
    feed, _ = settled([crashed(1), job(2), job(3)], [])
    assert numbers(feed.take(9)) == [2, 3]
    assert not feed.exhausted
    feed.fault(RowFault(ref(2), "prompt_too_long", "no"))
    assert feed.take(9) == []
    seen, _, _ = drive([job(3)], [])
    feed.finished(ref(3), seen.outputs["3"])
    assert numbers(feed.take(9)) == [1]
    assert feed.exhausted


def test_with_nothing_else_left_a_row_that_crashed_comes_out() -> None:
    seen, _, _ = drive([crashed(1), crashed(2)], [])
    assert numbers(list(seen.faults)) == [1, 2]


@settings(deadline=None)
@given(st.data())
def test_nothing_is_lost_and_suspects_have_no_company(data: st.DataObject) -> None:
    count = data.draw(st.integers(1, 40))
    suspects = data.draw(st.lists(st.integers(1, count + 5), unique=True, max_size=12))
    size = data.draw(st.integers(1, 6))
    groups = [suspects[i : i + size] for i in range(0, len(suspects), size)]
    faulty = data.draw(st.sets(st.integers(1, count), max_size=5))
    dead = data.draw(st.sets(st.integers(1, count), max_size=3)) - set(suspects) - faulty
    jobs: list[Job] = [
        crashed(n) if n in dead else RowFault(ref(n), "invalid_json", "no") if n in faulty else job(n)
        for n in range(1, count + 1)
    ]
    seen, plans, watching = drive(jobs, groups, slots=data.draw(st.integers(1, 6)))
    assert sorted(map(int, seen.outputs)) == sorted(set(range(1, count + 1)) - faulty - dead)
    assert {fault.ref.number for fault in seen.faults} == faulty | dead
    assert len(seen.faults) == len(faulty | dead)
    assert sorted(n for n in watching.ended if n <= count) == sorted(n for n in suspects if n <= count)
    for rows in plans:
        for group in groups:
            assert not rows & set(group) or rows <= set(group)
