"""What a dry run found, on stdout: prompts as the model will see them, lengths, what fits, and how long it may take.

Knows the figures and how they stand in a terminal; measures and estimates nothing.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict

from rich.console import Console
from rich.table import Table
from rich.text import Text

from cbatch.metrics.preview import Estimate, FaultView, MemoryFit, Preview, PromptView, TokenLengths
from cbatch.report.charts import HORIZONTAL, bar
from cbatch.report.layout import facts, has_blocks, print_endings, printable, width_of
from cbatch.report.text import duration, latency, one_line, rate, size

MOST_FAULTS = 10
"""Shown one by one."""
_BAR = 40
_BESIDE = 28
"""Columns beside a bar."""
_ASCII = str.maketrans(HORIZONTAL, " " + "#" * (len(HORIZONTAL) - 1))
_STYLES = {"text": "", "special": "cyan", "cut": "dim"}
_POLICIES = {"truncate-left": "their first tokens", "truncate-middle": "their middles", "shift": "their first tokens"}


def preview_json(preview: Preview) -> str:
    """One JSON object in one line: the fields of `Preview`."""
    return json.dumps(asdict(preview), allow_nan=False)


def print_preview(preview: Preview, *, console: Console | None = None) -> None:
    """At most 80 columns wide."""
    console = console if console is not None else Console()
    width = width_of(console)
    for title, table in _sections(preview, console):
        console.print(Text(title, style="bold"), width=width)
        console.print(table, width=width)
        console.print()
    read = "all rows" if preview.all_read else f"the first {preview.rows_read:,} rows"
    console.print(Text(f"Looked at {read}; nothing was written.", style="dim"), width=width)
    print_endings(console, preview.notes, {})


def _sections(preview: Preview, console: Console) -> Iterator[tuple[str, Table]]:
    if preview.prompts:
        yield "Rows", facts((f"row {view.row:,}", _prompt(view, console)) for view in preview.prompts)
    if preview.faults:
        title = f"Errors: {len(preview.faults):,} of {preview.rows_read:,} rows can't be run"
        yield title, facts((name, printable(text, console)) for name, text in _faults(preview.faults))
    if preview.lengths is not None:
        yield f"Tokens of prompts: {_spread(preview.lengths)}", _histogram(preview.lengths, console)
    yield "Memory", facts(_memory(preview.memory))
    if preview.estimate is not None:
        yield "Time", facts(_time(preview, preview.estimate))


def _prompt(view: PromptView, console: Console) -> Text:
    cut = f" ({view.truncated_tokens:,} more cut)" if view.truncated_tokens else ""
    head = f"{one_line(view.id)}  {one_line(view.where)}  {view.prompt_tokens:,} tokens{cut}"
    text = Text(printable(f"{head}, max_tokens {view.max_tokens:,}\n", console), style="bold")
    for piece in view.pieces:
        # each line break is seen and made
        words = one_line(piece.text).replace("↵", "↵\n")
        text.append(printable(words, console), f"not bold {_STYLES[piece.kind]}")
    text.rstrip()
    return text


def _faults(faults: Sequence[FaultView]) -> Iterator[tuple[str, str]]:
    for fault in faults[:MOST_FAULTS]:
        yield f"row {fault.row:,}", one_line(f"{fault.id}  {fault.where}  {fault.code}: {fault.message}")
    if len(faults) > MOST_FAULTS:
        codes = Counter(fault.code for fault in faults[MOST_FAULTS:])
        yield f"+ {len(faults) - MOST_FAULTS:,}", ", ".join(f"{code} {n:,}" for code, n in codes.most_common())


def _histogram(lengths: TokenLengths, console: Console) -> Table:
    width, top = max(8, min(_BAR, console.width - _BESIDE)), max(lengths.counts)
    table = Table(box=None, show_header=False, pad_edge=False, padding=(0, 2, 0, 0))
    table.add_column(justify="right", no_wrap=True)
    table.add_column(no_wrap=True)
    table.add_column(justify="right", no_wrap=True)
    for low, end, count in zip(lengths.edges, lengths.edges[1:], lengths.counts, strict=False):
        line = bar(max(count / top, 1 / 8 / width) if count else 0.0, width)
        shown = line if has_blocks(console) else line.translate(_ASCII)
        table.add_row(f"{low:,}" if end - low == 1 else f"{low:,} to {end - 1:,}", Text(shown, "cyan"), f"{count:,}")
    return table


def _spread(lengths: TokenLengths) -> str:
    spread = f"min {lengths.min:,}  p50 {lengths.p50:,.0f}  p90 {lengths.p90:,.0f}  p99 {lengths.p99:,.0f}"
    return f"{spread}  max {lengths.max:,}; {lengths.total:,} in all"


def _memory(fit: MemoryFit) -> Iterator[tuple[str, str]]:
    pool = f" in one pool of {fit.total_cells:,}" if fit.kv_mode == "unified" else ""
    yield "slots", f"{fit.slots:,} rows at once, up to {fit.cells_per_seq:,} KV cells each{pool}"
    yield "KV", f"{size(fit.kv_bytes)} of {fit.kv_type}; a row may fill {fit.most_cells:,} cells at most"
    texts = list(_overflows(fit))
    yield "too long", "; ".join(texts) or "none: each prompt fits, and so does its output"


def _overflows(fit: MemoryFit) -> Iterator[str]:
    how = f"(--on-overflow {fit.policy})"
    if fit.refused:
        yield f"{fit.refused:,} rows fail, their prompts are longer than that {how}"
    if fit.prompts_cut:
        yield f"{fit.prompts_cut:,} prompts lose {_POLICIES.get(fit.policy, 'tokens')} {how}"
    if fit.max_tokens_cut:
        yield f"{fit.max_tokens_cut:,} rows have their max_tokens cut to what is left"
    if fit.outgrown:
        yield f"{fit.outgrown:,} rows may outgrow it and lose sight of what is older {how}"


def _time(preview: Preview, found: Estimate) -> Iterator[tuple[str, str]]:
    did = f"{found.rows_begun:,} rows begun, {found.rows_finished:,} finished, up to {found.at_once:,} at once"
    yield "measured", f"{found.measured_s:.1f} s: {did}"
    decode = f", decode {rate(found.decode_tokens_per_s)} tok/s with {preview.memory.slots:,} rows at once"
    step = f" ({latency(found.decode_step_ns)} a step)"
    yield "speed", f"prefill {rate(found.prefill_tokens_per_s)} tok/s" + (decode + step if found.decode_step_ns else "")
    yield "outputs", f"{between(*found.output_tokens, lambda tokens: f'{tokens:,.0f}')} tokens a row"
    if not preview.all_read:
        yield f"{preview.rows_read:,} rows", between(*found.window_s, seconds)
    load = f"; {seconds(found.load_s)} to begin"
    if found.total_s is None:
        yield "all rows", f"unknown: nobody can tell yet how many there are{load}"
    else:
        about = "" if preview.all_read else "about "
        yield "all rows", f"{between(*found.total_s, seconds)} for {about}{found.rows_total:,}{load}"


def seconds(value: float) -> str:
    """`3.2 s`, `48 s`, `3:05` (minutes), `2:03:05` (hours)."""
    return f"{value:.1f} s" if value < 9.95 else duration(value)


def between(low: float, high: float, show: Callable[[float], str]) -> str:
    """`between 48 s and 1:05`, or `about 48 s` where the two read alike."""
    return f"about {show(high)}" if show(low) == show(high) else f"between {show(low)} and {show(high)}"
