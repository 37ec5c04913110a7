"""Small made-up runs for the report's tests."""

from __future__ import annotations

import numpy as np

from cbatch.metrics.percentiles import Distribution
from cbatch.report.attainment import Attainment
from cbatch.report.progress import Figures
from cbatch.report.rates import Rate
from cbatch.report.replay_progress import ReplayFigures
from cbatch.sampling import SamplingParams
from cbatch.types import (
    EngineView,
    FinishReason,
    Request,
    RequestOutput,
    RowFault,
    RowRef,
    SlotView,
    StepRecord,
)

SECOND = 1_000_000_000


class SettableClock:
    """Time as a test says."""

    def __init__(self, ns: int = 0) -> None:
        self.ns = ns

    def now_ns(self) -> int:
        return self.ns


def make_ref(number: int) -> RowRef:
    return RowRef(number, f"row-{number}", f"prompts.jsonl:{number}", 0)


def make_request(number: int, prompt: int = 10, max_tokens: int = 20, samples: int = 1) -> Request:
    sampling = SamplingParams(max_tokens=max_tokens, n=samples)
    return Request(f"row-{number}", np.zeros(prompt, np.int32), sampling, fork_seeds=tuple(range(1, samples)))


def make_job(number: int, prompt: int = 10, max_tokens: int = 20) -> tuple[RowRef, Request]:
    return make_ref(number), make_request(number, prompt, max_tokens)


def make_fault(number: int, message: str = "not JSON") -> RowFault:
    return RowFault(make_ref(number), "invalid_json", message)


def make_output(
    request: Request,
    tokens: int = 20,
    *,
    first_ns: int | None = SECOND,
    end_ns: int = 2 * SECOND,
    reason: FinishReason = FinishReason.STOP,
    error: str | None = None,
    text: str = "an answer",
) -> RequestOutput:
    token_ns = np.linspace(first_ns or 0, end_ns, tokens).astype(np.int64)
    return RequestOutput(request, np.zeros(tokens, np.int32), text, reason, error, 0, 0, 0, first_ns, token_ns, end_ns)


def make_step(
    start_ns: int,
    end_ns: int,
    *,
    prefill: int = 0,
    output: int = 0,
    decodes: int | None = None,
    prefill_ns: int = 0,
    decode_ns: int = 0,
    mixed_ns: int = 0,
    finished: int = 0,
    busy: int = 1,
    restored: int = 0,
) -> StepRecord:
    return StepRecord(
        step=0,
        start_ns=start_ns,
        end_ns=end_ns,
        schedule_ns=0,
        decode_call_ns=decode_ns,
        prefill_call_ns=prefill_ns,
        mixed_call_ns=mixed_ns,
        sample_ns=0,
        calls=1,
        admitted=0,
        finished=finished,
        failed=0,
        decode_seqs=output if decodes is None else decodes,
        padding_seqs=0,
        prefill_seqs=1 if prefill else 0,
        prefill_tokens=prefill,
        output_tokens=output,
        slots_busy=busy,
        slots_total=32,
        waiting=0,
        kv_used_cells=0,
        kv_reserved_cells=0,
        kv_total_cells=1,
        restored_tokens=restored,
    )


def make_view(slots: int = 32, busy: int | None = None, waiting: int = 47) -> EngineView:
    """Every fifth busy slot is in prefill; slots are filled to different heights."""
    views = tuple(
        SlotView(slot, f"row-{slot}", "prefill" if slot % 5 == 0 else "decode", slot % 17, 16)
        for slot in range(slots if busy is None else busy)
    )
    return EngineView(views, slots, waiting, 10_000, 20_000, 65_536)


def make_figures(
    slots: int | None = 32,
    *,
    answers: tuple[tuple[str, str], ...] = (),
    errors: tuple[tuple[str, str], ...] = (),
    total: int | None = 200_000,
    stopping: bool = False,
) -> Figures:
    history = tuple(float(second % 40) for second in range(120))
    latencies = Distribution.of(np.arange(1, 1000) * 40e6)
    return Figures(
        elapsed_s=4000.0,
        rows_ok=123_456,
        rows_failed=len(errors),
        rows_total=total,
        prefill=Rate(13_200.0, 12_800.0, history),
        output=Rate(4123.0, 3987.0, history),
        ttft=latencies,
        tpot=latencies,
        eta_s=8000.0,
        stopping=stopping,
        errors=errors,
        answers=answers,
        engine=None if slots is None else make_view(slots),
    )


def make_replay_figures(
    slots: int | None = 32,
    *,
    errors: tuple[tuple[str, str], ...] = (),
    total: int | None = 200_000,
    span_s: float | None = 9000.0,
    objectives: int = 3,
    late: bool = False,
) -> ReplayFigures:
    history = tuple(float(second % 40) for second in range(120))
    slip_ns = np.arange(1, 1000) * (50e3 if late else 1e3)
    names = ("all", "ttft 500 ms", "tpot 50 ms", "e2e 10000 ms")
    return ReplayFigures(
        run=make_figures(slots, errors=errors, total=None),
        span_s=span_s,
        total=total,
        arrived=124_538,
        running=32,
        waiting=1079,
        waiting_peak=2345,
        arrivals=Rate(31.0, 30.9, history),
        completions=Rate(29.5, 30.7, tuple(value / 2 for value in history)),
        queue=history,
        slip=Distribution.of(slip_ns),
        slo=tuple(Attainment(name, 123_459, 0.914, 0.88) for name in names[:objectives]),
    )
