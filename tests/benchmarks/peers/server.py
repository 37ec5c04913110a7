"""A server process on loopback, from start to end. Knows the commands of llama-server and xllamacpp."""

from __future__ import annotations

import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from http.client import HTTPConnection, HTTPException
from pathlib import Path

from tests.benchmarks.peers.clients import HOST, drive
from tests.benchmarks.peers.flags import total_cells
from tests.benchmarks.peers.jobs import BenchJob, BenchRow
from tests.benchmarks.peers.measured import Measured, PeerFailed

_START_S, _END_S, _POLL_S = 120.0, 10.0, 0.05
_WARM_UP = BenchJob("warm-up", (BenchRow((1, 2, 3, 4), 2),))


def llama_server(program: Path, model: Path, slots: int, cells: int, flags: Sequence[str]) -> list[str]:
    """The command, but for the port. The context has to be given: by default, slots would share the model's."""
    context = total_cells(slots, cells)
    return [str(program), "-m", str(model), "--host", HOST, "-np", str(slots), "-c", str(context), *flags]


def xllamacpp_server(model: Path, slots: int, cells: int) -> list[str]:
    """As `llama_server`."""
    given = ["-m", str(model), "-np", str(slots), "-c", str(total_cells(slots, cells))]
    return [sys.executable, "-m", "tests.benchmarks.peers.xllamacpp_host", *given]


def measure(command: Sequence[str], job: BenchJob, slots: int, environment: Mapping[str, str]) -> Measured:
    """Of a fresh server, so that it knows no prompt from before."""
    with serving(command, environment) as port:
        drive(port, _WARM_UP, slots)
        return drive(port, job, slots)


@contextmanager
def serving(command: Sequence[str], environment: Mapping[str, str]) -> Iterator[int]:
    """Start the server, and yield its port once it answers; afterwards end it. Raises `PeerFailed`."""
    port = _free_port()
    with tempfile.TemporaryFile("w+", encoding="utf-8", errors="replace") as log:
        process = subprocess.Popen(
            [*command, "--port", str(port)], env=environment, stdin=subprocess.DEVNULL, stdout=log, stderr=log
        )
        try:
            if not _answers(process, port):
                log.seek(0)
                raise PeerFailed(f"{' '.join(command)} doesn't answer: {log.read()[-2000:]}")
            yield port
        finally:
            _end(process)


def _free_port() -> int:
    with closing(socket.socket()) as probe:
        probe.bind((HOST, 0))
        return int(probe.getsockname()[1])


def _answers(process: subprocess.Popen[bytes], port: int) -> bool:
    """Wait until it is healthy; False where it ended, or took too long."""
    until = time.monotonic() + _START_S
    while process.poll() is None and time.monotonic() < until:
        if _is_healthy(port):
            return True
        time.sleep(_POLL_S)
    return False


def _is_healthy(port: int) -> bool:
    with closing(HTTPConnection(HOST, port, timeout=5)) as connection:
        try:
            connection.request("GET", "/health")
            return connection.getresponse().status == 200
        except (OSError, HTTPException):
            return False


def _end(process: subprocess.Popen[bytes]) -> None:
    process.terminate()
    try:
        process.wait(_END_S)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
