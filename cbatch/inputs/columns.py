"""The columns of a job whose sources have some: of one type each, and those there that the job needs. Reads no rows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pyarrow as pa
import pyarrow.types as kinds

from cbatch.errors import InputError
from cbatch.inputs.fault import show
from cbatch.inputs.field_names import FieldNames
from cbatch.inputs.formats import INFERRED
from cbatch.inputs.formats.table import is_text
from cbatch.inputs.options import InputOptions
from cbatch.inputs.records import Opened
from cbatch.inputs.sources import Source
from cbatch.inputs.where import Mismatch, Where

Files = Sequence[tuple[Source, Opened]]


def common_types(files: Files) -> dict[str, pa.DataType]:
    """The type of each column over all files: the widest, such as int64 for int32 and int64.

    Of columns whose types are only guessed, those that disagree are text. Raises `InputError`.
    """
    found: dict[str, tuple[pa.DataType, Source]] = {}
    for source, opened in files:
        for name, kind in opened.types.items():
            old, first = found.get(name, (kind, source))
            found[name] = (_widest(name, (old, first), (kind, source)), first)
    return {
        name: pa.string() if kinds.is_null(kind) and _guessed(source) else kind
        for name, (kind, source) in found.items()
    }


def check_columns(files: Files, names: FieldNames, options: InputOptions, where: Where | None) -> None:
    """Raises `InputError` where a file with columns lacks one that is asked for, or one has the wrong type."""
    for source, opened in files:
        if not opened.types:
            continue
        for option, name in (
            ("--prompt-column", options.prompt_column),
            ("--messages-column", options.messages_column),
            ("--id-column", options.id_column),
        ):
            if name is not None and name not in opened.types:
                raise InputError(f"{source.name} has no column {show(name)}, {_found(opened)}: correct {option}")
        _check_contents(source, opened, names)
        if where is not None:
            _check_where(source, opened, where)


def carried_types(types: Mapping[str, pa.DataType], names: FieldNames) -> dict[str, pa.DataType]:
    """Of the columns that rows carry."""
    known = names.parameters.union(names.contents)
    used = next((name for name in names.ids if name in types), None)
    return {name: kind for name, kind in types.items() if name not in known and name != used}


def _check_contents(source: Source, opened: Opened, names: FieldNames) -> None:
    if names.contents and not any(name in opened.types for name in names.contents):
        raise InputError(
            f"{source.name} has no column {' or '.join(names.contents)}, {_found(opened)}: "
            "name the one with the prompts by --prompt-column, or make prompts of several by --template"
        )
    kind = opened.types.get(names.prompt) if names.prompt is not None else None
    if kind is not None and not (is_text(kind) or kinds.is_null(kind)):
        raise InputError(
            f"{source.name}: the prompts in column {show(names.prompt)} are of type {kind}: "
            f"give a column of strings, or --template {{{{ {names.prompt} }}}}"
        )


def _check_where(source: Source, opened: Opened, where: Where) -> None:
    for name in where.fields:
        if name not in opened.types:
            raise InputError(f"{source.name} has no column {show(name)}, {_found(opened)}: correct --where")
    try:
        where.check(opened.types)
    except Mismatch as mismatch:
        given = ", ".join(f"column {show(name)} is of type {opened.types[name]}" for name in mismatch.fields)
        raise InputError(f"{source.name}: {given}: {mismatch.problem}: correct --where") from None


def _widest(name: str, old: tuple[pa.DataType, Source], new: tuple[pa.DataType, Source]) -> pa.DataType:
    if old[0] == new[0]:
        return old[0]
    try:
        fields = [pa.schema([pa.field(name, kind)]) for kind, _ in (old, new)]
        unified: pa.DataType = pa.unify_schemas(fields, promote_options="permissive").field(0).type
    except pa.ArrowException:
        if _guessed(old[1]) and _guessed(new[1]):
            return pa.string()
        raise InputError(
            f"column {show(name)} is of type {old[0]} in {old[1].name}, and of type {new[0]} in {new[1].name}: "
            "make them the same, or run the files apart"
        ) from None
    return unified


def _guessed(source: Source) -> bool:
    return source.form in INFERRED


def _found(opened: Opened) -> str:
    names = ", ".join(show(name) for name in list(opened.types)[:20])
    return f"only {names}" + (", ..." if len(opened.types) > 20 else "")
