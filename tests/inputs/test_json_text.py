from __future__ import annotations

import pytest

from cbatch.inputs.fault import Fault
from cbatch.inputs.json_text import MAX_DEPTH, check_writable, decode


@pytest.mark.parametrize(
    ("raw", "code", "message"),
    [
        (b'{"prompt": "Hi",}', "invalid_json", r"at column 1[67], found '"),
        (b"{'prompt': 'Hi'}", "invalid_json", r"double quotes at column 2, found \"'prompt"),
        (b'"Hi', "invalid_json", r"Unterminated string starting at column 1, found"),
        (b'{"prompt":', "invalid_json", r"at column 11, found the end of the line"),
        (b'"a" "b"', "invalid_json", r"Extra data at column 5, found '\"b\"'"),
        (b'"a\tb"', "invalid_json", r"control character at column 3"),
        (b"\xef\xbb\xbf1", "invalid_json", r"column 1, found '\\ufeff1'"),
        (b'{"a": NaN}', "invalid_json", r"NaN isn't valid JSON: give a number or null"),
        (b'{"a": -Infinity}', "invalid_json", r"-Infinity isn't"),
        (b'{"a": 1e999}', "invalid_json", r"1e999 is beyond a 64-bit float"),
        (b"[" * 200_000, "invalid_json", r"nested more than 100 levels"),
        (b"9" * 5000, "invalid_json", r"too many digits"),
        (b'"caf\xe9"', "invalid_utf8", r"byte 0xe9 at offset 4"),
        (b'"\xed\xa0\x80"', "invalid_utf8", r"byte 0xed at offset 1"),
        (b'\xff\xfe"\x00', "invalid_utf8", r"byte 0xff at offset 0"),
    ],
)
def test_a_line_that_isnt_json_is_a_fault_that_says_where(raw: bytes, code: str, message: str) -> None:
    with pytest.raises(Fault, match=message) as caught:
        decode(raw)
    assert caught.value.code == code
    assert len(caught.value.message) < 200


def test_huge_integers_and_repeated_keys_are_json() -> None:
    assert decode(b"9" * 4000) == int("9" * 4000)
    assert decode(b'{"a": 1, "a": 2}') == {"a": 2}


@pytest.mark.parametrize("raw", [rb'"a\ud800"', rb'{"\ud800": 1}', rb'{"a": [1, {"b": "\udc00x"}]}'])
def test_half_a_surrogate_pair_cant_be_written(raw: bytes) -> None:
    with pytest.raises(Fault, match=r"half a surrogate pair, \\ud[8c]00, at character") as caught:
        check_writable(decode(raw))
    assert caught.value.code == "invalid_utf8"


def test_a_whole_surrogate_pair_is_a_character() -> None:
    value = decode(rb'"\ud83d\ude00"')
    check_writable(value)
    assert value == "\N{GRINNING FACE}"


def test_nesting_is_bounded() -> None:
    check_writable(decode(b"[" * MAX_DEPTH + b"0" + b"]" * MAX_DEPTH))
    with pytest.raises(Fault, match="nested") as caught:
        check_writable(decode(b"[" * (MAX_DEPTH + 1) + b"0" + b"]" * (MAX_DEPTH + 1)))
    assert caught.value.code == "invalid_json"
