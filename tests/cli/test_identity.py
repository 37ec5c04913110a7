"""Standard input, of which an identity knows the beginning."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from cbatch.cli.identity import check_stdin, differences, note_stdin
from cbatch.errors import OutputError
from cbatch.inputs import identity


def of_stdin() -> dict[str, Any]:
    return {"inputs": identity(["-"]), "model": 1, "loras": [], "chat_template": None, "output_format": "csv"}


def head(data: bytes) -> Callable[[int], bytes]:
    return lambda size: data[:size]


def noted(data: bytes, *reads: int) -> dict[str, Any]:
    """An identity after so many bytes were read, each time in all."""
    found = of_stdin()
    for read in reads:
        note_stdin(found, head(data), read)
    return found


def test_it_grows_with_what_is_read_up_to_a_mebibyte() -> None:
    data = bytes(3 << 20)
    assert [noted(data, *reads)["inputs"][0]["head_bytes"] for reads in ((7,), (7, 50), (7, 2 << 20))] == [
        7,
        50,
        1 << 20,
    ]


def test_what_nobody_keeps_has_none() -> None:
    found = of_stdin()
    note_stdin(found, None, 9)
    assert "head_bytes" not in found["inputs"][0]


@pytest.mark.parametrize("now", [b"first line\n", b"first line\nand more"])
def test_the_same_beginning_passes_and_isnt_forgotten(now: bytes) -> None:
    earlier, found = noted(b"first line\n", 11), of_stdin()
    check_stdin(found, earlier, head(now))
    note_stdin(found, head(now), 3)  # the reader is behind
    assert found["inputs"] == earlier["inputs"]


@pytest.mark.parametrize("now", [b"other line\n", b"first"])
def test_another_beginning_is_refused(now: bytes) -> None:
    found = of_stdin()
    with pytest.raises(OutputError, match=r"begins differently: its first 11 bytes.*--force"):
        check_stdin(found, noted(b"first line\n", 11), head(now))
    assert differences({**noted(b"first line\n", 11), "options": {}}, {**found, "options": {}}) == []


def test_what_nobody_keeps_or_kept_is_refused() -> None:
    for earlier, known in ((noted(b"a", 1), None), (of_stdin(), head(b"a"))):
        with pytest.raises(OutputError, match="read only once"):
            check_stdin(of_stdin(), earlier, known)
