"""llama_batch through numpy: allocated once, filled by slices. Knows tokens, positions and slots only."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from typing import Any

import numpy as np

from cbatch.engine.compose import num_echoed
from cbatch.engine.runner import Work
from cbatch.llama.lib import C


class Batch:
    """A llama_batch with room for `capacity` tokens, one sequence id each."""

    def __init__(self, capacity: int) -> None:
        self.capacity = capacity
        self._token = np.zeros(capacity, np.int32)
        self._pos = np.zeros(capacity, np.int32)
        self._n_seq_id = np.ones(capacity, np.int32)
        self._slot = np.zeros(capacity, np.int32)
        self._logits = np.zeros(capacity, np.int8)
        # seq_id is an array of pointers; each points at its token's own element of _slot
        self._slot_pointers = self._slot.ctypes.data + 4 * np.arange(capacity, dtype=np.uintp)
        self._struct = C.llama_batch()
        self._point("token", self._token, C.llama_token)
        self._point("pos", self._pos, C.llama_pos)
        self._point("n_seq_id", self._n_seq_id, ctypes.c_int32)
        self._point("seq_id", self._slot_pointers, ctypes.POINTER(C.llama_seq_id))
        self._point("logits", self._logits, ctypes.c_int8)

    def _point(self, name: str, array: Any, ctype: Any) -> None:
        setattr(self._struct, name, ctypes.cast(array.ctypes.data, ctypes.POINTER(ctype)))

    def fill(self, works: Sequence[Work]) -> Any:
        """Lay out the works' tokens one after the other; returns the struct to decode.

        Logits are asked for at the last token of each work that samples, and where `num_echoed` says.
        """
        self._logits[:] = 0
        end = 0
        for work in works:
            begin, end = end, end + work.length
            if work.seq.is_decoding:
                self._put_last(begin, work)
            else:
                self._put(begin, end, work)
            if work.samples:
                self._logits[end - 1] = 1
        self._struct.n_tokens = end
        return self._struct

    def _put_last(self, at: int, work: Work) -> None:
        """The last token of an output, which most works are: slices of one element would be slow."""
        assert work.seq.slot is not None
        self._token[at] = work.seq.output[-1]
        self._pos[at] = work.start
        self._slot[at] = work.seq.slot

    def _put(self, begin: int, end: int, work: Work) -> None:
        assert work.seq.slot is not None
        self._token[begin:end] = work.tokens()
        self._pos[begin:end] = np.arange(work.start, work.start + work.length, dtype=np.int32)
        self._slot[begin:end] = work.seq.slot
        self._logits[begin : begin + num_echoed(work)] = 1
