"""Prompts as `cbatch run` takes them, one a line, and OpenAI Batch lines. No times.

What a line says of sampling is no part of a trace; its `max_tokens` is a limit, not a length, so none is forced.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from cbatch.priority import PRIORITIES
from cbatch.traces.check import MAX_TOKENS
from cbatch.traces.formats.containers import JSONL
from cbatch.traces.formats.format import BadRow, Entry, Format, Options, Reader
from cbatch.traces.formats.values import field, fields_of, show, text_of
from cbatch.traces.trace import TraceRequest


def _plain_reader(_: Options) -> Reader:
    def read(record: Any) -> Entry:
        row = {"prompt": record} if isinstance(record, str) else fields_of(record)
        return Entry(TraceRequest(0, _prompt(row), priority=_priority(row)))

    return read


def _batch_reader(_: Options) -> Reader:
    def read(record: Any) -> Entry:
        body = field(fields_of(record), "body")
        if not isinstance(body, dict):
            raise BadRow(f"body is {show(body)}: give the request as an object")
        return Entry(TraceRequest(0, _prompt(body)))

    return read


def _prompt(row: Mapping[str, Any]) -> str:
    """A trace holds one plain text a request."""
    if row.get("messages") is None:
        return text_of(row, "prompt")
    if row.get("prompt") is not None:
        raise BadRow("both prompt and messages are given: keep one")
    messages = row["messages"]
    if not isinstance(messages, list) or len(messages) != 1 or not isinstance(messages[0], dict):
        found = f"{len(messages)} messages" if isinstance(messages, list) else show(messages)
        raise BadRow(f"messages is {found}: a trace holds a plain prompt, so give a single user message")
    if messages[0].get("role") != "user":
        role = show(messages[0].get("role"))
        raise BadRow(f"the message has role {role}: a trace holds a plain prompt, so give a single user message")
    return text_of(messages[0], "content")


def _priority(row: Mapping[str, Any]) -> int:
    priority = row.get("priority")
    if priority is None:
        return 0
    if isinstance(priority, str) and priority in PRIORITIES:
        return PRIORITIES[priority]
    if type(priority) is not int or abs(priority) > MAX_TOKENS:
        raise BadRow(f"priority is {show(priority)}: give {', '.join(PRIORITIES)} or a whole number of 31 bits")
    return priority


PROMPTS = Format("prompts", "prompts", JSONL, (), _plain_reader, one_of=("prompt", "messages"), optional=("priority",))
OPENAI = Format("openai", "OpenAI Batch lines", JSONL, ("url", "body"), _batch_reader)
