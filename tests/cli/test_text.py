from __future__ import annotations

import shutil
import sys
from os import terminal_size

import pytest

from cbatch.cli.text import format_bytes, hang


@pytest.mark.parametrize(
    ("count", "text"), [(0, "0 kB"), (54_321, "54 kB"), (98_362_432, "98 MB"), (4_700_000_000, "4.7 GB")]
)
def test_format_bytes(count: int, text: str) -> None:
    assert format_bytes(count) == text


def test_lines_hang_in_a_terminal_and_stay_whole_in_a_pipe(monkeypatch: pytest.MonkeyPatch) -> None:
    line = "name   one two three four five six-seven"
    assert hang(line, 7) == line
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    monkeypatch.setattr(shutil, "get_terminal_size", lambda: terminal_size((30, 24)))
    assert hang(line, 7) == "name   one two three four five\n       six-seven"
