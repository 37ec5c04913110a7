"""The envelope of an OpenAI Batch line: method, url and body. Knows no parameters but those that change nothing here.

Format: https://platform.openai.com/docs/api-reference/batch/request-input
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from cbatch.inputs.fault import Fault, show
from cbatch.inputs.parameters import NAMES
from cbatch.types import RowKind

ENVELOPE = frozenset({"method", "url", "body"})

URLS = {"/v1/chat/completions": RowKind.CHAT, "/v1/completions": RowKind.COMPLETION}

HARMLESS = frozenset(
    {
        "function_call",  # without functions there is nothing to choose from
        "metadata",
        "model",  # the job's model answers
        "parallel_tool_calls",
        "prompt_cache_key",
        "safety_identifier",
        "service_tier",
        "store",
        "stream",
        "stream_options",
        "tool_choice",
        "user",
    }
)
"""Fields of a body that can't change the answer's text; they are dropped."""


def is_batch_line(fields: Mapping[str, Any]) -> bool:
    """Whether it is meant as a Batch line; `url` and `body` may be mere data beside a prompt."""
    return "body" in fields and ("url" in fields or "method" in fields) and not fields.keys() & {"prompt", "messages"}


def open_envelope(fields: Mapping[str, Any]) -> tuple[RowKind, Mapping[str, Any]]:
    """What the line asks for and its body, whose every field is known.

    Raises `Fault` with `unsupported_method`, `unsupported_url`, `wrong_type` or `unsupported_parameter`.
    """
    method, url, body = fields.get("method"), fields.get("url"), fields["body"]
    if method != "POST":
        raise Fault("unsupported_method", f"method is {show(method)}: give 'POST'")
    if not isinstance(url, str) or url not in URLS:
        raise Fault("unsupported_url", f"url is {show(url)}: give {' or '.join(URLS)}")
    if not isinstance(body, dict):
        raise Fault("wrong_type", f"body is {show(body)}: give the request as an object")
    unknown = sorted(body.keys() - NAMES - HARMLESS - {"prompt", "messages"})
    if unknown:
        names = ", ".join(show(name) for name in unknown[:5])
        raise Fault(
            "unsupported_parameter", f"body has {names}, which cbatch doesn't know: check the name or remove it"
        )
    return URLS[url], body
