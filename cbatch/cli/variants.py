"""Variants of a replay: a name, and which of its options differ. Knows option names, and no engine."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeVar

from cbatch.cli.replay_options import ReplayOptions
from cbatch.errors import UsageError

CHUNK = 256
"""Token budget of a step with chunked prefill."""

PREFIXES = "continuous+prefixes"
"""The policy that differs by its prefix cache."""

POLICIES: Mapping[str, Mapping[str, Any]] = {
    "sequential": {"batching": "continuous", "max_num_seqs": 1},
    "static": {"batching": "static"},
    "padded": {"batching": "padded"},
    "continuous": {"batching": "continuous"},
    "continuous+chunked": {"batching": "continuous", "max_num_batched_tokens": CHUNK},
    PREFIXES: {"batching": "continuous", "prefix_cache": "auto"},
}
"""What `--policies` may name. Prompts are computed whole in all but chunked, each for itself in all but prefixes."""
LADDER = ("sequential", "static", "continuous", "continuous+chunked", PREFIXES)
DEFAULT = ("static", "continuous")

_KEYS: Mapping[str, type] = {
    "batching": str,
    "static_wait": float,
    "max_num_seqs": int,
    "max_num_batched_tokens": int,
    "prefill_chunk": int,
    "prefix_cache": str,
    "preempt": str,
    "kv_overcommit": bool,
    "kv_cells": int,
    "compact": bool,
    "ctx": int,
    "kv": str,
    "kv_type": str,
    "flash_attn": str,
    "threads": int,
    "cpu_mask": str,
    "priority": str,
    "ubatch": int,
}


Options = TypeVar("Options", bound=ReplayOptions)


@dataclass(frozen=True, slots=True)
class Variant:
    """One way to serve the same requests."""

    name: str
    changes: Mapping[str, Any]

    def of(self, options: Options) -> Options:
        """With its changes, and without what they rule out: whole prompts, or that there is no prefix cache."""
        left = {
            "whole_prompts": options.whole_prompts and "max_num_batched_tokens" not in self.changes,
            "no_prefix_cache": options.no_prefix_cache and "prefix_cache" not in self.changes,
        }
        return replace(options, **{**left, **self.changes})


def policies(names: Sequence[str]) -> list[Variant]:
    """By the names of `POLICIES`. Raises `UsageError`."""
    for name in names:
        if name not in POLICIES:
            raise UsageError(f"--policies has {name!r}: give some of {', '.join(POLICIES)}")
    return [Variant(name, POLICIES[name]) for name in names]


def parse_variant(text: str) -> Variant:
    """`NAME:KEY=VALUE,...`, or a policy with changes, `POLICY:KEY=VALUE`. Raises `UsageError`."""
    name, colon, rest = text.partition(":")
    if not colon or not name or "/" in name or name.startswith("."):
        raise UsageError(f"--variant {text}: give NAME:KEY=VALUE,... such as few:max_num_seqs=8,kv=unified")
    changes = dict(POLICIES.get(name, {}))
    for part in rest.split(","):
        key, _, value = part.partition("=")
        changes[_key(text, key)] = _value(text, key, value)
    return Variant(name, changes)


def _key(text: str, key: str) -> str:
    key = key.strip().lstrip("-").replace("-", "_")
    if key not in _KEYS:
        raise UsageError(f"--variant {text}: there is no {key!r} to vary; give one of {', '.join(_KEYS)}")
    return key


def _value(text: str, key: str, value: str) -> Any:
    wanted = _KEYS[_key(text, key)]
    try:
        if not value.strip():
            raise ValueError(value)
        return _truth(value) if wanted is bool else wanted(value.strip())
    except ValueError:
        form = {int: "a whole number", float: "a number", str: "a value", bool: "on or off"}[wanted]
        raise UsageError(f"--variant {text}: {key} is {value!r}; give {form}") from None


def _truth(value: str) -> bool:
    if value.strip() not in ("on", "off"):
        raise ValueError(value)
    return value.strip() == "on"


def check_names(variants: Sequence[Variant]) -> None:
    """Raise `UsageError` where two have one name, or there is nothing to compare."""
    names = [variant.name for variant in variants]
    if len(names) < 2:
        raise UsageError("there is only one variant: give two or more to compare")
    for name in names:
        if names.count(name) > 1:
            raise UsageError(f"two variants are called {name}: give each its own name")
