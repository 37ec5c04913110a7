"""`cbatch run` on a file, as one starts it: from the start of its process to its end, with dashboard and journal."""

from __future__ import annotations

import fcntl
import json
import os
import pty
import struct
import subprocess
import sys
import tempfile
import termios
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq

from cbatch.config import ModelConfig
from cbatch.llama.model import Model
from cbatch.llama.tokenizer import Tokenizer
from tests.benchmarks.peers.jobs import BenchJob
from tests.benchmarks.peers.measured import Measured, PeerFailed

SAMPLED = ("--temperature", "0.8", "--top-k", "40", "--top-p", "0.95")
_ROWS, _COLUMNS = 40, 120


def texts_of(path: Path, job: BenchJob) -> list[str]:
    """The prompts as text. Raises `PeerFailed` where they don't read back as the same tokens."""
    with Model(ModelConfig(path)) as model:
        tokenizer = Tokenizer(model)
        texts = [tokenizer.detokenize(row.prompt) for row in job.rows]
        for text, row in zip(texts, job.rows, strict=True):
            if tuple(tokenizer.tokenize(text, parse_special=False).tolist()) != row.prompt:
                raise PeerFailed(f"job {job.name}: a prompt isn't the same tokens once it is text: {text!r:.80}")
    return texts


def measure(path: Path, job: BenchJob, texts: Sequence[str], sampling: Sequence[str] = ()) -> Measured:
    with tempfile.TemporaryDirectory() as folder:
        prompts, output = Path(folder, "prompts.jsonl"), Path(folder, "out")
        rows = zip(texts, job.rows, strict=True)
        lines = (json.dumps({"prompt": text, "max_tokens": row.output}) for text, row in rows)
        prompts.write_text("\n".join(lines), "utf-8")
        given = [str(prompts), "-o", str(output), "--model", str(path), "--raw", "--ignore-eos", *sampling]
        with _terminal() as stderr:
            seconds, peak_bytes = _run(given, stderr)
        totals: dict[str, Any] = json.loads((output / "run.json").read_text("utf-8"))["totals"]
        steps = pq.read_table(output / "steps.parquet", columns=["start_ns", "end_ns"])
    if totals["output_tokens"] != job.output_tokens:
        raise PeerFailed(f"cbatch run gave {totals['output_tokens']} tokens in place of {job.output_tokens}")
    in_steps_s = (steps["end_ns"][-1].as_py() - steps["start_ns"][0].as_py()) / 1e9
    return Measured(seconds, job.output_tokens, totals["llama_share"], seconds - in_steps_s, peak_bytes)


def _run(given: Sequence[str], stderr: int) -> tuple[float, int]:
    """Seconds and the peak of memory, bytes. Raises `PeerFailed`."""
    start = time.perf_counter()
    with subprocess.Popen(
        [sys.executable, "-m", "cbatch", "run", *given],
        env={**os.environ, "TERM": "xterm-256color", "PYTHONUTF8": "1"},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=stderr,
        text=True,
    ) as process:
        assert process.stdout is not None
        told = process.stdout.read()
        _, status, usage = os.wait4(process.pid, 0)  # of it and those that it waited for
        process.returncode = os.waitstatus_to_exitcode(status)
    seconds = time.perf_counter() - start
    if process.returncode != 0:
        raise PeerFailed(f"cbatch run {' '.join(given)} ended with {process.returncode}: {told[-2000:]}")
    return seconds, usage.ru_maxrss * 1024


@contextmanager
def _terminal() -> Iterator[int]:
    """A terminal that nobody looks at, to draw a dashboard on: its file descriptor."""
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", _ROWS, _COLUMNS, 0, 0))
    reader = threading.Thread(target=_drain, args=(ours,), daemon=True)
    reader.start()
    try:
        yield theirs
    finally:
        os.close(theirs)
        reader.join(5)
        os.close(ours)


def _drain(descriptor: int) -> None:
    """Read until the other end is closed, which Linux tells as an error."""
    try:
        while os.read(descriptor, 65_536):
            pass
    except OSError:
        return
