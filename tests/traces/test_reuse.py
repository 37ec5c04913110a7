from __future__ import annotations

from cbatch.traces.reuse import PrefixReuse
from cbatch.traces.trace import TraceRequest


def reuse(*requests: tuple[int, tuple[int, ...]], block: int = 4) -> list[int]:
    """Of (prompt tokens, prefix ids) each."""
    cache = PrefixReuse()
    return [cache.add(TraceRequest(0, prompt_tokens=n, prefix_ids=ids, prefix_block=block)) for n, ids in requests]


def test_a_leading_chain_is_reused() -> None:
    assert reuse((12, (1, 2)), (12, (1, 2, 3)), (12, (1, 2, 3)), (12, (1, 9, 3))) == [0, 8, 12, 4]


def test_only_a_leading_chain() -> None:
    assert reuse((8, (1, 2)), (8, (2, 1)), (4, (2,))) == [0, 0, 4]


def test_a_block_that_was_cut_short_is_reused_as_far_as_it_was_there() -> None:
    assert reuse((5, (1, 2)), (12, (1, 2, 3)), (7, (1, 2))) == [0, 5, 7]


def test_what_follows_a_part_of_a_block_is_not_reused() -> None:
    assert reuse((5, (1, 2, 3)), (12, (1, 2, 3)), (12, (1, 2, 3))) == [0, 5, 12]


def test_blocks_of_another_size_are_other_blocks() -> None:
    cache = PrefixReuse()
    cache.add(TraceRequest(0, prompt_tokens=8, prefix_ids=(1,), prefix_block=8))
    assert cache.add(TraceRequest(0, prompt_tokens=8, prefix_ids=(1,), prefix_block=4)) == 0


def test_texts_tell_nothing() -> None:
    cache = PrefixReuse()
    assert [cache.add(TraceRequest(0, prompt="x", prefix_ids=(1,), prefix_block=8)) for _ in range(2)] == [0, 0]
    assert cache.add(TraceRequest(0, prompt_tokens=3)) == 0
