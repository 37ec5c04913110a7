from __future__ import annotations

import pytest

from cbatch.sim.agreement import Agreement, agreement
from tests.report.replays import make_replay


def test_figures_that_both_have() -> None:
    summary = make_replay()
    totals = {
        "run": {"requests_per_s": 4.0, "output_tokens_per_s": None},
        "latencies": {"ttft_ns": {"mean_ns": 400e6}, "tpot_ns": {}, "e2e_ns": {"mean_ns": 0}},
    }
    mean = summary.latencies["ttft_ns"].mean_ns
    assert mean is not None
    assert agreement(summary, totals) == [Agreement("requests_per_s", 3.984, 4.0), Agreement("ttft_ns", mean, 400e6)]
    assert agreement(summary, {}) == []


def test_off_is_a_share_of_the_measured() -> None:
    assert Agreement("ttft_ns", 110, 100).off == pytest.approx(0.1)
