"""The best that step costs allow, on small numbers and against what really happens."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cbatch.clock import VirtualClock
from cbatch.config import SchedulerConfig
from cbatch.engine import Engine, FakeRunner
from cbatch.feed import Arrivals
from cbatch.metrics import RunCollector, RunData
from cbatch.metrics.bound import StepCosts, merged, shortest_ns, unshared_tokens
from cbatch.replay import Replay
from cbatch.sampling import SamplingParams
from cbatch.types import Request, RowRef
from tests.metrics.factories import make_step
from tests.metrics.loads import play, poisson


def costs(*steps: dict[str, int]) -> StepCosts:
    found = StepCosts()
    for step in steps:
        found.add(make_step(**step))
    return found


def test_the_cheapest_token_counts() -> None:
    found = costs(
        *[{"decode_seqs": 1, "decode_call_ns": 10}] * 3,
        *[{"decode_seqs": 4, "decode_call_ns": 20}] * 3,
        {"decode_seqs": 8, "decode_call_ns": 8},  # seen once: not believed
        *[{"prefill_tokens": 8, "prefill_call_ns": 16, "prefill_seqs": 1}] * 3,
        *[{"prefill_tokens": 64, "prefill_call_ns": 64, "prefill_seqs": 1}] * 3,
    )
    assert (found.decode_ns, found.prefill_ns) == (5, 1)


def test_what_was_seen_seldom_is_better_than_nothing() -> None:
    found = costs({"decode_seqs": 2, "decode_call_ns": 10}, {"prefill_tokens": 4, "prefill_call_ns": 12})
    assert (found.decode_ns, found.prefill_ns) == (5, 3)


def test_idle_slots_that_were_computed_are_tokens_too_and_mixed_calls_are_shared_by_tokens() -> None:
    assert costs({"decode_seqs": 1, "padding_seqs": 3, "decode_call_ns": 8}).decode_ns == 2
    mixed = costs({"decode_seqs": 1, "prefill_tokens": 3, "mixed_call_ns": 8})
    assert (mixed.decode_ns, mixed.prefill_ns) == (2, 2)


def test_costs_of_several_runs_are_believed_together() -> None:
    one = costs({"decode_seqs": 2, "decode_call_ns": 4})
    often = costs(*[{"decode_seqs": 1, "decode_call_ns": 9}] * 3)
    assert merged([one, often]).decode_ns == 9
    assert merged([one, one, one, often]).decode_ns == 2


def test_the_bound_is_the_work_from_some_arrival_on() -> None:
    found = costs({"decode_seqs": 1, "decode_call_ns": 2}, {"prefill_tokens": 1, "prefill_call_ns": 1})
    ones = np.ones(3)

    def shortest(*arrivals: float) -> float | None:
        return shortest_ns(np.array(arrivals), ones, 2 * ones, found)

    assert shortest(0, 0, 0) == 9  # three prompt tokens of 1 and three outputs of 2
    assert shortest(0, 100, 100) == 106
    assert shortest(100, 0, 100) == 106
    assert shortest(50, 51, 52) == 9


def share_of_bound(data: RunData) -> float:
    done = {name: column[data.completed] for name, column in data.columns.items()}
    shortest = shortest_ns(done["arrival_ns"], done["unshared_tokens"], done["output_tokens"], data.costs)
    assert shortest is not None
    return shortest / data.summary.run.duration_ns


@pytest.mark.parametrize("utilisation", [0.3, 0.9, 3.0])
def test_no_run_beats_its_bound(utilisation: float) -> None:
    collector = RunCollector()
    play(poisson(utilisation, 200, seed=0, slots=4, steps=5), collector, slots=4, steps=5)
    share = share_of_bound(collector.data())
    assert share <= 1
    if utilisation >= 3:
        assert share > 0.5


def test_nothing_completed_has_no_bound() -> None:
    nothing = np.empty(0)
    assert shortest_ns(nothing, nothing, nothing, StepCosts()) is None


def test_a_run_that_restores_prefixes_doesnt_beat_its_bound() -> None:
    """Ten prompts of 1,000 tokens, 900 of them the same, at a millisecond each."""
    clock, collector = VirtualClock(), RunCollector()
    runner = FakeRunner(clock=clock, cost_ns=lambda decodes, prompts: 1_000_000 * (prompts + decodes))
    engine = Engine(runner, SchedulerConfig(8, prefix_cache_bytes=1 << 30, keep_prefixes=True))
    rng = np.random.default_rng(0)
    head = rng.integers(0, 1000, 900)
    prompts = [np.concatenate([head, rng.integers(0, 1000, 100)]).astype(np.int32) for _ in range(10)]
    jobs = [
        (RowRef(i, str(i), str(i), 0), Request(str(i), prompt, SamplingParams(max_tokens=2)))
        for i, prompt in enumerate(prompts, 1)
    ]
    Replay(engine, Arrivals(jobs, clock), [collector], max_cells=2000).run()
    data = collector.data()
    assert data.summary.run.duration_ns < 2.5e9
    assert 0.8 < share_of_bound(data) <= 1


prompts_alike = st.lists(st.lists(st.integers(0, 2), max_size=6), max_size=8)


@given(prompts_alike)
def test_unshared_tokens_are_those_that_no_earlier_prompt_begins_with(drawn: list[list[int]]) -> None:
    def expected(i: int) -> float:
        known = {tuple(other[:n]) for other in drawn[:i] for n in range(len(other) + 1)}
        new = [n for n in range(1, len(drawn[i]) + 1) if tuple(drawn[i][:n]) not in known]
        return max(1, len(new)) if drawn[i] else np.nan

    found = unshared_tokens([np.array(prompt, np.int32) for prompt in drawn])
    np.testing.assert_array_equal(found, [expected(i) for i in range(len(drawn))])
