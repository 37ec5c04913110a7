"""Measured steps from the tables of a run: what each step computed is told by when requests got their tokens.

steps.parquet has the times of a step, and how much it computed; requests.parquet has every token's time, so together
they say which slots decoded at which positions. A step for which the two disagree (padding, preemption, a sequence that
changed its slot) is left out. Knows the tables, and no directory.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from cbatch.config import MAX_SEQS
from cbatch.engine.compose import compose
from cbatch.engine.runner import StepPlan, Work
from cbatch.engine.sequence import Sequence as Generation
from cbatch.errors import InputError
from cbatch.sim.measured import MeasuredCall, MeasuredStep
from cbatch.sim.seats import Run, find_seats
from cbatch.sim.ubatches import Span, Ubatch, cut_pool, cut_streams
from cbatch.types import Request

_STEPS = (
    "start_ns",
    "end_ns",
    "decode_call_ns",
    "prefill_call_ns",
    "mixed_call_ns",
    "sample_ns",
    "decode_seqs",
    "prefill_tokens",
    "output_tokens",
    "slots_busy",
    "slots_total",
    "finished",
    "kv_used_cells",
)
_LATER_STEPS = ("padding_seqs", "moved", "restored_tokens", "restore_ns", "save_ns")
"""Columns that earlier versions didn't write; 0 without them."""
_REQUESTS = ("row", "arrival_ns", "admitted_ns", "token_ns", "finished_ns", "prompt_tokens", "slot", "priority")
_LATER_REQUESTS = ("sample", "cached_tokens", "preemptions")
_TIMED = ("decode_call_ns", "prefill_call_ns", "mixed_call_ns", "sample_ns", "restore_ns", "save_ns")
_NO_LIMIT = 2**31
MOST_STEPS = 10_000
"""The last ones of a long run: more would tell nothing new."""

Column = npt.NDArray[np.int64]


def read_steps(
    steps: Path,
    requests: Path,
    *,
    streams: bool,
    ubatch: int,
    keeps_slots: bool = False,
    prefill_chunk: int | None = None,
) -> list[MeasuredStep]:
    """The steps that can be told, in order. Raises `InputError`.

    `streams`: KV was split. `keeps_slots`: batching was static, or padded. `prefill_chunk`: as of `SchedulerConfig`.
    """
    times = _columns(steps, _STEPS, _LATER_STEPS)
    table = _table(requests, _REQUESTS, _LATER_REQUESTS)
    count = times["end_ns"].size
    if count == 0:
        return []
    if count > MOST_STEPS:
        times = {name: column[-MOST_STEPS:] for name, column in times.items()}
        table = table.filter(pc.field("admitted_ns") >= int(times["start_ns"][0]))
    try:
        runs = [_run(row, times["end_ns"]) for row in sorted(filter(_ran, table.to_pylist()), key=_turn)]
    except (TypeError, ValueError) as error:
        raise InputError(f"{requests} holds what cbatch doesn't write ({error}): give another directory") from error
    moved = times["moved"].tolist()
    if any(moved) and count <= MOST_STEPS:  # else it isn't known where those were that ran before
        find_seats(runs, moved, int(times["slots_total"].max()), keep=keeps_slots)
    most = _NO_LIMIT if prefill_chunk is None else prefill_chunk
    return list(_measured(times, _by_step(runs, len(moved)), streams=streams, ubatch=ubatch, chunk=most))


def _table(path: Path, names: Sequence[str], later: Sequence[str]) -> pa.Table:
    try:
        with path.open("rb") as file:  # Arrow takes only names that are UTF-8
            known = pq.read_schema(file).names
            missing = [name for name in names if name not in known]
            if missing:
                raise InputError(
                    f"{path} has no column {', '.join(missing)}: give a directory that cbatch run or replay wrote"
                )
            columns = [*names, *(name for name in later if name in known)]
            # not pq.read_table: if its threads still let go of a Python file when Python ends, the process is aborted
            return pq.ParquetFile(file).read(columns=columns, use_threads=False)
    except (OSError, pa.ArrowException) as error:
        reason = getattr(error, "strerror", None) or error
        raise InputError(
            f"{path} can't be read ({reason}): give a directory that cbatch run or replay wrote"
        ) from error


def _columns(path: Path, names: Sequence[str], later: Sequence[str]) -> dict[str, Column]:
    table = _table(path, names, later)
    none = np.zeros(table.num_rows, np.int64)
    try:
        found = {name: table[name].to_numpy().astype(np.int64) for name in table.column_names}
    except (ValueError, TypeError, pa.ArrowException) as error:
        raise InputError(f"{path} holds no whole numbers where it should: {error}") from error
    return {name: found.get(name, none) for name in (*names, *later)}


def _turn(row: dict[str, Any]) -> tuple[int, ...]:
    """Order of admission."""
    return row["admitted_ns"], row["priority"], row["arrival_ns"], row["row"], row.get("sample", 0)


def _ran(row: dict[str, Any]) -> bool:
    """Whether it had a slot. What lost one is left out: steps that it was in won't add up, and are left out too."""
    return row["slot"] is not None and row["admitted_ns"] is not None and not row.get("preemptions")


