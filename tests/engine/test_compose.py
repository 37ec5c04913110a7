"""Batch composition against llama.cpp's own rule for cutting a batch into ubatches."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from cbatch.engine.compose import Call, num_outputs
from cbatch.engine.compose import compose as compose_calls
from cbatch.engine.runner import StepPlan, Work
from cbatch.engine.sequence import Sequence
from tests.engine.factories import request

SCORED: dict[str, Any] = {"echo": True, "logprobs": 0}


def work(slot: int, length: int, start: int = 0, **sampling: Any) -> Work:
    seq = Sequence(request(str(slot), prompt=start + length, **sampling), 0)
    seq.slot = slot
    return Work(seq, start, length)


def plan(decodes: list[int], prefills: dict[int, int], scored: Collection[int] = ()) -> StepPlan:
    return StepPlan(
        0,
        (),
        tuple(work(slot, 1, start=9) for slot in decodes),
        tuple(work(slot, n, **SCORED if slot in scored else {}) for slot, n in prefills.items()),
    )


def compose(step: StepPlan, *, streams: bool, ubatch: int = 512, max_outputs: int = 1000) -> list[Call]:
    return compose_calls(step, streams=streams, ubatch=ubatch, max_outputs=max_outputs)


def slots(calls: list[Call]) -> list[tuple[str, list[int]]]:
    return [(call.kind, [w.seq.slot for w in call.works if w.seq.slot is not None]) for call in calls]


def test_split_decodes_are_one_call_over_sorted_slots() -> None:
    assert slots(compose(plan([3, 0, 2], {}), streams=True, ubatch=512)) == [("decode", [0, 2, 3])]


def test_split_prompts_share_a_call_while_they_fit_a_ubatch_and_their_slots_are_neighbours() -> None:
    calls = compose(plan([0], {4: 200, 1: 200, 2: 200, 3: 200, 9: 100, 7: 600}), streams=True, ubatch=512)
    assert slots(calls) == [
        ("decode", [0]),
        ("prefill", [1, 2]),
        ("prefill", [3, 4]),
        ("prefill", [7]),
        ("prefill", [9]),
    ]


def test_split_puts_a_last_single_prompt_token_with_the_decodes() -> None:
    assert slots(compose(plan([1], {0: 1, 2: 5}), streams=True, ubatch=512)) == [
        ("decode", [0, 1]),
        ("prefill", [2]),
    ]
    assert slots(compose(plan([], {0: 1}), streams=True, ubatch=512)) == [("prefill", [0])]


def test_unified_is_one_call() -> None:
    assert slots(compose(plan([1, 0], {2: 700}), streams=False, ubatch=512)) == [("mixed", [0, 1, 2])]
    assert slots(compose(plan([1], {}), streams=False, ubatch=512)) == [("decode", [1])]
    assert slots(compose(plan([], {1: 3}), streams=False, ubatch=512)) == [("prefill", [1])]
    assert compose(plan([], {}), streams=False, ubatch=512) == []


@given(
    st.lists(st.integers(0, 40), unique=True, max_size=20),
    st.dictionaries(st.integers(41, 80), st.integers(1, 700), max_size=20),
    st.booleans(),
    st.sampled_from([16, 512]),
)
def test_every_work_is_in_exactly_one_call(
    decodes: list[int], prefills: dict[int, int], streams: bool, ubatch: int
) -> None:
    step = plan(decodes, prefills)
    calls = compose(step, streams=streams, ubatch=ubatch)
    planned = [w.seq.slot for w in (*step.decodes, *step.prefills)]
    assert sorted(s for _, found in slots(calls) for s in found) == sorted(s for s in planned if s is not None)
    for call in calls:
        assert call.works
        if streams and call.kind == "prefill":
            assert call.num_tokens <= max(ubatch, call.works[0].length)


def spans(calls: list[Call]) -> list[list[tuple[int | None, int, int]]]:
    return [[(w.seq.slot, w.start, w.length) for w in call.works] for call in calls]


def test_split_cuts_scored_prompts_into_calls_of_as_many_rows_as_there_may_be() -> None:
    step = plan([3], {0: 20, 1: 5, 2: 40, 4: 1}, scored=(0, 1, 4))
    calls = compose(step, streams=True, max_outputs=8)
    assert spans(calls) == [
        [(3, 9, 1), (4, 0, 1)],
        [(0, 0, 8)],
        [(0, 8, 8)],
        [(0, 16, 4)],
        [(1, 0, 5), (2, 0, 40)],
    ]
    assert [call.kind for call in calls] == ["decode", *["prefill"] * 4]


def test_unified_makes_further_calls_for_scored_prompts() -> None:
    step = plan([3], {0: 20, 1: 3, 2: 40}, scored=(0, 1))
    calls = compose(step, streams=False, max_outputs=8)
    assert spans(calls) == [[(3, 9, 1), (2, 0, 40)], [(0, 0, 8)], [(0, 8, 8)], [(0, 16, 4), (1, 0, 3)]]
    assert [call.kind for call in calls] == ["mixed", *["prefill"] * 3]


def test_echo_without_logprobs_cuts_nothing() -> None:
    step = StepPlan(0, (), (), (work(0, 300, echo=True),))
    assert spans(compose(step, streams=True, max_outputs=1)) == [[(0, 0, 300)]]


@given(
    st.dictionaries(st.integers(0, 15), st.integers(1, 100), max_size=16),
    st.sets(st.integers(0, 15)),
    st.booleans(),
)
def test_calls_never_give_more_rows_than_they_may(prompts: dict[int, int], scored: set[int], streams: bool) -> None:
    step = plan(list(range(16, 20)), prompts, scored)
    calls = compose(step, streams=streams, ubatch=64, max_outputs=20)
    assert all(sum(map(num_outputs, call.works)) <= 20 for call in calls)
    done: dict[int | None, int] = {}
    for slot, start, length in (span for call in spans(calls) for span in call):
        assert start == done.get(slot, start if slot in range(16, 20) else 0)
        done[slot] = start + length
    assert done == {**dict.fromkeys(range(16, 20), 10), **prompts}


def test_a_prompts_rows_come_before_its_last_token_and_none_from_its_output() -> None:
    seq = work(0, 10, **SCORED).seq
    assert [num_outputs(Work(seq, start, n)) for start, n in ((0, 4), (4, 5), (9, 1), (4, 6))] == [4, 5, 1, 6]
    seq.append(1, 0)
    seq.append(2, 0)  # computed again after it lost its slot
    assert [num_outputs(Work(seq, start, n)) for start, n in ((0, 12), (0, 10), (9, 2), (11, 1))] == [10, 9, 0, 1]
