"""Log-probabilities as the tables hold them. Knows no row and no text."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa

from cbatch.logprobs import Logprobs
from cbatch.outputs import schema
from cbatch.outputs.arrow import list_cell, structs
from cbatch.types import Tokens


def places(token_ids: Tokens, logprobs: Logprobs | None) -> Any:
    """The cell of type `schema.PLACES`, or None; where a text broke off, its first tokens alone."""
    if logprobs is None:
        return None
    there = logprobs.top_ids >= 0
    candidates = structs(schema.TOP, [logprobs.top_ids[there], logprobs.top[there]])
    ends = np.cumsum(np.concatenate([[0], there.sum(axis=1)]))
    top = pa.ListArray.from_arrays(pa.array(ends, pa.int32()), candidates, type=schema.TOP)
    known = pa.array(logprobs.tokens, pa.float64(), mask=np.isnan(logprobs.tokens))
    return list_cell(schema.PLACES, [token_ids[: len(known)], known, top])


def mean(logprobs: Logprobs | None) -> float | None:
    """Of the tokens; None where it isn't known."""
    found = np.nan if logprobs is None else logprobs.mean
    return None if np.isnan(found) else found
