from __future__ import annotations

from cbatch.sim.seats import Run, find_seats


def run(slot: int, first: int, last: int) -> Run:
    return Run(slot, prompt=4, cached=0, first_step=first, last_step=last)


def seats(*runs: Run, moved: dict[int, int] | None = None, total: int = 4, keep: bool = False) -> list[Run]:
    steps = max(each.last_step for each in runs) + 1
    find_seats(runs, [(moved or {}).get(i, 0) for i in range(steps)], total, keep=keep)
    return list(runs)


def test_the_lowest_free_slot_is_given_out() -> None:
    a, b, c = seats(run(0, 0, 1), run(1, 0, 9), run(0, 2, 5))
    assert [each.seats for each in (a, b, c)] == [[(0, 0)], [(0, 1)], [(2, 0)]]
    assert all(each.certain for each in (a, b, c))


def test_the_last_go_into_the_holes() -> None:
    a, b, c, d = seats(run(0, 0, 1), run(1, 0, 9), run(2, 0, 1), run(0, 0, 9), moved={2: 1})
    assert d.seats == [(0, 3), (2, 0)]
    assert [d.slot_in(step) for step in (0, 1, 2, 9)] == [3, 3, 0, 0]
    assert all(each.certain for each in (a, b, c, d))


def test_static_groups_keep_their_slots_to_the_end() -> None:
    a, b, c = seats(run(0, 0, 1), run(1, 0, 3), run(0, 4, 5), keep=True)
    assert c.seats == [(4, 0)]
    _, moved, _ = seats(run(0, 0, 1), run(0, 0, 3), run(0, 4, 5), keep=True, moved={2: 1})
    assert moved.seats == [(0, 1), (2, 0)]
    assert a.certain
    assert b.certain


def test_what_contradicts_the_record_is_doubtful() -> None:
    (only,) = seats(run(3, 0, 1))
    assert not only.certain


def test_without_seats_the_recorded_slot_holds() -> None:
    assert run(3, 0, 1).slot_in(0) == 3
    assert run(3, 0, 1).certain


def test_more_sequences_than_slots_are_doubtful_and_no_error() -> None:
    a, b = seats(run(0, 0, 5), run(1, 0, 5), total=1)
    assert a.certain
    assert b.seats == []
