"""Calls cut into ubatches, against llama.cpp's own rules taken token by token."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from cbatch.config import padded
from cbatch.sim.ubatches import TILE, Span, Ubatch, cut_pool, cut_streams

spans = st.dictionaries(
    st.integers(0, 12), st.tuples(st.integers(0, 300), st.integers(1, 200), st.integers(0, 1)), min_size=1, max_size=10
).map(lambda found: [Span(slot, *found[slot]) for slot in sorted(found)])


def split_equal(call: list[Span], most: int) -> list[list[tuple[int, int]]]:
    """(slot, position) of each ubatch, as llama_batch_allocr::split_equal takes tokens."""
    left = {span.slot: list(range(span.start, span.start + span.length)) for span in call}
    found = []
    while left:
        slots = sorted(left)
        group = [slot for i, slot in enumerate(slots) if slot == slots[0] + i][:most]
        ubatch: list[tuple[int, int]] = []
        while all(left[slot] for slot in group) and len(ubatch) + len(group) <= most:
            ubatch += [(slot, left[slot].pop(0)) for slot in group]
        left = {slot: positions for slot, positions in left.items() if positions}
        found.append(ubatch)
    return found


def described(ubatch: list[tuple[int, int]], outputs: int) -> Ubatch:
    pairs = sum(position + 1 for _, position in ubatch)
    each = len(ubatch) // len({slot for slot, _ in ubatch})
    cells = padded(max(position for _, position in ubatch) + 1)
    single, thick = each == 1, each >= TILE
    thin = not single and not thick
    return Ubatch(len(ubatch), outputs, single * pairs, thin * pairs, thick * pairs, len(ubatch) * cells)


@given(spans, st.sampled_from([16, 64, 512]))
def test_streams_are_cut_as_llama_cpp_cuts_them(call: list[Span], most: int) -> None:
    ends = {(span.slot, span.start + span.length - 1): span.outputs for span in call}
    wanted = [described(ubatch, sum(ends.get(each, 0) for each in ubatch)) for ubatch in split_equal(call, most)]
    assert cut_streams(call, most) == wanted


@given(spans, st.sampled_from([16, 64, 512]), st.integers(0, 5000))
def test_a_pool_is_cut_in_order_whosever_the_tokens_are(call: list[Span], most: int, used: int) -> None:
    found = cut_pool(call, most, used)
    tokens = sum(span.length for span in call)
    assert [ubatch.tokens for ubatch in found] == [min(most, tokens - i) for i in range(0, tokens, most)]
    assert sum(ubatch.outputs for ubatch in found) == sum(span.outputs for span in call)
    pairs = sum(position + 1 for s in call for position in range(s.start, s.start + s.length))
    assert sum(ubatch.single + ubatch.thin + ubatch.thick for ubatch in found) == pairs
    assert all(ubatch.scanned == ubatch.tokens * padded(max(1, used)) for ubatch in found)


def test_gaps_between_slots_cost_a_ubatch_each() -> None:
    decodes = [Span(slot, 9, 1, 1) for slot in (0, 1, 3, 7, 8)]
    assert [ubatch.tokens for ubatch in cut_streams(decodes, 512)] == [2, 1, 2]
    assert cut_streams(decodes, 512)[0] == Ubatch(2, 2, 20, 0, 0, 512)


def test_unequal_prompts_are_cut_where_the_shorter_ends() -> None:
    found = cut_streams([Span(0, 0, 100, 1), Span(1, 0, 60, 1)], 512)
    assert [(ubatch.tokens, ubatch.outputs) for ubatch in found] == [(120, 1), (40, 1)]
