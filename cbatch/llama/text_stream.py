"""Turns sampled tokens into text as they come: whole characters only, and nothing of a stop string.

Knows bytes and strings; knows no vocabulary.
"""

from __future__ import annotations

import codecs
from collections.abc import Callable

_new_decoder = codecs.getincrementaldecoder("utf-8")


class TextStream:
    """The text of one generation.

    The stop string that is complete first ends the text (the longest, where two are complete with the same
    character). However the bytes are cut into tokens, the whole output is the same. The text of `prompt` goes before
    it, and holds no stop string.
    """

    __slots__ = ("_before", "_decode", "_first", "_held", "_longest", "_stop", "_stopped", "_token_bytes")

    def __init__(self, token_bytes: Callable[[int], bytes], stop: tuple[str, ...] = (), prompt: bytes = b"") -> None:
        self._token_bytes = token_bytes
        self._decode = _new_decoder("replace").decode
        self._before = self._decode(prompt)
        self._stop = stop
        self._first = frozenset(text[0] for text in stop)
        self._longest = max(map(len, stop), default=0)
        self._held = ""
        self._stopped = False

    def push(self, token: int) -> tuple[str, bool]:
        """Take a token; returns the text that is final now, and whether a stop string is complete."""
        text = self._decode(self._token_bytes(token))
        if self._stop:
            text = self._match(text)
        return self._after_prompt(text), self._stopped

    def finish(self) -> str:
        """The text that was held back, an unfinished character as U+FFFD; nothing after a stop string."""
        text = self._match(self._decode(b"", True))
        held, self._held = self._held, ""
        return self._after_prompt(text + held)

    def _after_prompt(self, text: str) -> str:
        if self._before:
            text, self._before = self._before + text, ""
        return text

    def _match(self, text: str) -> str:
        """Append `text` to what is held; returns what can't be part of a stop string any more."""
        if self._stopped:
            return ""
        text = self._held + text
        end = self._find_stop(text)
        if end is not None:
            self._stopped = True
            self._held = ""
            return text[:end]
        keep = self._first_possible_stop(text)
        self._held = text[keep:]
        return text[:keep]

    def _find_stop(self, text: str) -> int | None:
        """Where the stop string begins that is complete first."""
        found = [(start + len(stop), start) for stop in self._stop if (start := text.find(stop)) >= 0]
        return min(found)[1] if found else None

    def _first_possible_stop(self, text: str) -> int:
        """Start of the longest suffix that a stop string begins with; the length of `text` if there is none."""
        for start in range(max(0, len(text) - self._longest + 1), len(text)):
            if text[start] in self._first:
                suffix = text[start:]
                if any(stop.startswith(suffix) for stop in self._stop):
                    return start
        return len(text)
