"""Whether a profile was measured on the very replay that is simulated. Knows records and options, and plays nothing."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from cbatch.cli.simulate_options import SimulateOptions
from cbatch.cli.simulate_profile import SIMULATED, Profile
from cbatch.cli.simulate_trace import SimulatedTrace

_TO_THE_END = ("complete", "time_up")
"""How a replay has ended whose figures are of all that it was to play."""


def is_same_replay(profile: Profile, options: SimulateOptions, trace: SimulatedTrace) -> bool:
    """The same requests, at the same times, with the same settings: its figures can be compared with predicted ones."""
    record = profile.record
    told, totals = record.get("replay"), record.get("totals")
    if not isinstance(told, Mapping) or not isinstance(totals, Mapping):
        return False
    return (
        SIMULATED not in record
        and record.get("status") in _TO_THE_END
        and not options.unlike(profile)
        and _is_paced_alike(profile, options)
        and _is_load(told, options, trace)
        and _has_lengths(profile, totals, trace)
    )


def _is_paced_alike(profile: Profile, options: SimulateOptions) -> bool:
    names = ["max_concurrency", "duration", *([] if options.duration is None else ["grace_period"])]
    return all(profile.options.get(name) == getattr(options, name) for name in names)


def _is_load(told: Mapping[str, Any], options: SimulateOptions, trace: SimulatedTrace) -> bool:
    """Whether run.json tells of the same trace, made in the same way, at the same rate; it may lie elsewhere now."""
    rate = {"requested_rate": trace.rate(options.request_rate), "closed_loop": options.closed_loop}
    ours = json.loads(json.dumps({**trace.describe(), **rate, "trace": trace.path.name}))
    return bool(ours == {name: told.get(name) for name in ours} | {"trace": Path(str(told.get("trace"))).name})


def _has_lengths(profile: Profile, totals: Mapping[str, Any], trace: SimulatedTrace) -> bool:
    """Whether outputs were as long as simulated ones, not as long as the model liked.

    Not every trace says how it was made: where all of it was answered, its tokens tell another one.
    """
    given = profile.options
    if given.get("natural_lengths") or (trace.open_ended and not given.get("ignore_eos")):
        return False
    run, requests = totals.get("run"), len(trace.needs)
    if not isinstance(run, Mapping) or run.get("rows_ok") != requests:
        return True
    return bool(run.get("prompt_tokens", 0) + run.get("output_tokens", 0) - requests == sum(trace.needs))
