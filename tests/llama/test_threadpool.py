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
    if len(before) < 2:
        pytest.skip("threads are bound only where there are several CPUs")
    cpus = tuple(sorted(before))[:2]
    for _ in range(2):
        with llama_engine(tiny, threads=2, cpus=cpus) as (engine, runner):
            assert runner.context.resolved.cpus == cpus
            answer(engine, requests(2))
            assert len(os.sched_getaffinity(0)) == 1
        assert os.sched_getaffinity(0) == before
        assert machine.default_threads() == cores
