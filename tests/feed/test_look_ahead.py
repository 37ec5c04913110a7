from __future__ import annotations

import threading
import time
from collections.abc import Iterator

from cbatch.feed import LookAhead
from cbatch.types import Job, RowFault, RowRef

PATIENCE_S = 20.0


def row(number: int) -> Job:
    return RowFault(RowRef(number, str(number), "", 0), "code", "message")


class Stream(Iterator[Job]):
    """Counts what is read of it."""

    def __init__(self, length: int) -> None:
        self.length = length
        self.read = 0

    def __next__(self) -> Job:
        if self.read == self.length:
            raise StopIteration
        self.read += 1
        return row(self.read)

    def rests_at(self, count: int) -> bool:
        """Whether so many are read, and no more."""
        deadline = time.monotonic() + PATIENCE_S
        while self.read < count and time.monotonic() < deadline:
            time.sleep(0.001)
        time.sleep(0.05)
        return self.read == count


def numbers(jobs: list[Job]) -> list[int]:
    return [job.ref.number for job in jobs if isinstance(job, RowFault)]


def test_it_reads_a_window_ahead_and_then_many_at_once() -> None:
    stream = Stream(100)
    feed = LookAhead(stream, window=16)
    assert stream.rests_at(17)  # the last one is in the thread's hand
    assert numbers(feed.take(1)) == [1]
    assert stream.rests_at(17)
    assert numbers(feed.take(1)) == [2]
    assert stream.rests_at(19)
    feed.close()


def test_a_window_of_one_gives_all_rows() -> None:
    feed = LookAhead(Stream(30), window=1)
    found: list[int] = []
    while not feed.exhausted:
        feed.wait(PATIENCE_S)
        found += numbers(feed.take(5))
    assert found == list(range(1, 31))


def test_a_job_is_ready_as_soon_as_it_is_read() -> None:
    goes_on = threading.Event()

    def stream() -> Iterator[Job]:
        yield row(1)
        assert goes_on.wait(PATIENCE_S)
        yield row(2)
        assert goes_on.wait(PATIENCE_S)

    feed = LookAhead(stream(), window=16)
    for number in (1, 2):
        began = time.monotonic()
        feed.wait(PATIENCE_S)
        assert numbers(feed.take(16)) == [number]
        assert time.monotonic() - began < PATIENCE_S / 2
        goes_on.set()


def test_the_first_window_is_looked_at_and_stays() -> None:
    feed = LookAhead(Stream(40), window=16)
    jobs, all_of_them = feed.first_window(PATIENCE_S)
    assert (numbers(jobs), all_of_them) == (list(range(1, 17)), False)
    assert numbers(feed.take(3)) == [1, 2, 3]
    short = LookAhead(Stream(4), window=16)
    jobs, all_of_them = short.first_window(PATIENCE_S)
    assert (numbers(jobs), all_of_them) == ([1, 2, 3, 4], True)
    feed.close()
