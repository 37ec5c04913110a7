"""What a peer took for a job, and where it ran. Knows no peer."""

from __future__ import annotations

import multiprocessing
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from typing import NamedTuple, ParamSpec, TypeVar

_P = ParamSpec("_P")
_T = TypeVar("_T")


class Measured(NamedTuple):
    """One pass over a job."""

    seconds: float
    output_tokens: int
    llama_share: float | None = None
    """Time inside llama_decode / time from the first step to the last, where the peer tells it."""
    beside_s: float | None = None
    """Seconds before the first step and after the last, where the whole process was measured."""
    peak_bytes: int | None = None
    """Most resident memory of one of its processes, likewise."""

    @property
    def tokens_per_s(self) -> float:
        return self.output_tokens / self.seconds


class PeerFailed(Exception):
    """A peer gave no answer, or the wrong amount of it."""


def isolated(function: Callable[_P, _T], *args: _P.args, **kwargs: _P.kwargs) -> _T:
    """Call it in a new process: no native library was used in it, and none of its threads is bound to a CPU."""
    with ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("spawn")) as pool:
        return pool.submit(function, *args, **kwargs).result()
