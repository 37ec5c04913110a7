from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cbatch.errors import InputError
from cbatch.sim.costs import StepCostModel
from cbatch.sim.fit import fit, held_out
from cbatch.sim.measured import MeasuredCall, MeasuredStep, deviation_of
from cbatch.sim.ubatches import Span, Ubatch, cut_streams
from tests.sim.recording import COSTS


def decode(count: int, cells: int) -> tuple[Ubatch, ...]:
    return tuple(cut_streams([Span(slot, cells, 1, 1) for slot in range(count)], 512))


def prompt(length: int) -> tuple[Ubatch, ...]:
    return tuple(cut_streams([Span(0, 0, length, 1)], 512))


def step(costs: StepCostModel, ubatches: tuple[Ubatch, ...], running: int, factor: float = 1.0) -> MeasuredStep:
    """What takes just as long as the model says, or `factor` times as long."""
    return MeasuredStep(
        calls=(MeasuredCall(ubatches, round(factor * costs.call_ns(ubatches))),),
        running=running,
        sampled=running,
        sample_ns=round(costs.sample_ns(running)),
        overhead_ns=round(costs.overhead_ns(running)),
    )


def load(costs: StepCostModel, seed: int, count: int = 400, noise: float = 0.0) -> list[MeasuredStep]:
    random = np.random.default_rng(seed)
    steps = []
    for _ in range(count):
        factor = 1 + noise * random.standard_normal()
        if random.random() < 0.3:
            steps.append(step(costs, prompt(int(random.integers(2, 400))), 1, factor))
        else:
            running = int(random.integers(1, 17))
            steps.append(step(costs, decode(running, int(random.integers(10, 500))), running, factor))
    return steps


models = st.builds(
    lambda base, rises, output, single, thick: StepCostModel(
        (0, 1, 4, 16, 128, 512),
        tuple(np.cumsum([base, *rises]).tolist()),
        output_ns=output,
        single_ns=single,
        thin_ns=single,
        thick_ns=thick,
        step_ns=2e5,
        running_ns=1e4,
        sampling_ns=1e5,
        sampled_ns=2e4,
    ),
    st.floats(1e6, 1e7),
    st.lists(st.floats(1e6, 1e8), min_size=5, max_size=5),
    st.floats(0, 2e6),
    st.floats(0, 1e4),
    st.floats(0, 1e4),
)


@settings(max_examples=25)
@given(models, st.integers(0, 1000))
def test_it_recovers_a_known_model(costs: StepCostModel, seed: int) -> None:
    found = fit(load(costs, seed))
    again = deviation_of(found, load(costs, seed + 1))
    assert again.mean < 0.03
    assert abs(again.total) < 0.01
    assert found.step_ns == pytest.approx(2e5, rel=0.01)
    assert found.sampled_ns == pytest.approx(2e4, rel=0.01)


@settings(max_examples=25)
@given(st.integers(0, 1000), st.floats(0, 0.5))
def test_whatever_is_measured_more_never_takes_less(seed: int, noise: float) -> None:
    found = fit(load(COSTS, seed, noise=noise))
    times = [found.weights(tokens) for tokens in range(1, 1500, 7)]
    assert times == sorted(times)


@pytest.mark.parametrize("noise", [0.0, 0.1])
def test_held_out_steps_tell_the_noise(noise: float) -> None:
    error = held_out(load(COSTS, 1, count=1000, noise=noise))
    assert error.steps == 200
    assert error.mean == pytest.approx(noise * np.sqrt(2 / np.pi), abs=0.015)
    assert error.p90 == pytest.approx(noise * 1.8, abs=0.03)
    assert abs(error.total) < 0.02


def test_hiccups_change_the_total_and_not_the_shape() -> None:
    steps = load(COSTS, 2, count=500)
    steps[::100] = [step(COSTS, each.calls[0].ubatches, each.running, factor=50) for each in steps[::100]]
    found = fit(steps)
    assert sum(s.predicted_ns(found) for s in steps) == pytest.approx(sum(s.total_ns for s in steps), rel=1e-3)
    ratios = [found.call_ns(decode(n, 100)) / COSTS.call_ns(decode(n, 100)) for n in (1, 4, 12, 16)]
    assert max(ratios) / min(ratios) < 1.1


def test_snapshots_by_token() -> None:
    steps = load(COSTS, 3)
    steps += [MeasuredStep((), restored_tokens=100, restore_ns=3000, saved_tokens=200, save_ns=1000)] * 2
    assert (fit(steps).restore_ns, fit(steps).save_ns) == (30, 5)


def test_restores_that_were_never_measured_are_guessed_from_prompts() -> None:
    found = fit(load(COSTS, 3))
    assert found.restore_ns == found.save_ns > 0


def test_streams_that_were_never_measured_attend_at_the_price_of_the_others() -> None:
    costs = replace(COSTS, single_ns=4e3, thin_ns=4e3, thick_ns=4e3)
    random = np.random.default_rng(4)
    found = fit([step(costs, decode(n, int(random.integers(10, 2000))), n) for n in (1, 2, 4, 8, 16) * 40])
    assert found.thin_ns == pytest.approx(found.single_ns, rel=0.05)
    assert found.thick_ns == pytest.approx(found.single_ns, rel=0.05)
    assert found.single_ns + found.scanned_ns == pytest.approx(4e3, rel=0.1)


def test_each_kind_of_stream_has_a_price_of_its_own() -> None:
    costs = replace(COSTS, single_ns=6e3, thin_ns=3e3, thick_ns=1e3)
    random = np.random.default_rng(5)

    def some(length: int) -> tuple[Ubatch, ...]:
        return tuple(cut_streams([Span(slot, int(random.integers(0, 1000)), length, 0) for slot in range(2)], 512))

    found = fit([step(costs, some(length), 2) for length in (1, 8, 32, 64, 128) * 40])
    assert found.single_ns == pytest.approx(6e3, rel=0.05)
    assert found.thin_ns == pytest.approx(3e3, rel=0.05)
    assert found.thick_ns == pytest.approx(1e3, rel=0.05)


def test_too_few_steps() -> None:
    with pytest.raises(InputError, match="3 native calls are too few"):
        fit(load(COSTS, 0, count=3))
