"""What steps cost, and with which settings that was measured: from a run's directory, or from a JSON file."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from cbatch.errors import InputError
from cbatch.outputs.directory import REQUESTS, RUN_JSON, STEPS
from cbatch.sim.costs import StepCostModel
from cbatch.sim.fit import fit, held_out
from cbatch.sim.measured import Deviation
from cbatch.sim.recorded import read_steps

COSTS, ERROR = "step_costs", "error"
"""Keys of a profile: the model, and how far it is from measured steps."""
SIMULATED = "simulated"
"""Key of both in a run.json of which nothing was measured."""


@dataclass(frozen=True)
class Profile:
    """Step costs, and where they come from."""

    path: Path
    costs: StepCostModel
    error: Deviation | None
    """On held-out steps; None where the file says none."""
    record: Mapping[str, Any]
    """run.json of what was measured, or the JSON file: of it `options`, `context` and more are looked at."""

    @property
    def options(self) -> Mapping[str, Any]:
        """Of the command that measured."""
        return _object(self.record, "options")

    @property
    def kv_mode(self) -> str:
        return str(_object(self.record, "context").get("kv_mode", "split"))

    @property
    def ubatch(self) -> int:
        return int(_object(self.record, "context").get("ubatch", 512))

    @property
    def parking(self) -> int:
        """Snapshots that a pool can share."""
        return int(_object(self.record, "context").get("parking", 0))

    @property
    def bytes_per_token(self) -> float | None:
        """Of KV."""
        totals = _object(self.record, "totals")
        known = _object(_object(totals, "run") or totals, "kv_memory").get("bytes_per_token")
        return None if known is None else float(known)

    @property
    def trained_cells(self) -> int | None:
        """What the model was trained for."""
        metadata = _object(_object(self.record, "model"), "metadata")
        known = next((value for name, value in metadata.items() if name.endswith(".context_length")), None)
        return None if known is None else int(known)


def open_profile(path: Path) -> Profile:
    """Raises `InputError` for what isn't one."""
    if not path.is_dir():
        record = _read(path)
        if COSTS not in record:
            raise InputError(f"{path} has no {COSTS!r}: give a profile, or a directory that cbatch run or replay wrote")
        return _stated(path, record, record)
    if not (path / RUN_JSON).exists():
        raise InputError(f"{path} has no {RUN_JSON}: give the directory of one run or replay, not of several")
    record = _read(path / RUN_JSON)
    return _stated(path, record, _object(record, SIMULATED)) if SIMULATED in record else _measured(path, record)


def _stated(path: Path, record: Mapping[str, Any], told: Mapping[str, Any]) -> Profile:
    """`told` has the costs themselves."""
    try:
        costs = StepCostModel.from_dict(_object(told, COSTS))
        error = Deviation(**told[ERROR]) if told.get(ERROR) is not None else None
    except (ValueError, TypeError) as wrong:
        raise InputError(f"{path} is no profile that this cbatch knows: {wrong}") from wrong
    return Profile(path, costs, error, record)


def _measured(path: Path, record: Mapping[str, Any]) -> Profile:
    context = _object(record, "context")
    if "kv_mode" not in context or not isinstance(context.get("ubatch"), int):
        raise InputError(f"{path / RUN_JSON} doesn't say its kv_mode and ubatch: give one that cbatch wrote")
    scheduler = _object(record, "scheduler")
    steps = read_steps(
        path / STEPS,
        path / REQUESTS,
        streams=context["kv_mode"] == "split",
        ubatch=context["ubatch"],
        keeps_slots=scheduler.get("batching") in ("static", "padded"),
        prefill_chunk=scheduler.get("prefill_chunk"),
    )
    try:
        return Profile(path, fit(steps), held_out(steps), record)
    except InputError as error:
        raise InputError(f"{path}: {error}") from error


def _read(path: Path) -> dict[str, Any]:
    try:
        record = json.loads(path.read_text("utf-8"))
    except OSError as error:
        raise InputError(f"{path} can't be read: {error.strerror or error}") from error
    except ValueError as error:
        raise InputError(f"{path} isn't JSON ({error}): give a profile, or a run's directory") from error
    if not isinstance(record, dict):
        raise InputError(f"{path} holds no JSON object: give a profile, or a run's directory")
    return record


def _object(record: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    value = record.get(name)
    return value if isinstance(value, Mapping) else {}
