"""Files of a run, read as columns and records. Every fault names the file and the fix; knows no metric."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from cbatch.errors import InputError

Column = npt.NDArray[np.float64]
Columns = dict[str, Column]
"""float64[n] each, NaN for null; exact for times below 2**53 ns (104 days)."""
_FIX = "give a directory that cbatch wrote, or run the command that wrote this one again"


def damaged(path: Path, reason: object) -> InputError:
    """The error for a file that isn't as cbatch writes it."""
    return InputError(f"{path} can't be used: {reason}; {_FIX}")


def read_json(path: Path) -> dict[str, Any]:
    """The JSON object in `path`. Raises `InputError`."""
    try:
        with _readable(path):
            record = json.loads(path.read_text("utf-8"))
    except ValueError as error:
        raise damaged(path, f"it isn't JSON ({error})") from error
    if not isinstance(record, dict):
        raise damaged(path, "it holds no JSON object")
    return record


def read_table(path: Path, names: Sequence[str]) -> pa.Table:
    """Columns `names` of a Parquet file. Raises `InputError`."""
    missing = sorted(set(names) - set(column_names(path)))
    if missing:
        raise damaged(path, f"it has no column {', '.join(missing)}")
    with _readable(path), path.open("rb") as file:
        # not pq.read_table: if its threads still let go of a Python file when Python ends, the process is aborted
        return pq.ParquetFile(file).read(columns=list(names), use_threads=False)


def column_names(path: Path) -> list[str]:
    """Of a Parquet file. Raises `InputError`."""
    with _readable(path), path.open("rb") as file:  # Arrow takes only names that are UTF-8
        return list(pq.read_schema(file).names)


@contextmanager
def _readable(path: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise damaged(path, error.strerror or error) from error
    except pa.ArrowException as error:
        raise damaged(path, error) from error


def column(table: pa.Table, name: str, path: Path) -> Column:
    """A column of numbers. Raises `InputError`."""
    try:
        values: Any = pc.cast(table[name], pa.float64(), safe=False)
    except pa.ArrowException as error:
        raise damaged(path, f"column {name} holds no numbers ({error})") from error
    return np.array(values.fill_null(np.nan).to_numpy(), dtype=np.float64)


def figure(record: object, *names: str) -> float | None:
    """The number at `record[names[0]][names[1]]...`; None where there is none. `"inf"` is infinity."""
    value = lookup(record, *names)
    if value == "inf":
        return float("inf")
    return float(value) if isinstance(value, int | float) and not isinstance(value, bool) else None


def lookup(record: object, *names: str) -> Any:
    """What is at `record[names[0]][names[1]]...`; None where nothing is."""
    for name in names:
        record = record.get(name) if isinstance(record, Mapping) else None
    return record
