"""Makes contexts of any setting on one model, as a run would make them. Decides nothing."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass

from cbatch.clock import Clock
from cbatch.config import ContextConfig, SchedulerConfig, padded
from cbatch.engine import Runner
from cbatch.errors import UsageError
from cbatch.llama.memory import within_memory
from cbatch.llama.model import Model
from cbatch.llama.resolve import resolve_context
from cbatch.llama.runner import LlamaRunner
from cbatch.llama.tokenizer import Tokenizer
from cbatch.tune.bench import Bench
from cbatch.tune.setting import Setting


def _nothing(_: Runner) -> None:
    """Nobody wants to know."""


@dataclass(frozen=True, slots=True)
class Workbench:
    """`like`: what contexts are like in all that no setting says; `place` binds threads to CPUs.

    `begins` is told of each runner before it runs, so that who wants to can abort it.
    """

    model: Model
    tokenizer: Tokenizer
    like: ContextConfig
    place: Callable[[ContextConfig], ContextConfig]
    clock: Clock
    begins: Callable[[Runner], None] = _nothing

    def context(self, setting: Setting, slots: int, cells: int) -> ContextConfig:
        """Raises `UsageError` where memory has no room for it."""
        wanted = self.place(setting.context(slots, padded(cells), self.like))
        fitting = within_memory(self.model, wanted)
        if fitting is None or fitting.max_num_seqs < slots:
            raise UsageError(f"memory has no room for {slots} slots of {padded(cells):,} KV cells")
        return wanted

    @contextmanager
    def runner(self, setting: Setting, slots: int, cells: int) -> Iterator[Runner]:
        """Raises as `context`, and `EngineError` where the library refuses."""
        with closing(LlamaRunner(self.model, self.tokenizer, self.context(setting, slots, cells), self.clock)) as made:
            self.begins(made)
            yield made

    @contextmanager
    def bench(
        self, setting: Setting, slots: int, cells: int, scheduler: SchedulerConfig | None = None
    ) -> Iterator[Bench]:
        """Raises as `runner`."""
        resolved = resolve_context(self.model, self.context(setting, slots, cells))
        streams = resolved.kv_mode == "split" or self.model.memory.has_state
        with self.runner(setting, slots, cells) as runner:
            yield Bench(runner, scheduler, vocabulary=self.model.n_vocab, streams=streams, ubatch=resolved.ubatch)

    def room(self, setting: Setting, most: int, cells: int) -> int:
        """So many of `most` slots of that many cells as memory has room for, 0 for none."""
        fitting = within_memory(self.model, setting.context(most, padded(cells), self.like))
        return 0 if fitting is None else fitting.max_num_seqs

    def most_slots(self, setting: Setting, most: int, cells: int) -> int:
        """The same. Raises `UsageError` for none."""
        found = self.room(setting, most, cells)
        if not found:
            raise UsageError(f"memory has no room for a row of {cells:,} KV cells: tune for shorter rows")
        return found
