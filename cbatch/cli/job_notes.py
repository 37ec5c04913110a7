"""What the user should know beside the figures of a run. Knows how runs go, and prints nothing."""

from __future__ import annotations

from collections.abc import Iterator

from cbatch.driver import Ending, Outcome
from cbatch.metrics import RunSummary
from cbatch.outputs import Stored

_SHORT = 0.05
"""Of steps, from which on it is told that KV memory held rows back."""


def resuming(stored: Stored | None, *, retry_failed: bool) -> Iterator[str]:
    """What the summary has to be read with, where an earlier run is gone on with."""
    if stored is None:
        return
    failed = stored.num_failed
    hint = f", {failed:,} {'failed ones are tried again' if retry_failed else 'of them failed'}" if failed else ""
    yield f"resumed: {len(stored.done):,} rows had been finished before{hint}; figures are of the rest"


def findings(summary: RunSummary, *, overcommits: bool) -> Iterator[str]:
    """What to look at, or to change next time."""
    if length := summary.finish_reasons.get("length", 0):
        yield f"{length:,} rows ended at their max_tokens: raise --max-tokens where that cut them off"
    if summary.short_of_memory is not None and summary.short_of_memory > _SHORT:
        more = "" if overcommits else "; --kv-overcommit lets more in"
        yield f"rows waited for KV cells beside free slots in {summary.short_of_memory:.0%} of steps{more}"
    if summary.rows_failed:
        yield (
            f"{summary.rows_failed:,} rows failed: see error_code and error in the results; "
            "--retry-failed runs them again"
        )


def left_over(
    outcome: Outcome, rows_total: int | None, rows_read: int, summary: RunSummary, *, again: str
) -> Iterator[str]:
    """Of a run that was stopped: how many rows have no result, and that `again` goes on with them.

    `rows_read`: those that were still to be taken.
    """
    if outcome.ending is Ending.COMPLETE:
        return
    least = f"at least {outcome.rows_left + rows_read:,}"
    left = least if rows_total is None else f"{rows_total - summary.rows_total:,}"
    yield f"{outcome.ending.value} on request: {left} rows are left without a result; {again} goes on with them"
