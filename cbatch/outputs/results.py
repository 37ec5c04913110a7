"""A row's result, and its line in the results' table. Knows nothing of timing."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from cbatch.metrics.request import samples_of
from cbatch.outputs import schema
from cbatch.outputs.arrow import batch, list_cell
from cbatch.outputs.carried import Column, cells
from cbatch.outputs.logprobs import mean, places
from cbatch.types import FinishReason, RequestOutput, RowFault, RowRef

GENERATION_FAILED = "generation_failed"
CANCELLED = "cancelled"


@dataclass(frozen=True, slots=True)
class Result:
    """What became of one input row."""

    ref: RowRef
    finish_reason: FinishReason
    output: RequestOutput | None = None
    """None where the row couldn't be run. Of several samples, the first is what became of the row."""
    error_code: str | None = None
    """None where the row is fine."""
    error: str | None = None
    """Where the row stands, what is wrong, and the fix."""

    @classmethod
    def of_output(cls, ref: RowRef, output: RequestOutput) -> Result:
        """Of a request that ended, well or not."""
        code, error = failure(output)
        return cls(ref, output.finish_reason, output, code, None if error is None else _placed(ref, error))

    @classmethod
    def of_fault(cls, fault: RowFault) -> Result:
        """Of a row that couldn't be run."""
        return cls(fault.ref, FinishReason.ERROR, error_code=fault.code, error=_placed(fault.ref, fault.message))

    @property
    def samples(self) -> tuple[RequestOutput, ...]:
        """All of the row's, the first one first; none where it couldn't be run."""
        return () if self.output is None else samples_of(self.output)


def failure(output: RequestOutput) -> tuple[str | None, str | None]:
    """Code and message of a generation that ended badly; None where it is fine."""
    if output.finish_reason is FinishReason.ERROR:
        return GENERATION_FAILED, output.error or "the generation failed"
    if output.finish_reason is FinishReason.CANCELLED:
        return CANCELLED, output.error or "the run was stopped before this row was finished: run it again"
    return None, None


def _placed(ref: RowRef, message: str) -> str:
    """`rows.jsonl:17: message`, without lone surrogates: a file name may hold some, which UTF-8 can't."""
    return f"{ref.where}: {message}".encode("utf-8", "backslashreplace").decode("utf-8")


def results_batch(results: Sequence[Result], columns: Sequence[Column], results_schema: pa.Schema) -> pa.RecordBatch:
    """Rows of the results' table; `columns` are those of the carried fields."""
    rows = [{**_cells(result), **cells(columns, result.ref.carried)} for result in results]
    return batch(results_schema, [[row.get(name) for row in rows] for name in results_schema.names])


def _cells(result: Result) -> dict[str, Any]:
    """By column name, without the carried fields; a column left out is null."""
    found: dict[str, Any] = {
        "row": result.ref.number,
        "id": result.ref.id,
        "finish_reason": result.finish_reason.value,
        "error_code": result.error_code,
        "error": result.error,
    }
    output = result.output
    if output is None:
        return found
    return {
        **found,
        "prompt_tokens": int(output.request.prompt.size),
        "truncated_tokens": output.request.truncated_tokens,
        "output_text": output.text,
        "output_tokens": int(output.token_ids.size),
        "dropped_tokens": output.dropped_tokens,
        "samples": _samples(result.samples) if output.others else None,
        "logprobs": places(output.token_ids, output.logprobs),
        "prompt_logprobs": places(output.request.prompt, output.prompt_logprobs),
    }


def _samples(outputs: Sequence[RequestOutput]) -> Any:
    """The cell of all samples of a row."""
    rows = [_sample(output) for output in outputs]
    return list_cell(schema.SAMPLES, [[row[field.name] for row in rows] for field in schema.SAMPLES.value_type])


def _sample(output: RequestOutput) -> dict[str, Any]:
    """One of several of a row."""
    return {
        "sample": output.sample,
        "output_text": output.text,
        "output_tokens": int(output.token_ids.size),
        "finish_reason": output.finish_reason.value,
        "error": failure(output)[1],
        "mean_logprob": mean(output.logprobs),
        "logprobs": places(output.token_ids, output.logprobs),
    }
