from __future__ import annotations

import gzip
from pathlib import Path

import pytest

from cbatch.errors import InputError
from cbatch.traces.formats.vidur import VIDUR
from cbatch.traces.importing import import_trace
from cbatch.traces.lint import lint
from tests.traces import files
from tests.traces.files import lint_messages, read, write_lines


def arrivals(path: Path) -> list[int]:
    return [request.arrival_ns for request in read(path)[0]]


def test_a_byte_order_mark_blank_lines_and_other_line_ends_are_no_trouble(tmp_path: Path) -> None:
    path = tmp_path / "trace.csv"
    path.write_bytes(b"\xef\xbb\xbf\r\n arrived_at , num_prefill_tokens,num_decode_tokens\r\n0,1,2\r\n\r\n1.5,3,4")
    assert arrivals(path) == [0, 1_500_000_000]


def test_quoted_csv(tmp_path: Path) -> None:
    path = write_lines(tmp_path, '"arrived_at","num_prefill_tokens","num_decode_tokens"', '"0","1","2"', '1,"3",4')
    assert arrivals(path) == [0, 1_000_000_000]


def test_a_stray_quote_costs_only_its_own_line(tmp_path: Path) -> None:
    path = write_lines(tmp_path, files.VIDUR, "0,1,2", '1,"3,4', "2,5,6")
    requests, imported = read(path)
    assert [request.prompt_tokens for request in requests] == [1, 5]
    assert imported.changes == {"bad_lines_left_out": 1}


def test_lines_with_too_many_or_too_few_values_say_so(tmp_path: Path) -> None:
    path = write_lines(tmp_path, files.VIDUR, "0,1,2", "1,4,808,3", "2,5")
    found = lint_messages(path)["bad_lines"]
    assert found.startswith("2 lines can't be read and are left out: ")
    assert f"{path}:3: the line has 4 values for 3 columns" in found
    assert f"{path}:4: num_decode_tokens is missing (found 'arrived_at', 'num_prefill_tokens')" in found


@pytest.mark.parametrize("lines", [(files.VIDUR, "0,1,2", "1,3,4"), ('{"prompt": "a"}',), ('[{"conversations": []}]',)])
def test_gzip_is_read_like_plain_text(tmp_path: Path, lines: tuple[str, ...]) -> None:
    plain = write_lines(tmp_path, *lines)
    zipped = tmp_path / "trace.gz"
    zipped.write_bytes(gzip.compress(plain.read_bytes()))
    assert lint(zipped) == lint(plain)


def test_gzip_that_breaks_off_is_an_input_error(tmp_path: Path) -> None:
    whole = gzip.compress("\n".join([files.VIDUR, *(f"{n},{n * 7919 % 1000},5" for n in range(9999))]).encode())
    path = tmp_path / "trace.gz"
    path.write_bytes(whole[: len(whole) // 2])
    with pytest.raises(InputError, match=r"trace\.gz can't be read"):
        read(path, as_format=VIDUR)
    assert "can't be read" in lint_messages(path, as_format=VIDUR)["unreadable"]


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ('{"timestamp": 1,', "isn't valid JSON: Expecting property name"),
        ('{"timestamp": NaN}', "NaN isn't valid JSON: give a number"),
        ("[" * 100_000, "nested too deep"),
        ("1" * 5000, ""),
        ("1e9999999999999999999999999999", ""),
        ("[1, 2]", "the record is a list: give one object"),
        ("null", "the record is null"),
    ],
)
def test_a_line_of_broken_json_costs_only_itself(tmp_path: Path, line: str, message: str) -> None:
    good = '{"timestamp": 5, "input_length": 1, "output_length": 1}'
    path = write_lines(tmp_path, good, line, good)
    requests, imported = read(path)
    assert len(requests) == 2
    assert imported.changes == {"bad_lines_left_out": 1}
    assert f"{path}:2: " in lint_messages(path)["bad_lines"]
    assert message in lint_messages(path)["bad_lines"]


def test_bytes_that_are_not_utf8_are_shown(tmp_path: Path) -> None:
    path = write_lines(tmp_path, files.VIDUR, "0,1,2")
    path.write_bytes(path.read_bytes() + b"1,\xff,2\n")
    assert "byte 0xff at offset 2 isn't UTF-8" in lint_messages(path)["bad_lines"]


def test_a_damaged_array_is_read_up_to_the_damage(tmp_path: Path) -> None:
    path = write_lines(tmp_path, '[{"conversations": [{"from": "human", "value": "a"}]}, {"conv')
    imported = import_trace(path, arrivals=iter([0, 1]))
    assert next(imported.requests).prompt == "a"
    with pytest.raises(InputError, match="isn't a valid JSON array after item 1"):
        next(imported.requests)


def test_a_file_name_can_be_any_bytes(tmp_path: Path) -> None:
    plain = write_lines(tmp_path, files.VIDUR, "0,1,bad")
    path = Path(str(tmp_path / "tr\udcffce"))
    plain.rename(path)
    assert r"tr\xffce:2: num_decode_tokens is 'bad'" in lint_messages(path)["bad_lines"]
