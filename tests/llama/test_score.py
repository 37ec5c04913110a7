"""The gap between two logits after a prefix."""

from __future__ import annotations

import numpy as np
import pytest

from cbatch.config import ContextConfig
from cbatch.llama.model import Model
from cbatch.llama.score import Scorer


def test_the_greedy_token_leads_and_gaps_are_antisymmetric(tiny: Model) -> None:
    prompt = np.arange(40, 90, dtype=np.int32)
    with Scorer(tiny, ContextConfig(kv_type="f32", flash_attn="off"), 256) as scorer:
        gaps = {token: scorer.gap(prompt, token, 7) for token in range(256)}
        best = max(gaps, key=lambda token: gaps[token])
        assert gaps[7] == 0
        assert scorer.gap(prompt, 7, best) == -gaps[best]
        assert all(scorer.gap(prompt, best, other) >= 0 for other in (1, 100, 255))


def test_a_prefix_longer_than_a_batch_is_evaluated_in_parts(tiny: Model) -> None:
    prompt = np.arange(100, dtype=np.int32)
    whole = ContextConfig(kv_type="f32", flash_attn="off")
    parts = ContextConfig(kv_type="f32", flash_attn="off", max_num_batched_tokens=32, ubatch=32)
    with Scorer(tiny, whole, 256) as one, Scorer(tiny, parts, 256) as other:
        assert one.gap(prompt, 65, 66) == pytest.approx(other.gap(prompt, 65, 66), abs=1e-3)
