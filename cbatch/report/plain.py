"""A running job in plain lines on stderr, for logs and pipes. Knows no terminal."""

from __future__ import annotations

import sys
from types import TracebackType

from cbatch.report.progress import Figures, Progress
from cbatch.report.text import duration, lines, rate
from cbatch.report.ticker import Ticker

EVERY_S = 5.0


def plain_line(figures: Figures) -> str:
    """`12.0 s  rows 120/200 (1 failed)  out 412 tok/s  prefill 1,320 tok/s  running 32  waiting 47  eta 18 s`."""
    total = "?" if figures.rows_total is None else figures.rows_total
    engine = figures.engine
    parts = (
        f"{figures.elapsed_s:.1f} s",
        f"rows {figures.rows_done}/{total}" + (f" ({figures.rows_failed} failed)" if figures.rows_failed else ""),
        f"out {rate(figures.output.now)} tok/s",
        f"prefill {rate(figures.prefill.now)} tok/s",
        f"running {len(engine.slots) if engine is not None else 0}",
        f"waiting {engine.waiting if engine is not None else 0}",
        "stopping" if figures.stopping else f"eta {duration(figures.eta_s)}",
    )
    return "  ".join(parts)


class Quiet:
    """Messages and nothing else."""

    def __enter__(self) -> Quiet:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        pass

    def message(self, text: str) -> None:
        write_line(lines(text))


class PlainLines:
    """A line every `every_s` seconds, and one at the end."""

    def __init__(self, progress: Progress, every_s: float = EVERY_S) -> None:
        self._progress = progress
        self._ticker = Ticker("plain-lines", every_s, self._line)

    def __enter__(self) -> PlainLines:
        self._ticker.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._ticker.stop()
        self._line()

    def message(self, text: str) -> None:
        write_line(lines(text))

    def _line(self) -> None:
        write_line(plain_line(self._progress.figures()))


def write_line(text: str) -> None:
    """To stderr, if it's open; a reader that has gone away doesn't end the job, whose results go to disk."""
    if sys.stderr is None:
        return
    try:
        sys.stderr.write(text + "\n")
        sys.stderr.flush()
    except OSError:
        return
