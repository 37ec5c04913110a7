"""The options of `cbatch simulate`: of a replay's, those that matter without a model; the profile has the defaults."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from cbatch.cli.options import OutputFormat
from cbatch.cli.replay_options import ReplayOptions
from cbatch.cli.simulate_profile import Profile
from cbatch.cli.sizing import cells_wanted, slots_wanted
from cbatch.cli.variants import Variant, check_names, parse_variant
from cbatch.config import ContextConfig, padded
from cbatch.errors import InputError, UsageError

BASE = "profile"
"""Name of the settings that variants are beside."""
_NO_LIMIT = 2**31 - 1

ENGINE: Mapping[str, Any] = {
    "max_num_seqs": 32,
    "batching": "continuous",
    "static_wait": 0.0,
    "max_num_batched_tokens": 512,
    "prefill_chunk": None,
    "whole_prompts": False,
    "prefix_cache": "auto",
    "no_prefix_cache": False,
    "preempt": "swap",
    "kv_overcommit": False,
    "kv_cells": None,
    "ageing": 300.0,
    "compact": True,
    "ctx": None,
    "on_overflow": "error",
    "keep": None,
    "ubatch": 512,
    "max_tokens": 256,
}
"""What decides how requests share steps, with what `cbatch replay` does where neither the call nor the profile says."""
_MEASURED = ("flash_attn", "kv_type", "threads", "cpu_mask", "priority")
"""Settings whose effect is in the step costs."""
WITHOUT_EFFECT: Mapping[str, Any] = {
    "model": "",
    "output_format": OutputFormat.parquet,
    "quiet": True,
    "raw": False,
    "system": None,
    "chat_template": None,
    "template_kwargs": None,
    "parse_special": False,
    "temperature": 0.0,
    "top_k": 0,
    "top_p": 1.0,
    "min_p": 0.0,
    "typical_p": 1.0,
    "repetition_penalty": 1.0,
    "presence_penalty": 0.0,
    "frequency_penalty": 0.0,
    "logit_bias": None,
    "stop": None,
    "stop_token_id": None,
    "ignore_eos": True,
    "kv_type": None,
    "flash_attn": None,
    "threads": None,
    "cpu_mask": "auto",
    "priority": "normal",
    "gpu_layers": 0,
    "main_gpu": None,
    "tensor_split": None,
    "lora": None,
    "burstiness": None,
    "natural_lengths": False,
    "num_warmups": 0,
    "timeline": None,
    "auto": False,
    "given": (),
}


@dataclass(frozen=True, kw_only=True)
class SimulateOptions(ReplayOptions):
    """`cbatch simulate`'s options; see its help."""

    profile: Path
    variant: list[str] | None

    def check(self) -> None:
        super().check()
        if len(self.sources) != 1:
            raise UsageError(f"{len(self.sources)} traces are given: give one")
        if self.variant and (self.sweep_rate is not None or self.find_capacity):
            raise UsageError("--variant is for one rate: leave --sweep-rate and --find-capacity out, or --variant")
        for variant in self.variants:
            variant.of(self).scheduler_config()

    @property
    def variants(self) -> list[Variant]:
        """The profile's settings first; it alone without `--variant`."""
        found = [Variant(BASE, {}), *(parse_variant(text) for text in self.variant or ())]
        for variant in found:
            for name in _MEASURED:
                if name in variant.changes:
                    raise UsageError(
                        f"--variant {variant.name}: {name} is in the profile's costs and can't be varied: "
                        "measure a profile with it"
                    )
        if len(found) > 1:
            check_names(found)
        return found

    @property
    def batchings(self) -> set[str]:
        return {variant.of(self).batching for variant in self.variants}

    @property
    def trace(self) -> Path:
        return Path(self.sources[0])

    def most_cells(self, trained: int | None) -> int:
        """KV cells that a request may fill at most; `trained`: what the model was trained for."""
        longest = padded(self.ctx) if self.ctx is not None else _NO_LIMIT if trained is None else trained
        return longest if self.kv_cells is None else min(padded(self.kv_cells), longest)

    def context(self, needs: Sequence[int], limit: int) -> ContextConfig:
        """For requests that need so many cells each, as replays size theirs where memory is no limit."""
        slots = slots_wanted(needs, self.max_num_seqs, all_read=True)
        longest, most = cells_wanted(needs, limit)
        if self.ctx is not None:
            cells = self.ctx
        else:
            cells = max(most, -(-longest // slots)) if self.kv == "unified" else longest
        return ContextConfig(
            max_num_seqs=slots,
            cells_per_seq=padded(cells),
            max_num_batched_tokens=max(self.max_num_batched_tokens, self.ubatch),
            ubatch=self.ubatch,
            kv_mode=self.kv,
            pool_cells=self.kv_cells,
        )

    def unlike(self, profile: Profile) -> list[str]:
        """Names of settings that aren't those with which the profile was measured."""
        measured = {**ENGINE, **profile.options, "kv": profile.kv_mode}
        return [name for name in (*ENGINE, "kv") if getattr(self, name) != measured[name]]


def make_options(given: Mapping[str, Any], profile: Profile) -> SimulateOptions:
    """From the command's options, None where not given. Raises `UsageError`."""
    found = {**WITHOUT_EFFECT, **given}
    for name, default in ENGINE.items():
        if found.get(name) is None:
            found[name] = _setting(profile, name, default)
    if given["prefix_cache"] is not None:
        found["no_prefix_cache"] = False
    if given["max_num_batched_tokens"] is not None:
        found["whole_prompts"] = False
    if found["kv"] is None:
        found["kv"] = profile.kv_mode
    options = SimulateOptions(**found)
    options.check()
    return options


def _setting(profile: Profile, name: str, default: Any) -> Any:
    """As the profile was measured. Raises `InputError` for a value that cbatch doesn't write."""
    value = profile.options.get(name, default)
    wanted = int if default is None else type(default)
    fits = isinstance(value, int | float) if wanted is float else isinstance(value, wanted)
    if not fits and not (value is None and default is None):
        raise InputError(f"{profile.path}: its option {name} is {value!r}: give a profile as cbatch wrote it")
    return value
