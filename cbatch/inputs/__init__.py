"""Rows from files and stdin. Knows no tokeniser and no chat template."""

from __future__ import annotations

from cbatch.inputs.reader import read_rows

__all__ = ["read_rows"]
