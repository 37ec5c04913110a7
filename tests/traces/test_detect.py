from __future__ import annotations

import gzip
from pathlib import Path

import pytest

from cbatch.errors import InputError, UsageError
from cbatch.traces.detect import FORMATS, detect, format_named
from tests.traces.files import write_lines, write_parquet


def test_formats_are_found_by_name() -> None:
    assert [format_named(form.name) for form in FORMATS] == list(FORMATS)
    with pytest.raises(UsageError, match=r"format is 'azur': give one of cbatch, azure, "):
        format_named("azur")


@pytest.mark.parametrize("name", ["x.csv", "x.parquet", "x"])
def test_the_name_of_the_file_says_nothing(tmp_path: Path, name: str) -> None:
    assert detect(write_lines(tmp_path, '{"timestamp": 0, "input_length": 1, "output_length": 1}', name=name)).name == (
        "mooncake"
    )


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ('  {"prompt": "a"}\n', "prompts"),
        ('\n"a line"\n', "prompts"),
        ('{"chat_id":1,"parent_chat_id":-1,"timestamp":0,"input_length":1,"output_length":1}', "bailian"),
        ('[ {"conversations": []} ]', "sharegpt"),
        ('{"url": "/v1/completions", "body": {}, "prompt": 1}', "openai"),
        ("Log Type,Response tokens,Request tokens,Timestamp", "burstgpt"),
        ('"TIMESTAMP","ContextTokens","GeneratedTokens"', "azure"),
    ],
)
def test_detection_looks_at_the_first_record(tmp_path: Path, text: str, name: str) -> None:
    path = tmp_path / "x"
    for content in (text.encode(), b"\xef\xbb\xbf" + text.encode(), gzip.compress(text.encode())):
        path.write_bytes(content)
        assert detect(path).name == name


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("when,how much\n1,2\n", r"has 'when', 'how much' \(CSV\), which is no trace format cbatch knows"),
        ('{"at": 1, "size": 2}\n', r"has 'at', 'size' \(JSONL\)"),
        ('[{"turns": []}]', r"has 'turns' \(JSON array\)"),
        ("[]", r"has no columns \(JSON array\)"),
        ("[1, 2", r"has no columns \(JSON array\)"),
        ("[tru", r"isn't a valid JSON array"),
        ('{"timestamp": 0,\n', r"x:1: the line isn't valid JSON: .* or give --format"),
        ("", "x is empty"),
        ("\n \n", "x is empty"),
        ("PAR1 and then nothing", r"x can't be read as Parquet"),
    ],
)
def test_what_is_not_known_is_shown(tmp_path: Path, text: str, message: str) -> None:
    path = tmp_path / "x"
    path.write_text(text)
    with pytest.raises(InputError, match=message):
        detect(path)


def test_an_unknown_file_is_told_all_formats_with_their_columns(tmp_path: Path) -> None:
    with pytest.raises(InputError) as caught:
        detect(write_parquet(tmp_path, {"a": [1], "b": [2]}))
    message = str(caught.value)
    assert "has 'a', 'b' (Parquet)" in message
    assert "azure (CSV: TIMESTAMP, ContextTokens, GeneratedTokens)" in message
    assert "aiperf (Parquet: timestamp_start_unix_ms, output_tokens, prompt or input_tokens)" in message
    assert "give --format" in message


def test_files_that_cant_be_opened(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="missing can't be read: No such file"):
        detect(tmp_path / "missing")
    with pytest.raises(InputError, match="can't be read: Is a directory"):
        detect(tmp_path)
