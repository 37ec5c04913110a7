"""What a comparison says of this machine, in words: who led, how near the best, and why. Computes nothing new."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from statistics import median

from cbatch.metrics import Comparison, RunData
from cbatch.metrics.bound import StepCosts, merged, shortest_ns
from cbatch.metrics.compare import Row

_WORK = ("arrival_ns", "unshared_tokens", "output_tokens")
_LEADS = {"output_throughput": "throughput", "goodput": "goodput", "ttft_mean": "mean TTFT", "e2e_mean": "mean e2e"}

Runs = Mapping[str, Sequence[RunData]]


def machine_notes(comparison: Comparison, runs: Runs) -> Iterator[str]:
    """Sentences for the summary and the report."""
    costs = merged(run.costs for several in runs.values() for run in several)
    yield from _leaders(comparison)
    yield from _bounds(runs, costs)
    yield from _batch_worth(costs)


def shared_notes(notes: Mapping[str, Sequence[str]]) -> Iterator[str]:
    """Each once, after the names that it is of, or alone where it is of all."""
    for note in dict.fromkeys(note for told in notes.values() for note in told):
        names = [name for name, told in notes.items() if note in told]
        yield note if len(names) == len(notes) else f"{', '.join(names)}: {note}"


def _leaders(comparison: Comparison) -> Iterator[str]:
    """Whoever has the best median; not whether that's more than chance, which the intervals say."""
    best = []
    for key, title in _LEADS.items():
        rows = [row for row in comparison.rows if row.key == key and row.median is not None]
        if len(rows) == len(comparison.variants) and len({row.median for row in rows}) > 1:
            best.append(f"{title} {_leader(rows)}")
    if best:
        yield f"best median on this machine at this load: {', '.join(best)}"


def _leader(rows: Sequence[Row]) -> str:
    return sorted(rows, key=lambda row: row.median or 0.0, reverse=rows[0].metric.better == "higher")[0].variant


def _bounds(runs: Runs, costs: StepCosts) -> Iterator[str]:
    reached = []
    for name, several in runs.items():
        first = several[0]
        arrival_ns, unshared, output_tokens = (first.columns[name][first.completed] for name in _WORK)
        shortest = shortest_ns(arrival_ns, unshared, output_tokens, costs)
        span = median(run.summary.run.duration_ns for run in several)
        if shortest is not None and span > 0:
            reached.append(f"{name} {shortest / span:.0%}")
    if reached:
        shared = any(_shares(run) for several in runs.values() for run in several)
        given = ", with what prompts share computed once" if shared else ""
        yield f"of the best throughput that the costs of steps allow here{given}: {', '.join(reached)}"


def _shares(run: RunData) -> bool:
    unshared, prompts = (run.columns[name][run.completed] for name in ("unshared_tokens", "prompt_tokens"))
    return bool((unshared < prompts).any())


def _batch_worth(costs: StepCosts) -> Iterator[str]:
    steps = costs.decode_steps_ns
    if 1 in steps and (most := max(steps)) > 1:
        longer = steps[most] / steps[1]
        yield (
            f"a decode step of {most} sequences takes {longer:.1f} times one of 1 here, so it decodes "
            f"{most / longer:.1f} times as many tokens a second: that is what batching can be worth"
        )
