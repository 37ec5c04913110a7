"""Compute threads on CPUs: bound while a context lives, and free again after it."""

from __future__ import annotations

import os
import sys

import pytest

from cbatch.llama import machine
from cbatch.llama.model import Model
from tests.llama.running import answer, llama_engine, requests


@pytest.mark.skipif(sys.platform != "linux", reason="affinity is Linux's")
def test_the_computing_thread_gets_its_cpus_back(tiny: Model) -> None:
    """Else the next context of the process would count one core, and compute on one thread."""
    before, cores = os.sched_getaffinity(0), machine.default_threads()
    for _ in range(2):
        with llama_engine(tiny, cpus=(min(before),)) as (engine, runner):
            assert runner.context.resolved.cpus == (min(before),)
            answer(engine, requests(2))
            assert os.sched_getaffinity(0) == {min(before)}
        assert os.sched_getaffinity(0) == before
        assert machine.default_threads() == cores
