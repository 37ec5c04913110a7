"""What the first rows of a job tell: how the model will see them, which fit the context, how many more there may be."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import groupby, islice

from cbatch.cli.run_options import RunOptions
from cbatch.clock import Clock
from cbatch.config import Overflow
from cbatch.engine import fit_to_context
from cbatch.inputs import RowStream, read_rows
from cbatch.inputs.forms import compression_of
from cbatch.inputs.options import AUTO
from cbatch.inputs.sources import Source, find_sources
from cbatch.llama.resolve import ResolvedContext
from cbatch.llama.tokenizer import Tokenizer
from cbatch.metrics.preview import FaultView, MemoryFit, Piece, PromptView, TokenLengths
from cbatch.types import Job, Request, RowFault, RowRef, Tokens

_HEAD, _TAIL = 100, 60
"""Tokens that are shown of both ends of a long prompt."""
_LINES = ("jsonl", "csv", "tsv", "text")


def read_inputs(options: RunOptions, clock: Clock) -> RowStream:
    """All rows, of a job that is looked at and not run. Raises as `read_rows`."""
    return read_rows(options.inputs, defaults=options.sampling(), clock=clock, options=options.input_options())


@dataclass(slots=True)
class FittedRows:
    """The rows of the window as the context takes them."""

    jobs: list[tuple[RowRef, Request]] = field(default_factory=list)
    faults: list[RowFault] = field(default_factory=list)
    changes: Counter[str] = field(default_factory=Counter)
    """Rows by what was done to them: `refused`, `prompts_cut`, `max_tokens_cut`, `outgrown`."""

    @classmethod
    def of(cls, window: Iterable[Job], limit: int, overflow: Overflow) -> FittedRows:
        rows = cls()
        for job in window:
            if isinstance(job, RowFault):
                rows.faults.append(job)
            else:
                rows._fit(*job, limit, overflow)
        return rows

    def _fit(self, ref: RowRef, request: Request, limit: int, overflow: Overflow) -> None:
        fitted = fit_to_context(request, limit, overflow)
        if isinstance(fitted, str):
            self.faults.append(RowFault(ref, "prompt_too_long", fitted))
            self.changes["refused"] += 1
            return
        self.jobs.append((ref, fitted))
        self.changes["prompts_cut"] += fitted.truncated_tokens > 0
        self.changes["max_tokens_cut"] += fitted.sampling.max_tokens < request.sampling.max_tokens
        self.changes["outgrown"] += fitted.max_cells is not None

    @property
    def requests(self) -> list[Request]:
        return [request for _, request in self.jobs]

    def lengths(self) -> TokenLengths | None:
        """Of prompts; None without any."""
        return TokenLengths.of([int(request.prompt.size) for request in self.requests]) if self.jobs else None

    def fault_views(self) -> tuple[FaultView, ...]:
        return tuple(map(FaultView.of, self.faults))

    def memory(
        self,
        context: ResolvedContext,
        *,
        cells_per_seq: int,
        total_cells: int,
        kv_bytes: float,
        most_cells: int,
        policy: str,
    ) -> MemoryFit:
        """What the context holds, and what it does to the rows."""
        return MemoryFit(
            slots=context.max_num_seqs,
            cells_per_seq=cells_per_seq,
            total_cells=total_cells,
            kv_mode=context.kv_mode,
            kv_type="/".join(dict.fromkeys((context.type_k, context.type_v))),
            kv_bytes=kv_bytes,
            most_cells=most_cells,
            policy=policy,
            **{name: self.changes[name] for name in ("refused", "prompts_cut", "max_tokens_cut", "outgrown")},
        )


def prompt_views(jobs: Iterable[tuple[RowRef, Request]], tokenizer: Tokenizer) -> Iterator[PromptView]:
    """The rows as the model will see them, shortened where they are long."""
    special = special_texts(tokenizer)
    for ref, request in jobs:
        yield PromptView(
            row=ref.number,
            id=ref.id,
            where=ref.where,
            prompt_tokens=int(request.prompt.size),
            max_tokens=request.sampling.max_tokens,
            truncated_tokens=request.truncated_tokens,
            pieces=tuple(pieces_of(request.prompt, tokenizer, special)),
        )


def special_texts(tokenizer: Tokenizer) -> dict[int, str]:
    """Texts of the tokens that print nothing, but structure a prompt."""
    found = ((tokenizer.tokenize(text, parse_special=True), text) for text in tokenizer.control_texts)
    return {int(tokens[0]): text for tokens, text in found if tokens.size == 1}


def pieces_of(prompt: Tokens, tokenizer: Tokenizer, special: Mapping[int, str]) -> Iterator[Piece]:
    """The prompt as text; of a long one both ends."""
    if prompt.size <= _HEAD + _TAIL:
        yield from _spelt(prompt, tokenizer, special)
        return
    yield from _spelt(prompt[:_HEAD], tokenizer, special)
    yield Piece(f" … {prompt.size - _HEAD - _TAIL:,} tokens … ", "cut")
    yield from _spelt(prompt[-_TAIL:], tokenizer, special)


def _spelt(tokens: Tokens, tokenizer: Tokenizer, special: Mapping[int, str]) -> Iterator[Piece]:
    for known, group in groupby(tokens.tolist(), special.__contains__):
        if known:
            yield from (Piece(special[token], "special") for token in group)
        else:
            yield Piece(tokenizer.detokenize(group))


def rows_in_all(options: RunOptions, known: int | None, window: Sequence[Job]) -> int | None:
    """How many rows the job has, if they go on as those of the window do; None where that can't be told.

    It is `known`, or in proportion to bytes; of files that aren't lines of text, nobody knows how many were read.
    """
    refs = [job.ref if isinstance(job, RowFault) else job[0] for job in window]
    share = _share_read(options, refs[-1].where) if known is None and refs else None
    if share is None:
        return known
    passed = (options.offset + len(refs)) / refs[-1].number
    total = max(len(refs), round(refs[-1].number / share * passed) - options.offset)
    counted = None if options.sample is None or options.sample < 1 else int(options.sample)
    return min([total, *(bound for bound in (options.limit, counted) if bound is not None)])


def _share_read(options: RunOptions, where: str) -> float | None:
    """Of the bytes of the inputs, the share up to the line `where`, such as `prompts.jsonl:17`."""
    form = options.input_options().format
    sources = find_sources(options.inputs, None if form == AUTO else form)
    sizes = [source.state.size if source.state is not None and _has_lines(source) else None for source in sources]
    known = [size for size in sizes if size is not None]
    name, _, line = where.rpartition(":")
    at = next((i for i, source in enumerate(sources) if source.name == name), None)
    if at is None or not line.isdigit() or len(known) < len(sizes):
        return None
    with open(sources[at].path, "rb") as file:
        lengths = [len(text) for text in islice(file, int(line))]
    if len(lengths) < int(line):  # it is compressed, though its name doesn't say so
        return None
    return (sum(known[:at]) + sum(lengths)) / sum(known)


def _has_lines(source: Source) -> bool:
    """Whether a place in it is a line of its bytes."""
    return source.form in _LINES and source.document is None and compression_of(source.path) is None
