"""ShareGPT conversations: one JSON array. No times.

The first human turn is the prompt; the reply to it gives the output's length, where tokens can be counted. Lines of
conversation after these are not requests here, and that is counted.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from cbatch.traces.formats.containers import ARRAY
from cbatch.traces.formats.format import BadRow, Entry, Format, Options, Reader
from cbatch.traces.formats.values import encodable, field, fields_of, show
from cbatch.traces.trace import TraceRequest

HUMANS = ("human", "user")
MODELS = ("gpt", "assistant", "chatgpt", "bing", "bard")
NO_PROMPT = "conversations_without_a_prompt_left_out"
CUT = "conversations_cut_to_their_first_prompt"


def _reader(options: Options) -> Reader:
    def read(record: Any) -> Entry:
        turns = _turns(fields_of(record))
        first = next((at for at, (who, text) in enumerate(turns) if who in HUMANS and text), None)
        if first is None:
            return Entry(None, (NO_PROMPT,))
        reply = next((text for who, text in turns[first + 1 : first + 2] if who in MODELS), None)
        counted = None if reply is None or options.count_tokens is None else options.count_tokens(reply)
        rest = turns[first + (1 if reply is None else 2) :]
        request = TraceRequest(0, encodable(turns[first][1], "the first human turn"), output_tokens=counted)
        return Entry(request, (CUT,) if rest else ())

    return read


def _turns(row: Mapping[str, Any]) -> Sequence[tuple[str, str]]:
    turns = field(row, "conversations")
    if not isinstance(turns, list):
        raise BadRow(f"conversations is {show(turns)}: give a list of turns")
    return [_turn(at, turn) for at, turn in enumerate(turns)]


def _turn(at: int, turn: Any) -> tuple[str, str]:
    who, text = (turn.get("from"), turn.get("value")) if isinstance(turn, dict) else (None, None)
    if not isinstance(who, str) or not isinstance(text, str):
        raise BadRow(f"conversations[{at}] has from {show(who)} and value {show(text)}: give both as strings")
    return who, text


SHAREGPT = Format(
    "sharegpt",
    "ShareGPT conversations",
    ARRAY,
    ("conversations",),
    _reader,
    notes={
        NO_PROMPT: "conversations have no human turn with text: left out",
        CUT: "conversations go on after the first prompt and its reply: the rest isn't part of the trace",
    },
)
