"""All tables of a run, written while it goes on. Knows no engine; it hears of the run as an `Observer`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import asdict, fields
from pathlib import Path
from typing import Any, Protocol

from cbatch.clock import Clock
from cbatch.errors import UsageError
from cbatch.metrics import Attribution, RequestMetrics
from cbatch.metrics.request import samples_of
from cbatch.outputs import schema
from cbatch.outputs.directory import REQUESTS, STEPS
from cbatch.outputs.files import WriteError
from cbatch.outputs.jsonl import JsonlResults
from cbatch.outputs.parquet import ParquetTable
from cbatch.outputs.results import ParquetResults, Result
from cbatch.types import EngineView, RequestOutput, RowFault, RowRef, StepRecord

REQUESTS_GROUP_ROWS = 1_000
STEPS_GROUP_ROWS = 10_000
OUTPUT_FORMATS = ("parquet", "jsonl")
_STEP_FIELDS = tuple(f.name for f in fields(StepRecord) if f.name != "call_log")


class _Results(Protocol):
    def add(self, result: Result) -> None: ...

    def keep(self) -> None: ...

    def close(self) -> None: ...

    def discard(self) -> None: ...


class RunWriter:
    """Writes results, `requests.parquet` and `steps.parquet` into a directory that `prepare_directory` made.

    Close it, whatever happened: what was finished is then readable under its final names. `sample` is the look-ahead
    that decides the types of carried fields; `model`, `is_chat` and `token_bytes` (what a token prints) are for JSONL
    only. Raises `WriteError` where the disk refuses, `UsageError` for an unknown format.
    """

    def __init__(
        self,
        directory: Path,
        *,
        output_format: str,
        sample: Sequence[RowRef],
        model: str,
        clock: Clock,
        token_bytes: Callable[[int], bytes],
        is_chat: Callable[[RowRef], bool] = lambda _: True,
    ) -> None:
        if output_format not in OUTPUT_FORMATS:
            raise UsageError(f"output-format is {output_format!r}: give {' or '.join(OUTPUT_FORMATS)}")
        with ExitStack() as undo:
            self._results: _Results = (
                ParquetResults(directory, sample, clock)
                if output_format == "parquet"
                else JsonlResults(directory, model, is_chat, token_bytes)
            )
            undo.callback(self._results.discard)
            self._requests = ParquetTable(directory / REQUESTS, schema.REQUESTS, REQUESTS_GROUP_ROWS)
            undo.callback(self._requests.discard)
            self._steps = ParquetTable(directory / STEPS, schema.STEPS, STEPS_GROUP_ROWS)
            undo.pop_all()

    def step(self, record: StepRecord, view: Callable[[], EngineView]) -> None:  # noqa: ARG002 (Observer)
        row = {name: getattr(record, name) for name in _STEP_FIELDS}
        row["llama_ns"] = record.llama_ns
        self._steps.add(row)
        self._results.keep()

    def finished(self, ref: RowRef, output: RequestOutput) -> None:
        self._results.add(Result.of_output(ref, output))
        for sample in samples_of(output):
            self._requests.add(_request_row(ref, sample))

    def fault(self, fault: RowFault) -> None:
        self._results.add(Result.of_fault(fault))

    def close(self) -> None:
        """Complete every file that can be; then raise the first `WriteError`. Calling it again does nothing."""
        failures = []
        for table in (self._results, self._requests, self._steps):
            try:
                table.close()
            except WriteError as error:
                failures.append(error)
        if failures:
            raise failures[0]

    def __enter__(self) -> RunWriter:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def _request_row(ref: RowRef, output: RequestOutput) -> dict[str, Any]:
    return {
        "row": ref.number,
        "id": ref.id,
        "sample": output.sample,
        "arrival_ns": output.request.arrival_ns,
        "enqueued_ns": output.enqueued_ns,
        "admitted_ns": output.admitted_ns,
        "first_token_ns": output.first_token_ns,
        "token_ns": output.token_ns,
        "finished_ns": output.finished_ns,
        "prompt_tokens": int(output.request.prompt.size),
        "cached_tokens": output.cached_tokens,
        "output_tokens": int(output.token_ids.size),
        "finish_reason": output.finish_reason.value,
        "slot": output.slot,
        "priority": output.request.priority,
        "preemptions": output.preemptions,
        **asdict(RequestMetrics.of(output)),
        "attribution": Attribution.of(output)._asdict(),
    }
