"""The options of `cbatch run` with its defaults, for commands that take only some of them."""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from typing import Any

from cbatch.cli.run import run
from cbatch.cli.run_options import RunOptions


def run_options(given: Mapping[str, Any]) -> RunOptions:
    """`given` by the names of `RunOptions`, `inputs` among them; names that it hasn't are left out."""
    defaults = {name: parameter.default for name, parameter in inspect.signature(run).parameters.items()}
    known = RunOptions.__dataclass_fields__
    return RunOptions(**{name: value for name, value in {**defaults, **given}.items() if name in known})
