"""Who is to blame, on deaths as told; and whole jobs with random killers, run in made-up processes."""

from __future__ import annotations

import random
import signal
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from cbatch.feed import LookAhead, Quarantine
from cbatch.sampling import SamplingParams
from cbatch.supervise.death import Death
from cbatch.supervise.heartbeat import Heartbeat, Phase
from cbatch.supervise.suspects import Suspects
from cbatch.supervise.watched import Watch
from cbatch.types import Job, Request, Row, RowFault, RowRef

SEGV = signal.SIGSEGV


def death(
    *in_flight: int, tokenising: int = 0, answered: int = 0, cleared: Sequence[int] = (), steps: int = 1
) -> Death:
    return Death(SEGV, None, in_flight, tokenising, tuple(cleared), answered, steps)


def test_suspects_run_in_groups_of_the_square_root_of_their_number() -> None:
    suspects = Suspects()
    assert suspects.groups == []
    assert suspects.record(death(*range(1, 33))) is None
    assert [len(group) for group in suspects.groups] == [5, 5, 5, 5, 5, 5, 2]
    assert [row for group in suspects.groups for row in group] == list(range(1, 33))


def test_a_group_that_dies_runs_one_by_one_and_then_the_rest() -> None:
    suspects = Suspects()
    suspects.record(death(*range(1, 17)))
    suspects.record(death(5, 7, cleared=[1, 2, 3, 4, 6, 8], answered=6))
    assert suspects.groups == [[5], [7], [9, 10], [11, 12], [13, 14], [15, 16]]
    assert not suspects.condemned


def test_two_deaths_are_needed_and_the_last_one_alone() -> None:
    suspects = Suspects()
    suspects.record(death(4))
    assert not suspects.condemned
    suspects.record(death(4, 5))
    assert not suspects.condemned
    suspects.record(death(4))
    assert set(suspects.condemned) == {4}
    assert suspects.groups == [[5]]
    assert "SIGSEGV" in suspects.condemned[4]
    assert "cbatch doctor" in suspects.condemned[4]


def test_nobody_is_alone_while_another_row_is_tokenised() -> None:
    suspects = Suspects()
    suspects.record(death(4, tokenising=50))
    suspects.record(death(4, tokenising=60))
    assert not suspects.condemned


def test_a_row_that_is_tokenised_at_two_deaths_in_a_row_is_condemned_and_others_are_forgiven() -> None:
    suspects = Suspects()
    suspects.record(death(1, 2))
    suspects.record(death(1, 3, tokenising=9))
    suspects.record(death(1, 3, 4, tokenising=9))
    assert set(suspects.condemned) == {9}
    assert suspects.groups == [[1], [2]]


def test_deaths_with_nothing_in_flight_blame_nobody() -> None:
    suspects = Suspects()
    assert [suspects.record(death()) for _ in range(4)] == [None] * 4
    assert suspects.groups == []
    assert not suspects.condemned
    assert suspects.record(death()) is not None


def test_answers_between_deaths_let_it_go_on() -> None:
    suspects = Suspects()
    for row in range(1, 1000, 2):
        assert suspects.record(death(row, row + 1, answered=3, cleared=[row - 2, row - 1])) is None


def test_only_answers_of_the_crowd_count_where_the_crowd_dies() -> None:
    suspects = Suspects()
    said = []
    for first in range(0, 50, 10):
        before = range(first - 10, first) if first else ()
        said.append(suspects.record(death(*range(first + 1, first + 11), answered=len(before), cleared=before)))
    assert said[:-1] == [None] * 4
    assert said[-1] is not None
    assert "whenever many rows ran at once" in said[-1]


def test_three_deaths_before_the_first_step_are_enough() -> None:
    suspects = Suspects()
    assert [suspects.record(death(steps=0)) for _ in range(2)] == [None] * 2
    assert "before the first step" in str(suspects.record(death(steps=0)))


def test_later_deaths_while_loading_arent_judged_so_soon() -> None:
    suspects = Suspects()
    suspects.record(death(answered=1))
    assert [suspects.record(death(steps=0)) for _ in range(3)] == [None] * 3
    assert suspects.record(death(steps=0)) is not None


def test_the_diagnosis_names_what_was_seen_and_what_to_change() -> None:
    suspects = Suspects()
    for _ in range(4):
        suspects.record(Death(signal.SIGKILL, steps=1, phase=Phase.ENDING))
    said = str(suspects.record(Death(signal.SIGKILL, 300.0, steps=1, phase=Phase.ENDING)))
    for part in (
        "5 times",
        "final form",
        "SIGKILL 4 times",
        "stalled once",
        "300 s",
        "--stall-timeout",
        "same command",
    ):
        assert part in said


def test_what_is_advised_against_a_lack_of_memory_goes_on_with_the_same_job() -> None:
    suspects = Suspects("the same command, please,")
    for _ in range(4):
        suspects.record(Death(signal.SIGKILL, steps=1))
    said = str(suspects.record(Death(signal.SIGKILL, steps=1)))
    assert "lower --max-num-seqs, or start over (--force) with a lower --ctx or --kv-type q8_0" in said
    assert said.endswith("the same command, please, goes on from there")


class Died(BaseException):
    """In the place of a process's end."""


