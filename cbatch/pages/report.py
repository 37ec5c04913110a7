"""From directories to a file: what each holds, and the page and the pictures written. Knows no figure."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

from cbatch.errors import InputError, OutputError, UsageError
from cbatch.outputs.directory import COMPARE_JSON, RUN_JSON, SWEEP
from cbatch.outputs.files import publish, temporary, writing
from cbatch.pages.comparison import Comparison, read_comparison
from cbatch.pages.page import GENERATOR, Drawn, draw, make_page
from cbatch.pages.play import Group, read_play
from cbatch.pages.sections import Section, comparison_section, plays_section, sweeps_section
from cbatch.pages.sweep import Sweep, read_sweep
from cbatch.pages.words import printable


def write_report(directories: Sequence[Path], output: Path) -> list[Path]:
    """One HTML file of all `directories`, and a PNG of each picture beside it; returns what was written.

    An earlier report at `output` is replaced, and no other file. Raises `UsageError` without a directory, `InputError`
    for one that can't be used, `OutputError` and `WriteError` where the report can't be written.
    """
    if not directories:
        raise UsageError("no directory to report on: give one that cbatch run, replay or compare wrote")
    _check_output(output)
    sections = [(section, draw(section)) for section in _sections(directories)]
    page = make_page(sections)
    pictures = [drawn for _, section in sections for drawn in section]
    written = [_write(path, drawn.titled) for path, drawn in zip(_names(output, pictures), pictures, strict=True)]
    return [_write(output, page.encode("utf-8")), *written]


def _sections(directories: Sequence[Path]) -> list[Section]:
    """Comparisons one by one; sweeps side by side, and so runs and replays."""
    found = [_read(path, label, index) for index, (path, label) in enumerate(_labelled(directories))]
    groups = [one for one in found if isinstance(one, Group)]
    sweeps = [one for one in found if isinstance(one, Sweep)]
    sections = [comparison_section(one) for one in found if isinstance(one, Comparison)]
    if sweeps:
        sections.append(sweeps_section(sweeps))
    if groups:
        sections.append(plays_section(groups))
    return sections


def _read(directory: Path, label: str, index: int) -> Group | Sweep | Comparison:
    if not directory.is_dir():
        what = "is a file" if directory.exists() else "doesn't exist"
        raise InputError(f"{directory} {what}: give a directory that cbatch run, replay or compare wrote")
    if (directory / COMPARE_JSON).exists():
        return read_comparison(directory, label)
    if (directory / SWEEP).exists():
        return read_sweep(directory, label)
    if (directory / RUN_JSON).exists():
        return Group(label, (read_play(directory),), index)
    raise InputError(
        f"{directory} has no {RUN_JSON}, {SWEEP} or {COMPARE_JSON}: give a directory that cbatch run, replay or "
        "compare wrote (a sweep or comparison that was cut off has replays in its folders)"
    )


def _labelled(directories: Sequence[Path]) -> list[tuple[Path, str]]:
    """Each directory once, with its name; where names are the same, as much of the path as tells them apart."""
    paths = list({os.path.abspath(path): Path(path) for path in directories}.items())
    names = [Path(absolute).parts for absolute, _ in paths]
    return [(path, printable(_label(parts, names))) for parts, (_, path) in zip(names, paths, strict=True)]


def _label(parts: tuple[str, ...], others: Sequence[tuple[str, ...]]) -> str:
    for length in range(1, len(parts)):
        tail = parts[-length:]
        if sum(other[-length:] == tail for other in others) == 1:
            return "/".join(tail)
    return os.path.join(*parts)


def _check_output(output: Path) -> None:
    if output.is_dir():
        raise OutputError(f"{output} is a directory: give a file name, such as {output / 'report.html'}")
    if not output.parent.is_dir():
        raise OutputError(f"{output.parent} is no directory: make it, or give another file name")
    if output.exists() and GENERATOR.encode() not in _head(output):
        raise OutputError(f"{output} exists and isn't a report of cbatch: give another file name")


def _head(path: Path) -> bytes:
    """The first bytes."""
    try:
        with path.open("rb") as file:
            return file.read(1000)
    except OSError as error:
        raise OutputError(f"{path} can't be read: {error.strerror}; give another file name") from error


def _names(output: Path, pictures: Sequence[Drawn]) -> list[Path]:
    """`report-ttft.png` beside `report.html`; numbered where several have one name."""
    found: dict[str, None] = {}
    for picture in pictures:
        name, number = picture.file_name, 1
        while name in found:
            number += 1
            name = f"{picture.file_name}-{number}"
        found[name] = None
    return [output.with_name(f"{output.stem}-{name}.png") for name in found]


def _write(path: Path, content: bytes) -> Path:
    with writing(path):
        temporary(path).write_bytes(content)
        publish(path)
    return path
