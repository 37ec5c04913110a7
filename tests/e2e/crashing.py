"""`python -m tests.e2e.crashing WHAT ROW run ...` is `cbatch run ...` whose worker comes to harm at a row in a slot.

WHAT is `abort`, `stall`, `once` (SIGKILL at the first time only), or `early` (that before anything is written, whatever
the row); ROW is a row's id, or `any`.
"""

from __future__ import annotations

import mmap
import os
import signal
import sys
import time

from cbatch.cli import parts
from cbatch.cli.options import JobOptions
from cbatch.config import ModelConfig
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


def come_to_harm_early() -> None:
    """The same for a worker's beginning."""
    checked, spared = parts.check_model, mmap.mmap(-1, 1)

    def harmed(options: JobOptions) -> tuple[ModelConfig, str | None]:
        if not spared[0]:
            spared[0] = True
            _kill()
        return checked(options)

    parts.check_model = harmed


def _kill() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


if __name__ == "__main__":
    come_to_harm_early() if sys.argv[1] == "early" else come_to_harm(*sys.argv[1:3])
    sys.argv = ["cbatch", *sys.argv[3:]]
    from cbatch.cli import main

    main()
