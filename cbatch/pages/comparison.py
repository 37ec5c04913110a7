"""A comparison as it lies on disk: compare.json, and replays of every variant. Draws nothing."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from cbatch.outputs.directory import COMPARE_JSON
from cbatch.pages.files import damaged, figure, read_json
from cbatch.pages.play import Group, read_play
from cbatch.pages.words import number, printable

_NAMES = {"ttft": "TTFT", "tpot": "TPOT", "itl": "ITL", "kv": "KV"}
_EXAMPLES = 3


@dataclass(frozen=True, slots=True)
class Ratio:
    """A metric of a variant beside the baseline's."""

    metric: str
    unit: str
    better: str | None
    """`lower`, `higher`, or None where neither is good in itself."""
    variant: str
    median: float | None
    """Over the repetitions."""
    ratio: float | None
    """To the baseline's."""
    low: float | None
    high: float | None
    """Ends of the interval of the ratio."""

    @property
    def verdict(self) -> str:
        """`better`, `worse`, or `unclear` where the interval holds 1; empty where that can't be said."""
        if self.low is None or self.high is None or self.better is None:
            return ""
        if self.low <= 1 <= self.high:
            return "unclear"
        return "better" if (self.high < 1) == (self.better == "lower") else "worse"

    @property
    def title(self) -> str:
        """`TTFT p99` of `ttft_p99`."""
        return " ".join(_NAMES.get(word, word) for word in self.metric.split("_"))

    @property
    def ratio_text(self) -> str:
        """`0.412 (0.398 to 0.431)`."""
        interval = "" if self.low is None or self.high is None else f" ({number(self.low)} to {number(self.high)})"
        return f"{number(self.ratio)}{interval}"


@dataclass(frozen=True, slots=True)
class Audit:
    """How many of a variant's outputs are the baseline's, token by token."""

    variant: str
    requests: int
    same: int
    median_gap: float | None
    """Between the logits of the tokens at which outputs part."""
    examples: tuple[str, ...]
    """Of those that differ."""

    @property
    def share(self) -> float | None:
        return None if self.requests == 0 else self.same / self.requests


@dataclass(frozen=True, slots=True)
class Comparison:
    """Variants of the batching on one trace."""

    label: str
    baseline: str
    groups: tuple[Group, ...]
    """The repetitions of each variant, the baseline first."""
    ratios: tuple[Ratio, ...]
    audits: tuple[Audit, ...]
    repeatable: tuple[tuple[str, int, int], ...]
    """(variant, requests, those with the same output in every repetition)."""
    notes: tuple[str, ...]

    def of(self, metric: str) -> dict[str, Ratio]:
        """By variant."""
        return {ratio.variant: ratio for ratio in self.ratios if ratio.metric == metric}

    @property
    def metrics(self) -> list[str]:
        """In the order of the file."""
        return list(dict.fromkeys(ratio.metric for ratio in self.ratios))

    @property
    def others(self) -> list[str]:
        """Variants without the baseline."""
        return [group.label for group in self.groups if group.label != self.baseline]


def read_comparison(directory: Path, label: str) -> Comparison:
    """The comparison in `directory`. Raises `InputError`."""
    path = directory / COMPARE_JSON
    record = read_json(path)
    try:
        names, repeats = [str(name) for name in record["variants"]], int(record["repeats"])
        ratios = tuple(_ratio(entry) for entry in record["metrics"])
        audits = tuple(_audit(entry) for entry in record["audit"])
        again = tuple(_repeatable(entry) for entry in record.get("repeatability", []))
        baseline, notes = str(record["baseline"]), tuple(printable(str(note)) for note in record["notes"])
    except (KeyError, TypeError, ValueError) as error:
        raise damaged(path, f"it isn't what cbatch compare writes ({type(error).__name__}: {error})") from error
    if not names or repeats < 1:
        raise damaged(path, "it names no variants or no repetitions")
    groups = tuple(_variant(directory, name, repeats, index) for index, name in enumerate(names))
    return Comparison(label, printable(baseline), groups, ratios, audits, again, notes)


def _variant(directory: Path, name: str, repeats: int, index: int) -> Group:
    plays = tuple(read_play(directory / name / str(number)) for number in range(1, repeats + 1))
    return Group(printable(name), plays, index)


def _ratio(entry: Mapping[str, Any]) -> Ratio:
    metric, unit, variant = (printable(str(entry[name])) for name in ("metric", "unit", "variant"))
    if entry["better"] not in ("lower", "higher", None):
        raise ValueError(f"{metric} is better {entry['better']!r}")
    median, ratio, low, high = (figure(entry, name) for name in ("median", "ratio", "low", "high"))
    return Ratio(metric, unit, entry["better"], variant, median, ratio, low, high)


def _audit(entry: Mapping[str, Any]) -> Audit:
    examples = tuple(_example(example) for example in entry["examples"][:_EXAMPLES])
    requests, same = int(entry["requests"]), int(entry["same"])
    return Audit(printable(str(entry["variant"])), requests, same, figure(entry, "median_gap"), examples)


def _example(example: Mapping[str, Any]) -> str:
    gap = figure(example, "gap")
    how = "" if gap is None else f" (logits {number(gap)} apart)"
    return f"{printable(str(example['id']))} at token {int(example['position']) + 1}{how}"


def _repeatable(entry: Mapping[str, Any]) -> tuple[str, int, int]:
    return printable(str(entry["variant"])), int(entry["requests"]), int(entry["same"])
