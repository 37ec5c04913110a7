"""The records of CSV, JSONL, JSON array and Parquet files, as streams. Knows no format.

Text may be compressed with gzip. A line that can't be decoded gives a `BadRow` in its place; a file that can't be read
any further raises `InputError`.
"""

from __future__ import annotations

import csv
import gzip
import json
import os
import zlib
from codecs import BOM_UTF8
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from decimal import Decimal
from io import BufferedReader
from pathlib import Path
from typing import Any, NoReturn

import ijson
import pyarrow as pa
import pyarrow.parquet as pq

from cbatch.errors import InputError
from cbatch.traces.formats.format import BadRow, Container, Format

_BATCH = 1024
"""Parquet rows to decode at once."""


def name_of(path: Path) -> str:
    """The path as printable UTF-8, since file names can be any bytes."""
    return os.fsencode(path).decode("utf-8", "backslashreplace")


@contextmanager
def open_binary(path: Path) -> Iterator[BufferedReader]:
    """The file's bytes, uncompressed and without a byte order mark. Raises `InputError` where reading it fails."""
    try:
        with open(path, "rb") as file, _unzipped(file) as stream:
            if stream.peek(len(BOM_UTF8)).startswith(BOM_UTF8):
                stream.read(len(BOM_UTF8))
            yield stream
    except (OSError, EOFError, zlib.error) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise InputError(f"{name_of(path)} can't be read: {reason}") from error


def _unzipped(file: BufferedReader) -> BufferedReader:
    zipped = file.peek(2).startswith(b"\x1f\x8b")
    return BufferedReader(gzip.GzipFile(fileobj=file)) if zipped else file


def text_lines(path: Path) -> Iterator[tuple[str, str | BadRow]]:
    """(`file:line`, line) of each line that isn't blank, without line ends."""
    name = name_of(path)
    with open_binary(path) as stream:
        for number, raw in enumerate(stream, 1):
            if raw.strip():
                yield f"{name}:{number}", _text(raw.rstrip(b"\r\n"))


def _text(line: bytes) -> str | BadRow:
    try:
        return line.decode("utf-8")
    except UnicodeDecodeError as error:
        return BadRow(f"byte 0x{line[error.start]:02x} at offset {error.start} isn't UTF-8: save the file as UTF-8")


def csv_columns(line: str | BadRow) -> list[str]:
    """The names in a header line. Raises `BadRow`."""
    return [name.strip() for name in _csv_fields(line)]


def csv_rows(path: Path, form: Format) -> Iterator[tuple[str, Any]]:
    """A dict of strings for each line after the header."""
    lines = text_lines(path)
    header = next(lines, None)
    if header is None:
        raise InputError(f"{name_of(path)} is empty: give a trace with at least one request")
    try:
        columns = csv_columns(header[1])
    except BadRow as bad:
        raise InputError(f"{header[0]}: {bad}") from None
    check_columns(path, form, columns)
    for where, line in lines:
        yield where, _csv_record(line, columns)


def _csv_record(line: str | BadRow, columns: Sequence[str]) -> dict[str, str] | BadRow:
    try:
        values = _csv_fields(line)
    except BadRow as bad:
        return bad
    if len(values) > len(columns):
        return BadRow(f"the line has {len(values)} values for {len(columns)} columns: remove what is too much")
    return dict(zip(columns, values, strict=False))  # what a short line lacks is told when asked for


def _csv_fields(line: str | BadRow) -> list[str]:
    """A line is parsed alone: else a stray quote would swallow the lines after it. No format here needs long ones."""
    if isinstance(line, BadRow):
        raise line
    try:
        return next(csv.reader((line,), strict=True), [])
    except csv.Error as error:
        raise BadRow(f"the line isn't valid CSV: {error}") from None


def json_rows(path: Path, form: Format) -> Iterator[tuple[str, Any]]:
    """The JSON value of each line."""
    del form  # a record says itself which fields it has
    for where, line in text_lines(path):
        yield where, json_value(line)


def json_value(line: str | BadRow) -> Any:
    """The line's value, with numbers that aren't whole as Decimal; a `BadRow` where it has none."""
    if isinstance(line, BadRow):
        return line
    try:
        return _DECODER.decode(line)
    except BadRow as bad:
        return bad
    except json.JSONDecodeError as error:
        problem = f"{error.msg.removesuffix(' at')} at column {error.pos + 1}"
    except RecursionError:
        problem = "lists and objects are nested too deep"
    except (ValueError, ArithmeticError):
        problem = "a number has too many digits"
    return BadRow(f"the line isn't valid JSON: {problem}")


def _constant(name: str) -> NoReturn:
    raise BadRow(f"{name} isn't valid JSON: give a number")


_DECODER = json.JSONDecoder(parse_float=Decimal, parse_constant=_constant)


def array_rows(path: Path, form: Format) -> Iterator[tuple[str, Any]]:
    """The items of the file's one JSON array. After damage nothing more can be told apart: that is an `InputError`."""
    del form  # an item says itself which fields it has
    name, number = name_of(path), 0
    with open_binary(path) as stream:
        try:
            for number, item in enumerate(ijson.items(stream, "item", use_float=True), 1):
                yield f"{name}: item {number}", item
        except (ijson.JSONError, UnicodeDecodeError) as error:
            reason = " ".join(str(error).split())[:100]
            raise InputError(f"{name} isn't a valid JSON array after item {number}: {reason}") from error


def parquet_rows(path: Path, form: Format) -> Iterator[tuple[str, Any]]:
    """A dict for each row, of the columns that the format uses."""
    name, number = name_of(path), 0
    try:
        with open(path, "rb") as stream, pq.ParquetFile(stream) as file:  # Arrow takes only UTF-8 names
            found = file.schema_arrow.names
            check_columns(path, form, found)
            used = [column for column in found if column in form.used]
            for batch in file.iter_batches(_BATCH, columns=used, use_threads=False):
                for record in batch.to_pylist():
                    number += 1
                    yield f"{name}: row {number}", record
    except (pa.ArrowException, OSError, UnicodeDecodeError) as error:
        raise InputError(f"{name} can't be read as Parquet past row {number}: {error}") from error


def parquet_columns(path: Path) -> list[str]:
    """The names of the columns. Raises `InputError`."""
    try:
        with open(path, "rb") as stream:
            return list(pq.read_schema(stream).names)
    except (pa.ArrowException, OSError) as error:
        raise InputError(f"{name_of(path)} can't be read as Parquet: {error}") from error


def check_columns(path: Path, form: Format, found: Sequence[str]) -> None:
    """Raises `InputError` where the format needs others."""
    if not form.matches(found):
        shown = ", ".join(repr(column) for column in found[:12]) or "no columns"
        raise InputError(f"{name_of(path)} has {shown}, which isn't {form}: check the file or the format")


CSV = Container("CSV", csv_rows)
JSONL = Container("JSONL", json_rows)
ARRAY = Container("JSON array", array_rows)
PARQUET = Container("Parquet", parquet_rows)
