from __future__ import annotations

import json
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cbatch.sim.costs import StepCostModel
from cbatch.sim.ubatches import Ubatch
from tests.sim.recording import COSTS

MODEL = StepCostModel(
    knots=(0, 2, 4, 8), weights_ns=(10, 20, 20, 60), output_ns=1, single_ns=4, thin_ns=2, thick_ns=3, scanned_ns=0.5
)


@pytest.mark.parametrize(("tokens", "ns"), [(0, 10), (1, 15), (2, 20), (3, 20), (4, 20), (6, 40), (8, 60)])
def test_weights_are_linear_between_knots(tokens: int, ns: float) -> None:
    assert MODEL.weights(tokens) == ns


def test_beyond_the_last_knot_they_go_on_as_in_the_last_half() -> None:
    assert MODEL.weights(10) == 60 + 2 * 10
    assert replace(MODEL, weights_ns=(10, 20, 60, 60)).weights(16) == 60  # flat there, as far as was seen


def test_a_call_is_the_sum_of_its_parts() -> None:
    assert MODEL.call_ns([Ubatch(4, 3, 0, 7, 0, 8), Ubatch(2, 0, 0, 0, 5, 2)]) == (20 + 3 + 14 + 4) + (20 + 15 + 1)
    assert MODEL.call_ns([Ubatch(1, 1, 9, 0, 0, 0)]) == 15 + 1 + 36
    assert MODEL.call_ns([]) == 0


def test_what_is_around_calls() -> None:
    costs = replace(MODEL, step_ns=100, running_ns=10, sampling_ns=50, sampled_ns=5)
    assert costs.overhead_ns(3) == 130
    assert costs.sample_ns(2) == 60
    assert costs.sample_ns(0) == 0


def test_a_machine_that_is_slower_by_a_factor() -> None:
    ubatches = [Ubatch(4, 3, 0, 7, 0, 8), Ubatch(300, 1, 9, 0, 5, 2)]
    slower = COSTS.scaled(1.25)
    assert slower.call_ns(ubatches) == pytest.approx(1.25 * COSTS.call_ns(ubatches))
    assert slower.sample_ns(3) + slower.overhead_ns(2) + slower.restore_ns == pytest.approx(
        1.25 * (COSTS.sample_ns(3) + COSTS.overhead_ns(2) + COSTS.restore_ns)
    )


@given(st.integers(1, 3000), st.integers(0, 200))
def test_more_tokens_never_take_less(tokens: int, more: int) -> None:
    assert COSTS.weights(tokens) <= COSTS.weights(tokens + more)


def test_json_and_back() -> None:
    assert StepCostModel.from_dict(json.loads(json.dumps(COSTS.to_dict()))) == COSTS


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"version": 1}, "version 1"),
        ({"knots": [0, 4, 1, 16, 256]}, "rising"),
        ({"knots": [1, 2, 4, 16, 256]}, "rising"),
        ({"weights_ns": [5, 4, 3, 2, 1]}, "rising"),
        ({"weights_ns": [1, 2, 3, 4, float("inf")]}, "weights_ns"),
        ({"output_ns": -1}, "output_ns is -1"),
        ({"thin_ns": float("nan")}, "thin_ns is nan"),
        ({"thin_ns": None}, "coefficient"),
        ({"knots": None}, "coefficient"),
    ],
)
def test_what_is_no_cost_model_is_refused(changes: dict[str, object], reason: str) -> None:
    with pytest.raises(ValueError, match=reason):
        StepCostModel.from_dict({**COSTS.to_dict(), **changes})


def test_a_coefficient_that_is_missing_is_named() -> None:
    record = COSTS.to_dict()
    del record["save_ns"]
    with pytest.raises(ValueError, match="save_ns"):
        StepCostModel.from_dict(record)
