"""What `cbatch tune` hands to the tuner."""

from __future__ import annotations

import inspect
from pathlib import Path
from typing import Any

from cbatch.cli import parts
from cbatch.cli.defaults import replay_options, run_options
from cbatch.cli.tune import tune
from cbatch.cli.tune_job import scheduler_for
from cbatch.config import SchedulerConfig


def scheduler(**given: Any) -> SchedulerConfig:
    defaults = {name: parameter.default for name, parameter in inspect.signature(tune).parameters.items()}
    return scheduler_for({**defaults, **given})


def test_where_requests_come_at_a_rate_the_engine_is_that_of_a_replay() -> None:
    job = {"inputs": ["t"], "output": Path()}
    replay, run = (parts.scheduler_config(options(job)) for options in (replay_options, run_options))
    assert replay.max_num_batched_tokens < run.max_num_batched_tokens
    assert (replay.drain, run.drain) == ("arrival", "longest")
    assert replay.keep_prefixes
    found = scheduler(goodput=["ttft:500"], request_rate=2.0)
    assert found.max_num_batched_tokens == replay.max_num_batched_tokens
    assert (found.drain, found.keep_prefixes, found.group_prefixes) == ("arrival", True, False)
    found = scheduler(max_stall=50.0)
    assert (found.max_num_batched_tokens, found.drain) == (run.max_num_batched_tokens, "longest")
