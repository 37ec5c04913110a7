"""Which files there are to read, and whether they are still what they were. Reads none of their content."""

from __future__ import annotations

import glob
import os
import stat
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

from cbatch.errors import InputError
from cbatch.inputs.forms import EXTENSIONS, form_of

STDIN = "-"


class FileState(NamedTuple):
    """Of a regular file: what changes when somebody writes to it, or puts another in its place."""

    size: int
    mtime_ns: int
    inode: int


@dataclass(frozen=True, slots=True)
class Source:
    """One input, not opened."""

    path: str
    form: str
    """One of `FORMS`."""
    state: FileState | None = None
    """None for stdin, pipes and devices, which can be read only once."""
    document: str | None = None
    """The id of the one prompt that the file as a whole is; None where it holds several rows."""

    @property
    def name(self) -> str:
        """For messages."""
        return printable(self.path)

    def check_unchanged(self) -> None:
        """Raises `InputError` where a regular file isn't the one that it was when it was found."""
        if self.state is None:
            return
        try:
            now = _state(self.path)
        except OSError as error:
            raise InputError(f"{self.name} can't be read: {error.strerror}; what is finished is kept") from error
        if now == self.state:
            return
        raise InputError(
            f"{self.name} {_change(self.state, now)} while the job ran: what is finished is kept, but the rows left "
            "can't be trusted; put the old file back to go on, or begin again with --force"
        )


def find_sources(sources: Sequence[str], form: str | None = None) -> list[Source]:
    """The readable files that paths, directories, globs and `-` (stdin) stand for; files of one source are sorted.

    A path that exists is taken as it is, whatever characters it has. `form` is one of `FORMS`; without it names decide,
    and what they don't tell is JSONL. Text files of one name, found in several directories, have their paths as ids.
    Raises `InputError`.
    """
    if not sources:
        raise InputError("no input is given: give files, directories, globs, or - for stdin")
    if sources.count(STDIN) > 1:
        raise InputError("- is given more than once: stdin can be read only once")
    return _told_apart([found for source in sources for found in _expand(source, form)])


def printable(path: str) -> str:
    """The path as printable UTF-8, since file names can be any bytes."""
    return "stdin" if path == STDIN else os.fsencode(path).decode("utf-8", "backslashreplace")


def _expand(source: str, form: str | None) -> list[Source]:
    if source == STDIN:
        return [Source(STDIN, form or "jsonl")]
    if os.path.isdir(source):
        return [_found(path, form, source) for path in _files_below(source, form)]
    if os.path.lexists(source) or not glob.has_magic(source):
        return [_found(source, form, None)]
    files = sorted(path for path in glob.glob(source, recursive=True) if not os.path.isdir(path))
    if not files:
        raise InputError(f"{printable(source)} matches no file: check the pattern")
    return [_found(path, form, _fixed_part(source)) for path in files]


def _told_apart(found: list[Source]) -> list[Source]:
    """With the path as given for documents of one name in several directories: names are ids."""
    names = Counter(source.document for source in found)
    return [
        replace(source, document=source.name) if source.document is not None and names[source.document] > 1 else source
        for source in found
    ]


def _found(path: str, form: str | None, folder: str | None) -> Source:
    """`folder`: where the file was looked for, if it wasn't named itself."""
    form = form or form_of(path) or "jsonl"
    document = printable(os.path.relpath(path, folder or ".")) if form == "text" and folder is not None else None
    return Source(path, form, _check_readable(path), document)


def _files_below(folder: str, form: str | None) -> list[str]:
    """Of one form; hidden files and those that begin with _ are what programs leave for themselves."""
    paths = [os.path.join(at, name) for at, _, names in os.walk(folder, onerror=_refuse) for name in names]
    named = [(path, form_of(path)) for path in paths if not _is_hidden(os.path.relpath(path, folder))]
    forms = {found for _, found in named if found is not None and form in (None, found)}
    if not forms:
        wanted = ", ".join(end for end, known in EXTENSIONS.items() if form in (None, known))
        raise InputError(f"{printable(folder)} holds no file that ends in {wanted}: give its files by a glob")
    if len(forms) > 1:
        raise InputError(
            f"{printable(folder)} holds files of several forms ({', '.join(sorted(forms))}): "
            "give one as --format, or the files by a glob"
        )
    return sorted(path for path, found in named if found in forms)


def _is_hidden(path: str) -> bool:
    return any(part.startswith((".", "_")) for part in path.split(os.sep))


def _refuse(error: OSError) -> None:
    raise InputError(f"{printable(error.filename)} can't be read: {error.strerror}") from error


def _fixed_part(pattern: str) -> str:
    """The directory that every match of a glob lies in."""
    while glob.has_magic(pattern):
        pattern = os.path.dirname(pattern)
    return pattern


def _check_readable(path: str) -> FileState | None:
    """Doesn't open it: to open and close a pipe would break it."""
    try:
        found = _state(path)
    except OSError as error:
        raise InputError(f"{printable(path)} can't be read: {error.strerror}") from error
    if not os.access(path, os.R_OK):
        raise InputError(f"{printable(path)} can't be read: you don't have permission")
    return found


def _state(path: str) -> FileState | None:
    status = os.stat(path)
    return FileState(status.st_size, status.st_mtime_ns, status.st_ino) if stat.S_ISREG(status.st_mode) else None


def _change(old: FileState, new: FileState | None) -> str:
    if new is None:
        return "was replaced by something that isn't a file"
    if new.inode != old.inode:
        return "was replaced by another file"
    if new.size != old.size:
        return f"changed from {old.size:,} to {new.size:,} bytes"
    return "was written to"
