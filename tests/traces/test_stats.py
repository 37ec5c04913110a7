from __future__ import annotations

from collections import Counter

import numpy as np
import pytest

from cbatch.traces.arrivals import ArrivalProcess
from cbatch.traces.generate import GenerateConfig, generate
from cbatch.traces.lengths import Fixed
from cbatch.traces.stats import Histogram, TraceStats, dispersion, gap_cv
from cbatch.traces.trace import TraceRequest
from tests.traces.random_requests import at


def generated(process: ArrivalProcess) -> TraceStats:
    config = GenerateConfig(process, Fixed(10), Fixed(5), num_requests=10_000)
    return TraceStats.of(generate(config, Counter()))


def test_rate_is_gaps_over_span() -> None:
    stats = TraceStats.of(at(1, 2, 5))
    assert (stats.first_ns, stats.last_ns, stats.span_ns) == (10**9, 5 * 10**9, 4 * 10**9)
    assert stats.request_rate == 0.5


def test_nothing_has_no_figures() -> None:
    stats = TraceStats.of([])
    assert stats == TraceStats(0, None, None, 0, None, None, None, None, None, None, 0, None, 0, {}, 0, {}, 0)
    assert stats.prefix_reuse is None


def test_a_burst_has_no_rate() -> None:
    stats = TraceStats.of(at(1, 1, 1))
    assert (stats.request_rate, stats.gap_cv, stats.burstiness, stats.dispersion) == (None, None, None, None)
    assert stats.arrivals == Histogram((1.0, 1.0), (3,))


def test_gap_cv_by_hand() -> None:
    assert gap_cv(np.array([0, 1, 4])) == 0.5  # gaps 1 and 3: deviation 1, mean 2
    assert gap_cv(np.array([0, 2, 4])) == 0
    assert gap_cv(np.array([0, 1])) is None
    stats = TraceStats.of(at(0, 1, 4))
    assert (stats.gap_cv, stats.burstiness) == (0.5, 4)
    assert TraceStats.of(at(0, 2, 4)).burstiness is None


def test_dispersion_by_hand() -> None:
    # bins of 10: 3, 0, 1 arrivals, and one that isn't over
    assert dispersion(np.array([5, 6, 14, 30, 35]), bin_ns=10) == pytest.approx((10 / 3 - 16 / 9) / (4 / 3))
    assert dispersion(np.array([0, 10, 20, 30]), bin_ns=10) == 0
    assert dispersion(np.array([0, 15]), bin_ns=10) is None
    assert dispersion(np.array([], np.int64)) is None


def test_a_poisson_trace_shows_as_one() -> None:
    stats = generated(ArrivalProcess("poisson", 20.0))
    assert stats.request_rate == pytest.approx(20, rel=0.03)
    assert stats.burstiness == pytest.approx(1, rel=0.05)
    assert stats.dispersion == pytest.approx(1, rel=0.15)


def test_a_bursty_trace_shows_its_shape() -> None:
    stats = generated(ArrivalProcess("gamma", 20.0, 0.2))
    assert stats.burstiness == pytest.approx(0.2, rel=0.1)
    assert stats.dispersion is not None
    assert stats.dispersion > 2


def test_arrivals_over_time() -> None:
    stats = TraceStats.of(at(1, 1.5, 2, 2.25, 3), bins=4)
    assert stats.arrivals == Histogram((1.0, 1.5, 2.0, 2.5, 3.0), (1, 1, 2, 1))
    thirds = TraceStats.of([TraceRequest(ns, prompt_tokens=1) for ns in (0, 3, 4, 7, 8, 10)], bins=3).arrivals
    assert thirds is not None
    assert thirds.counts == (2, 1, 3)  # edges 0, 10/3, 20/3, 10


def test_lengths() -> None:
    stats = TraceStats.of([TraceRequest(0, prompt_tokens=n, output_tokens=2) for n in (1, 2, 4, 10)], bins=5)
    prompts = stats.prompt_tokens
    assert prompts is not None
    assert (prompts.count, prompts.total, prompts.mean, prompts.min, prompts.p50, prompts.max) == (
        4,
        17,
        4.25,
        1,
        3,
        10,
    )
    assert prompts.p90 == pytest.approx(8.2)
    assert prompts.histogram == Histogram((1, 3, 5, 7, 9, 11), (2, 1, 0, 0, 1))
    assert stats.output_tokens is not None
    assert stats.output_tokens.histogram == Histogram((2, 3), (4,))


def test_texts_and_natural_outputs_are_counted_apart() -> None:
    stats = TraceStats.of([TraceRequest(0, prompt="x"), TraceRequest(0, prompt_tokens=3, output_tokens=4)])
    assert (stats.num_text_prompts, stats.num_natural_outputs) == (1, 1)
    assert stats.prompt_tokens is not None
    assert stats.prompt_tokens.count == 1


def test_who_asks() -> None:
    requests = [
        TraceRequest(0, prompt="x", priority=1, session_id="s", tenant="a"),
        TraceRequest(0, prompt="x", priority=-1, session_id="s", tenant="b"),
        TraceRequest(0, prompt="x", priority=1, session_id="t", tenant="b"),
        TraceRequest(0, prompt="x"),
    ]
    stats = TraceStats.of(requests)
    assert list(stats.priorities.items()) == [(-1, 1), (0, 1), (1, 2)]
    assert stats.num_sessions == 2
    assert list(stats.tenants.items()) == [("b", 2), ("a", 1)]


def test_prefix_reuse_is_a_share_of_prompt_tokens() -> None:
    requests = [TraceRequest(0, prompt_tokens=10, prefix_ids=(1,), prefix_block=5)] * 2
    stats = TraceStats.of(requests)
    assert stats.reusable_tokens == 5
    assert stats.prefix_reuse == 0.25
