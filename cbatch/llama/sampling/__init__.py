"""Choosing tokens from logits, and how likely they are.

Knows requests and their parameters; no batches, slots, text or llama contexts.
"""

from __future__ import annotations

from cbatch.llama.sampling.candidates import Logits
from cbatch.llama.sampling.draw import FAILED
from cbatch.llama.sampling.logprobs import logprobs_at, rows_to_score
from cbatch.llama.sampling.sampler import Sampler

__all__ = ["FAILED", "Logits", "Sampler", "logprobs_at", "rows_to_score"]
