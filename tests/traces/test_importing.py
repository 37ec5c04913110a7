from __future__ import annotations

import gc
from collections import Counter
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from cbatch.errors import InputError, UsageError
from cbatch.traces.detect import FORMATS, format_named
from cbatch.traces.importing import import_trace, in_order
from cbatch.traces.lint import lint
from cbatch.traces.trace import TraceRequest
from tests.traces import files
from tests.traces.files import mooncake, read, write_lines, write_records

any_folder = settings(suppress_health_check=[HealthCheck.function_scoped_fixture])


def test_zero_lengths_are_raised_and_counted(tmp_path: Path) -> None:
    path = write_records(tmp_path, mooncake(0, 0, 5), mooncake(1, 7, 0), mooncake(2, 0, 0))
    requests, imported = read(path)
    assert [(request.prompt_tokens, request.output_tokens) for request in requests] == [(1, 5), (7, 1), (1, 1)]
    assert imported.changes == {"zero_prompts_raised_to_1": 2, "zero_outputs_raised_to_1": 2}


def test_blocks_beyond_the_prompt_are_left_out_and_counted(tmp_path: Path) -> None:
    path = write_records(tmp_path, mooncake(0, 513, 5, hash_ids=[1, 2, 3]), mooncake(0, 513, 5, hash_ids=[1]))
    requests, imported = read(path)
    assert [request.prefix_ids for request in requests] == [(1, 2), (1,)]
    assert imported.changes == {"prefixes_cut_to_their_prompt": 1}


def test_options_override_what_the_format_says(tmp_path: Path) -> None:
    path = write_records(tmp_path, mooncake(10, 32, 5, hash_ids=[1, 2]), mooncake(12, 32, 5, hash_ids=[1, 3]))
    requests, _ = read(path, time_unit="s", block_size=16)
    assert requests[1] == TraceRequest(2_000_000_000, None, 32, 5, prefix_ids=(1, 3), prefix_block=16)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"time_unit": "h"}, "time-unit is 'h': give s or ms"),
        ({"block_size": 0}, "block-size is 0: give 1 or more"),
        ({"as_format": format_named("azure"), "time_unit": "s"}, "leave --time-unit out"),
        ({"as_format": format_named("vidur"), "block_size": 16}, "leave --block-size out"),
        ({"as_format": format_named("prompts")}, "give an arrival process"),
    ],
)
def test_options_that_dont_fit_are_refused(tmp_path: Path, options: dict[str, Any], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        import_trace(write_records(tmp_path, mooncake(0)), **options)


def test_a_format_can_be_named_where_the_first_line_is_broken(tmp_path: Path) -> None:
    path = write_lines(tmp_path, "{", '{"timestamp": 0, "input_length": 1, "output_length": 1}')
    with pytest.raises(InputError, match="give --format"):
        import_trace(path)
    requests, imported = read(path, as_format=format_named("mooncake"))
    assert (len(requests), imported.changes) == (1, {"bad_lines_left_out": 1})


@pytest.mark.parametrize("form", FORMATS, ids=lambda form: form.name)
def test_a_file_of_another_format_is_an_input_error(tmp_path: Path, form: Any) -> None:
    path = write_lines(tmp_path, "when,what", "1,2")
    with pytest.raises(InputError):
        read(path, as_format=form, arrivals=iter(range(9)))


def test_bad_lines_may_end_the_import(tmp_path: Path) -> None:
    path = write_records(tmp_path, mooncake(0), mooncake(1, -4))
    imported = import_trace(path, on_bad="raise")
    assert next(imported.requests).arrival_ns == 0
    with pytest.raises(InputError, match=rf"{path}:2: input_length is -4, which is negative: give 0 or more"):
        next(imported.requests)


def test_nothing_but_bad_lines_is_an_input_error(tmp_path: Path) -> None:
    path = write_records(tmp_path, *(mooncake("x") for _ in range(9)))
    with pytest.raises(
        InputError, match=r"none of 9 lines can be read as mooncake .*: .*:1: timestamp is 'x'"
    ) as caught:
        read(path)
    assert str(caught.value).count("timestamp is 'x'") == 5


def test_a_header_alone_is_an_input_error(tmp_path: Path) -> None:
    path = write_lines(tmp_path, files.AZURE)
    with pytest.raises(InputError, match="holds no request"):
        read(path)
    assert lint(path)[0].code == "no_requests"


def test_given_arrivals_replace_times_and_end_the_trace(tmp_path: Path) -> None:
    path = write_records(tmp_path, *(mooncake(1000 * n) for n in range(5)))
    requests, imported = read(path, arrivals=iter([3, 30, 300]))
    assert [request.arrival_ns for request in requests] == [3, 30, 300]
    assert imported.changes == {"arrivals_replaced": 3, "requests_without_an_arrival_left_out": 2}


def test_times_that_go_back_stay_in_file_order_until_they_are_sorted(tmp_path: Path) -> None:
    path = write_records(tmp_path, *(mooncake(ms, length) for ms, length in ((5, 1), (9, 2), (3, 3), (9, 4), (6, 5))))
    requests, imported = read(path)
    assert [request.arrival_ns for request in requests] == [0, 4_000_000, -2_000_000, 4_000_000, 1_000_000]
    assert imported.changes == {}
    ordered = in_order(requests, imported.changes)
    assert [(request.arrival_ns, request.prompt_tokens) for request in ordered] == [
        (0, 3),
        (2_000_000, 1),
        (3_000_000, 5),
        (6_000_000, 2),
        (6_000_000, 4),
    ]
    assert imported.changes == {"requests_reordered": 2}


@given(st.lists(st.integers(0, 5)))
def test_sorting_keeps_every_request_and_those_at_one_time_in_order(arrivals: list[int]) -> None:
    changes: Counter[str] = Counter()
    requests = [TraceRequest(arrival, prompt_tokens=n + 1) for n, arrival in enumerate(arrivals)]
    ordered = in_order(iter(requests), changes)
    assert ordered == sorted(requests, key=lambda request: (request.arrival_ns, request.prompt_tokens))
    assert (changes.total() > 0) == (ordered != requests)


def test_past_requests_are_not_kept(tmp_path: Path) -> None:
    path = write_lines(tmp_path, files.VIDUR, *(f"{n}.5,{n + 1},1" for n in range(20_000)))
    for _ in import_trace(path).requests:
        pass
    gc.collect()
    before = sum(isinstance(kept, TraceRequest) for kept in gc.get_objects())
    most = 0
    for number, _ in enumerate(import_trace(path).requests):
        if number % 5000 == 0:
            most = max(most, sum(isinstance(kept, TraceRequest) for kept in gc.get_objects()))
    assert most - before < 10


ROWS = {
    "azure": (files.AZURE, "2023-11-16 18:17:03.9799600,4808,10"),
    "burstgpt": (files.BURSTGPT, "5,ChatGPT,472,18,490,Conversation log"),
    "vidur": (files.VIDUR, "1.5,3,4"),
    "mooncake": (None, '{"timestamp": 7, "input_length": 600, "output_length": 5, "hash_ids": [1, 2]}'),
    "bailian": (None, '{"chat_id":1,"parent_chat_id":-1,"timestamp":0.5,"input_length":9,"output_length":9}'),
    "prompts": (None, '{"prompt": "Hi"}'),
    "openai": (None, '{"method": "POST", "url": "/v1/completions", "body": {"prompt": "Hi"}}'),
}
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=5,
)


