"""Turns sampled tokens into text: whole characters only, and nothing from a stop string on.

Knows bytes and strings; knows no vocabulary.
"""

from __future__ import annotations

import codecs
from collections.abc import Callable, Iterable

_new_decoder = codecs.getincrementaldecoder("utf-8")


class TextStream:
    """The text of one generation.

    The stop string that is complete first ends the text (the longest, where two are complete with the same
    character). However the bytes are cut into tokens, the whole output is the same. The text of `prompt` goes before
    it, and holds no stop string.
    """

    __slots__ = ("_decode", "_longest", "_pieces", "_stop", "_stopped", "_tail", "_token_bytes")

    def __init__(self, token_bytes: Callable[[int], bytes], stop: tuple[str, ...] = (), prompt: bytes = b"") -> None:
        self._token_bytes = token_bytes
        self._decode = _new_decoder("replace").decode
        self._pieces = [self._decode(prompt)]
        self._stop = stop
        self._longest = max(map(len, stop), default=0)
        self._tail = ""
        """The end of the output: as much as a stop string can have begun in."""
        self._stopped = False

    def push(self, tokens: Iterable[int]) -> bool:
        """Take tokens; returns whether a stop string is complete, after which nothing counts."""
        self._take(self._decode(b"".join(map(self._token_bytes, tokens))))
        return self._stopped

    def finish(self) -> str:
        """The whole text, an unfinished character as U+FFFD."""
        self._take(self._decode(b"", True))
        return "".join(self._pieces)

    def _take(self, text: str) -> None:
        if self._stopped:
            return
        self._pieces.append(text)
        if not self._stop:
            return
        window = self._tail + text
        end = self._find_stop(window)
        if end is None:
            self._tail = window[max(0, len(window) - self._longest + 1) :]
        else:
            self._stopped = True
            whole = "".join(self._pieces)
            self._pieces = [whole[: len(whole) - len(window) + end]]

    def _find_stop(self, text: str) -> int | None:
        """Where the stop string begins that is complete first."""
        found = [(start + len(stop), start) for stop in self._stop if (start := text.find(stop)) >= 0]
        return min(found)[1] if found else None
