"""Opens a source of any form. Knows which module reads which, and nothing of their insides."""

from __future__ import annotations

from typing import BinaryIO

from cbatch.errors import InputError
from cbatch.inputs.formats.arrow_ipc import ArrowFile
from cbatch.inputs.formats.delimited import DelimitedFile
from cbatch.inputs.formats.json_array import JsonFile
from cbatch.inputs.formats.json_lines import LinesFile
from cbatch.inputs.formats.parquet import ParquetSource
from cbatch.inputs.formats.text import Document, TextFile
from cbatch.inputs.records import Opened
from cbatch.inputs.sources import Source
from cbatch.inputs.streams import READ_ERRORS, ByteStream
from cbatch.inputs.where import Where

DELIMITERS = {"csv": ",", "tsv": "\t"}
INFERRED = frozenset(DELIMITERS)
"""Forms whose types are guessed."""


def open_source(
    source: Source, stdin: BinaryIO | ByteStream | None, *, text_columns: frozenset[str], where: Where | None
) -> Opened:
    """Reads no more than it takes to know the columns: of JSON and text nothing, of CSV the first rows.

    `text_columns` stay text, whatever they look like; `where` lets Parquet leave out what can't match.
    Raises `InputError`.
    """
    try:
        return _open(source, stdin, text_columns, where)
    except READ_ERRORS as error:
        raise cant_read(source, "", error) from error


def _open(
    source: Source, stdin: BinaryIO | ByteStream | None, text_columns: frozenset[str], where: Where | None
) -> Opened:
    match source.form:
        case "parquet":
            return ParquetSource(source, where)
        case "arrow":
            return ArrowFile(source, stdin)
        case "csv" | "tsv":
            return DelimitedFile(source, stdin, DELIMITERS[source.form], text_columns)
        case "text":
            return TextFile(source, stdin) if source.document is None else Document(source)
        case "json":
            return JsonFile(source, stdin)
    return LinesFile(source, stdin)


def cant_read(source: Source, reached: str, error: BaseException) -> InputError:
    """Where reading broke off, and why."""
    reason = getattr(error, "strerror", None) or str(error).strip() or type(error).__name__
    past = f" past {reached}" if reached else ""
    return InputError(f"{source.name} can't be read{past}: {reason}")
