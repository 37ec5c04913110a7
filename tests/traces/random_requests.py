"""Random valid traces, for property tests."""

from __future__ import annotations

from hypothesis import strategies as st

from cbatch.traces.trace import TraceRequest

EXACT_NS = 2**51
"""Below, seconds as float64 give every nanosecond back."""

_tokens = st.integers(1, 2**31 - 1)
_texts = st.text(st.characters(exclude_categories=["Cs"]), min_size=1)
_ids = st.lists(st.integers(-(2**63), 2**63 - 1), max_size=5).map(tuple)
_rest = {
    "output_tokens": st.none() | _tokens,
    "priority": st.integers(-3, 3),
    "session_id": st.none() | _texts,
    "tenant": st.none() | _texts,
    "prefix_ids": _ids,
    "prefix_block": _tokens,
}


def _requests() -> st.SearchStrategy[TraceRequest]:
    arrival = st.integers(0, EXACT_NS)
    as_text = st.builds(TraceRequest, arrival_ns=arrival, prompt=_texts, **_rest)
    as_length = st.builds(TraceRequest, arrival_ns=arrival, prompt_tokens=_tokens, **_rest)
    return as_text | as_length


def traces(max_size: int = 20) -> st.SearchStrategy[list[TraceRequest]]:
    """Lists of valid requests in order of arrival."""
    return st.lists(_requests(), max_size=max_size).map(lambda rs: sorted(rs, key=lambda r: r.arrival_ns))


def at(*seconds: float) -> list[TraceRequest]:
    """Requests of one prompt token at these times."""
    return [TraceRequest(round(s * 1e9), prompt_tokens=1) for s in seconds]
