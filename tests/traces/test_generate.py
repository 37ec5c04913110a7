from __future__ import annotations

from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from cbatch.errors import UsageError
from cbatch.traces import generate as module
from cbatch.traces.arrivals import ArrivalProcess
from cbatch.traces.generate import GenerateConfig, generate
from cbatch.traces.lengths import Empirical, Exponential, Fixed, Uniform
from cbatch.traces.priorities import PriorityMix
from cbatch.traces.trace import TraceRequest
from cbatch.traces.writer import TraceWriter

CONFIG = GenerateConfig(
    arrival=ArrivalProcess("poisson", 5.0),
    prompt_tokens=Uniform(1, 100),
    output_tokens=Exponential(20),
    num_requests=2000,
    prefix_share=0.5,
    num_prefixes=3,
    prefix_block=8,
    priorities=PriorityMix(((-1, 1.0), (0, 1.0))),
)


def make(config: GenerateConfig) -> list[TraceRequest]:
    return list(generate(config, Counter()))


def save(config: GenerateConfig, path: Path) -> bytes:
    changes: Counter[str] = Counter()
    with TraceWriter(path, config.manifest(changes)) as out:
        for request in generate(config, changes):
            out.add(request)
    return path.read_bytes()


def column(config: GenerateConfig, name: str) -> list[Any]:
    return [getattr(request, name) for request in make(config)]


def test_a_seed_gives_its_bytes_and_0_is_a_seed(tmp_path: Path) -> None:
    first = save(CONFIG, tmp_path / "a.parquet")
    assert save(CONFIG, tmp_path / "b.parquet") == first
    assert save(replace(CONFIG, seed=1), tmp_path / "c.parquet") != first
    assert column(CONFIG, "arrival_ns") != column(replace(CONFIG, seed=1), "arrival_ns")


@pytest.mark.parametrize(
    ("change", "moved"),
    [
        ({"prompt_tokens": Exponential(50)}, {"prompt_tokens", "prefix_ids", "prefix_block"}),
        ({"output_tokens": Fixed(3)}, {"output_tokens"}),
        ({"arrival": ArrivalProcess("gamma", 2.0, 0.5)}, {"arrival_ns"}),
        ({"num_prefixes": 4}, {"prefix_ids"}),
        ({"priorities": PriorityMix(((-1, 1.0), (0, 2.0)))}, {"priority"}),
        ({"seed": 1}, {"arrival_ns", "prompt_tokens", "output_tokens", "prefix_ids", "prefix_block", "priority"}),
    ],
)
def test_a_change_moves_nothing_else(change: dict[str, Any], moved: set[str]) -> None:
    names = {"arrival_ns", "prompt_tokens", "output_tokens", "prefix_ids", "prefix_block", "priority"}
    changed = replace(CONFIG, **change)
    assert {name for name in names if column(CONFIG, name) != column(changed, name)} == moved


def test_chunks_do_not_show(monkeypatch: pytest.MonkeyPatch) -> None:
    whole = make(CONFIG)
    monkeypatch.setattr(module, "CHUNK", 3)
    assert make(CONFIG) == whole


def test_it_ends_by_number_or_time_whichever_is_first() -> None:
    constant = replace(CONFIG, arrival=ArrivalProcess("constant", 10.0))
    assert len(make(replace(constant, num_requests=None, duration_s=2.0))) == 20
    assert len(make(replace(constant, num_requests=5, duration_s=2.0))) == 5
    assert len(make(replace(constant, num_requests=50, duration_s=2.0))) == 20


def test_prefixes_are_whole_blocks_of_one_chain() -> None:
    for request in make(CONFIG):
        assert request.prompt_tokens is not None
        blocks = request.prompt_tokens // 2 // 8
        chain = {id_ % 3 for id_ in request.prefix_ids}
        assert len(request.prefix_ids) == len(set(request.prefix_ids)) == blocks
        assert request.prefix_block == (8 if blocks else None)
        assert len(chain) <= 1
        assert request.prefix_ids == tuple(p + 3 * k for p in chain for k in range(blocks))
    assert {request.prefix_ids[0] for request in make(CONFIG) if request.prefix_ids} == {0, 1, 2}


