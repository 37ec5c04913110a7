"""What tuning found: plain figures, and the choice. Knows neither engine nor terminal."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from cbatch.sim.measured import Deviation
from cbatch.tune.choice import SlotOption
from cbatch.tune.mix import Speeds
from cbatch.tune.setting import Setting


@dataclass(frozen=True, slots=True)
class Tried:
    """A setting, and what came of it. None where it was refused, or there was no time."""

    setting: Setting
    speeds: Speeds | None
    tokens_per_s: float | None
    """Output tokens of the job, predicted from the speeds."""
    over_default: float | None
    """How many times as fast as cbatch's own rules, measured side by side."""
    over_llama_cpp: float | None
    """The same, of llama.cpp's defaults."""
    divergence: float | None = None
    """Share of tokens that another type of KV chose; of quantised ones only."""
    refused: str | None = None
    """Why it can't be had."""

    def to_dict(self) -> dict[str, Any]:
        speeds = self.speeds
        told = {
            "prefill_tokens_per_s": None if speeds is None else speeds.prefill_tokens_per_s,
            "decode_tokens_per_s": None if speeds is None else speeds.decode_tokens_per_s,
            "job_tokens_per_s": self.tokens_per_s,
        }
        rest = {name: getattr(self, name) for name in ("over_default", "over_llama_cpp", "divergence", "refused")}
        return {**asdict(self.setting), **told, **rest}


@dataclass(frozen=True, slots=True)
class Confirmation:
    """A choice and what it would replace, on the real engine in turns."""

    setting: Setting
    slots: int
    usual_setting: Setting
    usual_slots: int
    ratio: float
    """How many times as fast the choice was, by the fastest time of each step."""
    pairs: tuple[float, ...]
    """The same by all the time of each pair of runs."""
    rows: int
    """That each run answered."""
    least: float = 1.0
    """Ratio above which it is taken."""

    @property
    def holds(self) -> bool:
        """Whether the choice was faster."""
        return self.ratio > self.least


@dataclass(frozen=True, slots=True)
class Tuning:
    """All of it."""

    tried: tuple[Tried, ...]
    """cbatch's own rules first, then llama.cpp's defaults where they are other ones."""
    default: Setting
    llama_cpp: Setting
    setting: Setting
    """The choice."""
    slots: SlotOption
    slot_options: tuple[SlotOption, ...]
    error: Deviation
    """Of the cost model, on steps that it wasn't fitted to."""
    gain: float | None
    """Of output tokens/s over llama.cpp's defaults with `usual_slots`: 2 is twice. None where latencies count."""
    usual_slots: int
    """Of cbatch's own rules."""
    few_rows: bool
    """Whether each row of the job has a slot, and fewer than usual are enough: it says nothing of longer jobs."""
    is_default: bool
    """Whether the choice is what cbatch does anyway."""
    confirmations: tuple[Confirmation, ...]
    """What was run in turns before it was chosen, or wasn't: a setting, a number of slots."""
    seconds: float
    notes: tuple[str, ...]

    def to_dict(self) -> Mapping[str, Any]:
        """JSON-ready."""
        return {
            "choice": {
                **asdict(self.setting),
                "max_num_seqs": self.slots.slots,
                "max_num_batched_tokens": self.slots.batched_tokens,
            },
            "is_default": self.is_default,
            "gain_over_llama_cpp": self.gain,
            "predicted_tokens_per_s": self.slots.tokens_per_s,
            "tried": [each.to_dict() for each in self.tried],
            "slots": [asdict(each) for each in self.slot_options],
            "model_error": self.error._asdict(),
            "confirmations": [{**asdict(each), "holds": each.holds} for each in self.confirmations],
            "seconds": self.seconds,
        }
