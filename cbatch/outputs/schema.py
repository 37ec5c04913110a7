"""The Arrow schemas of the tables: every column with its type, its unit in the name, and a description."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pyarrow as pa

from cbatch.outputs.carried import Column

_FIELD, _KIND = b"field", b"kind"

_ARROW: dict[str, pa.DataType] = {
    "bool": pa.bool_(),
    "int64": pa.int64(),
    "double": pa.float64(),
    "string": pa.string(),
    "json": pa.string(),
}


def _required(name: str, arrow_type: pa.DataType, description: str) -> pa.Field[Any]:
    return pa.field(name, arrow_type, nullable=False, metadata={"description": description})


def _optional(name: str, arrow_type: pa.DataType, description: str) -> pa.Field[Any]:
    return pa.field(name, arrow_type, metadata={"description": description})


def _list(element: pa.DataType) -> Any:
    """A list without nulls in it."""
    return pa.list_(pa.field("element", element, nullable=False))


TOP = _list(
    pa.struct(
        [
            _required("token_id", pa.int32(), "one of the likeliest tokens at this place, the likeliest first"),
            _required("logprob", pa.float64(), "natural logarithm of its probability"),
        ]
    )
)
PLACES = _list(
    pa.struct(
        [
            _required("token_id", pa.int32(), "the token that stands here"),
            _optional(
                "logprob",
                pa.float64(),
                "natural logarithm of its probability; null where nothing comes before it, as at a prompt's start",
            ),
            _required("top", TOP, "the likeliest tokens, as many as were asked for"),
        ]
    )
)
"""Log-probabilities of the tokens of a text."""

SAMPLES = _list(
    pa.struct(
        [
            _required("sample", pa.int64(), "which of the row's samples, from 0"),
            _required("output_text", pa.string(), "of a failed or cancelled sample, what was generated until then"),
            _required("output_tokens", pa.int64(), "sampled tokens, the end token included"),
            _required("finish_reason", pa.string(), "stop, length, error or cancelled"),
            _optional("error", pa.string(), "null where the sample is fine"),
            _optional("mean_logprob", pa.float64(), "mean of its tokens' logprobs, null where there are none"),
            _optional("logprobs", PLACES, "of its tokens, null where not asked for"),
        ]
    )
)


def results(columns: Sequence[Column]) -> pa.Schema:
    """Schema of the results, with the carried fields' `columns` after the id."""
    return pa.schema(
        [
            _required("row", pa.int64(), "1-based, counted over all inputs"),
            _required("id", pa.string(), "`custom_id` or `id` of the row, else its number"),
            *(_carried(column) for column in columns),
            _optional("prompt_tokens", pa.int64(), "as it was run; null where the row was never tokenised"),
            _optional("truncated_tokens", pa.int64(), "taken out of the prompt, which the context couldn't hold"),
            _optional("output_text", pa.string(), "of a failed or cancelled row, what was generated until then"),
            _optional("output_tokens", pa.int64(), "sampled tokens, the end token included"),
            _optional("dropped_tokens", pa.int64(), "of both, lost sight of when the output outgrew its context"),
            _required("finish_reason", pa.string(), "stop, length, error or cancelled"),
            _optional("error_code", pa.string(), "null where the row is fine"),
            _optional("error", pa.string(), "what is wrong, and the fix"),
            _optional("samples", SAMPLES, "of a row with several, all: the first is the row's output; null for one"),
            _optional("logprobs", PLACES, "of the row's output tokens, null where not asked for"),
            _optional("prompt_logprobs", PLACES, "of its prompt's tokens, null where not asked for"),
            _optional("carried_json", pa.string(), "JSON object of carried fields that no column could take"),
        ]
    )


def carried_columns(results_schema: pa.Schema) -> tuple[Column, ...]:
    """The carried fields' columns in a schema that `results` made."""
    carried = [field for field in results_schema if _FIELD in (field.metadata or {})]
    return tuple(
        Column(
            field.metadata[_FIELD].decode(),
            field.name,
            kind := field.metadata[_KIND].decode(),
            field.type if kind == "arrow" else None,
        )
        for field in carried
    )


def _carried(column: Column) -> pa.Field[Any]:
    form = ", as JSON text" if column.kind == "json" else ""
    told = {"description": f"the input's field {column.field!r}{form}", _FIELD: column.field, _KIND: column.kind}
    return pa.field(column.name, column.type or _ARROW[column.kind], metadata=told)


LINES = pa.schema(
    [
        _required("row", pa.int64(), "1-based, counted over all inputs"),
        _required("id", pa.string(), "`custom_id` or `id` of the row, else its number"),
        _required("finish_reason", pa.string(), "stop, length, error or cancelled"),
        _optional("error_code", pa.string(), "null where the row is fine"),
        _required("line", pa.binary(), "the row's line of results.jsonl, with its end"),
    ]
)
"""Of results that are lines of JSON, until they are in their file."""


