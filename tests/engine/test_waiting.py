"""The queue: ranks, an order that was set, and withdrawals from either."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from cbatch.engine.sequence import Sequence
from cbatch.engine.waiting import WaitingQueue
from tests.engine.factories import request


def make(*names: str, priority: int = 0, arrival_ns: int = 0) -> list[Sequence]:
    return [Sequence(request(name, priority=priority, arrival_ns=arrival_ns), 0) for name in names]


def queue(*seqs: Sequence, ageing_ns: int = 10) -> WaitingQueue:
    waiting = WaitingQueue(ageing_ns)
    for seq in seqs:
        waiting.push(seq)
    return waiting


def emptied(waiting: WaitingQueue) -> list[Sequence]:
    """All, one after the other."""
    shown, gone = waiting.in_order(), []
    while (seq := waiting.peek()) is not None:
        waiting.withdraw(seq)
        gone.append(seq)
    assert gone == shown
    assert len(waiting) == 0
    return gone


def ids(waiting: WaitingQueue) -> str:
    return "".join(seq.id for seq in emptied(waiting))


def test_a_higher_priority_goes_ahead_until_others_have_aged() -> None:
    a, b = make("a")[0], make("b", priority=1)[0]
    assert ids(queue(b, a)) == "ab"
    late = make("c", arrival_ns=11)[0]
    assert ids(queue(late, b)) == "bc"


def test_an_arranged_queue_keeps_its_order_and_takes_in_others() -> None:
    a, b, c, d = make(*"abcd")
    low, new = make("l", priority=1)[0], make("n")[0]
    waiting = queue(a, b, c, d, low)
    waiting.arrange([c, a, d, b, low])
    assert waiting.peek() is c
    waiting.withdraw(c)
    waiting.withdraw(d)
    c.admitted_ns = 5  # and has lost its slot
    waiting.push(c)
    waiting.push(new)
    assert ids(waiting) == "cabnl"


def test_a_queue_that_ran_empty_goes_by_ranks_again() -> None:
    a, b = make("a", arrival_ns=5)[0], make("b", arrival_ns=3)[0]
    waiting = queue(a)
    waiting.arrange([a])
    waiting.withdraw(a)
    waiting.push(a)
    assert not waiting.arranged
    waiting.push(b)
    assert ids(waiting) == "ba"


def test_who_comes_again_stands_where_it_was_pushed_last() -> None:
    a, b, c = make(*"abc")
    waiting = queue(a, b, c)
    waiting.withdraw(a)
    waiting.push(a)  # the old entry is still in front
    assert ids(waiting) == "bca"


@given(st.lists(st.tuples(st.integers(-2, 2), st.integers(0, 40)), min_size=1, max_size=12), st.data())
def test_any_order_is_kept_whoever_leaves(made: list[tuple[int, int]], data: st.DataObject) -> None:
    seqs = [make(chr(97 + i), priority=p, arrival_ns=at)[0] for i, (p, at) in enumerate(made)]
    waiting = queue(*seqs)
    order = sorted(data.draw(st.permutations(seqs)), key=lambda seq: seq.request.priority)
    waiting.arrange(order)
    for seq in data.draw(st.lists(st.sampled_from(seqs), unique=True)):
        waiting.withdraw(seq)
        order.remove(seq)
    assert emptied(waiting) == order
