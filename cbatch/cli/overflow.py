"""What `--on-overflow` and `--keep` come to with a model and a context, and what is said of it at the end."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace

from cbatch.cli.options import JobOptions
from cbatch.config import CELLS_PAD, ContextConfig, Overflow
from cbatch.driver import Driver
from cbatch.errors import UsageError
from cbatch.llama.context import Context
from cbatch.llama.memory_kind import RECURRENT
from cbatch.llama.model import Model
from cbatch.llama.shift import shift_obstacle
from cbatch.llama.tokenizer import Tokenizer


def overflow_of(options: JobOptions, context: Context, limit: int) -> Overflow:
    """`limit` is the most KV cells of a row. Raises `UsageError` where the model or the limit forbids it."""
    if options.on_overflow == "shift" and (obstacle := shift_obstacle(context)) is not None:
        raise UsageError(
            f"--on-overflow shift can't be done with this model: {obstacle}; or give truncate-left or truncate-middle"
        )
    return _kept(options, context.model, limit)


def planned_overflow(options: JobOptions, model: Model, config: ContextConfig, limit: int) -> Overflow:
    """The same before there is a context: where it matters, a small one of its make is asked."""
    if options.on_overflow != "shift":
        return _kept(options, model, limit)
    least = replace(config, max_num_seqs=1, cells_per_seq=CELLS_PAD, pool_cells=None, cpus=(), priority="normal")
    with closing(Context(model, least)) as context:
        return overflow_of(options, context, limit)


def _kept(options: JobOptions, model: Model, limit: int) -> Overflow:
    return options.overflow(limit, keep=int(Tokenizer(model).add_bos))


def overflow_notes(driver: Driver, context: Context, limit: int, noun: str) -> Iterator[str]:
    """How many rows or requests, as `noun` calls them, the context couldn't hold, and what became of them."""
    held = f"what a context of {limit:,} holds"
    if cut := driver.max_tokens_cut:
        yield f"{cut:,} {noun} had their max_tokens cut to {held}"
    if cut := driver.prompts_cut:
        yield f"{cut:,} {noun} had their prompts cut to {held}: see truncated_tokens in the results"
    if outgrown := driver.outgrown:
        kept = "; the state of this model still has them" if context.model.memory.kind == RECURRENT else ""
        yield f"{outgrown:,} {noun} outgrew the context of {limit:,}: see dropped_tokens in the results{kept}"
