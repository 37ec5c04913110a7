"""Runs `cbatch trace` inside the test's process."""

from __future__ import annotations

from typer.testing import CliRunner

from cbatch.cli.trace import app
from cbatch.errors import CbatchError


def trace(*arguments: object, code: int = 0) -> str:
    """What it prints; it has to end with `code`."""
    result = CliRunner().invoke(app, [str(argument) for argument in arguments])
    assert result.exit_code == code, (result.output, result.exception)
    return result.output


def mistake(*arguments: object) -> str:
    """The message of the error that the user gets, with exit code 2."""
    result = CliRunner().invoke(app, [str(argument) for argument in arguments])
    assert isinstance(result.exception, CbatchError), (result.output, result.exception)
    assert result.exception.exit_code == 2
    return str(result.exception)
