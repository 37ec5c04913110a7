"""The rows that a run reads, and whether standard input is still what it was. Knows no model and no answers."""

from __future__ import annotations

from collections.abc import Iterator

from cbatch.cli.identity import Identity, check_stdin
from cbatch.cli.run_options import RunOptions
from cbatch.cli.workdir import Earlier
from cbatch.clock import Clock
from cbatch.inputs import READ_FAULTS, RowStream, read_rows
from cbatch.row_set import RowSet
from cbatch.supervise import Link
from cbatch.types import Row, RowFault


class RunRows:
    """To be iterated once: the rows that `earlier` has no result of, in order.

    Nothing is opened before the first row is asked for: that may wait for a producer, be it for a header or for as much
    of stdin as `earlier` knew, and whoever asks does so where the user can stop the run meanwhile. Raises there what
    `read_rows` and `check_stdin` do.
    """

    def __init__(
        self, options: RunOptions, link: Link, clock: Clock, identity: Identity, earlier: Earlier | None
    ) -> None:
        self._options = options
        self._link = link
        self._clock = clock
        self._identity = identity
        self._earlier = earlier
        self.stream: RowStream | None = None
        """Once it is opened."""

    def __iter__(self) -> Iterator[Row | RowFault]:
        if self._earlier is not None:
            check_stdin(self._identity, self._earlier.record["identity"], self._link.stdin_head)
        self.stream = self._open()
        yield from self.stream

    def _open(self) -> RowStream:
        stored = None if self._earlier is None else self._earlier.stored
        return read_rows(
            self._options.inputs,
            defaults=self._options.sampling(),
            clock=self._clock,
            stdin=self._link.stdin,
            options=self._options.input_options(),
            done=RowSet() if stored is None else stored.done,
            taken=() if stored is None else stored.taken(READ_FAULTS),
        )
