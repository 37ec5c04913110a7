"""What a record's value says of its row: who it is, what it carries, what it asks for. Knows no files and no bytes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from cbatch.inputs.fault import Fault, show
from cbatch.inputs.field_names import FieldNames
from cbatch.inputs.json_text import check_writable, decode_text
from cbatch.inputs.messages import messages_of
from cbatch.inputs.openai import ENVELOPE, is_batch_line, open_envelope
from cbatch.inputs.parameters import priority_of, sampling_of
from cbatch.inputs.records import fields_of, plain
from cbatch.inputs.template import Template
from cbatch.sampling import SamplingParams
from cbatch.types import RowKind

Content = str | tuple[Mapping[str, Any], ...]


class Asked(NamedTuple):
    """What a row asks for."""

    kind: RowKind
    content: Content
    sampling: SamplingParams
    priority: int


class RowMaker:
    """Reads rows in which the fields have these names; a template makes the prompt, where there is one."""

    def __init__(self, names: FieldNames, defaults: SamplingParams, template: Template | None = None) -> None:
        self._names = names
        self._defaults = defaults
        self._template = template
        self._parameters = names.parameters
        self._known = names.parameters.union(names.contents)

    def id_of(self, value: Any) -> str | None:
        """The id as a string; None where the row gives none. Raises `Fault` with `invalid_id` or `missing_id`."""
        field = self._id_field(value)
        if field is None:
            if self._names.id_required and not (isinstance(value, dict) and self._names.ids[0] in value):
                raise Fault(
                    "missing_id", f"the row has no field {show(self._names.ids[0])}: add it, or give it as null"
                )
            return None
        found = value[field]
        if isinstance(found, bool) or not isinstance(found, (str, int)) or found == "":
            raise Fault("invalid_id", f"{field} is {show(found)}: give a non-empty string or a whole number")
        return str(found)

    def carried_of(self, value: Any) -> dict[str, Any]:
        """The fields that cbatch gives no meaning: handed through to the results."""
        if not isinstance(value, dict):
            return {}
        known = ENVELOPE if self._is_envelope(value) else self._known
        used, ids = self._id_field(value), self._names.ids
        return {k: v for k, v in value.items() if k not in known and k != used and not (k in ids and v is None)}

    def asked(self, value: Any) -> Asked:
        """What the row asks for. Raises `Fault`."""
        if not isinstance(value, (str, dict)):
            raise Fault("wrong_type", f"the row is {show(value)}: give one JSON string or object a line")
        fields = fields_of(value)
        if self._is_envelope(fields):
            kind, body = open_envelope(fields)
            content = _content(kind, body, "prompt", "messages")
            return Asked(kind, content, sampling_of(body, self._defaults), priority_of(body))
        kind, content = self._prompt(value, fields)
        given = {name: plain(fields[name]) for name in fields if name in self._parameters}
        return Asked(kind, content, sampling_of(given, self._defaults), priority_of(given))

    def _prompt(self, value: Any, fields: Mapping[str, Any]) -> tuple[RowKind, Content]:
        if self._template is not None:
            prompt = self._template.render(fields)
            check_writable(prompt)
            return RowKind.PROMPT, _text("the template's prompt", prompt)
        if isinstance(value, str):
            return RowKind.PROMPT, _text("prompt", value)
        names = self._names
        messages = names.messages
        kind = RowKind.CHAT if messages is not None and fields.get(messages) is not None else RowKind.PROMPT
        return kind, _content(kind, fields, names.prompt, messages)

    def _is_envelope(self, fields: Mapping[str, Any]) -> bool:
        return self._names.envelopes and is_batch_line(fields)

    def _id_field(self, value: Any) -> str | None:
        if not isinstance(value, dict):
            return None
        return next((field for field in self._names.ids if value.get(field) is not None), None)


def _content(kind: RowKind, fields: Mapping[str, Any], prompt: str | None, messages: str | None) -> Content:
    """The prompt or the chat, whichever the kind is of; `prompt` and `messages` are the fields that hold them."""
    wanted, other = (messages, prompt) if kind is RowKind.CHAT else (prompt, messages)
    if wanted is None or fields.get(wanted) is None:
        either = " or ".join(name for name in (prompt, messages) if name is not None)
        raise _missing(either if kind is RowKind.PROMPT else wanted, fields)
    if other is not None and fields.get(other) is not None:
        raise Fault("ambiguous_prompt", f"both {prompt} and {messages} are given: keep one")
    return _chat(fields[wanted]) if kind is RowKind.CHAT else _text(wanted, fields[wanted])


def _chat(value: Any) -> tuple[Mapping[str, Any], ...]:
    """Also where it is the JSON text of a list, as in CSV."""
    value = plain(value)
    if isinstance(value, str) and value.lstrip().startswith("["):
        value = decode_text(value, "messages")
        check_writable(value)
    return messages_of(value)


def _text(name: str, prompt: Any) -> str:
    if not isinstance(prompt, str):
        raise Fault("wrong_type", f"{name} is {show(prompt)}: give one string")
    if not prompt:
        raise Fault("empty_prompt", "the prompt is empty: give some text")
    return prompt


def _missing(wanted: str | None, fields: Mapping[str, Any]) -> Fault:
    names = ", ".join(show(name) for name in list(fields)[:8]) or "no fields"
    return Fault("missing_prompt", f"found {names}, but no {wanted}: add it")