class Rows(LookAhead):
    """As `LookAhead`, without a thread: reads when asked, as many rows as chance says."""

    def __init__(self, jobs: Iterator[Job], chance: random.Random) -> None:
        self._jobs, self._chance = jobs, chance
        self._there: deque[Job] = deque()
        self._read_all = False

    def take(self, limit: int) -> list[Job]:
        for _ in range(self._chance.randint(1, 8)):
            job = next(self._jobs, None)
            if job is None:
                self._read_all = True
                break
            self._there.append(job)
        return [self._there.popleft() for _ in range(min(limit, len(self._there)))]

    @property
    def exhausted(self) -> bool:
        return self._read_all and not self._there


class World:
    """A job, and the disk that outlives its processes."""

    def __init__(self, rows: int, slots: int, killers: set[int], token_killers: set[int], seed: int) -> None:
        self.rows, self.slots, self.killers, self.token_killers = rows, slots, killers, token_killers
        self.chance = random.Random(seed)
        self.heart = Heartbeat()
        self.answered: set[int] = set()
        self.faults: set[int] = set()
        self.suspects = Suspects()
        self.deaths = 0
        self.chance_of_death = 0.0

    def run(self) -> str | None:
        """To its end; returns the diagnosis, if it ended with one."""
        while True:
            self.heart.reset()
            self.at_death = 0
            try:
                self._attempt(self.suspects.groups, self.suspects.condemned)
                return None
            except Died:
                self.deaths += 1
                self.heart.tokenising = self.at_death  # which a process that is dead doesn't take back
                diagnosis = self.suspects.record(Death.of(self.heart, SEGV))
                if diagnosis is not None:
                    return diagnosis

    def _attempt(self, groups: list[list[int]], condemned: Mapping[int, str]) -> None:
        watch = Watch(self.heart, condemned)
        feed = Quarantine(Rows(watch.encode(self._left(), self._tokenise), self.chance), groups, watch)
        waiting: deque[RowRef] = deque()
        running: dict[int, tuple[RowRef, int]] = {}
        while running or waiting or not feed.exhausted:
            for job in feed.take(40 - len(waiting)):
                if isinstance(job, RowFault):
                    self.faults.add(job.ref.number)
                    feed.fault(job)
                    watch.fault(job)
                else:
                    waiting.append(job[0])
            while waiting and len(running) < self.slots:
                ref = waiting.popleft()
                running[ref.number] = ref, self.chance.randint(1, 4)
            if running:
                self._step(running, [feed.finished, watch.finished])

    def _step(self, running: dict[int, tuple[RowRef, int]], heard: list[Callable[..., None]]) -> None:
        self.heart.step(running)
        if len(running) > 1 and self.chance.random() < self.chance_of_death:
            raise Died
        for number, (ref, left) in list(running.items()):
            if left > 1:
                running[number] = ref, left - 1
                continue
            if number in self.killers:
                raise Died
            del running[number]
            self.answered.add(number)
            for each in heard:
                each(ref, None)

    def _left(self) -> Iterator[Row]:
        done = self.answered | self.faults
        refs = (RowRef(n, str(n), f"test:{n}", 0) for n in range(1, self.rows + 1) if n not in done)
        return (Row(ref, "hello", SamplingParams()) for ref in refs)

    def _tokenise(self, row: Row) -> Request:
        if row.ref.number in self.token_killers:
            self.at_death = row.ref.number
            raise Died
        return Request(row.ref.id, np.ones(1, np.int32))


ROWS = st.integers(1, 120)


@st.composite
def worlds(draw: st.DrawFn, most_killers: int = 6) -> World:
    rows = draw(ROWS)
    bad = draw(st.sets(st.integers(1, rows), max_size=most_killers))
    token = draw(st.sets(st.sampled_from(sorted(bad)), max_size=2)) if bad else set()
    return World(rows, draw(st.integers(1, 40)), bad - token, token, draw(st.integers(0, 2**32)))


@settings(deadline=None, max_examples=300)
@given(worlds())
def test_exactly_the_killers_are_condemned(world: World) -> None:
    bad = world.killers | world.token_killers
    diagnosis = world.run()
    assert set(world.suspects.condemned) <= bad
    assert world.faults <= bad
    assert not world.answered & bad
    if diagnosis is None:
        assert world.faults == bad
        assert world.answered == set(range(1, world.rows + 1)) - bad
    else:
        assert len(bad) > 1


@settings(deadline=None, max_examples=300)
@given(st.integers(1, 32), st.integers(1, 120), st.integers(0, 2**32))
def test_one_killer_takes_three_restarts_at_most(slots: int, row: int, seed: int) -> None:
    world = World(120, slots, {row}, set(), seed)
    assert world.run() is None
    assert world.faults == {row}
    assert world.deaths <= 3


@settings(deadline=None, max_examples=100)
@given(st.integers(2, 40), st.integers(0, 2**32))
def test_deaths_by_chance_condemn_nobody(slots: int, seed: int) -> None:
    """While no row is alone: two that hit the same lone row can't be told from its own doing."""
    world = World(150, slots, set(), set(), seed)
    world.chance_of_death = 0.05
    while True:
        world.heart.reset()
        if world.deaths == 4:
            world.chance_of_death = 0
        try:
            world._attempt(world.suspects.groups, world.suspects.condemned)
            break
        except Died:
            world.deaths += 1
            world.suspects.record(Death.of(world.heart, SEGV))
    assert not world.faults
    assert world.answered == set(range(1, 151))
