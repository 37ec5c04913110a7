"""A supervised job on the fake runner, as a program: `python -m tests.supervise.jobs FOLDER JSON`.

Its rows die as they are told to. In FOLDER it leaves `answers`, a row number a line, `faults`, each a number and why,
`workers`, a process id a line, and in `said` and `stderr` what the user is told.
"""

from __future__ import annotations

import json
import os
import resource
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Any

from cbatch.errors import CbatchError
from cbatch.supervise import Link, supervise

if TYPE_CHECKING:
    from cbatch.types import EngineView, RequestOutput, Row, RowFault, RowRef, StepRecord


@dataclass
class Job:
    """What is to happen."""

    rows: int = 200
    slots: int = 32
    kills: dict[str, str] = field(default_factory=dict)
    """By row number, what happens when its second token is computed: a signal's name, or `stall`."""
    token_kills: dict[str, str] = field(default_factory=dict)
    """The same while it is tokenised."""
    crowd_kills: int = 0
    """So many sequences at once kill, whatever they are."""
    start_kills: str = ""
    """What happens before the first row is read."""
    stall_timeout_s: float | None = None
    step_s: float = 0.0


def run(folder: Path, timeout_s: float = 60, **job: Any) -> subprocess.CompletedProcess[str]:
    """The job in a process of its own, to its end."""
    process = start(folder, **job)
    code = process.wait(timeout_s)
    return subprocess.CompletedProcess(process.args, code, stderr=(folder / "stderr").read_text())


OWN_TERMINAL = (
    "import fcntl, os, sys, termios; fcntl.ioctl(0, termios.TIOCSCTTY, 0); os.execv(sys.argv[1], sys.argv[1:])"
)


def start_at(terminal: int, folder: Path, **job: Any) -> subprocess.Popen[bytes]:
    """The job in a process of its own, in the foreground of a terminal."""
    arguments = [sys.executable, "-c", OWN_TERMINAL, sys.executable, "-m", "tests.supervise.jobs"]
    arguments += [str(folder), json.dumps(asdict(Job(**job)))]
    return subprocess.Popen(arguments, stdin=terminal, stdout=terminal, stderr=terminal, start_new_session=True)


def start(folder: Path, **job: Any) -> subprocess.Popen[bytes]:
    """The job in a process of its own."""
    folder.mkdir(exist_ok=True)
    arguments = [sys.executable, "-m", "tests.supervise.jobs", str(folder), json.dumps(asdict(Job(**job)))]
    with (folder / "stderr").open("w") as errors:
        return subprocess.Popen(arguments, stdin=subprocess.DEVNULL, stderr=errors)


def lines(folder: Path, name: str) -> list[str]:
    """Of one of the files that a job leaves."""
    with suppress(FileNotFoundError):
        return (folder / name).read_text().splitlines()
    return []


def wait_until(condition: Callable[[], object], timeout_s: float = 20) -> None:
    """Fails where it doesn't come true."""
    ends = time.monotonic() + timeout_s
    while not condition():
        assert time.monotonic() < ends, "it never came true"
        time.sleep(0.01)


def die(how: str) -> None:
    """`stall`, or the name of a signal."""
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    if how == "stall":
        time.sleep(600)
    os.kill(os.getpid(), signal.Signals[how])
    time.sleep(5)


class Journal:
    """An observer that writes all down at once."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def write(self, name: str, line: str) -> None:
        with (self.folder / name).open("a") as file:
            file.write(line + "\n")

    def step(self, record: StepRecord, view: Callable[[], EngineView]) -> None:
        pass

    def finished(self, ref: RowRef, output: RequestOutput) -> None:
        self.write("answers", str(ref.number))

    def fault(self, fault: RowFault) -> None:
        self.write("faults", f"{fault.ref.number} {fault.code} {fault.message}")


def work(job: Job, folder: Path, link: Link) -> int:
    """The worker: everything heavy is imported here."""
    from cbatch.driver import Driver, Ending
    from cbatch.engine import Engine
    from cbatch.feed import LookAhead, Quarantine
    from cbatch.supervise.watched import Watch, WatchedRunner
    from tests.supervise.deadly import make_runner, make_scheduler_config, tokenise

    journal = Journal(folder)
    journal.write("workers", str(os.getpid()))
    if job.start_kills:
        die(job.start_kills)
    watch = Watch(link.heartbeat, link.condemned)
    jobs = watch.encode(_rows_left(job, folder), lambda row: tokenise(row, job.token_kills))
    feed = Quarantine(LookAhead(jobs, window=50), link.suspects, watch)
    feed.first_window(0.1)
    runner = make_runner(job)
    engine = Engine(WatchedRunner(runner, watch), make_scheduler_config(job.slots))
    driver = Driver(engine, feed, [journal, watch, feed], max_cells=100, backlog=50)
    link.on_orphaned = driver.abort
    _listen(link, driver.stop, driver.abort)
    journal.write("ready", "")
    ending = driver.run().ending
    watch.ending()
    journal.write("endings", ending.value)
    return 0 if ending is Ending.COMPLETE else 130


def _listen(link: Link, stop: Callable[[], None], abort: Callable[[], None]) -> None:
    """Stop at the first interrupt; abort at the second, and at the first of all others."""
    received: list[int] = []

    def hear(number: int, _frame: FrameType | None) -> None:
        received.append(number)
        (stop if received == [link.interrupt] else abort)()

    for number in (link.interrupt, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, hear)


def _rows_left(job: Job, folder: Path) -> Iterator[Row]:
    from tests.supervise.deadly import make_row

    done = {int(line.split()[0]) for name in ("answers", "faults") for line in lines(folder, name)}
    return (make_row(number) for number in range(1, job.rows + 1) if number not in done)


def main() -> None:
    folder, job = Path(sys.argv[1]), Job(**json.loads(sys.argv[2]))
    said = Journal(folder)
    assert "numpy" not in sys.modules
    try:
        code = supervise(
            lambda link: work(job, folder, link),
            stall_timeout_s=job.stall_timeout_s,
            say=lambda line: said.write("said", line),
        )
    except CbatchError as error:
        print(error, file=sys.stderr)
        sys.exit(error.exit_code)
    except KeyboardInterrupt:
        sys.exit(130)
    sys.exit(code)


if __name__ == "__main__":
    main()
