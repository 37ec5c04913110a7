"""A running job in plain lines on stderr, for logs and pipes. Knows no terminal."""

from __future__ import annotations

import sys
from collections.abc import Callable
from types import TracebackType

from cbatch.report.progress import Figures
from cbatch.report.replay_progress import ReplayFigures
from cbatch.report.text import duration, latency, lines, percent, rate
from cbatch.report.ticker import Ticker

EVERY_S = 5.0


def plain_line(figures: Figures) -> str:
    """`12.0 s  rows 120/200 (1 failed)  out 412 tok/s  prefill 1,320 tok/s  running 32  waiting 47  eta 18 s`."""
    total = _known(figures.rows_total)
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


def replay_line(figures: ReplayFigures) -> str:
    """`9.0 s  arrived 9/30  completed 3  failed 0  running 4  waiting 2  ttft p50 21 ms p99 -  slo 96 %  out 41 tok/s`.

    `slo` is the share of ended requests that met every objective; without objectives there is none.
    """
    run = figures.run
    parts = [
        f"{run.elapsed_s:.1f} s",
        f"arrived {figures.arrived}/{_known(figures.total)}",
        f"completed {run.rows_ok}",
        f"failed {run.rows_failed}",
        f"running {figures.running}",
        f"waiting {figures.waiting}",
        f"ttft p50 {latency(run.ttft.p50_ns)} p99 {latency(run.ttft.p99_ns)}",
        *(f"slo {percent(overall.share)}" for overall in figures.slo[:1]),
        f"out {rate(run.output.now)} tok/s",
        *(["stopping"] if run.stopping else []),
    ]
    return "  ".join(parts)


def _known(total: int | None) -> int | str:
    return "?" if total is None else total


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

    def __init__(self, line: Callable[[], str], every_s: float = EVERY_S) -> None:
        self._line = line
        self._ticker = Ticker("plain-lines", every_s, self._write)

    def __enter__(self) -> PlainLines:
        self._ticker.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._ticker.stop()
        self._write()

    def message(self, text: str) -> None:
        write_line(lines(text))

    def _write(self) -> None:
        write_line(self._line())


def write_line(text: str) -> None:
    """To stderr, if it's open; a reader that has gone away doesn't end the job, whose results go to disk."""
    if sys.stderr is None:
        return
    try:
        sys.stderr.write(text + "\n")
        sys.stderr.flush()
    except OSError:
        return
