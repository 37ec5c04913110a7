"""Concurrent clients of an HTTP server that speaks llama-server's `/completion`. Knows how no server is started."""

from __future__ import annotations

import json
import queue
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, suppress
from http.client import HTTPConnection, HTTPException

from tests.benchmarks.peers.jobs import BenchJob, BenchRow
from tests.benchmarks.peers.measured import Measured, PeerFailed

HOST = "127.0.0.1"
_SPARE = 2
"""Clients beyond one a slot, so that no slot is idle while an answer is on its way."""
_TIMEOUT_S = 600.0


def body(row: BenchRow) -> bytes:
    """The request, in JSON; `cache_prompt` and the rest stay as the server has them."""
    request = {"prompt": row.prompt, "n_predict": row.output, "ignore_eos": True, "temperature": 0}
    return json.dumps(request).encode()


def drive(port: int, job: BenchJob, slots: int) -> Measured:
    """Answer the job with as many clients as keep the slots busy. Raises `PeerFailed` for a bad answer."""
    bodies: queue.SimpleQueue[bytes] = queue.SimpleQueue()
    for row in job.rows:
        bodies.put(body(row))
    clients = min(len(job.rows), slots + _SPARE)
    with ThreadPoolExecutor(clients) as pool:
        start = time.perf_counter()
        asked = [pool.submit(_ask, port, bodies) for _ in range(clients)]
        try:
            answers = [client.result() for client in asked]
        except (OSError, HTTPException) as error:
            raise PeerFailed(f"the server can't be asked: {error!r}") from error
        finally:  # if one failed, or the user wants to stop, the pool waits for all others
            _drain(bodies)
        seconds = time.perf_counter() - start
    tokens = sum(predicted(answer) for some in answers for answer in some)
    if tokens != job.output_tokens:
        raise PeerFailed(f"the server gave {tokens} tokens in place of {job.output_tokens}")
    return Measured(seconds, tokens)


def _drain(bodies: queue.SimpleQueue[bytes]) -> None:
    with suppress(queue.Empty):
        while True:
            bodies.get_nowait()


def _ask(port: int, bodies: queue.SimpleQueue[bytes]) -> Sequence[bytes]:
    """One client: request after request over one connection, until none is left. Answers are read, not parsed."""
    answers: list[bytes] = []
    with closing(HTTPConnection(HOST, port, timeout=_TIMEOUT_S)) as connection:
        while True:
            try:
                request = bodies.get_nowait()
            except queue.Empty:
                return answers
            connection.request("POST", "/completion", request, {"Content-Type": "application/json"})
            answers.append(connection.getresponse().read())


def predicted(answer: bytes) -> int:
    """Output tokens of an answer. Raises `PeerFailed` where it is an error."""
    try:
        return int(json.loads(answer)["tokens_predicted"])
    except (ValueError, KeyError, TypeError):
        raise PeerFailed(f"the server answered {answer[:300].decode(errors='replace')}") from None