def test_a_share_is_not_lost_to_float_rounding() -> None:
    config = replace(CONFIG, prompt_tokens=Fixed(100), prefix_share=0.57, prefix_block=1, num_requests=1)
    assert len(make(config)[0].prefix_ids) == 57


def test_no_share_no_prefix() -> None:
    request = make(replace(CONFIG, prefix_share=0.0, num_requests=1))[0]
    assert (request.prefix_ids, request.prefix_block) == ((), None)


def test_lengths_raised_to_1_are_counted() -> None:
    changes: Counter[str] = Counter()
    config = replace(CONFIG, output_tokens=Exponential(0.5))
    outputs = [request.output_tokens for request in generate(config, changes)]
    assert min(o for o in outputs if o is not None) == 1
    # P(x < 0.5) for a mean of 0.5
    assert changes["output_tokens_raised_to_1"] / 2000 == pytest.approx(1 - np.exp(-1), abs=0.03)
    assert changes.keys() == {"output_tokens_raised_to_1"}


def test_lengths_of_one_trace_stay_in_pairs() -> None:
    lengths = np.arange(1, 500)
    paired = replace(CONFIG, prompt_tokens=Empirical(Path("a"), lengths), output_tokens=Empirical(Path("a"), lengths))
    assert all(request.prompt_tokens == request.output_tokens for request in make(paired))
    apart = replace(paired, output_tokens=Empirical(Path("b"), lengths))
    assert abs(np.corrcoef(column(apart, "prompt_tokens"), column(apart, "output_tokens"))[0, 1]) < 0.1


def test_the_manifest_tells_how() -> None:
    changes = Counter({"x": 1})
    manifest = CONFIG.manifest(changes)
    assert manifest.request_rate == 5.0
    assert manifest.changes is changes
    assert manifest.source == {
        "kind": "generated",
        "arrival": {"kind": "poisson", "request_rate": 5.0, "burstiness": None},
        "prompt_tokens": {"kind": "uniform", "low": 1, "high": 100},
        "output_tokens": {"kind": "exponential", "mean": 20, "high": None},
        "num_requests": 2000,
        "duration_s": None,
        "prefixes": {"share": 0.5, "num_prefixes": 3, "block": 8},
        "priorities": {"-1": 1.0, "0": 1.0},
        "seed": 0,
    }
    assert replace(CONFIG, prefix_share=0.0).manifest(changes).source["prefixes"] is None


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"num_requests": None}, "a trace needs an end: give --num-requests or --duration"),
        ({"num_requests": 0}, "--num-requests is 0: give 1 or more"),
        ({"duration_s": 0.0}, "--duration is 0: give seconds above 0"),
        ({"duration_s": float("inf")}, "--duration is inf: give seconds above 0"),
        (
            {"arrival": ArrivalProcess("burst"), "num_requests": None, "duration_s": 5.0},
            "--arrival burst has no end in time: give --num-requests",
        ),
        ({"prefix_share": 1.0}, "--prefix-share is 1: give a share of each prompt, 0 to below 1"),
        ({"prefix_share": -0.1}, "--prefix-share is -0.1"),
        ({"num_prefixes": 0}, "--num-prefixes is 0: give 1 or more"),
        ({"prefix_block": 0}, "--prefix-block is 0: give 1 or more"),
        ({"seed": -1}, "--seed is -1: give 0 or more"),
    ],
)
def test_what_can_not_be_made(change: dict[str, Any], message: str) -> None:
    with pytest.raises(UsageError) as caught:
        replace(CONFIG, **change)
    assert str(caught.value).startswith(message)
