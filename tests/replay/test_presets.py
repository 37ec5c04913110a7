"""Published workloads at their full size, on the virtual clock."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from itertools import pairwise

import numpy as np
import pytest

from cbatch.metrics import RunCollector, RunData
from cbatch.metrics.reproduction import Finding, finding
from cbatch.sampling import SamplingParams
from cbatch.traces.generate import generate
from cbatch.traces.presets import POLICIES, Point, make_preset
from cbatch.types import Job, Request, RowRef
from tests.replay.virtual import play


def jobs(point: Point, count: int) -> Iterator[Job]:
    for number, request in enumerate(generate(point.config(count, seed=0), Counter())):
        assert request.prompt_tokens is not None
        assert request.output_tokens is not None
        ref = RowRef(number, str(number), "", request.arrival_ns)
        sampling = SamplingParams(max_tokens=request.output_tokens)
        yield ref, Request(ref.id, np.ones(request.prompt_tokens, np.int32), sampling, arrival_ns=request.arrival_ns)


def served(point: Point, policy: str) -> RunData:
    """1,000 requests on steps that cost the same for any batch."""
    collector = RunCollector()
    slots = point.slots[policy]
    play(jobs(point, 1000), slots=slots, batching=policy, max_cells=4096, observers=[collector])
    return collector.data()


def lengths(point: Point) -> list[int]:
    return [request.output_tokens or 0 for request in generate(point.config(1000, seed=0), Counter())]


def test_anyscale_static_falls_as_the_cap_rises_and_continuous_does_not() -> None:
    found: list[Finding] = []
    points = make_preset("anyscale", 1).points
    for point in points:
        runs = {policy: [served(point, policy)] for policy in POLICIES}
        found.append(finding(point.label, "output_throughput", runs, point.published.get("output_throughput")))
    static, continuous = ([told.medians[policy] or 0.0 for told in found] for policy in POLICIES)
    print(*(f"\n{told.point}: measured {told.ratio.ratio:.2f}, published {told.published}" for told in found))
    assert all(above > 1.2 * below for above, below in pairwise(static))
    assert min(continuous) > 0.93 * continuous[0]
    assert found[0].ratio.ratio == pytest.approx(2, rel=0.1)  # of 16 lengths below 32, the mean is half the maximum
    assert 7 < (found[-1].ratio.ratio or 0) < 9
    assert found[-1].published == 8


def test_anyscale_static_takes_the_steps_that_its_lengths_say() -> None:
    """Each group as many as its longest output, and those that computing its prompts takes beyond the first."""
    point = make_preset("anyscale", 1).points[-1]
    run, drawn = served(point, "static"), lengths(point)
    groups = [max(drawn[n : n + 4]) for n in range(0, 1000, 4)]
    assert run.summary.run.steps == pytest.approx(sum(groups), rel=0.01)
