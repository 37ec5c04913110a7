"""Parquet traces that AIPerf replays (its `baseten_trace`). https://docs.nvidia.com/aiperf

A row has its prompt's text, or only a length and, in `total_hashes`, blocks of `block_size` tokens. Sessions are
`provided_session_id`, or `poor_man_session_id` in older files.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from cbatch.traces.formats.containers import PARQUET
from cbatch.traces.formats.format import BadRow, Entry, Format, Options, Reader
from cbatch.traces.formats.values import blocks_of, count_of, label_of, ns_of, show, text_of
from cbatch.traces.trace import TraceRequest

UNKNOWN_BLOCKS = "prefixes_of_unknown_block_size_left_out"


def _reader(options: Options) -> Reader:
    def read(row: Any) -> Entry:
        arrival_ns = ns_of(row, "timestamp_start_unix_ms", options.unit_ns)
        output_tokens, session_id = count_of(row, "output_tokens"), _session(row)
        if row.get("prompt") is not None:
            prompt = text_of(row, "prompt")
            return Entry(TraceRequest(arrival_ns, prompt, output_tokens=output_tokens, session_id=session_id))
        blocks, block = blocks_of(row, "total_hashes"), _block(row, options)
        known = bool(blocks) and block is not None
        request = TraceRequest(
            arrival_ns,
            prompt_tokens=count_of(row, "input_tokens"),
            output_tokens=output_tokens,
            session_id=session_id,
            prefix_ids=blocks if known else (),
            prefix_block=block if known else None,
        )
        return Entry(request, () if known or not blocks else (UNKNOWN_BLOCKS,))

    return read


def _session(row: Mapping[str, Any]) -> str | None:
    column = "provided_session_id" if "provided_session_id" in row else "poor_man_session_id"
    return label_of(row, column)


def _block(row: Mapping[str, Any], options: Options) -> int | None:
    if options.block_size is not None or row.get("block_size") is None:
        return options.block_size
    block = count_of(row, "block_size")
    if block < 1:
        raise BadRow(f"block_size is {show(row['block_size'])}: give 1 or more")
    return block


AIPERF = Format(
    "aiperf",
    "an AIPerf trace",
    PARQUET,
    ("timestamp_start_unix_ms", "output_tokens"),
    _reader,
    one_of=("prompt", "input_tokens"),
    optional=("provided_session_id", "poor_man_session_id", "total_hashes", "block_size"),
    time="timestamp_start_unix_ms",
    unit="ms",
    hashes="total_hashes",
    notes={UNKNOWN_BLOCKS: "requests have total_hashes but no block_size, so their prefixes are left out: give it"},
)