def broken(row: str) -> st.SearchStrategy[bytes]:
    """Any bytes, and the row with a piece of it replaced."""

    def replaced(start: int, length: int, piece: bytes) -> bytes:
        whole = row.encode()
        return whole[:start] + piece + whole[start + length :]

    pieces = st.binary(max_size=4) | st.sampled_from(
        [b'"', b"{", b"[", b"NaN", b"-1", b"1e999999999", b"\x00", b"\r", b"\\ud800"]
    )
    return st.binary() | st.builds(replaced, st.integers(0, len(row)), st.integers(0, 6), pieces)


@pytest.mark.parametrize("name", ROWS)
@any_folder
@given(data=st.data())
def test_garbage_lines_never_cost_another_row(tmp_path: Path, name: str, data: st.DataObject) -> None:
    header, row = ROWS[name]
    garbage = [line.replace(b"\n", b"") for line in data.draw(st.lists(broken(row), max_size=4))]
    lines = [*([] if header is None else [header.encode()]), row.encode(), *garbage, row.encode()]
    path = tmp_path / "trace"
    path.write_bytes(b"\n".join(lines))
    requests, imported = read(path, arrivals=None if format_named(name).time is not None else iter(range(99)))
    assert imported.format.name == name
    assert (requests[0].prompt_tokens, requests[0].prompt) == (requests[-1].prompt_tokens, requests[-1].prompt)
    left_out = imported.changes["bad_lines_left_out"] + imported.changes["failed_calls_left_out"]
    assert len(requests) + left_out == 2 + sum(bool(line.strip()) for line in garbage)
    for finding in imported.findings:
        assert finding.message.isprintable()


@any_folder
@given(
    content=st.binary()
    | st.builds(lambda text: b"[" + text, st.binary())
    | JSON.map(lambda value: repr(value).encode())
)
def test_any_file_is_read_or_an_input_error(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "trace"
    path.write_bytes(content)
    for form in (None, *FORMATS):
        with suppress(InputError):
            read(path, as_format=form, arrivals=iter(range(99)))
