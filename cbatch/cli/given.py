"""Which options of a command the user gave. Imports nothing heavy: the parent process asks it too."""

from __future__ import annotations

import typer

_UNGIVEN = ("DEFAULT", "DEFAULT_MAP")
"""Of click's ParameterSource, which typer has of its own or from click, as its version goes."""


def given_options(context: typer.Context) -> tuple[str, ...]:
    """Their names, sorted."""
    sources = {name: context.get_parameter_source(name) for name in context.params}
    return tuple(sorted(name for name, source in sources.items() if source is not None and source.name not in _UNGIVEN))
