"""Results on disk, in portions that are read at once. Knows how they are read, not what becomes of them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import pyarrow as pa
import pyarrow.parquet as pq

from cbatch.errors import OutputError

_KEYS = {"row", "id", "finish_reason", "error_code"}


class Group(Protocol):
    """Some results of a file."""

    def read(self, columns: Sequence[str] | None = None) -> pa.Table:
        """All columns or some. Raises `OutputError` where the file isn't what a run wrote."""
        ...


@dataclass(frozen=True, slots=True)
class ParquetGroup:
    """A row group of a Parquet file."""

    path: Path
    metadata: Any
    index: int

    def read(self, columns: Sequence[str] | None = None) -> pa.Table:
        with reading(self.path), open(self.path, "rb") as file:
            return pq.ParquetFile(file, metadata=self.metadata).read_row_group(
                self.index, columns=columns, use_threads=False
            )


def parquet_groups(path: Path) -> Iterator[ParquetGroup]:
    """Of a file of results. Raises `OutputError` for one that holds none."""
    metadata = parquet_metadata(path)
    if not set(metadata.schema.to_arrow_schema().names) >= _KEYS:
        raise OutputError(f"{path} holds no results of cbatch: move it away, or give another output")
    yield from (ParquetGroup(path, metadata, index) for index in range(metadata.num_row_groups))


def parquet_metadata(path: Path) -> Any:
    """Of a Parquet file. Raises `OutputError` where it isn't one."""
    with reading(path), open(path, "rb") as file:
        return pq.read_metadata(file)


@contextmanager
def reading(path: Path) -> Iterator[None]:
    """Turns what goes wrong while `path` is read into an `OutputError` that says what to do."""
    try:
        yield
    except (OSError, pa.ArrowException) as error:
        raise OutputError(
            f"{path} can't be read: {error}. Put back a good copy, or begin anew: give another output, or --force"
        ) from error
