"""What makes a request of a trace valid, by itself and after the one before it. Knows no file."""

from __future__ import annotations

from cbatch.traces.trace import SECOND, TraceRequest

MAX_TOKENS = 2**31 - 1
"""Token counts are int32 columns."""
MAX_ARRIVAL_NS = 2**62
"""146 years, so that times can be added in int64. A date in seconds since 1970 is below, one in milliseconds above."""


class RequestCheck:
    """Looks at the requests of one trace in their order."""

    def __init__(self) -> None:
        self._previous_ns = 0

    def fault(self, request: TraceRequest) -> str | None:
        """What is wrong with the next request, with the value and the fix; None if nothing is."""
        previous, self._previous_ns = self._previous_ns, request.arrival_ns
        return _arrival(request.arrival_ns, previous) or _prompt(request) or _numbers(request) or _prefix(request)


def _arrival(arrival_ns: int, previous_ns: int) -> str | None:
    at = f"arrival_s is {arrival_ns / SECOND}"
    if arrival_ns < 0:
        return f"{at}: give seconds since the trace's beginning, 0 or more"
    if arrival_ns > MAX_ARRIVAL_NS:
        return f"{at}, more than a century: give seconds, not milliseconds or nanoseconds"
    if arrival_ns < previous_ns:
        return f"{at}, before the row above ({previous_ns / SECOND}): sort the rows by arrival_s"
    return None


def _prompt(request: TraceRequest) -> str | None:
    if request.prompt is None and request.prompt_tokens is None:
        return "neither prompt nor prompt_tokens: give a text, or the length of a prompt to synthesise"
    if request.prompt is not None and request.prompt_tokens is not None:
        return f"both prompt and prompt_tokens ({request.prompt_tokens}): give one, null for the other"
    if request.prompt == "":
        return "prompt is empty: give some text, or prompt_tokens"
    for name in ("prompt", "session_id", "tenant"):
        if not _is_unicode(getattr(request, name)):
            return f"{name} holds half a surrogate pair, which UTF-8 can't hold: replace it with U+FFFD"
    return None


def _is_unicode(text: str | None) -> bool:
    if text is None or text.isascii():
        return True
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def _numbers(request: TraceRequest) -> str | None:
    hints = {"output_tokens": ", or null for an output that ends when the model stops"}
    for name in ("prompt_tokens", "output_tokens", "prefix_block"):
        value = getattr(request, name)
        if value is not None and not 1 <= value <= MAX_TOKENS:
            return f"{name} is {value}: give 1 to {MAX_TOKENS}{hints.get(name, '')}"
    if not -MAX_TOKENS <= request.priority <= MAX_TOKENS:
        return f"priority is {request.priority}: give {-MAX_TOKENS} to {MAX_TOKENS}"
    return None


def _prefix(request: TraceRequest) -> str | None:
    if request.prefix_ids and request.prefix_block is None:
        return "prefix_ids without prefix_block: give the number of tokens in a block, such as 16"
    for block in request.prefix_ids:
        if not -(2**63) <= block < 2**63:
            return f"prefix_ids holds {block}: give ids that fit 64 bits, signed"
    return None
