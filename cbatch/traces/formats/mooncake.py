"""Mooncake traces. https://github.com/kvcache-ai/Mooncake/tree/main/FAST25-release/traces

`hash_ids` name blocks of 512 tokens; a block's id stands for everything up to its end.
"""

from __future__ import annotations

from typing import Any

from cbatch.traces.formats.containers import JSONL
from cbatch.traces.formats.format import Entry, Format, Options, Reader
from cbatch.traces.formats.values import blocks_of, count_of, fields_of, ns_of
from cbatch.traces.trace import TraceRequest

COLUMNS = ("timestamp", "input_length", "output_length")
HASHES = "hash_ids"


def read_blocks(row: Any, options: Options, session_id: str | None = None) -> TraceRequest:
    """What Mooncake's and Bailian's records have in common. Raises `BadRow`."""
    blocks = blocks_of(row, HASHES)
    return TraceRequest(
        ns_of(row, "timestamp", options.unit_ns),
        prompt_tokens=count_of(row, "input_length"),
        output_tokens=count_of(row, "output_length"),
        session_id=session_id,
        prefix_ids=blocks,
        prefix_block=options.block_size if blocks else None,
    )


def _reader(options: Options) -> Reader:
    return lambda record: Entry(read_blocks(fields_of(record), options))


MOONCAKE = Format(
    "mooncake",
    "a Mooncake trace",
    JSONL,
    COLUMNS,
    _reader,
    optional=(HASHES,),
    time="timestamp",
    unit="ms",
    hashes=HASHES,
    block_size=512,
)