_ATTRIBUTION = pa.struct(
    [
        _required(name, pa.int64(), description)
        for name, description in (
            ("slip_ns", "enqueued - arrival: lateness of the driver, or the wait for a place under a limit"),
            ("queue_ns", "admitted - enqueued: waiting for a slot"),
            ("prefill_ns", "inside calls that computed its own prompt"),
            ("decode_ns", "inside calls that computed its own output tokens"),
            ("others_prefill_ns", "in a slot, stalled by calls that computed prompts of others"),
            ("others_decode_ns", "in a slot, stalled by calls that computed output tokens of others"),
            ("preempted_ns", "back in the queue after having had a slot"),
            ("other_ns", "the rest of its time in a slot"),
        )
    ]
)

REQUESTS = pa.schema(
    [
        _required("row", pa.int64(), "1-based, counted over all inputs"),
        _required("id", pa.string(), "`custom_id` or `id` of the row, else its number"),
        _required("sample", pa.int64(), "which of the row's samples, from 0"),
        _required(
            "arrival_ns", pa.int64(), "when it arrived: in a run when its row was read, in a replay when it was to"
        ),
        _required("enqueued_ns", pa.int64(), "when the engine was told"),
        _optional("admitted_ns", pa.int64(), "when it first got a slot"),
        _optional("first_token_ns", pa.int64(), "when its first output token was sampled"),
        _required("token_ns", _list(pa.int64()), "when each output token was sampled"),
        _required("finished_ns", pa.int64(), "last token sampled, or the failure"),
        _required("prompt_tokens", pa.int64(), "tokens of the prompt"),
        _required("cached_tokens", pa.int64(), "of these, restored and not computed when it first ran"),
        _required("output_tokens", pa.int64(), "sampled tokens, the end token included"),
        _required("finish_reason", pa.string(), "stop, length, error or cancelled"),
        _optional("slot", pa.int64(), "the slot it ran in, the last one"),
        _required("priority", pa.int64(), "lower runs earlier"),
        _required("preemptions", pa.int64(), "how often it gave its slot to others"),
        _required("slip_ns", pa.int64(), "enqueued - arrival"),
        _optional("queue_ns", pa.int64(), "admitted - arrival"),
        _optional("ttft_ns", pa.int64(), "time to first token: first_token - arrival"),
        _optional(
            "tpot_ns", pa.float64(), "time per output token: (finished - first_token) / (n - 1), null when n < 2"
        ),
        _required("e2e_ns", pa.int64(), "finished - arrival"),
        _optional("normalized_latency_ns", pa.float64(), "e2e / n, null when n = 0"),
        _required("attribution", _ATTRIBUTION, "where e2e went: parts that add up to it exactly"),
    ]
)

STEPS = pa.schema(
    [
        _required(name, pa.int64(), description)
        for name, description in (
            ("step", "number of the step"),
            ("start_ns", "when it started"),
            ("end_ns", "when it ended"),
            ("schedule_ns", "in the scheduler: planning and updating"),
            ("decode_call_ns", "in native decode calls with one token of each of several sequences"),
            ("prefill_call_ns", "in native decode calls with prompt chunks"),
            ("mixed_call_ns", "in native decode calls with both"),
            ("llama_ns", "in native decode calls: decode_call + prefill_call + mixed_call"),
            ("sample_ns", "choosing tokens, detokenising, matching stop strings"),
            ("calls", "native decode calls"),
            ("admitted", "sequences that got a slot"),
            ("finished", "sequences that ended, failures included"),
            ("failed", "sequences that failed"),
            ("decode_seqs", "sequences that computed one token to extend their output"),
            ("padding_seqs", "finished sequences computed all the same, in a padded batch"),
            ("prefill_seqs", "sequences that computed a prompt chunk"),
            ("prefill_tokens", "prompt tokens computed"),
            ("output_tokens", "tokens sampled"),
            ("slots_busy", "while the step ran"),
            ("slots_total", "slots there are"),
            ("waiting", "requests without a slot while the step ran"),
            ("kv_used_cells", "with a token, counted for each sequence; before those that finished give theirs back"),
            ("kv_reserved_cells", "reserved by running sequences"),
            ("kv_total_cells", "cells there are"),
            (
                "kv_shared_cells",
                "of used, what sharing would save, or in one pool saves: prompt tokens that others hold too",
            ),
            ("kv_static_cells", "cells that static reservation would hold: a whole slot's for each running sequence"),
            ("preempted", "sequences that lost their slot to others"),
            ("moved", "sequences that went into another slot, to close a hole"),
            ("restored_tokens", "prompt tokens restored from snapshots and so not computed"),
            ("ideal_tokens", "prompt tokens that an unlimited cache would have restored, of sequences that began"),
            ("restore_ns", "putting snapshots into slots"),
            ("save_ns", "taking snapshots"),
        )
    ]
)
