"""Whether this build of llama.cpp computes on this processor, found out in a child process that may die of it.

GCC 11 and 12 miscompile ggml's AMX kernel: the first decode then ends the whole process with a segmentation fault
(llama.cpp#20824). The child decodes with a tiny model of each weight type in question; the verdicts are cached by
library, processor and type.
"""

from __future__ import annotations

import hashlib
import json
import os
import resource
import signal
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from cbatch.config import ModelConfig
from cbatch.errors import EngineError
from cbatch.llama import lib, machine
from cbatch.llama.cache import library_identity, user_cache
from cbatch.llama.lib import C
from cbatch.llama.model import Model
from cbatch.llama.tiny import write_tiny

REINSTALL_LINE = (
    "CMAKE_ARGS=\"-DCMAKE_CXX_FLAGS='-fno-tree-dse -fno-dse'\" "
    "pip install --no-cache-dir --force-reinstall --no-deps llama-cpp-python==0.3.36"
)
COMMON_TYPES = frozenset({"F16", "BF16", "Q8_0", "Q4_0", "Q4_1", "Q4_K", "Q5_K", "Q6_K", "IQ4_XS"})
"""Types that most published models are made of; those with AMX kernels among them."""
CHILD = (sys.executable, "-m", "cbatch.llama.probe")

_TIMEOUT_S = 30
# What a wrong kernel dies of. Others, SIGKILL from a lack of memory above all, say nothing about kernels.
_CRASHES = (signal.SIGSEGV, signal.SIGBUS, signal.SIGILL, signal.SIGFPE, signal.SIGABRT, signal.SIGTRAP)


@dataclass(frozen=True, slots=True)
class ProbeResult:
    """What became of each weight type."""

    types: frozenset[str]
    crashed: Mapping[str, str]
    """Types whose kernels don't work here, each with what happened."""
    unknown: Mapping[str, str]
    """Types that couldn't be tried, each with the reason. Not cached, and no reason to run slower."""
    cached: bool
    """Whether every verdict was remembered from an earlier probe."""

    @property
    def ok(self) -> bool:
        return not self.crashed

    @property
    def detail(self) -> str:
        """Such as `Q4_1: killed by SIGSEGV; Q8_0: works`."""
        verdicts = dict.fromkeys(self.types, "works") | dict(self.unknown) | dict(self.crashed)
        return "; ".join(f"{name}: {verdicts[name]}" for name in sorted(verdicts))


def warning_for(result: ProbeResult) -> str:
    """What to tell the user of a probe that isn't ok."""
    what = ", ".join(f"{name} weights ({how})" for name, how in sorted(result.crashed.items()))
    return (
        f"the installed build of llama-cpp-python fails on this processor with {what}. cbatch goes on with "
        f"use_extra_bufts=False, without AMX and repacked weights: slower, several times on some processors. "
        f"To repair it:\n  {REINSTALL_LINE}"
    )


def probe(
    types: frozenset[str], *, fresh: bool = False, cache_dir: Path | None = None, child: Sequence[str] = CHILD
) -> ProbeResult:
    """Try a small decode with weights of each of `types` (ggml names: `Q4_1`).

    Args:
        types: what to try.
        fresh: try again what is remembered.
        cache_dir: of the verdicts; None is the user's cache.
        child: the command that gets the files to decode as arguments and prints the name of each one it is done with.
    """
    cache = _cache_file(cache_dir)
    known = _load(cache)
    missing = types if fresh else types - known.keys()
    unknown: dict[str, str] = {}
    if missing:
        verdicts, unknown = _try(sorted(missing), child)
        known |= verdicts
        _save(cache, known)
    crashed = {name: known[name] for name in types if known.get(name)}
    return ProbeResult(types, crashed, unknown, cached=not missing)


def _try(types: list[str], child: Sequence[str]) -> tuple[dict[str, str], dict[str, str]]:
    """Verdicts ("" for works, else what happened), and reasons why there is none. One child, while none dies."""
    verdicts: dict[str, str] = {}
    unknown: dict[str, str] = {}
    with tempfile.TemporaryDirectory(prefix="cbatch-probe-") as folder:
        left = _write_models(types, Path(folder), unknown)
        while left:
            end = _run_child(child, Path(folder), left)
            verdicts |= dict.fromkeys(end.done, "")
            left = [name for name in left if name not in end.done]
            concerned = left if end.hung else left[:1]
            (unknown if end.crash is None else verdicts).update(dict.fromkeys(concerned, end.crash or end.failure))
            left = left[len(concerned) :]
    return verdicts, unknown


