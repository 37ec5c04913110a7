"""BurstGPT 1, 2 and 3. https://github.com/HPMLL/BurstGPT

A call with 0 response tokens failed. Version 3 adds `Session ID` and `Elapsed time`.
"""

from __future__ import annotations

from typing import Any

from cbatch.traces.formats.containers import CSV
from cbatch.traces.formats.format import Entry, Format, Options, Reader
from cbatch.traces.formats.values import count_of, label_of, ns_of
from cbatch.traces.trace import TraceRequest

FAILED = "failed_calls_left_out"


def _reader(options: Options) -> Reader:
    def read(row: Any) -> Entry:
        output_tokens = count_of(row, "Response tokens")
        request = TraceRequest(
            ns_of(row, "Timestamp", options.unit_ns),
            prompt_tokens=count_of(row, "Request tokens"),
            output_tokens=output_tokens,
            session_id=label_of(row, "Session ID"),
        )
        return Entry(request) if output_tokens else Entry(None, (FAILED,))

    return read


BURSTGPT = Format(
    "burstgpt",
    "a BurstGPT trace",
    CSV,
    ("Timestamp", "Request tokens", "Response tokens"),
    _reader,
    optional=("Session ID",),
    time="Timestamp",
    unit="s",
    notes={FAILED: "calls failed, with 0 Response tokens: left out"},
)
