from __future__ import annotations

import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cbatch.metrics.percentiles import Distribution
from cbatch.metrics.replay import ReplayAccumulator
from cbatch.metrics.saturation import Saturation, saturation
from cbatch.metrics.steady import SteadyState, mean_inside, mser, steady_state, steady_window
from cbatch.metrics.step_table import StepTable
from cbatch.metrics.table import RequestTable
from cbatch.sampling import SamplingParams
from cbatch.types import FinishReason, Request, RowRef
from tests.metrics.factories import make_fault, make_output, make_step
from tests.metrics.loads import STEP_NS, play, poisson
from tests.replay.virtual import MS
from tests.replay.virtual import play as replay

STABLE = Saturation(False, queue_middle=0, queue_end=0, growth=0, threshold=8, arrivals=20)


def test_the_ramp_is_cut_where_the_values_level_off() -> None:
    assert mser(np.array([0, 3, 6, 9, 9, 9, 9, 9, 9, 9])) == 3
    assert mser(np.array([9, 9, 9, 9])) == 0


def test_at_most_half_is_cut() -> None:
    assert mser(np.array([0, 1, 2, 3, 4, 4, 4, 4])) == 4
    assert mser(np.arange(8)) == 4


@given(st.lists(st.integers(0, 9), min_size=2, max_size=30))
def test_the_cut_minimises_the_standard_error_of_what_is_kept(values: list[int]) -> None:
    kept = [np.array(values[d:]) for d in range(len(values) // 2 + 1)]
    errors = [((k - k.mean()) ** 2).sum() / k.size**2 for k in kept]
    assert errors[mser(np.array(values))] == pytest.approx(min(errors), abs=1e-9)


def test_the_window_is_from_the_end_of_the_ramp_to_the_last_arrival() -> None:
    arrivals = np.arange(0, 10_000, 10)
    start, end = window(arrivals, arrivals + 1_000)  # 100 in the system, from 1,000 ns on
    assert end == 9_990
    assert 950 <= start <= 1_000


def window(arrivals: np.ndarray, finished: np.ndarray) -> tuple[int, int]:
    found = steady_window(arrivals, finished, STABLE)
    assert not isinstance(found, str)
    return found


def test_why_there_is_no_window() -> None:
    few, many, at_once = np.arange(9), np.arange(100), np.zeros(100)
    assert steady_window(few, few, None) == "steady state needs 10 requests, there are 9"
    assert steady_window(at_once, at_once, saturation(at_once, at_once)) == "all requests arrive at once"
    assert steady_window(many, many + 100, None) == "the last request came before any had ended"
    growing = np.full(100, np.inf)
    assert steady_window(many, growing, saturation(many, growing)) == "the queue grows to the end"


def test_the_mean_inside_is_weighted_by_time() -> None:
    assert mean_inside(np.array([0, 12, 16, 30]), np.array([14, 15, 25, 40]), 10, 20) == (4 + 3 + 4) / 10


def test_figures_of_a_window() -> None:
    table = RequestTable()
    table.add(make_output([8, 12], arrival_ns=4, admitted_ns=6))  # before, finishes in it
    table.add(make_output([12, 14, 18], arrival_ns=10, admitted_ns=11))
    table.add(make_output([26, 30], arrival_ns=20, admitted_ns=22))  # finishes after it
    table.add(make_output([16], arrival_ns=13, admitted_ns=14, reason=FinishReason.ERROR))
    table.add(make_output(arrival_ns=15, finished_ns=19, reason=FinishReason.CANCELLED))
    table.add_fault(make_fault())
    steps = StepTable()
    for start, end, busy, finished, tokens in ((6, 9, 2, 1, 1), (9, 10, 1, 0, 2), (14, 20, 4, 3, 4), (20, 21, 2, 1, 8)):
        steps.add(make_step(start_ns=start, end_ns=end, slots_busy=busy, finished=finished, output_tokens=tokens))
    found = steady_state((10, 20), table, steps, (50,))
    latencies = {"ttft_ns": [2, 6], "tpot_ns": [3, 4], "e2e_ns": [8, 10]}
    assert found == SteadyState(
        start_ns=10,
        end_ns=20,
        arrived=4,
        requests_per_s=2e8,
        output_tokens_per_s=6e8,
        concurrency=(4 * 1 + 6 * 4) / 10,
        latencies={name: Distribution.of(values, (50,)) for name, values in latencies.items()},
    )
    record = found.to_dict()
    assert json.loads(json.dumps(record, allow_nan=False)) == record


def test_it_agrees_with_theory_on_a_stable_load() -> None:
    observer = ReplayAccumulator()
    play(poisson(0.6, 2000, seed=0, slots=4, steps=4), observer, slots=4, steps=4)
    found = observer.summary().steady
    assert found is not None
    rate = 0.6 * 1e9 / STEP_NS
    assert found.requests_per_s == pytest.approx(rate, rel=0.1)
    assert found.output_tokens_per_s == pytest.approx(4 * rate, rel=0.1)
    assert found.concurrency == pytest.approx(0.6 * 4, rel=0.1)  # Little's law: rate x time in a slot
    assert found.latencies["tpot_ns"].p50_ns == STEP_NS


@pytest.mark.parametrize(("priority", "samples", "slots"), [(2, 1, 1), (0, 4, 8)])
def test_it_runs_what_the_whole_run_does(priority: int, samples: int, slots: int) -> None:
    """Who gave way to others doesn't run meanwhile, and all samples of a request do."""
    sampling = SamplingParams(max_tokens=25, ignore_eos=True, n=samples)
    jobs = [
        (
            RowRef(i, str(i), "", at := (i // 2) * 60 * MS + (i % 2) * 5 * MS),
            Request(
                str(i),
                np.arange(1, 4, dtype=np.int32),
                sampling,
                priority * (1 - i % 2),
                at,
                fork_seeds=(1, 2, 3)[: samples - 1],
            ),
        )
        for i in range(40)
    ]
    summary, _ = replay(jobs, slots=slots, cost_ns=lambda _decodes, _prompts: MS)
    assert summary.steady is not None
    assert summary.run.concurrency is not None
    assert (summary.run.preemptions > 0) is (priority > 0)
    assert summary.steady.concurrency == pytest.approx(summary.run.concurrency, rel=0.1)
    assert summary.steady.concurrency <= slots
