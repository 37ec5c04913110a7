"""Option values that are more than a word or a number."""

from __future__ import annotations

from pathlib import Path

import pytest

from cbatch.cli import parse
from cbatch.errors import UsageError


def test_cpu_lists() -> None:
    assert parse.parse_cpu_list("auto") is None
    assert parse.parse_cpu_list("none") == ()
    assert parse.parse_cpu_list("0-3,8") == (0, 1, 2, 3, 8)
    for wrong in ("", "a", "3-1", "1-", "-1", "0,512"):
        with pytest.raises(UsageError, match="--cpu-mask"):
            parse.parse_cpu_list(wrong)


def test_loras(tmp_path: Path) -> None:
    odd = tmp_path / "a:1"
    odd.touch()
    assert parse.parse_loras(["a.gguf", "b.gguf:0.5", str(odd)]) == (
        (Path("a.gguf"), 1.0),
        (Path("b.gguf"), 0.5),
        (odd, 1.0),
    )
    with pytest.raises(UsageError, match="'x' is no scale"):
        parse.parse_loras(["a.gguf:x"])


def test_tensor_split_logit_bias_and_template_kwargs() -> None:
    assert parse.parse_tensor_split(None) == ()
    assert parse.parse_tensor_split("3,1") == (3.0, 1.0)
    assert parse.parse_logit_bias(["42:-5", "7:1.5"]) == ((42, -5.0), (7, 1.5))
    assert parse.parse_template_kwargs(None) == {}
    assert parse.parse_template_kwargs('{"a": [1]}') == {"a": [1]}
    for call, wrong in (
        (parse.parse_tensor_split, "a,b"),
        (parse.parse_template_kwargs, "{"),
        (parse.parse_template_kwargs, "[]"),
    ):
        with pytest.raises(UsageError):
            call(wrong)
    with pytest.raises(UsageError, match="42"):
        parse.parse_logit_bias(["42"])
