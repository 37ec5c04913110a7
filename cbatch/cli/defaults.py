"""The options of `cbatch run` and `cbatch replay` with their defaults, for commands that take only some of them."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

from cbatch.cli.options import JobOptions
from cbatch.cli.replay import replay
from cbatch.cli.replay_options import ReplayOptions
from cbatch.cli.run import run
from cbatch.cli.run_options import RunOptions

Options = TypeVar("Options", bound=JobOptions)


def run_options(given: Mapping[str, Any]) -> RunOptions:
    """`given` by the names of `RunOptions`, `inputs` among them; names that it hasn't are left out."""
    return _with_defaults(RunOptions, run, given)


def replay_options(given: Mapping[str, Any]) -> ReplayOptions:
    """The same of `ReplayOptions`."""
    return _with_defaults(ReplayOptions, replay, given)


def _with_defaults(options: type[Options], command: Callable[..., None], given: Mapping[str, Any]) -> Options:
    defaults = {name: parameter.default for name, parameter in inspect.signature(command).parameters.items()}
    known = options.__dataclass_fields__
    return options(**{name: value for name, value in {**defaults, **given}.items() if name in known})
