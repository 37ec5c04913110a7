"""Log-probabilities of tokens, as values. Knows no logits and no text."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]


class TokenLogprobs(NamedTuple):
    """Of one place in a text: natural logarithms of the model's own distribution, before bias, penalties and cuts."""

    token: float
    """Of the token that stands there."""
    top_ids: npt.NDArray[np.int32]
    """int32[k], the likeliest tokens, likeliest first, the lowest id first among equals."""
    top: Floats
    """float64[k], theirs."""


@dataclass(frozen=True, slots=True, eq=False)
class Logprobs:
    """Of the n tokens of a text, with the k likeliest at each place."""

    tokens: Floats
    """float64[n]; NaN where nothing comes before the token, as at the start of a prompt."""
    top_ids: npt.NDArray[np.int32]
    """int32[n, k]; -1 where there is none."""
    top: Floats
    """float64[n, k]; NaN where there is none."""

    @property
    def mean(self) -> float:
        """Mean over the tokens; NaN for none."""
        return float(self.tokens.mean()) if self.tokens.size else float("nan")

    @classmethod
    def of(cls, places: list[TokenLogprobs]) -> Logprobs:
        """All places have the same k."""
        k = places[0].top_ids.size if places else 0
        return cls(
            np.array([place.token for place in places], np.float64),
            np.array([place.top_ids for place in places], np.int32).reshape(len(places), k),
            np.array([place.top for place in places], np.float64).reshape(len(places), k),
        )

    @classmethod
    def of_prompt(cls, places: list[TokenLogprobs]) -> Logprobs:
        """Of a prompt whose second token and those after it have `places`: nothing comes before the first."""
        k = places[0].top_ids.size if places else 0
        first = TokenLogprobs(np.nan, np.full(k, -1, np.int32), np.full(k, np.nan))
        return cls.of([first, *places])
