"""Continuous batching: sequences, scheduler, KV accounting, and the runner protocol. No llama.cpp, no text, no I/O."""

from cbatch.engine.engine import Engine
from cbatch.engine.fake import FakeRunner
from cbatch.engine.fit import fit_to_context
from cbatch.engine.runner import Capacity, Runner

__all__ = ["Capacity", "Engine", "FakeRunner", "Runner", "fit_to_context"]
