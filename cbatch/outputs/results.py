"""A row's result, and the Parquet parts that hold them. Knows nothing of timing."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from cbatch.clock import Clock
from cbatch.metrics.request import samples_of
from cbatch.outputs import schema
from cbatch.outputs.arrow import list_cell
from cbatch.outputs.carried import cells, plan_columns
from cbatch.outputs.directory import RESULTS_FOLDER, part_path
from cbatch.outputs.files import writing
from cbatch.outputs.logprobs import mean, places
from cbatch.outputs.parquet import ParquetTable
from cbatch.types import FinishReason, RequestOutput, RowFault, RowRef

PART_ROWS = 5_000
PART_NS = 300_000_000_000
"""What a part may lose where the process is killed or the disk is full: so many rows, or the rows of so long."""
GROUP_ROWS = 1_000

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


class ParquetResults:
    """`results/part-*.parquet`; the types of carried fields come from a sample of the rows."""

    def __init__(self, directory: Path, sample: Sequence[RowRef], clock: Clock) -> None:
        self._directory = directory
        self._clock = clock
        self._columns = plan_columns(sample)
        self._schema = schema.results(self._columns)
        self._parts = 0
        self._begun_ns = 0
        """When the open part got its first row."""
        folder = directory / RESULTS_FOLDER
        with writing(folder):
            folder.mkdir(exist_ok=True)
        self._part: ParquetTable | None = self._next_part()

    def add(self, result: Result) -> None:
        """Take a result. Raises `WriteError`; after that, whatever is added."""
        if self._part is None:
            self._part = self._next_part()
        if self._part.rows == 0:
            self._begun_ns = self._clock.now_ns()
        self._part.add({**_cells(result), **cells(self._columns, result.ref.carried)})
        self.keep()

    def keep(self) -> None:
        """Complete the open part if it is due; to be called often. Raises `WriteError`."""
        if self._part is None or self._part.rows == 0:
            return
        if self._part.rows == PART_ROWS or self._clock.now_ns() - self._begun_ns >= PART_NS:
            self._part.close()
            self._part = None

    def close(self) -> None:
        """Complete the last part; an empty run has one, without rows. Calling it again does nothing."""
        if self._part is not None:
            self._part.close()

    def discard(self) -> None:
        """Drop the open part."""
        if self._part is not None:
            self._part.discard()

    def _next_part(self) -> ParquetTable:
        part = ParquetTable(part_path(self._directory, self._parts), self._schema, GROUP_ROWS)
        self._parts += 1
        return part


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
