"""Which settings of the engine a job takes that nobody gave: those of a profile that fits, or cbatch's own rules.

A job keeps the settings of its first start: its outputs may change with the type of KV, and a profile that appears
between two starts is no reason for that. So what was taken is in run.json, and taken from there.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from typing import Any, TypeVar

from cbatch.cli.options import JobOptions
from cbatch.config import ModelConfig
from cbatch.tune.profile import Profile, find_profile

NO_PROFILE = "no profile: defaults; cbatch tune measures this machine"
_KERNELS = ("kv", "kv_type", "flash_attn")
"""Chosen together: one that was given leaves the others as they are."""
_COMPANY = ("max_num_seqs", "max_num_batched_tokens")
"""What decides how long a sequence waits for the others."""
_SINGLE = (*_COMPANY, "ubatch", "threads")

_AGAIN = " (as the run that is resumed)"

Options = TypeVar("Options", bound=JobOptions)


@dataclass(frozen=True, slots=True)
class Auto:
    """Settings that were taken for options that weren't given."""

    line: str
    """For people: where they come from."""
    settings: Mapping[str, Any]
    """By the option's name; empty where cbatch's own rules hold."""
    profile: str | None = None
    """The file."""
    open: bool = False
    """Whether neither a profile nor the user has chosen kernels, so that a calibration may."""

    def to_dict(self) -> dict[str, Any]:
        """For run.json."""
        return {"line": self.line, "settings": dict(self.settings), "profile": self.profile}


def auto_options(
    options: Options,
    config: ModelConfig,
    given: Collection[str],
    *,
    enabled: bool = True,
    earlier: Mapping[str, Any] | None = None,
) -> tuple[Options, Auto]:
    """The options as the job is to run, and where they come from.

    `earlier`: run.json of the run that is gone on with. `enabled`: no `--no-auto`.
    """
    if earlier is not None:
        auto = _again(earlier, options, given)
    elif not enabled:
        auto = Auto("defaults: --no-auto", {})
    elif (profile := find_profile(config, options.context_config().cpus)) is None:
        auto = Auto(NO_PROFILE, {}, open=_takes_kernels(options, given))
    else:
        settings = settings_of(profile, options, given)
        auto = Auto(_line(profile, options, settings), settings, str(profile.path))
    return replace(options, **auto.settings), auto


def _again(earlier: Mapping[str, Any], options: JobOptions, given: Collection[str]) -> Auto:
    """As the first start had it, but for what is given now.

    A `--kv` that is given leaves the type of KV as it was: another one would be another job.
    """
    told = earlier.get("auto")
    if not isinstance(told, Mapping) or not isinstance(told.get("settings"), Mapping):
        return Auto("defaults, as the run that is resumed", {})
    settings = {name: value for name, value in told["settings"].items() if name not in given}
    if earlier.get("options", {}).get("cpu_mask") != options.cpu_mask:
        settings.pop("threads", None)  # they were for other CPUs
    settings = _fitting(settings, options)
    line = _line_again(str(told.get("line", "")), settings if settings != told["settings"] else None)
    return Auto(line, settings, told.get("profile"))


def _line_again(line: str, left: Mapping[str, Any] | None) -> str:
    """Of a run that is resumed, maybe not the first time; `left`: what is still taken, where that is less now."""
    if left is not None:
        return f"{line.partition(_AGAIN)[0]}{_AGAIN}, of which now: {in_words(left) or 'nothing'}"
    return line if _AGAIN in line else f"{line}{_AGAIN}"


def settings_of(profile: Profile, options: JobOptions, given: Collection[str]) -> dict[str, Any]:
    """What the profile says for options that weren't given, where it differs from what they are."""
    found = {
        name: profile.options[name]
        for name in (*_KERNELS, *_SINGLE)
        if _is_open(name, given) and profile.options.get(name) is not None
    }
    if profile.latency_goal is not None and not options.arrivals_unknown:  # nobody waits for the next token of a run
        found = {name: value for name, value in found.items() if name not in _COMPANY}
    if options.on_overflow == "shift":  # not every type of K can be shifted, and which one is chosen for that
        found.pop("kv_type", None)
    if options.arrivals_unknown and found.get("max_num_batched_tokens", 0) > options.max_num_batched_tokens:
        del found["max_num_batched_tokens"]  # who runs would wait longer for the next token beside a prompt
    if found.get("kv") != "unified" and (options.kv_cells is not None or options.kv_overcommit):
        found.pop("kv", None)
    if found.get("kv") == "split" and options.kv == "auto":
        del found["kv"]  # it is the same
    return {name: value for name, value in _fitting(found, options).items() if value != getattr(options, name)}


def _fitting(settings: Mapping[str, Any], options: JobOptions) -> dict[str, Any]:
    """Those that go with the options: each sequence that runs needs a token of a step."""
    found = dict(settings)
    tokens = found.get("max_num_batched_tokens", options.max_num_batched_tokens)
    if "max_num_seqs" in found:
        found["max_num_seqs"] = min(found["max_num_seqs"], tokens)
    elif tokens < options.max_num_seqs:
        found.pop("max_num_batched_tokens", None)
    return found


def _is_open(name: str, given: Collection[str]) -> bool:
    """Whether the setting may be taken from elsewhere."""
    return name not in given and (name not in _KERNELS or not any(each in given for each in _KERNELS))


def _takes_kernels(options: JobOptions, given: Collection[str]) -> bool:
    """Whether nothing that was given decides which types of KV it may have."""
    return all(_is_open(name, given) for name in _KERNELS) and options.on_overflow != "shift"


def _line(profile: Profile, options: JobOptions, settings: Mapping[str, Any]) -> str:
    """`profile of 2026-11-30: f16, flash attention off, 48 slots`."""
    goal = "" if profile.latency_goal is None else f", tuned for {profile.latency_goal}"
    return f"profile of {profile.date}{goal}: {in_words(settings) or f'the defaults, {options.max_num_seqs} slots'}"


def in_words(settings: Mapping[str, Any]) -> str:
    """`f16, flash attention off, 48 slots`; nothing for none."""
    named = {
        "kv_type": "{}",
        "flash_attn": "flash attention {}",
        "kv": "{} KV",
        "ubatch": "ubatch {}",
        "threads": "{} threads",
        "max_num_seqs": "{} slots",
        "max_num_batched_tokens": "{} tokens a step",
    }
    return ", ".join(text.format(settings[name]) for name, text in named.items() if name in settings)
