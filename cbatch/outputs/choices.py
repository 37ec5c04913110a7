"""Generations in the forms of OpenAI's responses: choices, and log-probabilities with the tokens' texts.

Forms: https://platform.openai.com/docs/api-reference/chat/object and .../completions/object. Chats and completions say
the same in different ways, and only completions have a place for the prompt's tokens.
"""

from __future__ import annotations

import codecs
import math
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

from cbatch.logprobs import Logprobs
from cbatch.outputs.results import failure
from cbatch.types import RequestOutput, Tokens

TokenBytes = Callable[[int], bytes]
"""What a token prints."""
_LEAST = -9999.0
"""OpenAI's number for a token that can't be."""


class _Place(NamedTuple):
    token: int
    logprob: float | None
    """None where nothing is known."""
    top: list[tuple[int, float | None]]
    """Token and logprob of the likeliest, likeliest first."""


def choices(samples: Sequence[RequestOutput], token_bytes: TokenBytes, *, chat: bool) -> list[dict[str, Any]]:
    """`choices` for all samples of a row; one that failed beside others has an `error`, which OpenAI's don't."""
    return [_choice(index, output, samples[0], token_bytes, chat) for index, output in enumerate(samples)]


def prompt_places(output: RequestOutput, token_bytes: TokenBytes) -> list[dict[str, Any]]:
    """The prompt's tokens as a chat's `content` has the output's. OpenAI's chats have no place for them."""
    assert output.prompt_logprobs is not None
    return [_chat_place(place, token_bytes) for place in _places(output.request.prompt, output.prompt_logprobs)]


def _choice(
    index: int, output: RequestOutput, first: RequestOutput, token_bytes: TokenBytes, chat: bool
) -> dict[str, Any]:
    said = {"message": {"role": "assistant", "content": output.text}} if chat else {"text": output.text}
    logprobs = _chat(output, token_bytes) if chat else _completion(output, first, token_bytes)
    found = {"index": index, **said, "logprobs": logprobs, "finish_reason": output.finish_reason.value}
    code, message = failure(output)
    if code is not None:
        found["error"] = {"code": code, "message": message}
    return found


def _chat(output: RequestOutput, token_bytes: TokenBytes) -> dict[str, Any] | None:
    if output.logprobs is None:
        return None
    content = [_chat_place(place, token_bytes) for place in _places(output.token_ids, output.logprobs)]
    return {"content": content, "refusal": None}


def _chat_place(place: _Place, token_bytes: TokenBytes) -> dict[str, Any]:
    top = [_chat_token(token, logprob, token_bytes) for token, logprob in place.top]
    return {**_chat_token(place.token, place.logprob, token_bytes), "top_logprobs": top}


def _chat_token(token: int, logprob: float | None, token_bytes: TokenBytes) -> dict[str, Any]:
    printed = token_bytes(token)
    return {"token": _text(printed), "logprob": logprob, "bytes": list(printed)}


def _completion(output: RequestOutput, first: RequestOutput, token_bytes: TokenBytes) -> dict[str, Any] | None:
    """With the prompt's tokens before the output's, where its text is echoed; the first sample has those."""
    if output.logprobs is None:
        return None
    of_prompt = first.prompt_logprobs
    places = [] if of_prompt is None else list(_places(output.request.prompt, of_prompt))
    places += _places(output.token_ids, output.logprobs)
    printed = [token_bytes(place.token) for place in places]
    return {
        "tokens": [_text(piece) for piece in printed],
        "token_logprobs": [place.logprob for place in places],
        "top_logprobs": [_completion_top(place, token_bytes) for place in places],
        "text_offset": _offsets(printed, output.text),
    }


def _completion_top(place: _Place, token_bytes: TokenBytes) -> dict[str, float | None] | None:
    """By text, the token that stands there among them. Of tokens that print the same, the likeliest."""
    if place.logprob is None and not place.top:
        return None
    found: dict[str, float | None] = {}
    for token, logprob in (*place.top, (place.token, place.logprob)):
        found.setdefault(_text(token_bytes(token)), logprob)
    return found


def _offsets(printed: Sequence[bytes], text: str) -> list[int]:
    """Where each token's text begins in `text`, in characters; one that goes on with a character has its place."""
    decode = codecs.getincrementaldecoder("utf-8")("replace").decode
    found, end = [], 0
    for piece in printed:
        found.append(end)
        end += len(decode(piece))
    # an echoed prompt comes without the space that some vocabularies put before it
    dropped = b"".join(printed).startswith(b" ") and not text.startswith(" ") and text != ""
    return [max(0, offset - dropped) for offset in found]


def _places(token_ids: Tokens, logprobs: Logprobs) -> Iterator[_Place]:
    """Where a text broke off, of its first tokens alone."""
    scored = token_ids[: logprobs.tokens.size].tolist()
    rows = zip(scored, logprobs.tokens, logprobs.top_ids.tolist(), logprobs.top, strict=True)
    for token, logprob, ids, top in rows:
        yield _Place(token, _number(logprob), [(i, _number(p)) for i, p in zip(ids, top, strict=True) if i >= 0])


def _number(logprob: float) -> float | None:
    """As JSON, which has neither NaN nor infinity."""
    return None if math.isnan(logprob) else max(float(logprob), _LEAST)


def _text(printed: bytes) -> str:
    r"""Bytes that are no character by themselves become `\xe2`, as OpenAI shows them."""
    return printed.decode("utf-8", "backslashreplace")
