"""Jobs by a cost model that is known."""

from __future__ import annotations

from dataclasses import replace

import pytest

from cbatch.clock import VirtualClock
from cbatch.config import ContextConfig, SchedulerConfig
from cbatch.engine import Engine
from cbatch.metrics import parse_objectives
from cbatch.tune.choice import SlotOption
from cbatch.tune.goal import Goal
from cbatch.tune.mix import Mix, made_up
from cbatch.tune.predict import Simulation, chunk_within
from cbatch.tune.slots import choose, slot_options
from cbatch.types import Request
from tests.sim.recording import COSTS, play

SIMULATION = Simulation(COSTS, ContextConfig(), SchedulerConfig())
ROWS = made_up([100] * 40, [20] * 40, 1000)
LONGEST = (100, 119)
"""Tokens of the longest prompt, and of the longest row, of ROWS."""


def test_a_single_row_takes_its_prompt_and_its_steps() -> None:
    played = SIMULATION.run(ROWS[:1], 4)
    assert played.output_tokens == 20
    assert played.steps == 20
    prompt_ms = 5 + (8 - 5) + (20 - 8) + (140 - 20) * 84 / 240
    assert 1e3 * played.seconds == pytest.approx(prompt_ms + 19 * 6, rel=0.25)


def test_more_slots_are_faster_and_their_steps_longer() -> None:
    found = [SIMULATION.run(ROWS, slots) for slots in (1, 4, 16)]
    assert found[0].seconds > found[1].seconds > found[2].seconds
    assert found[0].step_ns < found[1].step_ns < found[2].step_ns


def looked_at(simulation: Simulation, goal: Goal, most: int, held: int) -> list[SlotOption]:
    return slot_options(simulation, goal, most, held, usual=16, goes_on=lambda: True)


def test_the_usual_number_is_looked_at_in_any_case_and_others_while_there_is_time() -> None:
    asked = iter([True, False])
    found = slot_options(SIMULATION, Goal(ROWS), 40, 110, usual=12, goes_on=lambda: next(asked))
    assert [option.slots for option in found] == [8, 12]


def test_slots_for_a_job() -> None:
    goal = Goal(ROWS, all_rows=True)
    options = looked_at(SIMULATION, goal, 40, Mix.of(ROWS).context)
    assert [option.slots for option in options] == [1, 2, 4, 8, 12, 16, 24, 32, 40]
    best = choose(options, goal, 32)
    assert best.tokens_per_s >= 0.97 * max(option.tokens_per_s for option in options)


def test_steps_are_bounded_by_the_token_budget() -> None:
    bound = 40e6
    goal = Goal(ROWS, most_stall_ns=bound)
    options = looked_at(SIMULATION, goal, 16, 110)
    assert options
    for option in options:
        assert option.batched_tokens is not None
        chunk = option.batched_tokens - (option.slots - 1)
        assert chunk == tokens_within(bound, option.slots)
    assert tokens_within(1e6, 32) is None
    assert tokens_within(1e12, 4) == 2048
    assert (tokens_within(60e6, 4) or 0) > (tokens_within(40e6, 4) or 0)


def tokens_within(ns: float, slots: int, longest: tuple[int, int] = LONGEST) -> int | None:
    return chunk_within(COSTS, ContextConfig(), slots, 110, longest, ns, 2048)


def test_a_bound_counts_with_the_longest_row() -> None:
    assert (tokens_within(60e6, 4, (4000, 6000)) or 0) < (tokens_within(60e6, 4) or 0)


def test_a_bound_holds_where_some_rows_are_far_longer() -> None:
    bound = 100e6
    rows = made_up([100] * 60 + [3000] * 2, [20] * 62, 1000)
    goal = Goal(rows, most_stall_ns=bound)
    (option,) = [each for each in looked_at(SIMULATION, goal, 16, Mix.of(rows).context) if each.slots == 16]
    clock = VirtualClock()
    engine = Engine(SIMULATION.runner(16, goal.cells, clock), SIMULATION.with_slots(16, option.batched_tokens))
    for row in rows:
        engine.add(row)
    long = 0
    while engine.has_work:
        engine.step()
        assert engine.last_step is not None
        long += engine.last_step.decode_seqs > 0 and engine.last_step.end_ns - engine.last_step.start_ns > 1.02 * bound
    assert long == 0


def test_steps_may_be_bounded_by_what_the_command_computes_in_one() -> None:
    replay = replace(SIMULATION, scheduler=SchedulerConfig(max_num_batched_tokens=512))
    options = looked_at(replay, Goal(ROWS, most_stall_ns=1e12), 16, 110)
    assert {option.batched_tokens for option in options} == {512}


def test_under_objectives_fewer_slots_may_be_better() -> None:
    objectives = parse_objectives(["tpot:16"])
    goal = Goal(ROWS, objectives=objectives, rate=2.0)
    options = looked_at(SIMULATION, goal, 32, 110)
    best = choose(options, goal, 32)
    assert best.attainment == max(option.attainment or 0 for option in options)
    assert all(0 <= (option.attainment or 0) <= 1 for option in options)


def test_what_is_attained_depends_on_how_the_engine_is_set() -> None:
    """With long prompts in large steps, tokens beside them are late; in order of length, first tokens are."""
    rows = made_up([900, 20] * 30, [20] * 60, 1000)
    objectives = parse_objectives(["tpot:20"])
    small, large = (
        replace(SIMULATION, scheduler=SchedulerConfig(max_num_batched_tokens=tokens)).attainment(rows, 3, objectives, 8)
        for tokens in (64, 2048)
    )
    assert small > 1.2 * large
    kept = SchedulerConfig(prefix_cache_bytes=1 << 30, keep_prefixes=True)
    again = made_up([300], [2], 1000) * 1
    same = [replace(again[0], id=str(n)) for n in range(20)]
    limit = parse_objectives(["ttft:60"])
    assert replace(SIMULATION, scheduler=kept).attainment(same, 1, limit, 4) > 0.9
    assert SIMULATION.attainment(same, 1, limit, 4) == 0


def ragged() -> list[Request]:
    """Long rows come last."""
    return made_up([20] * 60, [8] * 58 + [160] * 2, 1000)


def test_the_end_is_longest_first_as_in_a_run() -> None:
    longest = replace(SIMULATION, scheduler=SchedulerConfig(drain="longest"))
    assert longest.run(ragged(), 8).steps < 0.8 * SIMULATION.run(ragged(), 8).steps


def test_it_takes_as_many_steps_as_a_run() -> None:
    """The driver tells the engine when the feed is exhausted; here that is from the beginning."""
    config, context = SchedulerConfig(8, drain="longest"), ContextConfig(8, 256)
    recorded = play(ragged(), context=context, drain="longest")
    assert Simulation(COSTS, context, config, 100.0, 4).run(ragged(), 8).steps == len(recorded.steps)


def test_lengths_that_a_run_doesnt_know_dont_help_it() -> None:
    longest = replace(SIMULATION, scheduler=SchedulerConfig(drain="longest"))
    rows = ragged()
    known, unknown = (longest.run(rows, 8, limits=limits) for limits in ({}, {row.id: 200 for row in rows}))
    assert known.output_tokens == unknown.output_tokens == sum(row.sampling.max_tokens for row in rows)
    assert unknown.steps > 1.2 * known.steps


def test_limits_reserve_what_a_run_reserves() -> None:
    rows = made_up([20] * 4, [8] * 4, 1000)
    assert Goal(rows).cells == 27
    assert Goal(rows, limits={rows[1].id: 100}).cells == 119
