"""Published workloads: their lengths at any scale, loads, and what is refused."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest

from cbatch.errors import UsageError
from cbatch.traces.generate import generate
from cbatch.traces.presets import PRESETS, Point, make_preset
from cbatch.traces.trace import TraceRequest


def drawn(point: Point, capacity: float | None = None, count: int = 2000) -> list[TraceRequest]:
    return list(generate(point.config(count, 0, capacity), Counter()))


def outputs(requests: list[TraceRequest]) -> list[int]:
    return [request.output_tokens or 0 for request in requests]


def prompts(requests: list[TraceRequest]) -> list[int]:
    return [request.prompt_tokens or 0 for request in requests]


@pytest.mark.parametrize("scale", [1, 0.25])
def test_anyscale(scale: float) -> None:
    caps = {"cap-32": 32, "cap-128": 128, "cap-512": 512, "cap-1536": 1536}
    points = {point.label: point for point in make_preset("anyscale", scale).points}
    assert points.keys() == caps.keys()
    assert [dict(point.slots) for point in points.values()] == [
        {"static": static, "continuous": 16} for static in (16, 12, 8, 4)
    ]
    for label, cap in caps.items():
        requests = drawn(points[label])
        assert {request.arrival_ns for request in requests} == {0}
        assert set(prompts(requests)) == {512 * scale}
        assert max(outputs(requests)) <= cap * scale
    assert np.mean(outputs(requests)) == pytest.approx(128 * scale, rel=0.05)
    assert np.mean(outputs(drawn(points["cap-32"]))) < 16.5 * scale


def test_a_quarter_of_the_published_lengths_is_the_default() -> None:
    requests = drawn(make_preset("orca").points[0], capacity=1)
    assert (min(prompts(requests)), max(prompts(requests))) == (8, 128)
    assert (min(outputs(requests)), max(outputs(requests))) == (1, 32)


def test_seed_bounds_what_is_in_flight() -> None:
    preset = make_preset("seed", 1)
    assert preset.max_concurrency == 64
    assert [point.load for point in preset.points] == [0.5, 0.75, 0.95]
    requests = drawn(preset.points[0], capacity=1)
    assert 128 <= min(prompts(requests)) < 140
    assert 2030 < max(prompts(requests)) <= 2048


@pytest.mark.parametrize("name", ["orca", "seed"])
def test_loads_are_shares_of_the_capacity_of_the_same_requests(name: str) -> None:
    preset = make_preset(name)
    assert preset.needs_capacity
    burst = drawn(preset.points[0].at_once("capacity"))
    assert {request.arrival_ns for request in burst} == {0}
    for point in preset.points:
        requests = drawn(point, capacity=8)
        assert outputs(requests) == outputs(burst)
        assert prompts(requests) == prompts(burst)
        assert point.load is not None
        assert point.rate(8) == 8 * point.load
        assert 1999e9 / requests[-1].arrival_ns == pytest.approx(8 * point.load, rel=0.1)


def test_a_tiny_scale_leaves_a_token() -> None:
    for name in ("orca", "seed"):
        assert set(prompts(drawn(make_preset(name, 1e-4).points[0], capacity=1))) == {1}


def test_every_preset_says_where_it_is_from_and_why_it_may_differ() -> None:
    for name in PRESETS:
        preset = make_preset(name)
        assert preset.name == name
        assert preset.source
        assert preset.reason.endswith(".")


def test_other_names_are_refused() -> None:
    with pytest.raises(UsageError, match="--preset is 'vllm': give one of anyscale, orca, seed"):
        make_preset("vllm")
