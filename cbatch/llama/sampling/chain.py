"""The cuts that need llama.cpp's own samplers: locally typical sampling. Knows one row at a time and no randomness.

The chain has no `dist` sampler: it only cuts, and the draw is made with the row's own stateless random number.
"""

from __future__ import annotations

import ctypes
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

from cbatch.llama.lib import C
from cbatch.llama.sampling.candidates import Ints, Logits, chosen
from cbatch.llama.sampling.draw import FAILED, KNOB, draw, knob
from cbatch.sampling import SamplingParams

_TOKEN_DATA = np.dtype([("id", np.int32), ("logit", np.float32), ("p", np.float32)])
_FARTHEST = np.float32(70)
"""Tokens so far below the maximum are left out: where exp underflows in float32, llama.cpp's entropy becomes NaN.

Typical sampling would come to them last, when the others already hold all but 1e-25 of the probability.
"""


def sample_row(row: Logits, sampling: SamplingParams, u: float) -> int:
    """The token that `row`, float32[n_vocab], gives at the random number `u` in [0, 1), or `FAILED`."""
    if not np.isfinite(row.max()):
        return FAILED
    candidates = chosen(row, survivors(row, sampling))
    only_temperature = SamplingParams(temperature=sampling.temperature)
    knobs = np.array([knob(only_temperature, row.size, u)], dtype=KNOB)
    unused = np.zeros(1)
    column = draw(candidates, knobs, np.zeros(1, dtype=np.bool_), unused, unused)[0]
    return int(candidates.ids[0, column])


def survivors(row: Logits, sampling: SamplingParams) -> Ints:
    """Ids that top_k, typical_p, top_p and min_p leave of `row`, float32[n_vocab] with a finite maximum; never none."""
    with np.errstate(over="ignore"):  # what is so far away is left out
        candidates = chosen(row, np.flatnonzero(row - row.max() >= -_FARTHEST))
    ids, logits = candidates.ids[0], candidates.logits[0]
    data = np.zeros(ids.size, dtype=_TOKEN_DATA)
    data["id"], data["logit"] = ids, logits - logits[0]
    array = C.llama_token_data_array(
        data=data.ctypes.data_as(C.llama_token_data_p), size=data.size, selected=-1, sorted=True
    )
    with _chain(sampling) as chain:
        C.llama_sampler_apply(chain, ctypes.byref(array))
    # these samplers cut in place, so the array's pointer is still `data`
    return data["id"][: array.size].astype(np.int64)


@contextmanager
def _chain(sampling: SamplingParams) -> Iterator[Any]:
    """Made for one use: that takes microseconds, and a kept chain holds on to a buffer of the vocabulary's size."""
    chain = C.llama_sampler_chain_init(C.llama_sampler_chain_default_params())
    try:
        C.llama_sampler_chain_add(chain, C.llama_sampler_init_top_k(sampling.top_k))
        C.llama_sampler_chain_add(chain, C.llama_sampler_init_typical(sampling.typical_p, 1))
        C.llama_sampler_chain_add(chain, C.llama_sampler_init_top_p(sampling.top_p, 1))
        C.llama_sampler_chain_add(chain, C.llama_sampler_init_min_p(sampling.min_p, 1))
        yield chain
    finally:
        C.llama_sampler_free(chain)
