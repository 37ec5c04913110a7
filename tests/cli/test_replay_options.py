"""Options of a replay that could change nothing."""

from __future__ import annotations

import math
from typing import Any

import pytest

from cbatch.cli.defaults import replay_options
from cbatch.errors import UsageError


def check(**given: Any) -> None:
    """As given to the command."""
    replay_options({"inputs": ["t.parquet"], **given, "given": tuple(given)}).check()


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"static_wait": 50.0}, "--static-wait is for static and padded batching"),
        ({"grace_period": 5.0}, "--grace-period begins when --duration ends: give that too, or leave it out"),
        ({"burstiness": 0.5, "request_rate": math.inf}, "--burstiness is of gaps, and with --request-rate inf"),
    ],
)
def test_what_could_change_nothing_is_refused(given: dict[str, Any], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        check(**given)


@pytest.mark.parametrize(
    "given",
    [
        {},
        {"static_wait": 50.0, "batching": "static"},
        {"static_wait": 50.0, "batching": "padded"},
        {"grace_period": 5.0, "duration": 9.0},
        {"burstiness": 0.5, "request_rate": 2.0},
    ],
)
def test_what_changes_something_is_taken(given: dict[str, Any]) -> None:
    check(**given)
