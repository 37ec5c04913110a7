"""What tuning found, kept by model, machine and library, in a file that `cbatch simulate --profile` reads too."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from cbatch.config import ModelConfig
from cbatch.errors import OutputError
from cbatch.llama import machine
from cbatch.llama.cache import library_identity, user_cache
from cbatch.llama.fingerprint import fingerprint
from cbatch.sim.costs import StepCostModel
from cbatch.sim.measured import Deviation

VERSION = 1
_CHOICES = ("max_num_seqs", "max_num_batched_tokens", "kv", "kv_type", "flash_attn", "ubatch", "threads")

Key = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Profile:
    """A tuned choice, and what steps cost with it."""

    path: Path
    created: str
    """ISO 8601, UTC."""
    options: Mapping[str, Any]
    """Of a run, by name; None where cbatch's own rule is meant."""
    costs: StepCostModel
    error: Deviation
    tried: tuple[Mapping[str, Any], ...]
    """As `Tried.to_dict`."""
    most_slots: int
    """With which costs were measured."""
    latency_goal: str | None = None
    """The latencies that slots and tokens a step were chosen for, in words; None where throughput counted alone."""

    @property
    def date(self) -> str:
        """`2026-11-30`."""
        return self.created[:10]


def profile_key(config: ModelConfig, mask: Sequence[int] = ()) -> dict[str, Any]:
    """What a profile holds for: it changes with the model, where it runs, the processor, and a build of the library.

    `mask`: the CPUs that were asked for, if any were. Raises OSError where a file can't be read.
    """
    gpus = [[gpu.name, gpu.description, gpu.total_bytes] for gpu in machine.gpu_devices()]
    return {
        "model": fingerprint(config.path),
        "loras": [[fingerprint(path), scale] for path, scale in config.loras],
        "use_extra_bufts": config.use_extra_bufts,
        "library": library_identity(),
        "cpu": machine.cpu_name(),
        "flags": sorted(machine.cpu_flags()),
        "cpus": list(machine.allowed_cpus()),
        "mask": list(mask),
        "threads": machine.default_threads(),
        "gpus": gpus,
        "offload": [config.gpu_layers, config.main_gpu, list(config.tensor_split)] if gpus else None,
    }


def profile_path(key: Key, cache_dir: Path | None = None) -> Path:
    """`cache_dir`: None is the user's."""
    return cache_path("profiles", key, cache_dir)


def cache_path(folder: str, key: Key, cache_dir: Path | None = None) -> Path:
    """Of what is known of such a machine and model."""
    digest = hashlib.sha256(json.dumps(key, sort_keys=True).encode()).hexdigest()
    return (cache_dir or user_cache()) / folder / f"{digest[:16]}.json"


def save_profile(path: Path, record: Mapping[str, Any]) -> None:
    """Replace what is there. Raises `OutputError`."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        part = path.with_suffix(f".{os.getpid()}")
        part.write_text(json.dumps({"version": VERSION, **record}, indent=1, allow_nan=False) + "\n", "utf-8")
        part.replace(path)
    except OSError as error:
        raise OutputError(f"{path} can't be written: {error.strerror or error}; give another --profile") from error


def load_profile(path: Path) -> Profile | None:
    """None where there is none, or one of another version: a cache may be lost at any time."""
    try:
        record = json.loads(path.read_text("utf-8"))
        if record["version"] != VERSION:
            return None
        return Profile(
            path=path,
            created=str(record["created"]),
            options={name: record["options"].get(name) for name in _CHOICES},
            costs=StepCostModel.from_dict(record["step_costs"]),
            error=Deviation(**record["error"]),
            tried=tuple(record["tried"]),
            most_slots=int(record["most_slots"]),
            latency_goal=_latency_goal(record.get("tuned_for", {})),
        )
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return None


def _latency_goal(tuned_for: Mapping[str, Any]) -> str | None:
    """`ttft:500 at 2 requests/s`, `steps of at most 50 ms`, or both."""
    rate, stall = tuned_for.get("request_rate"), tuned_for.get("max_stall")
    goals = [] if rate is None else [f"{', '.join(tuned_for['goodput'])} at {rate:g} requests/s"]
    goals += [] if stall is None else [f"steps of at most {stall:g} ms"]
    return " and ".join(goals) or None


def find_profile(config: ModelConfig, mask: Sequence[int] = (), cache_dir: Path | None = None) -> Profile | None:
    """Of this model on these CPUs of this machine; None where there is none that can be read."""
    try:
        return load_profile(profile_path(profile_key(config, mask), cache_dir))
    except OSError:
        return None
