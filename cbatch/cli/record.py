"""What run.json says of a run: enough to know what was done and to do it again."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

from cbatch.cli.options import JobOptions
from cbatch.config import Overflow, SchedulerConfig
from cbatch.llama import machine
from cbatch.llama.context import Context
from cbatch.llama.fingerprint import fingerprint
from cbatch.llama.model import Model
from cbatch.metrics import ReplaySummary, RunSummary
from cbatch.outputs import environment, utc_now


def describe_run(
    options: JobOptions, model: Model, context: Context, scheduler: SchedulerConfig, overflow: Overflow, template: str
) -> dict[str, Any]:
    """Everything that is known before the first step; `scheduler` and `overflow` are what it is run with."""
    return {
        "status": "running",
        "started": utc_now(),
        **environment(),
        "cpu": {
            "name": machine.cpu_name(),
            "features_compiled": sorted(machine.features_compiled()),
            "gpus": [asdict(gpu) for gpu in machine.gpu_devices()],
        },
        "model": {
            "path": str(model.config.path),
            "fingerprint": fingerprint(model.config.path),
            "description": model.description,
            "metadata": model.metadata,
            "use_extra_bufts": model.config.use_extra_bufts,
            "loras": [[str(path), scale] for path, scale in model.config.loras],
        },
        "options": json_ready(asdict(options)),
        "sampling": asdict(options.sampling()),
        "scheduler": asdict(scheduler),
        "overflow": asdict(overflow),
        "context": describe_context(context),
        "chat_template": template,
    }


def sessions_of(earlier: Mapping[str, Any] | None) -> dict[str, Any]:
    """Of a run that is gone on with, given its run.json: when it first started, and how each time ended before."""
    if earlier is None:
        return {"sessions": []}
    told = {name: earlier.get(name) for name in ("started", "ended", "status", "error", "totals")}
    if told["status"] == "running":
        told["status"] = "killed"
    return {"sessions": [*earlier.get("sessions", []), told]}


def describe_end(
    status: str, summary: RunSummary | ReplaySummary, *, context: Context, notes: list[str], error: str | None = None
) -> dict[str, Any]:
    """What is known once the run has ended; the context is the last one, which may have grown."""
    return {
        "status": status,
        "ended": utc_now(),
        "error": error,
        "context": describe_context(context),
        "notes": notes,
        "totals": summary.to_dict(),
    }


def describe_context(context: Context) -> dict[str, Any]:
    """As the library made it."""
    made = {"cells_per_seq": context.cells_per_seq, "total_cells": context.total_cells}
    return {**asdict(context.resolved), **made, "batch": context.max_batched_tokens}


def json_ready(values: dict[str, Any]) -> dict[str, Any]:
    """JSON has neither paths nor infinity."""
    return {name: str(v) if isinstance(v, Path) or v == math.inf else v for name, v in values.items()}
