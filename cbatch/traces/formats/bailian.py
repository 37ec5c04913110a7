"""Qwen-Bailian traces. https://github.com/alibaba-edu/qwen-bailian-usagetraces-anon

Each turn of a chat has an id of its own and names the turn before it (-1 where it is the first).
"""

from __future__ import annotations

from typing import Any

from cbatch.traces.formats.containers import JSONL
from cbatch.traces.formats.format import BadRow, Entry, Format, Options, Reader
from cbatch.traces.formats.mooncake import COLUMNS, HASHES, read_blocks
from cbatch.traces.formats.values import field, fields_of, show

_ROOT = -1


def _reader(options: Options) -> Reader:
    """Sessions are named by the first turn seen of them. Keeps two numbers for each turn: any may get a next one."""
    roots: dict[int, int] = {}

    def read(record: Any) -> Entry:
        row = fields_of(record)
        chat, parent = _id(row, "chat_id"), _id(row, "parent_chat_id")
        root = chat if parent == _ROOT else roots.get(parent, parent)
        request = read_blocks(row, options, str(root))
        roots[chat] = root
        return Entry(request)

    return read


def _id(row: Any, column: str) -> int:
    value = field(row, column)
    if type(value) is not int:
        raise BadRow(f"{column} is {show(value)}: give a whole number")
    return value


BAILIAN = Format(
    "bailian",
    "a Qwen-Bailian trace",
    JSONL,
    ("chat_id", "parent_chat_id", *COLUMNS),
    _reader,
    optional=(HASHES,),
    time="timestamp",
    unit="s",
    hashes=HASHES,
    block_size=16,
)
