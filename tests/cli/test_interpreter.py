from __future__ import annotations

import subprocess
import sys

TUNED = """
import gc, sys
from cbatch.cli.interpreter import tune_interpreter
tune_interpreter()
assert gc.isenabled() and gc.get_threshold()[0] > 10_000 and gc.get_freeze_count() > 10_000, gc.get_freeze_count()
assert sys.getswitchinterval() < 0.001
"""


def test_it_looks_for_cycles_seldom_and_not_in_what_is_loaded() -> None:
    """In a process of its own: it can't be taken back."""
    subprocess.run([sys.executable, "-c", TUNED], check=True)
