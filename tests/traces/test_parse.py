from __future__ import annotations

from pathlib import Path

import pytest

from cbatch.errors import InputError, UsageError
from cbatch.traces.lengths import Empirical, Exponential, Fixed, LengthDistribution, LogNormal, Uniform
from cbatch.traces.parse import parse_lengths, parse_priorities, parse_window
from cbatch.traces.trace import TraceRequest
from tests.traces.test_writer import write


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("128", Fixed(128)),
        ("uniform:1:128", Uniform(1, 128)),
        ("lognormal:512:1.2", LogNormal(512, 1.2)),
        ("lognormal:512:1.2:16:4096", LogNormal(512, 1.2, 16, 4096)),
        ("exponential:128", Exponential(128)),
        ("exponential:128.5:512", Exponential(128.5, 512)),
    ],
)
def test_lengths(text: str, expected: LengthDistribution) -> None:
    assert parse_lengths(text, "prompt_tokens") == expected


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "give 128, uniform:A:B, lognormal:MEAN:SIGMA[:MIN:MAX], exponential:MEAN[:MAX] or empirical:TRACE"),
        ("normal:3", "give 128, uniform"),
        ("uniform:3", "give 128, uniform"),
        ("uniform:1.5:3", "give 128, uniform"),
        ("lognormal:512:1:16", "give 128, uniform"),
        ("empirical:", "give 128, uniform"),
        ("0", "a length of 0 tokens: give 1 to 2147483647"),
        ("uniform:9:3", "the shortest length, 9, is above the longest, 3: swap them"),
        ("lognormal:0:1", "MEAN is 0: give a number above 0"),
        ("lognormal:9:inf", "SIGMA is inf: give a number above 0"),
        ("lognormal:100:0.1:1000:2000", "only 0 of the distribution lies in 1000 to 2000, where at least 0.01 must"),
        ("exponential:nan", "MEAN is nan: give a number above 0"),
        ("exponential:5000:32", "only 0.0064 of the distribution lies in 0 to 32"),
        ("exponential:128:0", "a length of 0 tokens"),
    ],
)
def test_what_no_lengths_are(text: str, message: str) -> None:
    with pytest.raises(UsageError) as caught:
        parse_lengths(text, "output_tokens")
    assert str(caught.value).startswith(f"--output-tokens {text}: {message}")


def test_lengths_of_another_trace(tmp_path: Path) -> None:
    requests = [TraceRequest(0, prompt_tokens=3, output_tokens=30), TraceRequest(0, prompt_tokens=4, output_tokens=40)]
    path = write(tmp_path / "a:b.parquet", requests)
    prompts = parse_lengths(f"empirical:{path}", "prompt_tokens")
    outputs = parse_lengths(f"empirical:{path}", "output_tokens")
    assert isinstance(prompts, Empirical)
    assert isinstance(outputs, Empirical)
    assert (prompts.lengths.tolist(), outputs.lengths.tolist()) == ([3, 4], [30, 40])
    assert prompts.describe() == {"kind": "empirical", "file": str(path)}


def test_a_trace_without_the_lengths(tmp_path: Path) -> None:
    path = write(tmp_path / "t.parquet", [TraceRequest(0, prompt_tokens=3), TraceRequest(0, prompt="x")])
    with pytest.raises(InputError, match=r"t\.parquet, row 2: prompt_tokens is null"):
        parse_lengths(f"empirical:{path}", "prompt_tokens")
    with pytest.raises(InputError, match=r"t\.parquet, row 1: output_tokens is null"):
        parse_lengths(f"empirical:{path}", "output_tokens")
    with pytest.raises(InputError, match=r"e\.parquet has no requests to take lengths from"):
        parse_lengths(f"empirical:{write(tmp_path / 'e.parquet', [])}", "prompt_tokens")


def test_priorities() -> None:
    assert parse_priorities("high:0.1,normal:0.8, low:0.1").weights == ((-1, 0.1), (0, 0.8), (1, 0.1))
    assert parse_priorities("-7:2,3:1").weights == ((-7, 2.0), (3, 1.0))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "give PRIORITY:WEIGHT with high, normal, low or a whole number, such as high:0.1,normal:0.8,low:0.1"),
        ("urgent:1", "give PRIORITY:WEIGHT"),
        ("high", "give PRIORITY:WEIGHT"),
        ("high:1,-1:1", "a priority is given twice"),
    ],
)
def test_what_no_priorities_are(text: str, message: str) -> None:
    with pytest.raises(UsageError) as caught:
        parse_priorities(text)
    assert str(caught.value).startswith(f"--priorities {text}: {message}")


def test_windows() -> None:
    assert parse_window("60:120.5") == (60.0, 120.5)
    assert parse_window("60:inf") == (60.0, float("inf"))
    with pytest.raises(UsageError, match="--window 60: give START:END in seconds, such as 60:120"):
        parse_window("60")
