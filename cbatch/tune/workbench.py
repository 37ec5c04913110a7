"""Makes contexts of any setting on one model, as a run would make them. Decides nothing."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from cbatch.clock import Clock
from cbatch.config import ContextConfig, padded
from cbatch.errors import UsageError
from cbatch.llama.memory import within_memory
from cbatch.llama.model import Model
from cbatch.llama.runner import LlamaRunner
from cbatch.llama.tokenizer import Tokenizer
from cbatch.tune.bench import Bench
from cbatch.tune.setting import Setting


@dataclass(frozen=True, slots=True)
class Workbench:
    """`like`: what contexts are like in all that no setting says; `place` binds threads to CPUs."""

    model: Model
    tokenizer: Tokenizer
    like: ContextConfig
    place: Callable[[ContextConfig], ContextConfig]
    clock: Clock

    def context(self, setting: Setting, slots: int, cells: int) -> ContextConfig:
        """Raises `UsageError` where memory has no room for it."""
        wanted = self.place(setting.context(slots, padded(cells), self.like))
        fitting = within_memory(self.model, wanted)
        if fitting is None or fitting.max_num_seqs < slots:
            raise UsageError(f"memory has no room for {slots} slots of {padded(cells):,} KV cells")
        return wanted

    def bench(self, setting: Setting, slots: int, cells: int) -> Bench:
        return Bench(self.model, self.tokenizer, self.context(setting, slots, cells), self.clock)

    def runner(self, setting: Setting, slots: int, cells: int) -> LlamaRunner:
        return LlamaRunner(self.model, self.tokenizer, self.context(setting, slots, cells), self.clock)

    def most_slots(self, setting: Setting, most: int, cells: int) -> int:
        """So many of `most` as memory has room for. Raises `UsageError` for none."""
        fitting = within_memory(self.model, setting.context(most, padded(cells), self.like))
        if fitting is None:
            raise UsageError(f"memory has no room for a row of {cells:,} KV cells: tune for shorter rows")
        return fitting.max_num_seqs