def _run(row: dict[str, Any], ends: Column) -> Run:
    first = int(np.searchsorted(ends, row["admitted_ns"], side="right"))
    tokens = np.searchsorted(ends, np.array(row["token_ns"], np.int64)).clip(max=ends.size - 1).tolist()
    last = int(min(np.searchsorted(ends, row["finished_ns"]), ends.size - 1))
    return Run(row["slot"], row["prompt_tokens"], row.get("cached_tokens", 0), first, last, tokens)


def _by_step(runs: Sequence[Run], steps: int) -> list[list[tuple[Run, int]]]:
    """By step: each run that has to do with it, and how many tokens it had sampled before; -1 while its prompt isn't
    done after the step."""
    found: list[list[tuple[Run, int]]] = [[] for _ in range(steps)]
    for run in runs:
        for step in range(run.first_step, run.token_steps[0] if run.token_steps else run.last_step + 1):
            found[step].append((run, -1))
        for number, step in enumerate(run.token_steps):
            found[step].append((run, number))
    return found


def _measured(
    times: dict[str, Column], work: list[list[tuple[Run, int]]], *, streams: bool, ubatch: int, chunk: int
) -> Iterator[MeasuredStep]:
    done: dict[Run, int] = {}
    for i, present in enumerate(work):
        spans = _spans(i, {name: int(column[i]) for name, column in times.items()}, present, done, chunk)
        doubtful = spans is None or not all(run.certain for run, _ in present)
        if spans is None or doubtful:
            continue
        decodes, prompts = spans
        ending = [run.prompt for run, number in present if number == 0]
        used = int(times["kv_used_cells"][i])
        yield MeasuredStep(
            calls=tuple(_calls(times, i, decodes, prompts, streams=streams, ubatch=ubatch, used=used)),
            running=int(times["slots_busy"][i]),
            sampled=int(times["output_tokens"][i]),
            sample_ns=int(times["sample_ns"][i]),
            overhead_ns=_overhead_ns(times, i),
            restored_tokens=int(times["restored_tokens"][i]),
            restore_ns=int(times["restore_ns"][i]),
            saved_tokens=sum(ending) if times["save_ns"][i] else 0,
            save_ns=int(times["save_ns"][i]),
        )


def _spans(
    i: int, step: dict[str, int], present: list[tuple[Run, int]], done: dict[Run, int], chunk: int
) -> tuple[list[Span], list[Span]] | None:
    """Decodes and prompt chunks of step `i`; None where the tables disagree. `done`: prompt tokens computed."""
    decodes = [Span(run.slot_in(i), run.prompt + number - 1, 1, 1) for run, number in present if number > 0]
    ending = [(run, done.pop(run, run.cached)) for run, number in present if number == 0]
    prompts = [Span(run.slot_in(i), start, run.prompt - start, 1) for run, start in ending]
    left = step["prefill_tokens"] - sum(span.length for span in prompts)
    for run, number in present:
        if number == -1:
            start = done.get(run, run.cached)
            count = max(0, min(left, run.prompt - start - 1, chunk))
            left -= count
            done[run] = start + count
            prompts += [Span(run.slot_in(i), start, count, 0)] if count else []
    slots = [span.slot for span in (*decodes, *prompts)]
    right = left == 0 and len(decodes) == step["decode_seqs"] and not step["padding_seqs"]
    return (decodes, prompts) if right and len(set(slots)) == len(slots) and slots else None


def _calls(
    times: dict[str, Column], i: int, decodes: list[Span], prompts: list[Span], *, streams: bool, ubatch: int, used: int
) -> Iterator[MeasuredCall]:
    """The step's native calls, those of a kind together."""
    spans = {span.slot: span for span in (*decodes, *prompts)}
    plan = StepPlan(0, (), tuple(map(_work, decodes)), tuple(map(_work, prompts)))
    found: dict[str, list[Ubatch]] = defaultdict(list)
    for call in compose(plan, streams=streams, ubatch=ubatch, max_outputs=_NO_LIMIT):
        of_call = [spans[work.seq.slot] for work in call.works if work.seq.slot is not None]
        found[call.kind] += cut_streams(of_call, ubatch) if streams else cut_pool(of_call, ubatch, used)
    for kind, ubatches in found.items():
        yield MeasuredCall(tuple(ubatches), int(times[f"{kind}_call_ns"][i]))


def _work(span: Span) -> Work:
    return Work(_in_slot(span.slot), span.start, span.length)


@lru_cache(maxsize=MAX_SEQS)
def _in_slot(slot: int) -> Generation:
    """A sequence of which only the slot is looked at."""
    seq = Generation(Request(str(slot), np.zeros(1, np.int32)), 0)
    seq.slot = slot
    return seq


def _overhead_ns(times: dict[str, Column], i: int) -> int:
    """Until the next step where something was left to run: that one followed at once."""
    goes_on = i + 1 < times["end_ns"].size and times["slots_busy"][i] > times["finished"][i]
    end = times["start_ns"][i + 1] if goes_on else times["end_ns"][i]
    inside = sum(int(times[name][i]) for name in _TIMED)
    return max(0, int(end - times["start_ns"][i]) - inside)
