"""The options of `cbatch compare` as given, and the variants that they spell. Reads no file but names them."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from cbatch.cli.replay_options import ReplayOptions
from cbatch.cli.variants import DEFAULT, LADDER, PREFIXES, Variant, check_names, parse_variant, policies
from cbatch.errors import UsageError
from cbatch.traces.presets import PRESETS, make_preset

_NOT_OF_PRESETS = ("policies", "ladder", "variant", "burstiness", "duration", "window", "speedup", "natural_lengths")


@dataclass(frozen=True, kw_only=True)
class CompareOptions(ReplayOptions):
    """`cbatch compare`'s options; see its help."""

    policies: str | None
    ladder: bool
    variant: list[str] | None
    preset: str | None
    repeat: int
    report: bool
    whole_prompts: bool = True
    request_rate: float | None = None
    burstiness: float | None = None
    attainment: float = 0.9
    timeline: Path | None = None
    sweep_rate: str | None = None
    find_capacity: bool = False
    percentiles: str = "50,90,99"

    def check(self) -> None:
        super().check()
        if self.repeat < 1:
            raise UsageError(f"--repeat is {self.repeat}: give 1 or more")
        if self.on_overflow == "shift":
            raise UsageError(
                "--on-overflow shift can't be compared: the model checks outputs with all of their tokens; give "
                "truncate-left or truncate-middle"
            )
        self._check_requests()
        self._check_prefixes()
        for variant in self.variants:
            ReplayOptions.check(variant.of(self))

    def _check_requests(self) -> None:
        """They come from inputs or from a preset."""
        if self.preset is None:
            if not self.sources:
                raise UsageError(
                    f"there is nothing to compare: give a trace, a file of prompts, or --preset {'|'.join(PRESETS)}"
                )
            return
        if self.sources:
            raise UsageError(f"--preset {self.preset} makes its own requests: leave it out, or {self.sources[0]}")
        for name in _NOT_OF_PRESETS:
            if getattr(self, name):
                raise UsageError(f"--preset {self.preset} sets its own workload: leave --{name.replace('_', '-')} out")
        preset = make_preset(self.preset, self.scale_lengths)
        if "max_num_seqs" in self.given and all(point.slots for point in preset.points):
            raise UsageError(f"--preset {self.preset} sets its own slots: leave --max-num-seqs out")

    def _check_prefixes(self) -> None:
        """The policy that has a prefix cache is there to be compared with the others, which have none."""
        if any(variant.name == PREFIXES for variant in self.variants):
            for name in ("prefix_cache", "no_prefix_cache"):
                if name in self.given:
                    raise UsageError(
                        f"--{name.replace('_', '-')} is what {PREFIXES} differs by: leave it out; "
                        "--variant NAME:prefix_cache=SIZE adds one with another size"
                    )

    @cached_property
    def variants(self) -> list[Variant]:
        """The baseline first."""
        if self.ladder and self.policies is not None:
            raise UsageError("--ladder is a choice of --policies: leave one out")
        own = [parse_variant(text) for text in self.variant or ()]
        names = LADDER if self.ladder else self.policies.split(",") if self.policies is not None else DEFAULT
        found = [*policies([name.strip() for name in names]), *own]
        check_names(found)
        return found

    @property
    def batchings(self) -> set[str]:
        return {variant.of(self).batching for variant in self.variants}

    @property
    def prompt_rate(self) -> float | None:
        """An offline job unless a rate is given."""
        return math.inf if self.request_rate is None else self.request_rate

    @property
    def reads_again(self) -> bool:
        return True

    def directory(self) -> Path:
        if self.output is not None:
            return self.output
        if self.preset is not None:
            return Path(f"{self.preset}.preset")
        return super().directory().with_suffix(".compare")
