"""Choosing tokens from logits. Knows requests and their parameters; no batches, slots, text or llama contexts."""

from __future__ import annotations

from cbatch.llama.sampling.draw import FAILED
from cbatch.llama.sampling.sampler import Sampler

__all__ = ["FAILED", "Sampler"]
