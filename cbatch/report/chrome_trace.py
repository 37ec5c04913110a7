"""A file in the Chrome trace event format, written event by event. Knows tracks and times; nothing of what they mean.

The format is the JSON object of Google's "Trace Event Format", which ui.perfetto.dev opens. Its times are microseconds;
with three decimals they are the nanoseconds, exactly. Slices of a track must nest or be
apart; events may stand in any order.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from cbatch.errors import OutputError

Value = str | int | float
Args = Mapping[str, Value]
"""What is shown of an event that is clicked on."""

_encode = json.JSONEncoder(separators=(",", ":"), allow_nan=False).encode


class Track(NamedTuple):
    """A row of slices: a thread of a process. Perfetto wants `tid` to be unique in the whole file, and neither 0."""

    pid: int
    tid: int


class ChromeTrace:
    """Writes `path` under a hidden name and renames it when closed, so that what bears its name is whole.

    Raises `OutputError` where the path can't be written.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._temporary = path.with_name(f".{path.name}.tmp")
        self._before = '{"traceEvents":[\n'
        try:
            self._file = self._temporary.open("w", encoding="ascii")
        except OSError as error:
            raise _unwritable(path, error) from error

    @property
    def closed(self) -> bool:
        """Whether nothing can be written any more."""
        return self._file.closed

    def name_process(self, pid: int, name: str) -> None:
        """Processes are shown in order of their pid."""
        for kind, args in (("process_name", {"name": name}), ("process_sort_index", {"sort_index": pid})):
            self._event("M", Track(pid, pid), 0, kind, args)

    def name_track(self, track: Track, name: str) -> None:
        """Tracks are shown in order of their tid."""
        for kind, args in (("thread_name", {"name": name}), ("thread_sort_index", {"sort_index": track.tid})):
            self._event("M", track, 0, kind, args)

    def slice(self, track: Track, category: str, name: str, start_ns: int, end_ns: int, args: Args) -> None:
        """A bar on a track."""
        self._event("X", track, start_ns, name, args, f',"dur":{_us(end_ns - start_ns)},"cat":"{category}"')

    def span(self, track: Track, category: str, name: str, number: int, start_ns: int, end_ns: int, args: Args) -> None:
        """A bar that may overlap others of its name. `number` tells it from those; an empty span isn't written."""
        if end_ns > start_ns:
            own = f',"cat":"{category}","id":"{number}"'
            self._event("b", track, start_ns, name, args, own)
            self._event("e", track, end_ns, name, {}, own)

    def counter(self, track: Track, name: str, at_ns: int, values: Mapping[str, int]) -> None:
        """Values that hold from `at_ns` on."""
        self._event("C", track, at_ns, name, values)

    def _event(self, phase: str, track: Track, at_ns: int, name: str, args: Args, own: str = "") -> None:
        self._write(
            f'{self._before}{{"ph":"{phase}","pid":{track.pid},"tid":{track.tid},"ts":{_us(at_ns)}{own}'
            f',"name":{_encode(name)},"args":{_encode(args)}}}'
        )
        self._before = ",\n"

    def close(self) -> None:
        """Complete the file and give it its name. Calling it again, or after an error, does nothing."""
        if self.closed:
            return
        self._write("\n]}\n" if self._before == ",\n" else self._before + "]}\n")
        try:
            self._file.close()
            self._temporary.replace(self._path)
        except OSError as error:
            raise self._refused(error) from error

    def _write(self, text: str) -> None:
        try:
            self._file.write(text)
        except OSError as error:
            raise self._refused(error) from error

    def _refused(self, error: OSError) -> OutputError:
        """Give up: nothing is left of the file."""
        with suppress(OSError):  # what couldn't be written before can't be now
            self._file.close()
        with suppress(OSError):
            self._temporary.unlink()
        return _unwritable(self._path, error)


def _unwritable(path: Path, error: OSError) -> OutputError:
    return OutputError(
        f"the timeline {path} can't be written: {error.strerror or error}. Free some space or give another path"
    )


def _us(ns: int) -> str:
    return f"{ns // 1000}.{ns % 1000:03}"
