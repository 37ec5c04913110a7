"""How many cases fuzzing tries: a thousand over all tests of the suite, or as many as CBATCH_FUZZ says.

CBATCH_FUZZ=1000000 python -m pytest tests -k fuzz
"""

from __future__ import annotations

import os

from hypothesis import HealthCheck, settings

CASES = int(os.environ.get("CBATCH_FUZZ", "1000"))


def fuzzing(share: float) -> settings:
    """Of a test that tries this share of all cases: `@fuzzing(0.2) @given(...)`; its name holds `fuzz`."""
    return settings(
        max_examples=max(1, round(CASES * share)),
        deadline=10_000,  # ms a case: what takes longer hangs
        suppress_health_check=list(HealthCheck),
    )
