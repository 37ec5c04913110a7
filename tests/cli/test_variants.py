"""What the variants of a comparison spell."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from cbatch.cli.compare_options import CompareOptions
from cbatch.cli.defaults import replay_options
from cbatch.cli.variants import LADDER, POLICIES, check_names, parse_variant, policies
from cbatch.errors import UsageError


def test_policies_by_name() -> None:
    static, chunked = policies(["static", "continuous+chunked"])
    assert static.changes == {"batching": "static"}
    assert chunked.changes == {"batching": "continuous", "max_num_batched_tokens": 256}
    assert set(LADDER) <= set(POLICIES)


def test_a_variant_changes_options() -> None:
    few = parse_variant("few:max_num_seqs=8,kv=unified, --prefill-chunk=64")
    assert (few.name, few.changes) == ("few", {"max_num_seqs": 8, "kv": "unified", "prefill_chunk": 64})
    assert parse_variant("static:static_wait=50").changes == {"batching": "static", "static_wait": 50.0}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("few", "NAME:KEY=VALUE"),
        (":kv=split", "NAME:KEY=VALUE"),
        ("../a:kv=split", "NAME:KEY=VALUE"),
        ("a:model=x", "there is no 'model' to vary"),
        ("a:kv", "kv is ''"),
        ("a:max_num_seqs=x", "max_num_seqs is 'x'; give a whole number"),
    ],
)
def test_mistakes_name_the_fix(text: str, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        parse_variant(text)


def test_names_are_distinct_and_several() -> None:
    with pytest.raises(UsageError, match="only one variant"):
        check_names(policies(["static"]))
    with pytest.raises(UsageError, match="two variants are called static"):
        check_names(policies(["static", "static"]))
    with pytest.raises(UsageError, match="--policies has 'dynamic'"):
        policies(["dynamic"])


def test_prompts_stay_whole_unless_a_variant_or_the_user_says_how_to_cut_them() -> None:
    assert CompareOptions.whole_prompts
    given = replace(replay_options({"inputs": ["t"], "output": Path("o")}), whole_prompts=True)
    texts = ("few:max_num_seqs=4", "short:prefill_chunk=64", "small:max_num_batched_tokens=300")
    variants = [*policies(list(POLICIES)), *map(parse_variant, texts)]
    whole = {each.name for each in variants if each.of(given).scheduler_config().whole_prompts}
    assert whole == {"sequential", "static", "padded", "continuous", "continuous+prefixes", "few"}
    chunked = replace(given, prefill_chunk=64)
    assert not any(each.of(chunked).scheduler_config().whole_prompts for each in variants)


@pytest.mark.parametrize("left_out", [True, False])
def test_only_what_says_so_shares_prefixes(left_out: bool) -> None:
    given = replay_options({"inputs": ["t"], "prefix_cache": "0", "no_prefix_cache": left_out})
    variants = [*policies(list(POLICIES)), parse_variant("own:prefix_cache=1GiB"), parse_variant("none:prefix_cache=0")]
    sizes = {each.name: each.of(given).scheduler_config().prefix_cache_bytes for each in variants}
    assert {name for name, size in sizes.items() if size} == {"continuous+prefixes", "own"}
    assert sizes["own"] == 1 << 30


def test_a_step_has_room_for_a_whole_prompt_beside_all_decodes() -> None:
    given = replay_options({"inputs": ["t"], "output": Path("o")})
    assert given.with_room_for(5000) is given
    whole = replace(given, whole_prompts=True, max_num_seqs=7)
    assert whole.with_room_for(5000).max_num_batched_tokens == 5120 + 7
    assert whole.with_room_for(100).max_num_batched_tokens == given.max_num_batched_tokens
