"""Traces of the Vidur simulator. https://github.com/microsoft/vidur/tree/main/data/processed_traces"""

from __future__ import annotations

from typing import Any

from cbatch.traces.formats.containers import CSV
from cbatch.traces.formats.format import Entry, Format, Options, Reader
from cbatch.traces.formats.values import count_of, ns_of
from cbatch.traces.trace import TraceRequest


def _reader(options: Options) -> Reader:
    def read(row: Any) -> Entry:
        request = TraceRequest(
            ns_of(row, "arrived_at", options.unit_ns),
            prompt_tokens=count_of(row, "num_prefill_tokens"),
            output_tokens=count_of(row, "num_decode_tokens"),
        )
        return Entry(request)

    return read


VIDUR = Format(
    "vidur",
    "a Vidur trace",
    CSV,
    ("arrived_at", "num_prefill_tokens", "num_decode_tokens"),
    _reader,
    time="arrived_at",
    unit="s",
)
