"""Snapshots: copies of a slot's KV in host memory, which come back into any slot of a context of the same make.

One holds the cells that the slot uses and no more: of full attention all, of sliding windows the window, of recurrent
layers the state. So it serves the length at which it was taken; only full attention can be cut back further afterwards
(and a sliding window by one token, its oldest cell being one more than the next token looks at).

The library checks types, sizes and number of streams when it restores. It doesn't know the model, its adapters or the
tokens: whoever keeps snapshots keeps those of different models apart.
"""

from __future__ import annotations

import ctypes
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from cbatch.llama import lib
from cbatch.llama.context import Context
from cbatch.llama.lib import C


@dataclass(frozen=True, slots=True, eq=False)
class HostSnapshot:
    """A slot's KV in host memory. Never changed, so any number of slots can be restored from it."""

    num_tokens: int
    data: npt.NDArray[np.uint8]
    """uint8[num_bytes], as llama_state_seq_get_data writes it."""

    @property
    def num_bytes(self) -> int:
        return int(self.data.nbytes)


def save(context: Context, slot: int) -> HostSnapshot | None:
    """Copy the slot's KV as it is now. None where the slot is empty or there is no memory for the copy."""
    num_tokens = context.num_cells(slot)
    size = int(C.llama_state_seq_get_size(context.handle, slot)) if num_tokens else 0
    if size == 0:
        return None
    try:
        data = np.empty(size, np.uint8)
    except MemoryError:
        return None
    written = int(C.llama_state_seq_get_data(context.handle, _pointer(data), size, slot))
    return HostSnapshot(num_tokens, data) if written == size else None


def restore(context: Context, slot: int, snapshot: HostSnapshot) -> bool:
    """Put the snapshot into the slot, in place of what it holds.

    False, with the slot empty, where there is no room for it or the context is of another make: another KV type, flash
    attention on against off, split against unified, or another number of slots in split mode.
    """
    # the library clears the slot itself, but not where it refuses at the first look, nor all layers where it fails late
    context.clear(slot)
    data = snapshot.data
    read = int(C.llama_state_seq_set_data(context.handle, _pointer(data), data.nbytes, slot))
    if read == data.nbytes and context.num_cells(slot) == snapshot.num_tokens:
        return True
    lib.take_errors()  # the reason; callers compute the tokens again whatever it is
    context.clear(slot)
    return False


def _pointer(data: npt.NDArray[np.uint8]) -> ctypes.Array[ctypes.c_uint8]:
    return (ctypes.c_uint8 * data.nbytes).from_address(data.ctypes.data)
