"""What a simulation leaves on disk: a replay's tables, and a run.json that says that they were simulated.

Loads no native library.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from itertools import islice
from pathlib import Path
from typing import Any

from cbatch.cli.ending import recorded
from cbatch.cli.simulate_options import WITHOUT_EFFECT, SimulateOptions
from cbatch.cli.simulate_profile import COSTS, ERROR, SIMULATED, Profile
from cbatch.cli.simulate_trace import SimulatedTrace
from cbatch.clock import WallClock
from cbatch.config import ContextConfig, Overflow
from cbatch.driver import Ending, Outcome
from cbatch.metrics import ReplaySummary
from cbatch.outputs import RunWriter, environment, prepare_directory, utc_now
from cbatch.types import Observer, RowFault

_LOOKED_AT = 1_000
"""Requests that decide which columns the results have."""


@dataclass(frozen=True)
class Recording:
    """One simulation that is to be kept."""

    directory: Path
    options: SimulateOptions
    profile: Profile
    trace: SimulatedTrace
    rate: float | None
    context: ContextConfig
    overflow: Overflow
    notes: Sequence[str]

    def play(self, drive: Callable[[Observer], Outcome], summary: Callable[[], ReplaySummary]) -> None:
        """Drive with an observer that writes, between the two writings of run.json. Raises as `recorded`."""
        prepare_directory(self.directory, self.options.force)

        def ending(status: str, error: str | None) -> Mapping[str, Any]:
            notes = [f"simulated, by the step costs of {self.profile.path}", *self.notes]
            told = {"status": status, "ended": utc_now(), "error": error, "notes": notes}
            return {**told, "totals": summary().to_dict()}

        with recorded(self.directory, self._record(), ending) as end:
            with self._writer() as writer:
                outcome = drive(writer)
                if outcome.ending in (Ending.COMPLETE, Ending.TIME_UP):
                    writer.complete()
            end(outcome.ending.value)

    def _writer(self) -> RunWriter:
        jobs = islice(self.trace.jobs(self.rate, 1), _LOOKED_AT)
        return RunWriter(
            self.directory,
            output_format=self.options.results_format.value,
            sample=[job.ref if isinstance(job, RowFault) else job[0] for job in jobs],
            model=str(self.profile.path),
            clock=WallClock(),
            token_bytes=lambda _: b"",
        )

    def _record(self) -> dict[str, Any]:
        """Everything that is known before the first step."""
        profile, options = self.profile, self.options
        given = {name: value for name, value in asdict(options).items() if name not in WITHOUT_EFFECT}
        return {
            "status": "running",
            "started": utc_now(),
            **environment(),
            SIMULATED: {
                "profile": str(profile.path),
                COSTS: profile.costs.to_dict(),
                ERROR: None if profile.error is None else profile.error._asdict(),
            },
            "model": profile.record.get("model"),
            "options": {k: str(v) if isinstance(v, Path) or v == math.inf else v for k, v in given.items()},
            "scheduler": asdict(options.scheduler_config()),
            "overflow": asdict(self.overflow),
            "context": {**asdict(self.context), "total_cells": self.context.total_cells, "parking": profile.parking},
            "replay": {
                **self.trace.describe(),
                "requested_rate": self.trace.rate(self.rate),
                "closed_loop": options.closed_loop,
                "objectives": options.objectives.to_dict(),
            },
        }
