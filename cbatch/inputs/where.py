"""A condition on rows, computed on Arrow columns. Null is as in SQL: what compares with it is neither true nor false.

    score > 3 and lang in ("en", "fr")        not flagged        0.2 <= p < 0.8        "refund" in text
    summary is null        day >= "2024-05-01"        len(text) < 2000        `odd name` = 'x'        a + b > 1

Knows no files. Arithmetic is done in 64-bit floats.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from cbatch.inputs.where_evaluator import Column, Evaluator, Mismatch
from cbatch.inputs.where_syntax import fields_of, parse_where, refused

__all__ = ["Mismatch", "Where"]


class Where:
    """A parsed condition. Raises `UsageError` for one that can't be understood."""

    def __init__(self, text: str) -> None:
        self._tree = parse_where(text)
        self.fields = fields_of(self._tree)
        """That it looks at."""
        if not self.fields:
            raise refused(text, "names no field")

    def mask(self, columns: Mapping[str, Any], length: int) -> Any:
        """bool[length], with false for null. `columns` are those of `fields`. Raises `Mismatch`."""
        given = {name: Column(columns[name], columns[name].type) for name in self.fields}
        try:
            found = Evaluator(given, lambda scalar: scalar).condition(self._tree)
        except pa.ArrowException as error:
            raise Mismatch(f"Arrow can't compute this ({error})", self.fields) from error
        if isinstance(found, pa.Scalar):
            return pa.array([bool(found.as_py())] * length, pa.bool_())
        return pc.fill_null(found, False)

    def check(self, types: Mapping[str, pa.DataType]) -> None:
        """Raises `Mismatch` where columns of these types don't allow it."""
        self.mask({name: pa.array([], types[name]) for name in self.fields}, 0)

    def expression(self, types: Mapping[str, pa.DataType]) -> Any:
        """The same for Arrow's data sets. Raises `Mismatch`."""
        given = {name: Column(pc.field(name), types[name]) for name in self.fields}
        return Evaluator(given, pc.scalar).condition(self._tree)
