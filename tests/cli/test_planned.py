"""Plans by a cost model: how sure their times are."""

from __future__ import annotations

from pathlib import Path

import pytest

from cbatch.cli.planned import Planned
from cbatch.clock import WallClock
from cbatch.inputs import read_rows
from cbatch.llama.model import Model
from cbatch.sim.measured import Deviation
from cbatch.tune.plan import JobTime
from cbatch.tune.profile import Profile
from tests.cli.test_dry_run import run_options
from tests.e2e.command import write_rows
from tests.sim.recording import COSTS


def planned(model: Model, path: Path, total: float) -> JobTime:
    """With a cost model that is off by `total`."""
    profile = Profile(Path("p.json"), "2026-11-30", {}, COSTS, Deviation(9, 0.0, 0.0, total), (), 64)
    options = run_options(inputs=[str(path)], max_num_seqs=4, threads=None, ignore_eos=True)
    rows = read_rows(options.inputs, defaults=options.sampling(), clock=WallClock())
    time = Planned(options, profile, model, None).plan(rows, "line").time
    assert time is not None
    return time


@pytest.mark.parametrize("total", [0.0, 0.2, -0.2, 1.0, 3.0])
def test_a_time_is_as_many_times_too_long_as_too_short(tiny: Model, tmp_path: Path, total: float) -> None:
    path = write_rows(tmp_path / "rows.jsonl", [{"prompt": "word"} for _ in range(8)])
    time = planned(tiny, path, total)
    assert time.doubt == max(0.05, abs(total))
    low, high = time.seconds
    assert low > 0
    assert high / low == pytest.approx((1 + time.doubt) ** 2)
