"""A chat's messages, checked. Knows no template."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from cbatch.inputs.fault import Fault, show

ROLES = ("system", "developer", "user", "assistant", "tool")


def messages_of(value: Any) -> tuple[Mapping[str, Any], ...]:
    """The messages with `role` and `content` as strings, their other keys as they are.

    Raises `Fault` with `wrong_type`, `unsupported_content` or `empty_prompt`.
    """
    if not isinstance(value, list):
        raise Fault("wrong_type", f"messages is {show(value)}: give a list of objects with role and content")
    if not value:
        raise Fault("empty_prompt", "messages is empty: give at least one message")
    messages = tuple(_message(index, message) for index, message in enumerate(value))
    if not any(message["content"] for message in messages):
        raise Fault("empty_prompt", "every message has empty content: give at least one some text")
    return messages


def _message(index: int, message: Any) -> Mapping[str, Any]:
    name = f"messages[{index}]"
    if not isinstance(message, dict):
        raise Fault("wrong_type", f"{name} is {show(message)}: give an object with role and content")
    role = message.get("role")
    if role not in ROLES:
        raise Fault("wrong_type", f"{name} has role {show(role)}: give one of {', '.join(ROLES)}")
    return {**message, "content": _text(f"{name}.content", message.get("content"))}


def _text(name: str, content: Any) -> str:
    """Parts are joined by a line break, as llama.cpp and vLLM do for templates that want a string."""
    if isinstance(content, str):
        return content
    if not isinstance(content, list):
        raise Fault("wrong_type", f"{name} is {show(content)}: give a string or a list of text parts")
    return "\n".join(_part(f"{name}[{index}]", part) for index, part in enumerate(content))


def _part(name: str, part: Any) -> str:
    if not isinstance(part, dict):
        raise Fault("wrong_type", f'{name} is {show(part)}: give an object such as {{"type": "text", "text": "Hi"}}')
    if part.get("type") != "text":
        raise Fault("unsupported_content", f"{name} has type {show(part.get('type'))}: only text can be given")
    text = part.get("text")
    if not isinstance(text, str):
        raise Fault("wrong_type", f"{name}.text is {show(text)}: give a string")
    return text
