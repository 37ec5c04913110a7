"""When the figures of a measured replay may stand beside those of a simulation."""

from __future__ import annotations

import inspect
import json
from collections.abc import Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from cbatch.cli.simulate import simulate
from cbatch.cli.simulate_options import make_options
from cbatch.cli.simulate_profile import SIMULATED, Profile
from cbatch.cli.simulate_same import is_same_replay
from cbatch.cli.simulate_trace import SimulatedTrace
from cbatch.traces.trace import Manifest, TraceRequest
from cbatch.traces.writer import TraceWriter
from tests.sim.recording import COSTS

MADE = {"kind": "generated", "seed": 0, "lengths": [8, 16]}
ANSWERED = {"rows_ok": 3, "prompt_tokens": 30, "output_tokens": 15}


def requests(output_tokens: int | None = 5) -> list[TraceRequest]:
    return [TraceRequest(at, prompt_tokens=10, output_tokens=output_tokens) for at in (0, 10**9, 2 * 10**9)]


class Case:
    """A trace that was replayed, and what its run.json says."""

    def __init__(self, directory: Path) -> None:
        self.path = directory / "t.parquet"
        self.told: dict[str, Any] = {"options": {"natural_lengths": False, "ignore_eos": False}}
        self.make(requests())
        self.told |= {"status": "complete", "totals": {"run": ANSWERED}}
        self.told["replay"] = {**self._trace({}).describe(), "requested_rate": 1.0, "closed_loop": False}
        self.told = json.loads(json.dumps(self.told))

    def make(self, rows: Iterable[TraceRequest], manifest: Manifest | None = None) -> None:
        self.path.unlink(missing_ok=True)
        with TraceWriter(self.path, Manifest(MADE, 1.0) if manifest is None else manifest) as writer:
            for row in rows:
                writer.add(row)

    def _trace(self, given: Mapping[str, Any]) -> SimulatedTrace:
        return SimulatedTrace(make_options(_given(self.path, given), self._profile()), self.path)

    def _profile(self) -> Profile:
        return Profile(Path("p"), COSTS, None, self.told)

    def is_same(self, **given: Any) -> bool:
        """Simulated with options."""
        options = make_options(_given(self.path, given), self._profile())
        return is_same_replay(self._profile(), options, self._trace(given))


def _given(path: Path, given: Mapping[str, Any]) -> dict[str, Any]:
    parameters = inspect.signature(simulate).parameters
    defaults = {name: parameter.default for name, parameter in parameters.items() if name != "context"}
    return {**defaults, "inputs": [str(path)], "profile": Path("p"), **given}


@pytest.fixture
def case(tmp_path: Path) -> Case:
    return Case(tmp_path)


def test_the_same_trace_may_lie_elsewhere(case: Case) -> None:
    assert case.is_same()
    case.told["replay"]["trace"] = "/another/machine/t.parquet"
    assert case.is_same()
    case.told["replay"]["trace"] = "u.parquet"
    assert not case.is_same()


@pytest.mark.parametrize(
    "given", [{"request_rate": 2.0}, {"max_num_seqs": 4}, {"speedup": 2.0}, {"limit": 2}, {"duration": 9.0}]
)
def test_other_options_are_another_replay(case: Case, given: dict[str, Any]) -> None:
    assert not case.is_same(**given)


def test_time_to_finish_counts_where_the_end_is_set(case: Case) -> None:
    case.told["options"] |= {"duration": 9.0, "grace_period": 5.0}
    assert case.is_same(duration=9.0, grace_period=5.0)
    assert not case.is_same(duration=9.0, grace_period=30.0)


def test_outputs_that_the_model_ended_are_others(case: Case) -> None:
    case.told["options"]["natural_lengths"] = True
    assert not case.is_same()


def test_a_trace_without_output_lengths_leaves_them_to_the_model(case: Case) -> None:
    case.make(requests(output_tokens=None))
    case.told["totals"] = {"run": {**ANSWERED, "output_tokens": 21}}
    assert not case.is_same(max_tokens=7)
    case.told["options"] |= {"ignore_eos": True, "max_tokens": 7}
    assert case.is_same()


@pytest.mark.parametrize("changed", [{"source": {**MADE, "seed": 1}}, {"request_rate": 2.0}, {"transforms": ("cut",)}])
def test_a_trace_made_anew_is_another(case: Case, changed: dict[str, Any]) -> None:
    case.make(requests(), replace(Manifest(MADE, 1.0), **changed))
    assert not case.is_same()


def test_other_lengths_tell_a_trace_that_says_nothing_of_itself(case: Case) -> None:
    case.make(requests(output_tokens=6))
    assert not case.is_same()
    case.told["totals"] = {"run": {**ANSWERED, "rows_ok": 2}}
    assert case.is_same(), "not all were answered, so that nobody can tell"


def test_only_what_was_measured_to_its_end_counts(case: Case) -> None:
    for status in ("running", "failed", "stopped", "aborted"):
        case.told["status"] = status
        assert not case.is_same()
    case.told["status"] = "time_up"
    assert case.is_same()
    case.told[SIMULATED] = {}
    assert not case.is_same()


def test_a_profile_of_no_replay(case: Case) -> None:
    del case.told["replay"]
    assert not case.is_same()
