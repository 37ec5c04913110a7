"""`python -m tests.e2e.crashing WHAT ROW run ...` is `cbatch run ...` whose worker comes to harm at a row in a slot.

WHAT is `abort`, `stall`, or `once` (SIGKILL at the first time only); ROW is a row's id, or `any`.
"""

from __future__ import annotations

import mmap
import os
import signal
import sys
import time

from cbatch.engine.runner import StepPlan, StepResult
from cbatch.llama.runner import LlamaRunner


def come_to_harm(what: str, row: str) -> None:
    """Change the runner of this process and of its children."""
    run, spared = LlamaRunner.run, mmap.mmap(-1, 1)

    def harmed(runner: LlamaRunner, plan: StepPlan) -> StepResult:
        works = (*plan.decodes, *plan.prefills)
        if any(row in (work.seq.request.id, "any") for work in works) and not spared[0]:
            spared[0] = what == "once"
            {"abort": os.abort, "stall": lambda: time.sleep(600), "once": _kill}[what]()
        return run(runner, plan)

    LlamaRunner.run = harmed  # type: ignore[method-assign, assignment]


def _kill() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


if __name__ == "__main__":
    come_to_harm(*sys.argv[1:3])
    sys.argv = ["cbatch", *sys.argv[3:]]
    from cbatch.cli import main

    main()
