"""What became of KV memory in a run, as facts for its summary: prefixes shared, sequences preempted, memory held."""

from __future__ import annotations

from collections.abc import Iterator

from cbatch.metrics import KVTable, RunSummary
from cbatch.report.text import latency, percent, size


def kv_facts(run: RunSummary) -> Iterator[tuple[str, str]]:
    """Names and texts, only where there is something to say."""
    if run.restored_tokens:
        yield "prefixes", _prefixes(run)
    if run.preemptions:
        times = "once" if run.preemptions == 1 else f"{run.preemptions:,} times"
        yield "preempted", f"{times} a sequence gave its slot to others"
    if run.kv_memory.ways["per_slot"].peak_cells:
        yield "KV memory", _memory(run.kv_memory)


def _prefixes(run: RunSummary) -> str:
    rates = f"{percent(run.prefix_hit_rate)} of prompt tokens restored, {percent(run.ideal_prefix_hit_rate)} at best"
    return rates if run.saved_ns is None else f"{rates}; {_saved(run.saved_ns)}"


def _saved(ns: float) -> str:
    return f"{latency(ns)} saved" if ns >= 0 else f"{latency(-ns)} lost"


def _memory(table: KVTable) -> str:
    """Peaks, in cells where their bytes aren't known.

    Tokens and reservations count for each sequence: so it is where every slot has cells of its own. In one pool,
    sequences that share a prefix hold it once.
    """
    unit = " cells" if table.bytes_per_token is None else ""
    shared = table.ways["shared"].peak_cells
    once = f" ({_peak(table, 'shared')} with shared prefixes once)" if shared < table.ways["pooled"].peak_cells else ""
    return (
        f"peak {_peak(table, 'pooled')}{unit} of tokens{once}, {_peak(table, 'per_slot')} reserved; "
        f"static reservation {_peak(table, 'static')}"
    )


def _peak(table: KVTable, way: str) -> str:
    cells = table.ways[way].peak_cells
    held = table.bytes_of(cells)
    return f"{cells:,}" if held is None else size(held)
