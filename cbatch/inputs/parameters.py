"""A row's own sampling parameters, under cbatch's, OpenAI's and llama.cpp's names. Knows no prompts."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

from cbatch.errors import ParameterError
from cbatch.inputs.fault import Fault, shorten, show
from cbatch.priority import PRIORITIES
from cbatch.sampling import MAX_LOGPROBS, SamplingParams

FIELDS = frozenset(field.name for field in dataclasses.fields(SamplingParams))

ALIASES = {
    "max_completion_tokens": "max_tokens",
    "n_predict": "max_tokens",
    "repeat_penalty": "repetition_penalty",
    "typ_p": "typical_p",
}

NEUTRAL: dict[str, tuple[Any, ...]] = {
    "functions": ([],),
    "modalities": (["text"],),
    "response_format": ({"type": "text"},),
    "suffix": ("",),
    "tools": ([],),
}
"""What would change the answer and isn't supported, with the values that ask for nothing."""

NAMES = FIELDS | ALIASES.keys() | NEUTRAL.keys() | {"priority", "top_logprobs"}
"""Every field that is a parameter, whatever kind of row it is in."""


def sampling_of(fields: Mapping[str, Any], defaults: SamplingParams) -> SamplingParams:
    """The parameters among `fields` on top of `defaults`; null is the default. Other fields are left alone.

    Raises `Fault` with `invalid_parameter` or `unsupported_parameter`.
    """
    _refuse_unsupported(fields)
    given = {name: _convert(name, value) for name, value in _named(fields).items()}
    top = fields.get("top_logprobs")
    if "logprobs" in given or top is not None:
        given["logprobs"] = _logprobs(given.get("logprobs", defaults.logprobs is not None), top)
    if not given:
        return defaults
    try:
        return dataclasses.replace(defaults, **given)
    except ParameterError as error:
        raise _invalid(str(error)) from None


def priority_of(fields: Mapping[str, Any]) -> int:
    """Lower runs earlier; 0 where none is given. Raises `Fault` with `invalid_parameter`."""
    priority = fields.get("priority")
    if priority is None:
        return 0
    if isinstance(priority, str) and priority in PRIORITIES:
        return PRIORITIES[priority]
    if isinstance(priority, bool) or not isinstance(priority, int) or not -(2**31) <= priority < 2**31:
        raise _invalid(f"priority is {show(priority)}: give {', '.join(PRIORITIES)} or a whole number of 32 bits")
    return priority


def _refuse_unsupported(fields: Mapping[str, Any]) -> None:
    for name, neutral in NEUTRAL.items():
        value = fields.get(name)
        if value is not None and value not in neutral:
            fix = "leave it out, or rename the field if it is only data"
            raise Fault("unsupported_parameter", f"{name} is {show(value)}, which isn't supported yet: {fix}")


def _named(fields: Mapping[str, Any]) -> dict[str, Any]:
    """The sampling parameters that are given, under their names in `SamplingParams`."""
    given: dict[str, Any] = {}
    for field, value in fields.items():
        name = ALIASES.get(field, field)
        if name not in FIELDS or value is None:
            continue
        if name in given and given[name] != value:
            raise _invalid(f"{field} is {show(value)}, but another name for it is {show(given[name])}: keep one")
        given[name] = value
    return given


def _convert(name: str, value: Any) -> Any:
    """From how JSON says it to how `SamplingParams` does; ranges are checked there."""
    if name == "logit_bias":
        return _logit_bias(value)
    if name == "stop":
        return _tuple(name, [value] if isinstance(value, str) else value, "a string or a list of strings")
    if name == "stop_token_ids":
        return _tuple(name, value, "a list of token ids")
    return value


def _tuple(name: str, value: Any, wanted: str) -> tuple[Any, ...]:
    if not isinstance(value, list):
        raise _invalid(f"{name} is {show(value)}: give {wanted}")
    return tuple(value)


def _logit_bias(value: Any) -> tuple[tuple[int, Any], ...]:
    if not isinstance(value, dict):
        raise _invalid(f'logit_bias is {show(value)}: give an object such as {{"42": -100}}')
    for token in value:
        if not (token.isascii() and token.isdigit() and len(token) <= 10):
            raise _invalid(f'logit_bias names token {show(token)}: give token ids such as "42"')
    return tuple((int(token), bias) for token, bias in value.items())


def _logprobs(asked: Any, top: Any) -> Any:
    """How many to give, which OpenAI's completions say as a number, and its chats as true and `top_logprobs`."""
    if top is not None and (isinstance(top, bool) or not isinstance(top, int) or not 0 <= top <= MAX_LOGPROBS):
        raise _invalid(f"top_logprobs is {show(top)}: give a whole number from 0 to {MAX_LOGPROBS}")
    if asked is True:
        return top or 0
    if asked is False:
        if top:
            raise _invalid(f"top_logprobs is {top}, without logprobs: give logprobs as true too")
        return None
    if top and top != asked:
        raise _invalid(f"top_logprobs is {top}, but logprobs is {show(asked)}: keep one")
    return asked


def _invalid(message: str) -> Fault:
    return Fault("invalid_parameter", shorten(message, 300))
