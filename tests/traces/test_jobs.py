"""From trace requests to jobs: lengths, prompts, names, what is carried."""

from __future__ import annotations

import numpy as np

from cbatch.sampling import SamplingParams
from cbatch.traces.jobs import OutputLengths, trace_jobs
from cbatch.traces.trace import TraceRequest
from cbatch.types import Job, Request, Row, RowFault, RowKind, RowRef, Tokens

MOST = 50
DEFAULTS = SamplingParams(max_tokens=99, stop=("\n",), stop_token_ids=(7,))


class Encoder:
    """A token a character; an empty prompt is a fault."""

    def encode(self, row: Row) -> Request | RowFault:
        if not row.content:
            return RowFault(row.ref, "empty_prompt", "no")
        return self.from_tokens(row.ref, np.arange(len(row.content), dtype=np.int32), row.sampling, row.priority)

    def from_tokens(self, ref: RowRef, prompt: Tokens, sampling: SamplingParams, priority: int) -> Request:
        return Request(ref.id, prompt, sampling, priority, ref.arrival_ns)


def jobs(*requests: TraceRequest, natural: bool = False) -> list[Job]:
    def synthesise(request: TraceRequest, number: int) -> Tokens:
        return np.full(request.prompt_tokens or 0, number, np.int32)

    lengths = OutputLengths(DEFAULTS, natural)
    made = trace_jobs(
        requests, "t.parquet", encoder=Encoder(), synthesise=synthesise, lengths=lengths, most_tokens=MOST
    )
    return list(made)


def test_a_length_becomes_a_prompt_of_its_own_and_forces_its_output() -> None:
    urgent = TraceRequest(9, prompt_tokens=2, output_tokens=1, priority=-1)
    one, other = jobs(TraceRequest(0, prompt_tokens=3, output_tokens=5), urgent)
    assert not isinstance(one, RowFault)
    assert not isinstance(other, RowFault)
    (_, first), (ref, second) = one, other
    assert (first.prompt.tolist(), second.prompt.tolist()) == ([1, 1, 1], [2, 2])
    assert (first.sampling.max_tokens, second.sampling.max_tokens) == (5, 1)
    assert first.sampling.ignore_eos
    assert (first.sampling.stop, first.sampling.stop_token_ids) == ((), ())
    assert (second.priority, second.arrival_ns) == (-1, 9)
    assert (ref.number, ref.id, ref.where, ref.kind) == (2, "2", "t.parquet:2", RowKind.COMPLETION)


def test_a_prompt_that_no_context_takes_is_not_made() -> None:
    longest, fault = jobs(TraceRequest(0, prompt_tokens=MOST), TraceRequest(4, prompt_tokens=2**31 - 1))
    assert not isinstance(longest, RowFault)
    assert isinstance(fault, RowFault)
    assert (fault.code, fault.ref.arrival_ns) == ("prompt_too_long", 4)
    assert fault.message.startswith("the prompt has 2147483647 tokens, and the context holds 50: give --scale-lengths")


def test_a_text_is_encoded_as_a_prompt_and_a_fault_is_handed_on() -> None:
    made, fault = jobs(TraceRequest(0, prompt="abcd"), TraceRequest(4, prompt=""))
    assert not isinstance(made, RowFault)
    assert made[1].prompt.size == 4
    assert made[0].kind is RowKind.PROMPT
    assert made[1].sampling == DEFAULTS
    assert isinstance(fault, RowFault)
    assert fault.ref.arrival_ns == 4


def test_natural_lengths_leave_the_end_to_the_model() -> None:
    (job,) = jobs(TraceRequest(0, prompt_tokens=3, output_tokens=5), natural=True)
    assert not isinstance(job, RowFault)
    assert job[1].sampling == DEFAULTS


def test_sessions_and_tenants_are_carried() -> None:
    plain, named = jobs(TraceRequest(0, prompt_tokens=1), TraceRequest(0, prompt_tokens=1, session_id="s", tenant="t"))
    assert not isinstance(plain, RowFault)
    assert not isinstance(named, RowFault)
    assert plain[0].carried == {}
    assert named[0].carried == {"session_id": "s", "tenant": "t"}


def test_cells_are_known_where_the_prompt_is_a_length() -> None:
    forced, natural = OutputLengths(DEFAULTS), OutputLengths(DEFAULTS, natural=True)
    request = TraceRequest(0, prompt_tokens=10, output_tokens=5)
    assert forced.cells(request) == 14
    assert natural.cells(request) == 10 + 99 - 1
    assert forced.cells(TraceRequest(0, prompt_tokens=10)) == 10 + 99 - 1
    assert forced.cells(TraceRequest(0, prompt="abc")) is None
