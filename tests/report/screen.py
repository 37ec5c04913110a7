"""As much of a terminal as the dashboard uses: text, line feeds, cursor up, erase in line, cursor visibility."""

from __future__ import annotations

import re
import unicodedata

_TOKENS = re.compile(r"\x1b\[(\??\d*(?:;\d+)*)([A-Za-z])|(\r)|(\n)|([^\x1b\r\n])")


class Screen:
    """What `feed` of a terminal's input leaves on it; fails on anything it doesn't know, and on wrapping."""

    def __init__(self, width: int, height: int) -> None:
        self._width = width
        self._height = height
        self._rows: list[list[str]] = [[]]
        self._row = 0
        self._column = 0
        self.cursor_shown = True

    @property
    def lines(self) -> list[str]:
        """From the first line printed to the last, scrolled-off ones included."""
        return ["".join(row).rstrip() for row in self._rows]

    def feed(self, data: str) -> None:
        position = 0
        while position < len(data):
            match = _TOKENS.match(data, position)
            assert match is not None, f"unknown to the screen: {data[position : position + 10]!r}"
            position = match.end()
            parameter, command, carriage_return, line_feed, char = match.groups()
            if command is not None:
                self._control(parameter, command)
            elif carriage_return or line_feed:
                self._column = 0
                self._row += 1 if line_feed else 0
                self._rows += [[]] * 0 if self._row < len(self._rows) else [[]]
            else:
                self._put(char)

    def _control(self, parameter: str, command: str) -> None:
        if command == "A":
            self._row -= int(parameter)
            assert self._row >= max(0, len(self._rows) - self._height), "cursor above the screen"
        elif command == "K":
            del self._rows[self._row][0 if parameter == "2" else self._column :]
        elif parameter == "?25":
            self.cursor_shown = command == "h"
        else:
            assert command == "m", f"unknown to the screen: {command}"

    def _put(self, char: str) -> None:
        cells = [char] + [""] * (unicodedata.east_asian_width(char) in "WF")
        row = self._rows[self._row]
        row += [" "] * (self._column - len(row))
        row[self._column : self._column + len(cells)] = cells
        self._column += len(cells)
        assert self._column <= self._width, "line wraps"
