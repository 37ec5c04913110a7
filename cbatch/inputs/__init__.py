"""Rows from files and stdin. Knows no tokeniser and no chat template."""

from __future__ import annotations

from cbatch.inputs.identity import identity
from cbatch.inputs.options import InputOptions
from cbatch.inputs.read_faults import READ_FAULTS
from cbatch.inputs.reader import RowStream, read_rows
from cbatch.inputs.streams import ByteStream, open_stdin

__all__ = ["READ_FAULTS", "ByteStream", "InputOptions", "RowStream", "identity", "open_stdin", "read_rows"]
