"""From a JSON value to a `Row`: who the row is, what it carries, what it asks for. Knows no files and no bytes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from cbatch.inputs.fault import Fault, show
from cbatch.inputs.messages import messages_of
from cbatch.inputs.openai import ENVELOPE, is_batch_line, open_envelope
from cbatch.inputs.parameters import NAMES, priority_of, sampling_of
from cbatch.sampling import SamplingParams
from cbatch.types import Row, RowKind, RowRef

ID_FIELDS = ("custom_id", "id")
CONTENT_FIELDS = ("prompt", "messages")


def id_of(value: Any) -> str | None:
    """`custom_id`, else `id`, as a string; None where the row gives none. Raises `Fault` with `invalid_id`."""
    field = _id_field(value)
    if field is None:
        return None
    found = value[field]
    if isinstance(found, bool) or not isinstance(found, (str, int)) or found == "":
        raise Fault("invalid_id", f"{field} is {show(found)}: give a non-empty string or a whole number")
    return str(found)


def carried_of(value: Any) -> dict[str, Any]:
    """The fields that cbatch gives no meaning: handed through to the results."""
    if not isinstance(value, dict):
        return {}
    known = ENVELOPE if is_batch_line(value) else NAMES.union(CONTENT_FIELDS)
    used = _id_field(value)
    return {k: v for k, v in value.items() if k not in known and k != used and not (k in ID_FIELDS and v is None)}


def to_row(ref: RowRef, value: Any, defaults: SamplingParams) -> Row:
    """The row that `value` asks for. Raises `Fault`."""
    if isinstance(value, str):
        return Row(ref, _prompt(value), defaults)
    if not isinstance(value, dict):
        raise Fault("wrong_type", f"the row is {show(value)}: give one JSON string or object a line")
    kind, fields = open_envelope(value) if is_batch_line(value) else (_kind(value), value)
    content = _content(kind, fields)
    return Row(replace(ref, kind=kind), content, sampling_of(fields, defaults), priority_of(fields))


def _id_field(value: Any) -> str | None:
    if not isinstance(value, dict):
        return None
    return next((field for field in ID_FIELDS if value.get(field) is not None), None)


def _kind(fields: Mapping[str, Any]) -> RowKind:
    return RowKind.CHAT if fields.get("messages") is not None else RowKind.PROMPT


def _content(kind: RowKind, fields: Mapping[str, Any]) -> str | tuple[Mapping[str, Any], ...]:
    wanted, other = ("messages", "prompt") if kind is RowKind.CHAT else ("prompt", "messages")
    if fields.get(wanted) is None:
        raise _missing("prompt or messages" if kind is RowKind.PROMPT else wanted, fields)
    if fields.get(other) is not None:
        raise Fault("ambiguous_prompt", "both prompt and messages are given: keep one")
    return messages_of(fields["messages"]) if kind is RowKind.CHAT else _prompt(fields["prompt"])


def _prompt(prompt: Any) -> str:
    if not isinstance(prompt, str):
        raise Fault("wrong_type", f"prompt is {show(prompt)}: give one string")
    if not prompt:
        raise Fault("empty_prompt", "the prompt is empty: give some text")
    return prompt


def _missing(wanted: str, fields: Mapping[str, Any]) -> Fault:
    names = ", ".join(show(name) for name in list(fields)[:8]) or "no fields"
    return Fault("missing_prompt", f"found {names}, but no {wanted}: add it")
