"""How many cases fuzzing tries: a thousand over all tests of the suite, or as many as CBATCH_FUZZ says.

CBATCH_FUZZ=1000000 python -m pytest tests -k fuzz
"""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import HealthCheck, settings

CASES = int(os.environ.get("CBATCH_FUZZ", "1000"))
_PART = 20_000
"""Cases of one test: hypothesis remembers each, and parts can be tried beside one another."""

_Test = Callable[..., Any]


def fuzzing(share: float) -> Callable[[_Test], _Test]:
    """Of a test that tries this share of all cases, in parts: `@fuzzing(0.2) @given(...)`; its name holds `fuzz`.

    Its first parameter is `part`, a number that it needn't look at: each part draws cases of its own.
    """
    cases = max(1, round(CASES * share))
    parts = -(-cases // _PART)
    tried = settings(
        max_examples=-(-cases // parts),
        deadline=60_000,  # ms a case: what takes longer hangs, even on a busy machine
        suppress_health_check=list(HealthCheck),
    )
    return lambda test: pytest.mark.parametrize("part", range(parts))(tried(test))
