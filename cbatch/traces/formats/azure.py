"""Azure LLM inference traces of 2023 and 2024. https://github.com/Azure/AzurePublicDataset

2023 writes naive times with 7 fractional digits; 2024 writes a zone, and no fraction where that is 0.
"""

from __future__ import annotations

from typing import Any

from cbatch.traces.formats.containers import CSV
from cbatch.traces.formats.format import Entry, Format, Options, Reader
from cbatch.traces.formats.timestamps import parse_timestamp
from cbatch.traces.formats.values import count_of, field
from cbatch.traces.trace import TraceRequest


def _reader(_: Options) -> Reader:
    def read(row: Any) -> Entry:
        arrival_ns, form = parse_timestamp(field(row, "TIMESTAMP"))
        request = TraceRequest(
            arrival_ns, prompt_tokens=count_of(row, "ContextTokens"), output_tokens=count_of(row, "GeneratedTokens")
        )
        return Entry(request, time_form=form)

    return read


AZURE = Format(
    "azure",
    "an Azure LLM inference trace",
    CSV,
    ("TIMESTAMP", "ContextTokens", "GeneratedTokens"),
    _reader,
    time="TIMESTAMP",
)
