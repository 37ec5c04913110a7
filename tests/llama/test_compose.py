"""Batch composition against llama.cpp's own rule for cutting a batch into ubatches."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from cbatch.engine.runner import StepPlan, Work
from cbatch.engine.sequence import Sequence
from cbatch.llama.compose import Call, compose
from tests.engine.factories import request


def work(slot: int, length: int, start: int = 0) -> Work:
    seq = Sequence(request(str(slot), prompt=start + length), 0)
    seq.slot = slot
    return Work(seq, start, length)


def plan(decodes: list[int], prefills: dict[int, int]) -> StepPlan:
    return StepPlan(
        0,
        (),
        tuple(work(slot, 1, start=9) for slot in decodes),
        tuple(work(slot, length) for slot, length in prefills.items()),
    )


def slots(calls: list[Call]) -> list[tuple[str, list[int]]]:
    return [(call.kind, [w.seq.slot for w in call.works if w.seq.slot is not None]) for call in calls]


def test_split_decodes_are_one_call_over_sorted_slots() -> None:
    assert slots(compose(plan([3, 0, 2], {}), kv_mode="split", ubatch=512)) == [("decode", [0, 2, 3])]


def test_split_prompts_share_a_call_while_they_fit_a_ubatch_and_their_slots_are_neighbours() -> None:
    calls = compose(plan([0], {4: 200, 1: 200, 2: 200, 3: 200, 9: 100, 7: 600}), kv_mode="split", ubatch=512)
    assert slots(calls) == [
        ("decode", [0]),
        ("prefill", [1, 2]),
        ("prefill", [3, 4]),
        ("prefill", [7]),
        ("prefill", [9]),
    ]


def test_split_puts_a_last_single_prompt_token_with_the_decodes() -> None:
    assert slots(compose(plan([1], {0: 1, 2: 5}), kv_mode="split", ubatch=512)) == [
        ("decode", [0, 1]),
        ("prefill", [2]),
    ]
    assert slots(compose(plan([], {0: 1}), kv_mode="split", ubatch=512)) == [("prefill", [0])]


def test_unified_is_one_call() -> None:
    assert slots(compose(plan([1, 0], {2: 700}), kv_mode="unified", ubatch=512)) == [("mixed", [1, 0, 2])]
    assert slots(compose(plan([1], {}), kv_mode="unified", ubatch=512)) == [("decode", [1])]
    assert slots(compose(plan([], {1: 3}), kv_mode="unified", ubatch=512)) == [("prefill", [1])]
    assert compose(plan([], {}), kv_mode="unified", ubatch=512) == []


@given(
    st.lists(st.integers(0, 40), unique=True, max_size=20),
    st.dictionaries(st.integers(41, 80), st.integers(1, 700), max_size=20),
    st.sampled_from(["split", "unified"]),
    st.sampled_from([16, 512]),
)
def test_every_work_is_in_exactly_one_call(
    decodes: list[int], prefills: dict[int, int], kv_mode: str, ubatch: int
) -> None:
    step = plan(decodes, prefills)
    calls = compose(step, kv_mode=kv_mode, ubatch=ubatch)
    planned = [w.seq.slot for w in (*step.decodes, *step.prefills)]
    assert sorted(s for _, found in slots(calls) for s in found) == sorted(s for s in planned if s is not None)
    for call in calls:
        assert call.works
        if kv_mode == "split" and call.kind == "prefill":
            assert call.num_tokens <= max(ubatch, call.works[0].length)