def _write_models(types: list[str], folder: Path, unknown: dict[str, str]) -> list[str]:
    written = []
    for name in types:
        try:
            write_tiny(folder / name, weight_type=name)
            written.append(name)
        except KeyError:
            unknown[name] = "not probed: the gguf package doesn't know this type, a newer one may"
    return written


class _End(NamedTuple):
    """How a child ended."""

    done: list[str]
    """The types that it finished."""
    crash: str | None = None
    """What it died of, where that is a verdict on the next type."""
    failure: str = ""
    """Else why there is none."""
    hung: bool = False


def _run_child(child: Sequence[str], folder: Path, names: list[str]) -> _End:
    # The child runs in a folder of its own: in the user's, -m would import whatever json.py lies there.
    path = os.pathsep.join(os.path.abspath(entry) for entry in sys.path)
    # The question is about the processor's kernels, so the child has no business on a GPU.
    env = os.environ | {"PYTHONPATH": path, "CUDA_VISIBLE_DEVICES": ""}
    try:
        ended = subprocess.run(
            [*child, *names],
            cwd=folder,
            env=env,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=_TIMEOUT_S,
            check=False,
        )
    except subprocess.TimeoutExpired as expired:
        # No verdict: the machine may be overloaded, and the failures that are known are crashes. Nor is the next
        # type tried, which would take as long.
        return _End(_done(expired.stdout, names), failure=f"not probed: no answer within {_TIMEOUT_S} s", hung=True)
    done = _done(ended.stdout, names)
    code = ended.returncode
    if code < 0 and -code in _CRASHES:
        return _End(done, crash=f"killed by {signal.Signals(-code).name}")
    last = (ended.stderr.decode("utf-8", "replace").strip().splitlines() or ["no message"])[-1]
    return _End(done, failure=f"not probed: the child ended with code {code} ({last})")


def _done(output: bytes | None, names: list[str]) -> list[str]:
    return [name for name in (output or b"").decode().split() if name in names]


def _cache_file(cache_dir: Path | None) -> Path:
    digest = hashlib.sha256(json.dumps([library_identity(), machine.cpu_name(), sorted(machine.cpu_flags())]).encode())
    return (cache_dir or user_cache()) / f"probe-{digest.hexdigest()[:16]}.json"


def _load(cache: Path) -> dict[str, str]:
    """Remembered verdicts; none where there is no cache or it isn't one."""
    try:
        verdicts = json.loads(cache.read_text())
    except (OSError, ValueError):
        return {}
    return verdicts if isinstance(verdicts, dict) else {}


def _save(cache: Path, verdicts: dict[str, str]) -> None:
    """Remember them. A cache that can't be written costs a second in the next run, so that isn't worth a word."""
    try:
        cache.parent.mkdir(parents=True, exist_ok=True)
        part = cache.with_suffix(f".{os.getpid()}")
        part.write_text(json.dumps(verdicts, indent=1, sort_keys=True))
        part.replace(cache)
    except OSError:
        return


def decode_a_little(path: Path) -> None:
    """A prompt of 96 tokens, then steps of one and of four sequences, on the CPU. Raises `EngineError` if refused."""
    with Model(ModelConfig(path, gpu_layers=0)) as model:
        params = C.llama_context_default_params()
        # One thread: on a busy machine, two that wait for each other by spinning take 300 times as long.
        params.n_ctx, params.n_seq_max, params.n_threads, params.n_threads_batch = 1024, 4, 1, 1
        params.offload_kqv = params.op_offload = False
        context = C.llama_init_from_model(model.handle, params)
        if not context:
            raise EngineError(f"no context: {lib.take_errors()}")
        try:
            for places in ([(i, 0) for i in range(96)], [(96, 0)], [(97, 0), (0, 1), (0, 2), (0, 3)]):
                _decode(context, places)
        finally:
            C.llama_free(context)


def _decode(context: object, places: list[tuple[int, int]]) -> None:
    """One call with a token at each (position, sequence)."""
    batch = C.llama_batch_init(len(places), 0, 1)
    batch.n_tokens = len(places)
    for i, (position, sequence) in enumerate(places):
        batch.token[i], batch.pos[i], batch.n_seq_id[i], batch.logits[i] = i % 256, position, 1, True
        batch.seq_id[i][0] = sequence
    code = C.llama_decode(context, batch)
    C.llama_batch_free(batch)
    if code != 0:
        raise EngineError(f"llama_decode returned {code}: {lib.take_errors()}")


def main() -> None:
    """The child: decode with each file named, and say so after each one."""
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))  # a crash is expected, and no reason to leave a core file
    for name in sys.argv[1:]:
        decode_a_little(Path(name))
        print(name, flush=True)


if __name__ == "__main__":
    main()
