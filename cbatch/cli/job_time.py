"""How long a job may take, from a few seconds of the real engine on some of its rows. Knows no engine and no files.

    time = prompt tokens * a  +  decode steps * b  +  output tokens * c  +  KV cells that decodes look at * d

All four are wall time. a is of the prompt tokens that were computed; prefixes that rows share are restored, to the
degree that they were in the trial. b, c and d are fitted to the decodes of all steps seen. By what these are typically
off, the whole is taken to be off at most.

How many tokens outputs get nobody knows before, so they are bounded (`cbatch.cli.output_lengths`). Steps are counted by
filling slots with these lengths in order, each as soon as one is free.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from cbatch.cli.output_lengths import output_lengths
from cbatch.metrics.preview import Estimate, Range
from cbatch.metrics.request import is_completed
from cbatch.report.eta import split_ns
from cbatch.sim.nnls import nnls
from cbatch.types import EngineView, Request, RequestOutput, RowFault, RowRef, StepRecord, Tokens

_GOLDEN = (5**0.5 - 1) / 2


def spread(count: int) -> list[int]:
    """0 to count - 1 in an order of which every beginning is spread evenly: multiples of the golden ratio, modulo 1."""
    return sorted(range(count), key=lambda i: i * _GOLDEN % 1)


@dataclass(frozen=True, slots=True)
class Speed:
    """What tokens take, ns of wall time."""

    prompt_ns: float
    """A prompt token that is computed."""
    step_ns: float
    """A decode step, whatever is in it."""
    seq_ns: float
    """Each sequence in it."""
    cell_ns: float
    """Each KV cell that they hold."""
    scatter: float = 0.0
    """By what share decode steps are typically off: the median."""

    def decode_step_ns(self, seqs: float, cells: float) -> float:
        return self.step_ns + seqs * self.seq_ns + cells * self.cell_ns

    def seconds(self, work: Work, slots: int, scale: float = 1.0) -> float:
        """For `scale` times the work: its bulk grows, and the end, when slots run empty, comes once."""
        steps = scale * work.output_tokens / slots + work.tail_steps
        decodes = steps * self.step_ns + scale * (work.decodes * self.seq_ns + work.cells * self.cell_ns)
        return (scale * work.prompt_tokens * self.prompt_ns + decodes) / 1e9


@dataclass(frozen=True, slots=True)
class Work:
    """What rows take, in tokens and steps."""

    prompt_tokens: float
    """Without those that are restored."""
    output_tokens: int
    decodes: int
    """Output tokens but the first ones, which come with the prompts."""
    cells: int
    """KV cells that decodes look at, all of them together."""
    tail_steps: float
    """Steps beyond output tokens / slots, because slots run empty in the end."""


class Trial:
    """An `Observer` that keeps all of a few seconds: first parts of rows, to see costs, then rows as they are."""

    def __init__(self) -> None:
        self.steps: list[StepRecord] = []
        self.outputs: list[RequestOutput] = []
        """Of rows as they are, those that ran; what was broken off is cancelled."""
        self._num_parts = 0

    def begin_rows(self) -> None:
        """What comes from now on are rows as they are."""
        self._num_parts = len(self.steps)
        self.outputs.clear()

    def step(self, record: StepRecord, view: Callable[[], EngineView]) -> None:  # noqa: ARG002 (Observer)
        self.steps.append(record)

    def finished(self, ref: RowRef, output: RequestOutput) -> None:  # noqa: ARG002 (Observer)
        if output.admitted_ns is not None:
            self.outputs.append(output)

    def fault(self, fault: RowFault) -> None:
        """Nothing is learnt of it."""

    @property
    def seconds(self) -> float:
        """From the first step to the last."""
        return (self.steps[-1].end_ns - self.steps[0].start_ns) / 1e9 if self.steps else 0.0

    @property
    def num_finished(self) -> int:
        return sum(map(is_completed, self.outputs))

    @property
    def most_decodes(self) -> int:
        """Most sequences that decoded in one step."""
        return max((record.decode_seqs for record in self.steps), default=0)

    def prompt_ns(self) -> float | None:
        """Wall time of a prompt token that was computed; None where none was."""
        tokens = sum(record.prefill_tokens for record in self.steps)
        return sum(split_ns(record)[0] for record in self.steps) / tokens if tokens else None

    @property
    def restored(self) -> float:
        """The share of prompt tokens that were restored, of those that could have been."""
        rows = self.steps[self._num_parts :]
        ideal = sum(record.ideal_tokens for record in rows)
        return sum(record.restored_tokens for record in rows) / ideal if ideal else 0.0

    def speed(self) -> Speed | None:
        """None where nothing was computed. Without a decode step, output tokens seem to cost nothing."""
        prompt_ns = self.prompt_ns()
        if prompt_ns is None:
            return None
        steps = [record for record in self.steps if record.decode_seqs]
        if not steps:
            return Speed(prompt_ns, 0.0, 0.0, 0.0)
        seqs = [record.decode_seqs for record in steps]
        # where all had as many, they are said to be all of the cost: on the safe side where more are to come
        constant = [float(len(set(seqs)) > 1)] * len(steps)
        columns = np.array([constant, seqs, [record.kv_used_cells for record in steps]], float).T
        costs = np.array([split_ns(record)[1] for record in steps])
        step_ns, seq_ns, cell_ns = found = nnls(columns / costs[:, None], np.ones(len(costs))).tolist()
        return Speed(prompt_ns, step_ns, seq_ns, cell_ns, float(np.median(np.abs(1 - columns @ found / costs))))


def shared_tokens(prompts: Iterable[Tokens]) -> int:
    """Tokens at the beginnings of prompts which other prompts begin with too: all that can be restored at best."""
    ordered = sorted(prompts, key=lambda prompt: prompt.tobytes())
    return sum(_common(*pair) for pair in pairwise(ordered))


def _common(one: Tokens, other: Tokens) -> int:
    """The last token is computed in any case."""
    length = min(one.size, other.size)
    differing = np.flatnonzero(one[:length] != other[:length])
    return int(differing[0]) if differing.size else max(0, length - 1)


def work_of(requests: Sequence[Request], lengths: Sequence[int], slots: int, restored: float = 0.0) -> Work:
    """`lengths` of all sequences of the requests, in order; `restored` as of `Trial`."""
    ends = [0] * slots
    for length in lengths:  # list scheduling (Graham 1966); a slot is taken for a step a token
        heapq.heapreplace(ends, ends[0] + length)
    tokens = sum(lengths)
    prompts: float = sum(int(request.prompt.size) for request in requests)
    if restored > 0:
        prompts -= restored * shared_tokens(request.prompt for request in requests)
    sizes = (int(request.prompt.size) for request in requests for _ in range(request.num_samples))
    cells = sum((length - 1) * (size + length / 2) for size, length in zip(sizes, lengths, strict=True))
    return Work(prompts, tokens, tokens - len(lengths), round(cells), max(ends) - tokens / slots)


def estimate(
    trial: Trial, requests: Sequence[Request], *, slots: int, rows_read: int, rows_total: int | None, load_s: float
) -> Estimate | None:
    """For the requests of `rows_read` rows, and for all `rows_total`, if they are like these.

    `slots` is how many run at once. None where there is nothing to run, or the trial computed too little to tell.
    """
    speed = trial.speed()
    if speed is None or not requests:
        return None
    bounds = [list(output_lengths(requests, trial.outputs, high=high)) for high in (False, True)]
    works = [work_of(requests, lengths, slots, trial.restored) for lengths in bounds]
    if trial.most_decodes == 0 and works[1].decodes > 0:
        return None

    def times(scale: float) -> Range:
        low, high = (speed.seconds(work, slots, scale) for work in works)
        return low * (1 - min(1.0, speed.scatter)), high * (1 + speed.scatter)

    mean_cells = slots * works[1].cells / max(1, works[1].decodes)
    step_ns = speed.decode_step_ns(slots, mean_cells)
    return Estimate(
        measured_s=trial.seconds,
        load_s=load_s,
        rows_begun=len(trial.outputs),
        rows_finished=trial.num_finished,
        at_once=max(1, trial.most_decodes),
        prefill_tokens_per_s=1e9 / speed.prompt_ns,
        decode_step_ns=step_ns if trial.most_decodes else None,
        decode_tokens_per_s=slots * 1e9 / step_ns if trial.most_decodes else None,
        output_tokens=(works[0].output_tokens / len(requests), works[1].output_tokens / len(requests)),
        window_s=times(1.0),
        rows_total=rows_total,
        total_s=None if rows_total is None else times(rows_total / rows_read),
    )
