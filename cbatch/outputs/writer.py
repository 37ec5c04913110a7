"""All tables of a run, made durable while it goes on. Knows no engine; it hears of the run as an `Observer`."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import pyarrow as pa

from cbatch.clock import Clock
from cbatch.errors import UsageError
from cbatch.outputs import schema
from cbatch.outputs.carried import plan_columns
from cbatch.outputs.files import remove_folder, writing
from cbatch.outputs.final import write_final, write_unfinished
from cbatch.outputs.history import write_history
from cbatch.outputs.journal.committer import Committer
from cbatch.outputs.journal.journal import Journal
from cbatch.outputs.journal.layout import Layout
from cbatch.outputs.jsonl import JsonLines
from cbatch.outputs.merge import ORDERS
from cbatch.outputs.results import Result, results_batch
from cbatch.outputs.stored import Stored
from cbatch.outputs.timings import requests_batch, step_line, steps_batch
from cbatch.types import EngineView, RequestOutput, RowFault, RowRef, StepRecord

OUTPUT_FORMATS = ("parquet", "jsonl", "csv")

_Ended = tuple[RowRef, RequestOutput] | RowFault


def _check_choice(option: str, given: str, choices: Sequence[str]) -> None:
    if given not in choices:
        raise UsageError(f"{option} is {given!r}: give {', '.join(choices[:-1])} or {choices[-1]}")


class RunWriter:
    """Writes results, `requests.parquet` and `steps.parquet` into a directory; what is finished is durable in a second.

    Call `complete` when every row is done, and `close` whatever happened: what was finished is then readable. `sample`
    is the look-ahead that decides the types of carried fields, but for those that a typed source gives
    (`carried_types`) and those that `stored`, which earlier sessions left, has decided; `model`, `is_chat` and
    `token_bytes` (what a token prints) are for JSONL only. `target` is the one file for complete results.

    Raises `WriteError` where the disk refuses, in whatever is called next; then only closing is left to do, and
    `open_stored` finds what was committed. Raises `UsageError` for an unknown format or order.
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
        carried_types: Mapping[str, pa.DataType] | None = None,
        order: str = "input",
        target: Path | None = None,
        stored: Stored | None = None,
    ) -> None:
        _check_choice("output-format", output_format, OUTPUT_FORMATS)
        _check_choice("order", order, ORDERS)
        self._layout = Layout(directory, output_format, target)
        self._stored = stored or Stored(self._layout)
        self._order = order
        columns = self._stored.columns
        self._columns = plan_columns(sample, carried_types) if columns is None else columns
        self._lines = JsonLines(model, is_chat, token_bytes) if output_format == "jsonl" else None
        self._schema = schema.LINES if output_format == "jsonl" else schema.results(self._columns)
        schemas = {"results": self._schema, "requests": schema.REQUESTS, "steps": schema.STEPS}
        self._journal = Journal(self._layout, schemas, clock, self._stored.next_segment)
        self._committer = Committer(self._commit)
        self._closed = False
        self._num_results: int | None = None
        """Once the run is complete."""

    def step(self, record: StepRecord, view: Callable[[], EngineView]) -> None:  # noqa: ARG002 (Observer)
        self._committer.add_step(step_line(record))

    def finished(self, ref: RowRef, output: RequestOutput) -> None:
        self._committer.add_row((ref, output))

    def fault(self, fault: RowFault) -> None:
        self._committer.add_row(fault)

    def complete(self) -> None:
        """Bring the results into their final form: every row of the run has one."""
        self._end()
        if not self._stands:
            self._num_results = write_final(self._layout, self._schema, self._stored.base, self._order)

    def close(self) -> None:
        """Make readable what was finished. Calling it again does nothing."""
        if self._closed:
            return
        self._closed = True
        self._end()
        if self._committer.error is not None or self._stands:
            return
        if self._num_results is None:
            write_unfinished(self._layout, self._schema, self._stored.base, self._order)
        write_history(self._layout, "requests", schema.REQUESTS, self._num_results)
        write_history(self._layout, "steps", schema.STEPS, self._num_results)
        with writing(self._layout.journal):
            remove_folder(self._layout.journal)

    @property
    def _stands(self) -> bool:
        """Whether the final form of an earlier session is still what there is to say."""
        return self._stored.complete and self._journal.number == self._stored.next_segment

    def _end(self) -> None:
        """Bring everything into pieces. After a failure, what was committed stays in the journal."""
        try:
            self._committer.close()
        finally:
            if self._committer.error is not None:
                self._journal.close()
        self._journal.roll()

    def _commit(self, rows: Sequence[_Ended], steps: Sequence[tuple[int, ...]]) -> None:
        """On the committer's thread."""
        results = [Result.of_fault(row) if isinstance(row, RowFault) else Result.of_output(*row) for row in rows]
        requests = [(result.ref, sample) for result in results for sample in result.samples]
        batches = {}
        if results:
            batches["results"] = self._results_batch(results)
        if requests:
            batches["requests"] = requests_batch(requests)
        if steps:
            batches["steps"] = steps_batch(steps)
        self._journal.commit(batches)
        self._journal.keep()

    def _results_batch(self, results: Sequence[Result]) -> pa.RecordBatch:
        if self._lines is not None:
            return self._lines.batch(results)
        return results_batch(results, self._columns, self._schema)

    def __enter__(self) -> RunWriter:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
