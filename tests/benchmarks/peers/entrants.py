"""Who takes part in the comparison on a job, with which flags. Measures nothing itself."""

from __future__ import annotations

import importlib.util
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from tests.benchmarks.peers import batched_bench, cbatch_command, cbatch_engine, sequential, server
from tests.benchmarks.peers.flags import Flags
from tests.benchmarks.peers.jobs import BenchJob
from tests.benchmarks.peers.measured import Measured, isolated


@dataclass(frozen=True, slots=True)
class Entrant:
    """One way of answering a job."""

    peer: str
    flags: str
    """For people to read."""
    measure: Callable[[BenchJob], Measured]


@dataclass(frozen=True, slots=True)
class Programs:
    """What there is on this machine."""

    model: Path
    llama_server: Path | None
    slots: tuple[int, ...]
    """To try llama-server's defaults with."""
    batched_bench: Path | None
    same_library: bool
    """Whether the programs load llama-cpp-python's libraries in place of their own."""

    def environment(self) -> Mapping[str, str]:
        """Of llama.cpp's programs."""
        if not self.same_library:
            return os.environ
        spec = importlib.util.find_spec("llama_cpp")
        assert spec is not None
        assert spec.origin is not None
        return {**os.environ, "LD_LIBRARY_PATH": str(Path(spec.origin).parent / "lib")}


def entrants(programs: Programs, job: BenchJob) -> list[Entrant]:
    """cbatch first. The kernel's limit, and sampling, are measured on job U only."""
    flags = isolated(cbatch_engine.choose, programs.model, job)
    found = [*_cbatch(programs, job, flags), _sequential(programs), *_llama_servers(programs, job, flags)]
    if importlib.util.find_spec("xllamacpp") is not None:
        command = server.xllamacpp_server(programs.model, flags.slots, job.cells)
        found.append(_served("xllamacpp", f"{flags.slots} slots, defaults", command, flags.slots, os.environ))
    if job.name == "U" and programs.batched_bench is not None:
        found.append(_batched_bench(programs, programs.batched_bench, flags))
    return found


def _cbatch(programs: Programs, job: BenchJob, flags: Flags) -> list[Entrant]:
    texts = isolated(cbatch_command.texts_of, programs.model, job)
    model, chosen = programs.model, f"{flags.slots} slots, {flags}"

    def engine(job: BenchJob) -> Measured:
        return isolated(cbatch_engine.measure, model, job)

    def command(job: BenchJob, sampling: tuple[str, ...] = ()) -> Measured:
        return cbatch_command.measure(model, job, texts[: len(job.rows)], sampling)

    found = [Entrant("cbatch", chosen, engine), Entrant("cbatch run", "whole command", command)]
    if job.name == "U":
        found.append(Entrant("cbatch run", "whole command, sampled", partial(command, sampling=cbatch_command.SAMPLED)))
    return found


def _sequential(programs: Programs) -> Entrant:
    return Entrant("llama_cpp.Llama", "loop, defaults", lambda job: isolated(sequential.measure, programs.model, job))


def _llama_servers(programs: Programs, job: BenchJob, flags: Flags) -> list[Entrant]:
    """With its defaults in each number of slots, and with cbatch's flags."""
    if programs.llama_server is None:
        return []
    tried: list[tuple[str, int, list[str]]] = [("defaults", slots, []) for slots in programs.slots]
    tried.append((str(flags), flags.slots, flags.arguments()))
    return [
        _served(
            "llama-server",
            f"{slots} slots, {told}",
            server.llama_server(programs.llama_server, programs.model, slots, job.cells, arguments),
            slots,
            programs.environment(),
        )
        for told, slots, arguments in tried
    ]


def _served(peer: str, told: str, command: list[str], slots: int, environment: Mapping[str, str]) -> Entrant:
    return Entrant(peer, told, lambda job: server.measure(command, job, slots, environment))


def _batched_bench(programs: Programs, program: Path, flags: Flags) -> Entrant:
    def measure(job: BenchJob) -> Measured:
        return batched_bench.measure(program, programs.model, job, flags, programs.environment())

    return Entrant("llama-batched-bench", f"{flags.slots} sequences, {flags}", measure)
