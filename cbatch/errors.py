"""Every error cbatch raises on purpose.

    CbatchError
    ├── UsageError          a command line or configuration that can't be run     (exit code 2)
    ├── ModelError          a model file that can't be used                       (exit code 2)
    ├── InputError          an input file that can't be read at all               (exit code 2)
    ├── OutputError         an output that exists already, or can't be made       (exit code 2)
    │   └── WriteError      what refused while a run wrote (in cbatch.outputs)    (exit code 1)
    ├── ParameterError      a sampling parameter out of range (also a ValueError)
    ├── EngineError         the engine or the native library failed as a whole    (exit code 1)
    ├── RunFailed           a run broke off; what was finished is kept            (exit code 1)
    └── Interrupted         the user asked to stop now                            (exit code 130)

A fault of one row is never an exception that leaves its row: see `cbatch.types.RowFault`.
A message says what was found, where, and what to do about it.
"""

from __future__ import annotations


class CbatchError(Exception):
    """Base of every error cbatch raises on purpose; its text is meant for the user."""

    exit_code = 1


class UsageError(CbatchError):
    """The command line or the configuration asks for something that can't be done."""

    exit_code = 2


class ModelError(CbatchError):
    """The model is missing, damaged, or of a kind that can't generate text."""

    exit_code = 2


class InputError(CbatchError):
    """An input as a whole can't be read (a row that can't be read is a `RowFault`)."""

    exit_code = 2


class OutputError(CbatchError):
    """The output exists already or can't be written."""

    exit_code = 2


class ParameterError(CbatchError, ValueError):
    """A sampling parameter has the wrong type or is out of range."""

    exit_code = 2


class EngineError(CbatchError):
    """The engine or the native library failed in a way that no single row is to blame for."""


class RunFailed(CbatchError):
    """A run broke off; what was finished is kept."""


class Interrupted(CbatchError):
    """The user asked to stop now; what is finished is kept."""

    exit_code = 130
