"""Which ids are taken, exactly and in little memory. Knows no rows."""

from __future__ import annotations

import hashlib


class TakenIds:
    """The ids of the rows so far.

    Ids that are row numbers, or whole numbers that run along with them, take a bit each. Of two million others, other
    whole numbers took 66 bytes each and the rest 82, whatever their length (resident memory, CPython 3.11).
    """

    def __init__(self) -> None:
        self._bits = bytearray()
        """Bit n is set where the id n was claimed by row n or a later one."""
        self._others: set[int | bytes] = set()
        """All other ids: numbers as they are, else digests."""

    def claim(self, row_id: str, row: int) -> bool:
        """Take `row_id` for the row of that number, which never decreases; False where it is taken."""
        key = _key(row_id)
        if key in self._others:
            return False
        if isinstance(key, bytes) or key > row:
            self._others.add(key)
            return True
        return self._set_bit(key)

    def _set_bit(self, number: int) -> bool:
        """Whether it wasn't set before."""
        at, mask = number >> 3, 1 << (number & 7)
        if at >= len(self._bits):
            self._bits.extend(bytes(at + 1 - len(self._bits)))
        free = not self._bits[at] & mask
        self._bits[at] |= mask
        return free


def _key(row_id: str) -> int | bytes:
    """The number that a row could have as its id, else a digest."""
    if len(row_id) <= 18 and row_id.isascii() and row_id.isdigit() and (row_id[0] != "0" or row_id == "0"):
        return int(row_id)
    # Of 15 bytes, as that makes an object of 48; two of a billion ids are equal with a probability of 4e-19.
    return hashlib.blake2b(row_id.encode("utf-8"), digest_size=15).digest()
