"""How many slots, by predictions that are known."""

from __future__ import annotations

from cbatch.tune.choice import SlotOption, best_for_goodput, best_for_throughput


def options(**rates: float) -> list[SlotOption]:
    """`s8=100.0`: so many tokens per second with 8 slots."""
    return [SlotOption(int(name[1:]), rate, 1e6 * int(name[1:])) for name, rate in rates.items()]


def test_the_usual_number_stays_unless_another_is_clearly_faster() -> None:
    assert best_for_throughput(options(s8=300.0, s32=350.0, s64=358.0), 32).slots == 32
    assert best_for_throughput(options(s8=300.0, s32=350.0, s64=400.0), 32).slots == 64


def test_of_equally_fast_ones_the_fewest() -> None:
    assert best_for_throughput(options(s16=398.0, s24=399.0, s32=350.0, s64=400.0), 32).slots == 16


def test_without_the_usual_number_the_fewest_that_are_fast_enough() -> None:
    assert best_for_throughput(options(s1=100.0, s2=190.0, s4=191.0), 32).slots == 2


def test_goodput_counts_what_is_in_time() -> None:
    found = [SlotOption(n, 100.0, 1e6, attainment=met) for n, met in ((4, 0.5), (8, 0.98), (16, 0.985), (32, 0.7))]
    assert best_for_goodput(found).slots == 8


def test_where_no_number_is_in_time_the_fastest_is_taken() -> None:
    found = [SlotOption(n, 10.0 * n, 1e6, attainment=met) for n, met in ((1, 0.0), (8, 0.004), (32, 0.0))]
    assert best_for_goodput(found).slots == 32
