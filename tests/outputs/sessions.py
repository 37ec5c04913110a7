"""Runs in sessions, each with a writer that commits at once, so that what is durable is known."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.csv as pc
import pyarrow.parquet as pq
import pytest

from cbatch.clock import VirtualClock
from cbatch.outputs import RunWriter, Stored, open_stored
from cbatch.outputs import writer as writer_module
from cbatch.outputs.journal import journal
from cbatch.outputs.json_lines_file import LinesGroup, line_groups
from cbatch.types import FinishReason
from tests.metrics.factories import make_fault, make_output, make_ref, make_step, no_view, spell


class InlineCommitter:
    """As `Committer`, on the caller's thread: what was added is durable."""

    def __init__(self, commit: Callable[[list[Any], list[Any]], None]) -> None:
        self._commit = commit
        self.error: BaseException | None = None

    def add_row(self, row: Any) -> None:
        self._try([row], [])

    def add_step(self, step: Any) -> None:
        self._try([], [step])

    def close(self) -> None: ...

    def _try(self, rows: list[Any], steps: list[Any]) -> None:
        try:
            self._commit(rows, steps)
        except BaseException as error:
            self.error = error
            raise


def commit_at_once(monkeypatch: pytest.MonkeyPatch, segment_rows: int = 3) -> None:
    """Writers commit each row, and segments are full with so many. Nothing waits for the disk."""
    monkeypatch.setattr(os, "fsync", lambda _: None)
    monkeypatch.setattr(writer_module, "Committer", InlineCommitter)
    monkeypatch.setattr(journal, "SEGMENT_ROWS", segment_rows)


def open_writer(directory: Path, output_format: str = "parquet", **options: Any) -> RunWriter:
    options = {"sample": [make_ref(1, {"n": 1})], **options}
    return RunWriter(
        directory, output_format=output_format, model="m", clock=VirtualClock(), token_bytes=spell, **options
    )


def end_row(writer: RunWriter, row: int, *, at_ns: int = 0, text: str = "fine", fails: bool = False) -> None:
    """A row and the step in which it ended."""
    ref = make_ref(row, {"n": row})
    reason, error = (FinishReason.ERROR, "broke") if fails else (FinishReason.STOP, None)
    writer.finished(ref, make_output([at_ns + 1], arrival_ns=at_ns, text=text, reason=reason, error=error))
    writer.step(make_step(step=row, end_ns=at_ns + 1), no_view)


def run_session(
    directory: Path, output_format: str, rows: Iterable[int], *, target: Path | None = None, order: str = "input"
) -> Stored:
    """End the rows that aren't done, and complete the run; returns what was there before."""
    stored = open_stored(directory, output_format, target=target)
    with open_writer(directory, output_format, stored=stored, target=target, order=order) as writer:
        for row in rows:
            if row not in stored.done:
                end_row(writer, row, at_ns=stored.clock_ns, text=f"of row {row}")
        writer.complete()
    return stored


def read_rows(directory: Path, output_format: str = "parquet", target: Path | None = None) -> list[tuple[int, Any]]:
    """Row and text (None where it failed) as a complete run has them, in the order of the file."""
    if output_format == "jsonl":
        path = target or directory / "results.jsonl"
        return [pair for group in line_groups(path) for pair in _lines(group)]
    if output_format == "csv":
        options = pc.ConvertOptions(column_types={"output_text": pa.string()}, strings_can_be_null=True)
        parse = pc.ParseOptions(newlines_in_values=True)
        table = pc.read_csv(target or directory / "results.csv", parse_options=parse, convert_options=options)
    else:
        paths = [target] if target is not None else sorted(directory.glob("results/part-*.parquet"))
        table = pa.concat_tables(pq.read_table(path) for path in paths)
    return list(zip(table["row"].to_pylist(), table["output_text"].to_pylist(), strict=True))


def _lines(group: LinesGroup) -> list[tuple[int, Any]]:
    table = group.read()
    found = []
    for row, line in zip(table["row"].to_pylist(), table["line"].to_pylist(), strict=True):
        response = json.loads(line)["response"]
        found.append((row, response and response["body"]["choices"][0]["message"]["content"]))
    return found


def files(directory: Path) -> set[str]:
    return {str(path.relative_to(directory)) for path in directory.rglob("*") if path.is_file()}


def fail(writer: RunWriter, row: int) -> None:
    """A row that can't be run."""
    writer.fault(make_fault(row))
