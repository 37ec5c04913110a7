"""How Python itself is set for a process that runs a job. Knows no job."""

from __future__ import annotations

import gc
import sys

from cbatch.cli.ending import SWITCH_INTERVAL_S

COLLECT_EVERY = 50_000
"""Objects made, and not freed, from one look for unreachable cycles to the next. With Python's 700 and 20,000 rows read
ahead, a run of short rows spends a fifth of its time on looking, up to 0.2 s at once between two decode calls; rows
make no cycles."""


def tune_interpreter() -> None:
    """To be called once the modules are loaded: what is there by now stays, and isn't looked at again."""
    sys.setswitchinterval(SWITCH_INTERVAL_S)
    gc.collect()
    gc.freeze()
    gc.set_threshold(COLLECT_EVERY, 20, 50)
