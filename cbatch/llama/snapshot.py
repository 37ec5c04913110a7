"""Snapshots: copies of a slot's KV in host memory, which come back into any slot of a context of the same make.

One holds the cells that the slot uses and no more: of full attention all, of sliding windows the window, of recurrent
layers the state. So it serves the length at which it was taken; only full attention can be cut back further afterwards
(and a sliding window by one token, its oldest cell being one more than the next token looks at).

The library checks types, sizes and number of streams when it restores, but not by which factors keys were rotated: that
is checked here. It doesn't know the model, its adapters or the tokens: whoever keeps snapshots keeps those of different
models apart.
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
    extended: bool
    """As of the context that it was taken of."""

    @property
    def num_bytes(self) -> int:
        return int(self.data.nbytes)

    @property
    def shared(self) -> bool:
        return False


class Parked:
    """Cells of a pool kept alive by a sequence id beyond the slots; slots that are restored from it share them.

    It gives the id, and the cells that nobody else has, back when nothing refers to it.
    """

    def __init__(self, parking: Parking, seq_id: int, num_tokens: int, num_bytes: int) -> None:
        self.seq_id = seq_id
        self.num_tokens = num_tokens
        self.num_bytes = num_bytes
        self._parking = parking

    @property
    def shared(self) -> bool:
        return True

    def __del__(self) -> None:
        self._parking.give_back(self.seq_id)


class Parking:
    """The sequence ids of a context beyond its slots."""

    def __init__(self, context: Context) -> None:
        self._context = context
        slots = context.resolved.max_num_seqs
        self._free = list(range(slots, slots + context.resolved.parking))

    def park(self, slot: int, bytes_per_cell: float) -> Parked | None:
        """Share the slot's cells. None where the context can't, or no id is left."""
        if not self._free:
            return None
        length = self._context.num_cells(slot)
        seq_id = self._free.pop()
        parked = Parked(self, seq_id, length, round(length * bytes_per_cell))
        return parked if self._context.fork(slot, seq_id, length) else None

    def give_back(self, seq_id: int) -> None:
        """An id isn't used any longer."""
        if self._context.handle:
            self._context.clear(seq_id)
            self._free.append(seq_id)


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
    return HostSnapshot(num_tokens, data, context.extended) if written == size else None


def restore(context: Context, slot: int, snapshot: HostSnapshot) -> bool:
    """Put the snapshot into the slot, in place of what it holds.

    False, with the slot empty, where there is no room for it or the context is of another make: another KV type, flash
    attention on against off, split against unified, another number of slots in split mode, or keys that are rotated
    otherwise, the model's original context being passed in one of both.
    """
    # the library clears the slot itself, but not where it refuses at the first look, nor all layers where it fails late
    context.clear(slot)
    if snapshot.extended != context.extended:
        return False
    data = snapshot.data
    read = int(C.llama_state_seq_set_data(context.handle, _pointer(data), data.nbytes, slot))
    if read == data.nbytes and context.num_cells(slot) == snapshot.num_tokens:
        return True
    lib.take_errors()  # the reason; callers compute the tokens again whatever it is
    context.clear(slot)
    return False


def _pointer(data: npt.NDArray[np.uint8]) -> ctypes.Array[ctypes.c_uint8]:
    return (ctypes.c_uint8 * data.nbytes).from_address(data.ctypes.data)
