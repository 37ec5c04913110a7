"""Log-probabilities of one place in a text, from its row of logits. Chooses no token, and knows no prompt.

They are of the model's own distribution, whatever bias, penalties and cuts the choice is made with.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from cbatch.engine.sequence import Sequence
from cbatch.llama.sampling.candidates import Floats, Logits, largest
from cbatch.llama.sampling.penalties import has_patch
from cbatch.logprobs import TokenLogprobs


def rows_to_score(logits: Logits, seqs: list[Sequence]) -> dict[int, Logits]:
    """By index, the rows of those that need log-probabilities. `Sampler.sample` patches rows in place; not these."""
    rows = {}
    for i, seq in enumerate(seqs):
        sampling = seq.request.sampling
        if sampling.logprobs_needed is not None:
            rows[i] = logits[i].copy() if has_patch(sampling) else logits[i]
    return rows


def logprobs_at(row: Logits, token: int, k: int) -> TokenLogprobs:
    """Of `token` and of the k >= 0 likeliest, in the softmax of `row`, float32[n_vocab], computed in float64.

    Where fewer than k logits are finite, the rest is id -1 and NaN; all is NaN for a row with NaN or +inf.
    """
    ids, top = _likeliest(row, k)
    with np.errstate(invalid="ignore"):
        below = row.astype(np.float64)
        peak = below.max()
        below -= peak
        own = below[token]
        log_sum = np.log(np.exp(below, out=below).sum())
        return TokenLogprobs(float(own - log_sum), ids, top - peak - log_sum)


def _likeliest(row: Logits, k: int) -> tuple[npt.NDArray[np.int32], Floats]:
    """Ids, int32[k], and logits, float64[k]."""
    ids, logits = np.full(k, -1, np.int32), np.full(k, np.nan)
    if k:
        candidates = largest(row[None], [0], k)
        found = min(k, int(candidates.found[0]))
        ids[:found], logits[:found] = candidates.ids[0, :found], candidates.logits[0, :found]
    return ids, logits
