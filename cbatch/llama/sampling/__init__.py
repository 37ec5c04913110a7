"""Choosing tokens from logits. Knows requests and their parameters; doesn't know batches, slots, text or llama contexts."""

from __future__ import annotations

from cbatch.llama.sampling.sampler import FAILED, Sampler, check_sampling

__all__ = ["FAILED", "Sampler", "check_sampling"]
