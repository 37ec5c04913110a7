"""What `--on-overflow` and `--keep` come to with a model and a context, and what is said of it at the end."""

from __future__ import annotations

from collections.abc import Iterator

from cbatch.cli.options import JobOptions
from cbatch.config import Overflow
from cbatch.driver import Driver
from cbatch.errors import UsageError
from cbatch.llama.context import Context
from cbatch.llama.memory_kind import RECURRENT
from cbatch.llama.shift import shift_obstacle
from cbatch.llama.tokenizer import Tokenizer


def overflow_of(options: JobOptions, context: Context, limit: int) -> Overflow:
    """`limit` is the most KV cells of a row. Raises `UsageError` where the model or the limit forbids it."""
    policy = options.on_overflow
    if policy == "shift" and (obstacle := shift_obstacle(context)) is not None:
        raise UsageError(
            f"--on-overflow shift can't be done with this model: {obstacle}; or give truncate-left or truncate-middle"
        )
    keep = kept_tokens(options, Tokenizer(context.model))
    if policy != "error" and keep > limit // 2:
        raise UsageError(f"--keep is {keep}, and a context of {limit:,} can keep half of it: give {limit // 2} or less")
    return Overflow(policy, keep)


def kept_tokens(options: JobOptions, tokenizer: Tokenizer) -> int:
    """First tokens of a prompt that stay when others go: as asked for, else its BOS."""
    return options.keep if options.keep is not None else int(tokenizer.add_bos)


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
