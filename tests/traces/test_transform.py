from __future__ import annotations

from collections import Counter
from itertools import count, islice
from typing import Any

import pytest
from hypothesis import assume, example, given
from hypothesis import strategies as st

from cbatch.errors import UsageError
from cbatch.traces.check import MAX_TOKENS
from cbatch.traces.trace import SECOND, Manifest, TraceRequest
from cbatch.traces.transform import Transforms, scale_lengths
from tests.traces.random_requests import at, traces

_factors = st.floats(1e-3, 1e3)
_windows = (
    st.tuples(st.floats(0, 1e6), st.floats(1e-9, 1e6)).map(lambda w: (w[0], w[0] + w[1])).filter(lambda w: w[0] < w[1])
)


def seconds(requests: list[TraceRequest], **transforms: Any) -> list[float]:
    return [r.arrival_ns / SECOND for r in Transforms(**transforms).apply(requests, Counter())]


def test_nothing_asked_nothing_changed() -> None:
    requests = at(0, 1)
    assert list(Transforms().apply(requests, Counter())) == requests
    manifest = Manifest(request_rate=2.0, transforms=("limit 9",), changes={"x": 1})
    assert Transforms().apply_to_manifest(manifest, Counter(manifest.changes)) == manifest


def test_a_window_begins_at_0_and_leaves_its_end_out() -> None:
    assert seconds(at(0, 1, 2, 2.5, 3), window=(1, 3)) == [0, 1, 1.5]
    assert seconds(at(0, 1, 2), window=(1, float("inf"))) == [0, 1]


def test_windows_and_limits_do_not_read_on() -> None:
    endless = (TraceRequest(k * SECOND, prompt_tokens=1) for k in count())
    transforms = Transforms(window=(5, 100), limit=2)
    assert [r.arrival_ns for r in transforms.apply(endless, Counter())] == [0, SECOND]
    assert len(list(Transforms(window=(0, 10)).apply(endless, Counter()))) <= 10
    assert next(endless).arrival_ns <= 20 * SECOND


def test_speedup_2_is_twice_as_fast() -> None:
    assert seconds(at(0, 1, 3), speedup=2) == [0, 0.5, 1.5]


def test_the_order_is_fixed() -> None:
    assert seconds(at(0, 1, 2, 3), window=(1, 4), limit=2, speedup=2) == [0, 0.5]


def test_lengths_scale_together() -> None:
    request = TraceRequest(0, prompt_tokens=1000, output_tokens=3, prefix_ids=(1, 2), prefix_block=512)
    changes: Counter[str] = Counter()
    assert list(scale_lengths([request], 0.25, changes)) == [
        TraceRequest(0, prompt_tokens=250, output_tokens=1, prefix_ids=(1, 2), prefix_block=128)
    ]
    assert changes == {}


def test_what_scaling_can_not_do_is_counted() -> None:
    changes: Counter[str] = Counter()
    requests = [
        TraceRequest(0, prompt_tokens=4, output_tokens=4, prefix_ids=(1, 2), prefix_block=2),
        TraceRequest(0, prompt="text", prefix_ids=(1,), prefix_block=2),
    ]
    assert list(scale_lengths(requests, 0.1, changes)) == [
        TraceRequest(0, prompt_tokens=1, output_tokens=1, prefix_ids=(1,), prefix_block=1),
        requests[1],
    ]
    assert changes == {
        "prompt_tokens_raised_to_1": 1,
        "output_tokens_raised_to_1": 1,
        "prefix_blocks_rounded": 1,
        "text_prompts_not_scaled": 1,
    }


def test_lengths_that_no_trace_holds_are_a_mistake() -> None:
    scaled = scale_lengths([TraceRequest(0, prompt_tokens=8, output_tokens=2)], 1e30, Counter())
    with pytest.raises(UsageError, match=r"--scale-lengths is 1e\+30, which makes 2e\+30 output_tokens of 2"):
        next(scaled)


def test_the_manifest_tells() -> None:
    changes = Counter({"x": 1})
    transforms = Transforms((0.5, 60), 100, 2, 0.25)
    manifest = transforms.apply_to_manifest(Manifest({"a": 1}, 3.0, ("limit 900",)), changes)
    assert manifest.source == {"a": 1}
    assert manifest.request_rate == 6.0
    assert manifest.transforms == ("limit 900", "window 0.5:60", "limit 100", "speedup 2", "scale_lengths 0.25")
    assert manifest.changes is changes
    assert Transforms(speedup=2).apply_to_manifest(Manifest(), changes).request_rate is None


@example([TraceRequest(0, prompt_tokens=1), TraceRequest(1, prompt_tokens=1)], (1e-20, 1.0), None, None, None)
@given(traces(), st.none() | _windows, st.none() | st.integers(1, 9), st.none() | _factors, st.none() | _factors)
def test_order_and_counts_hold(
    requests: list[TraceRequest],
    window: tuple[float, float] | None,
    limit: int | None,
    speedup: float | None,
    scale: float | None,
) -> None:
    longest = max((max(r.prompt_tokens or 0, r.output_tokens or 0) for r in requests), default=0)
    assume(scale is None or longest * scale <= MAX_TOKENS)
    changes: Counter[str] = Counter()
    done = list(Transforms(window, limit, speedup, scale).apply(requests, changes))
    arrivals = [r.arrival_ns for r in done]
    assert arrivals == sorted(arrivals)
    assert all(arrival >= 0 for arrival in arrivals)
    inside = [r for r in requests if window is None or window[0] * SECOND <= r.arrival_ns < window[1] * SECOND]
    kept = inside[:limit]
    assert [r.tenant for r in done] == [r.tenant for r in kept]
    if scale is None:
        assert changes == {}
        return
    raised = sum(r.prompt_tokens is not None and round(r.prompt_tokens * scale) == 0 for r in kept)
    assert changes["prompt_tokens_raised_to_1"] == raised
    assert changes["text_prompts_not_scaled"] == sum(r.prompt is not None for r in kept)
    assert all(r.prompt_tokens is None or r.prompt_tokens >= 1 for r in done)


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"window": (3, 2)}, "--window is 3:2: give START:END in seconds, 0 <= START < END"),
        ({"window": (-1, 2)}, "--window is -1:2"),
        ({"window": (float("nan"), 2)}, "--window is nan:2"),
        ({"limit": 0}, "--limit is 0: give 1 or more"),
        ({"speedup": 0.0}, "--speedup is 0: give a factor above 0; 1 changes nothing"),
        ({"scale_lengths": float("inf")}, "--scale-lengths is inf: give a factor above 0"),
    ],
)
def test_what_no_transform_is(fields: dict[str, Any], message: str) -> None:
    with pytest.raises(UsageError) as caught:
        Transforms(**fields)
    assert str(caught.value).startswith(message)


def test_reading_is_lazy() -> None:
    endless = (TraceRequest(k, prompt_tokens=1) for k in count())
    assert len(list(islice(Transforms(speedup=2, scale_lengths=2).apply(endless, Counter()), 3))) == 3
