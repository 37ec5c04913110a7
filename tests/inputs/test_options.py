from __future__ import annotations

from typing import Any

import pytest

from cbatch.errors import UsageError
from cbatch.inputs import InputOptions


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"format": "xml"}, "--format is 'xml': give one of auto, jsonl, json, csv, tsv, parquet, arrow, text"),
        ({"offset": -1}, "--offset is -1: give 0 or more rows"),
        ({"limit": 0}, "--limit is 0: give 1 or more rows"),
        ({"sample": 0.0}, "--sample is 0: give a share such as 0.1, or a whole number of rows"),
        ({"sample": 1.5}, r"--sample is 1\.5"),
        ({"sample": -3}, "--sample is -3"),
        ({"sample": float("nan")}, "--sample is nan"),
        ({"sample": float("inf")}, "--sample is inf"),
        ({"prompt_column": ""}, "--prompt-column is empty"),
        ({"id_column": ""}, "--id-column is empty"),
        ({"prompt_column": "a", "messages_column": "a"}, "both 'a': keep --prompt-column for plain text"),
        ({"template": "x", "prompt_column": "a"}, "--template makes the prompt: leave --prompt-column out"),
        ({"template": "x", "messages_column": "a"}, "leave --messages-column out"),
        ({"template": "a\n{{ b"}, "--template, line 2: unexpected end of template"),
        ({"template": "{% include 'x' %}"}, "--template, line 1: it can't load other templates"),
        ({"where": "a >"}, r"--where 'a >' isn't a condition \(invalid syntax\): give a condition such as score > 3"),
    ],
)
def test_a_wrong_value_is_said_with_the_fix(options: dict[str, Any], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        InputOptions(**options)


@pytest.mark.parametrize("sample", [0.001, 0.999, 1, 1.0, 10**9])
def test_a_sample_is_a_share_or_a_number(sample: float) -> None:
    assert InputOptions(sample=sample).sample == sample
