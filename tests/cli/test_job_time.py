"""Estimates of a job's time, against the same job run to its end on a runner whose costs are known."""

from __future__ import annotations

from dataclasses import astuple, replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cbatch.cli.job_time import (
    Speed,
    Trial,
    Work,
    estimate,
    shared_tokens,
    spread,
    work_of,
)
from cbatch.config import SchedulerConfig
from cbatch.driver import Driver
from cbatch.engine import Engine, FakeRunner
from cbatch.feed import LookAhead
from cbatch.metrics.preview import Estimate
from cbatch.types import Request, RowRef
from tests.engine.factories import request
from tests.report.factories import make_step

MS = 1_000_000


def cost(decodes: int, prompts: int) -> int:
    """2 ms a decode step and 0.1 ms for each sequence in it, 50 us a prompt token."""
    return (2 * MS + decodes * MS // 10 if decodes else 0) + prompts * MS // 20


def run(requests: list[Request], slots: int, deadline_ns: int | None = None) -> Trial:
    """Until the deadline, or to the end."""
    runner = FakeRunner(max_num_seqs=slots, cells_per_seq=1000, cost_ns=cost, split_calls=True)
    trial = Trial()
    jobs = [(RowRef(i, r.id, f"x:{i}", 0), r) for i, r in enumerate(requests, 1)]
    engine = Engine(runner, SchedulerConfig(max_num_seqs=slots, share_cells=False), runner.clock)
    Driver(engine, LookAhead(jobs), [trial], max_cells=1000, deadline_ns=deadline_ns).run()
    return trial


def rows(count: int, max_tokens: int, ends: bool = True) -> list[Request]:
    """The fake runner ends each after 1 to 26 tokens, if it may end."""
    end_tokens = frozenset({101}) if ends else frozenset()
    sizes = np.random.default_rng(0).integers(4, 60, count)
    return [request(str(i), int(n), max_tokens, end_tokens=end_tokens) for i, n in enumerate(sizes)]


def estimated(requests: list[Request], slots: int, deadline_ms: int) -> Estimate:
    tried = [requests[i] for i in spread(len(requests))]
    trial = run(tried, slots, deadline_ms * MS)
    found = estimate(trial, requests, slots=slots, rows_read=len(requests), rows_total=len(requests), load_s=0.0)
    assert found is not None
    return found


def test_a_long_job_takes_what_a_short_trial_says() -> None:
    requests = rows(2000, max_tokens=40)
    found, real = estimated(requests, 16, 1500), run(requests, 16)
    assert found.total_s is not None
    low, high = found.total_s
    assert low < real.seconds < high
    assert found.measured_s == pytest.approx(1.5, rel=0.02)
    assert high / low < 1.5
    assert found.rows_finished > 50
    tokens = sum(output.token_ids.size for output in real.outputs) / len(requests)
    assert found.output_tokens[0] < tokens < found.output_tokens[1]


def test_outputs_of_known_length_make_a_narrow_range() -> None:
    requests = rows(500, max_tokens=30, ends=False)
    found, real = estimated(requests, 16, 800), run(requests, 16)
    assert found.output_tokens == (30, 30)
    assert found.total_s is not None
    assert found.total_s == pytest.approx((real.seconds, real.seconds), rel=0.05)
    assert found.prefill_tokens_per_s == pytest.approx(20_000, rel=0.01)
    assert found.decode_step_ns == pytest.approx(3.6 * MS, rel=0.02)
    assert found.decode_tokens_per_s == pytest.approx(16 / 3.6e-3, rel=0.02)


def test_a_job_that_the_trial_ends_is_known() -> None:
    requests = rows(10, max_tokens=40)
    found, real = estimated(requests, 16, 10_000), run(requests, 16)
    assert found.rows_begun == found.rows_finished == 10
    assert found.total_s is not None
    assert found.total_s == pytest.approx((real.seconds, real.seconds), rel=0.05)


def test_rows_that_were_not_read_take_as_long_as_the_others() -> None:
    requests = rows(390, max_tokens=40)
    trial = run(requests, 16, 800 * MS)
    found = estimate(trial, requests, slots=16, rows_read=500, rows_total=5000, load_s=1.5)
    assert found is not None
    assert found.total_s is not None
    assert found.total_s[1] == pytest.approx(10 * found.window_s[1], rel=0.05)
    assert found.total_s[1] < 10 * found.window_s[1], "slots run empty once"
    unknown = estimate(trial, requests, slots=16, rows_read=500, rows_total=None, load_s=1.5)
    assert unknown is not None
    assert unknown.total_s is None


def test_too_little_to_tell() -> None:
    requests = rows(4, max_tokens=5)
    known = {"slots": 4, "rows_read": 4, "rows_total": 4, "load_s": 0.0}
    assert estimate(Trial(), requests, **known) is None  # type: ignore[arg-type]
    prompts_only = Trial()
    prompts_only.step(make_step(0, 100, prefill=10, prefill_ns=90), lambda: None)  # type: ignore[arg-type, return-value]
    assert estimate(prompts_only, requests, **known) is None  # type: ignore[arg-type]
    assert estimate(run(requests, 4), [], **known) is None  # type: ignore[arg-type]
    one_token = [replace(r, sampling=replace(r.sampling, max_tokens=1)) for r in requests]
    found = estimate(run(one_token, 4), one_token, **known)  # type: ignore[arg-type]
    assert found is not None
    assert found.decode_step_ns is None
    assert found.window_s == pytest.approx((sum(r.prompt.size for r in requests) * 50e-6,) * 2)


def test_speed_is_fitted_to_the_steps_seen() -> None:
    def speed(*steps: tuple[int, int, int], scatter: float = 0.0) -> tuple[float, ...]:
        trial = Trial()
        trial.step(make_step(0, 50, prefill=10, prefill_ns=40), lambda: None)  # type: ignore[arg-type, return-value]
        for decodes, cells, ns in steps:
            record = replace(make_step(0, ns, output=decodes, decode_ns=ns // 2), kv_used_cells=cells)
            trial.step(record, lambda: None)  # type: ignore[arg-type, return-value]
        found = trial.speed()
        assert found is not None
        assert found.scatter == pytest.approx(scatter, abs=1e-6)
        return astuple(found)[:4]

    def near(*values: float) -> object:
        return pytest.approx(values, abs=1e-6)

    assert speed((2, 0, 120), (6, 0, 160), (6, 0, 160)) == near(5, 100, 10, 0)
    assert speed((2, 30, 126), (6, 50, 170), (6, 90, 178), (1, 10, 112)) == near(5, 100, 10, 0.2)
    assert speed((4, 0, 300), (4, 0, 300)) == near(5, 0, 75, 0), "of one size: proportional"
    off = 1 - 14 / 17
    assert speed((2, 0, 300), (6, 0, 300), (6, 90, 200), scatter=off) == near(5, 4200 / 17, 0, 0), "never below 0"
    assert speed() == (5, 0, 0, 0)


def test_work_is_counted_by_filling_slots() -> None:
    requests = [request(str(i), 10, 9) for i in range(4)]
    assert work_of(requests, [9, 3, 3, 5], 2) == Work(40, 20, 16, 212, 11 - 20 / 2)
    assert work_of(requests, [9, 3, 3, 5], 4) == Work(40, 20, 16, 212, 9 - 20 / 4)
    speed = Speed(prompt_ns=1e9, step_ns=1e9, seq_ns=0.0, cell_ns=0.0)
    assert speed.seconds(work_of(requests, [9, 3, 3, 5], 4), 4) == 40 + 9
    assert speed.seconds(work_of(requests, [9, 3, 3, 5], 4), 4, scale=10) == 400 + 50 + 4
    each = Speed(prompt_ns=0.0, step_ns=0.0, seq_ns=1e9, cell_ns=0.0)
    assert each.seconds(work_of(requests, [9, 3, 3, 5], 4), 4, scale=2) == 32
    cells = Speed(prompt_ns=0.0, step_ns=0.0, seq_ns=0.0, cell_ns=1e9)
    assert cells.seconds(work_of(requests[:1], [3], 4), 4) == 11 + 12


@given(st.integers(0, 300))
def test_every_beginning_of_a_spread_order_is_spread(count: int) -> None:
    order = spread(count)
    assert sorted(order) == list(range(count))
    for size in (8, 21, 50):
        if size < count:
            gaps = np.diff([-1, *sorted(order[:size]), count])
            assert gaps.max() <= 3 * count / size + 1


def test_prefixes_that_prompts_share() -> None:
    def shared(*prompts: str) -> int:
        return shared_tokens(np.array([ord(char) for char in prompt], np.int32) for prompt in prompts)

    assert shared() == shared("abc") == shared("abc", "xyz") == 0
    assert shared("abcd", "abxy") == shared("ab", "abxyz") + 1 == 2
    assert shared("abcd", "abcd") == 3, "the last token is computed"
    assert shared("sys:a", "other", "sys:b", "sys:b1") == 4 + 4
    requests = [request(str(i), 50) for i in range(10)]
    assert work_of(requests, [1] * 10, 4).prompt_tokens == 500
    assert work_of(requests, [1] * 10, 4, restored=0.5).prompt_tokens == 500 - 9 * 49 / 2


def test_only_rows_as_they_are_tell_what_is_restored() -> None:
    trial = Trial()
    for restored in (0, 30):
        record = make_step(0, 50, prefill=10, prefill_ns=40)
        trial.step(replace(record, ideal_tokens=40, restored_tokens=restored), lambda: None)  # type: ignore[arg-type, return-value]
        if restored == 0:
            assert trial.restored == 0.0
            trial.begin_rows()
            assert trial.restored == 0.0
    assert trial.restored == 0.75
    assert trial.prompt_ns() == 5.0


def test_the_range_is_as_wide_as_steps_scatter() -> None:
    requests = rows(10, max_tokens=5, ends=False)
    trial = run(requests, 4)
    steady = estimate(trial, requests, slots=4, rows_read=10, rows_total=10, load_s=0.0)
    trial.steps = [
        replace(r, end_ns=r.end_ns + (r.end_ns - r.start_ns) * (i % 2) // 3) for i, r in enumerate(trial.steps)
    ]
    shaky = estimate(trial, requests, slots=4, rows_read=10, rows_total=10, load_s=0.0)
    assert steady is not None
    assert shaky is not None
    assert steady.window_s[1] == pytest.approx(steady.window_s[0])
    assert shaky.window_s[1] > 1.1 * shaky.window_s[0]
