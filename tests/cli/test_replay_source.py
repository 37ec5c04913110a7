"""What a file is taken for: a trace, or prompts in any form that a run reads; and which options it leaves unused."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.feather as feather
import pyarrow.parquet as pq
import pytest

from cbatch.cli.defaults import replay_options
from cbatch.cli.replay_source import PromptSource, Source, TraceSource, open_source
from cbatch.clock import VirtualClock
from cbatch.errors import InputError
from cbatch.traces.trace import TraceRequest
from tests.e2e.test_replay import steady, write_trace
from tests.inputs.test_streams import zstd

LINES = b'{"prompt": "one"}\n{"prompt": "two"}\n'


def opened(path: Path, **given: Any) -> Source:
    """As given to the command."""
    return open_source(replay_options({"inputs": [str(path)], **given, "given": tuple(given)}), VirtualClock())


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("p.jsonl", LINES),
        ("p.jsonl.zst", zstd(LINES)),
        ("p", LINES),
        ("p.jsonl", b"{broken\n"),
        ("p.csv", b"id,prompt\na,one\n"),
        ("p.csv.zst", zstd(b"id,prompt\na,one\n")),
        ("p.csv", b'messages\n"[]"\n'),
        ("p.tsv", b"id\tprompt\na\tone\n"),
        ("p.json", b'[{"prompt": "one"}, {"prompt": "two"}]'),
        ("p.json", b'["one", "two"]'),
        ("p.txt", b"Say one, or two.\n"),
    ],
)
def test_prompts_as_a_run_reads_them(tmp_path: Path, name: str, content: bytes) -> None:
    (tmp_path / name).write_bytes(content)
    assert isinstance(opened(tmp_path / name, request_rate=2.0), PromptSource)


def test_tables_of_prompts(tmp_path: Path) -> None:
    prompts = pa.table({"prompt": ["one", "two"], "label": [1, 2]})
    pq.write_table(prompts, tmp_path / "p.parquet")
    feather.write_feather(prompts, tmp_path / "p.arrow")
    for name in ("p.parquet", "p.arrow"):
        assert isinstance(opened(tmp_path / name, request_rate=2.0), PromptSource)


@pytest.mark.parametrize("columns", [["at", "tokens"], ["arrival_s", "tokens"], ["arrival_s", "messages"]])
@pytest.mark.parametrize("form", ["csv", "parquet"])
def test_a_table_of_neither_is_refused(tmp_path: Path, form: str, columns: list[str]) -> None:
    path = tmp_path / f"t.{form}"
    if form == "csv":
        path.write_text(f"{','.join(columns)}\n1,2\n", "utf-8")
    else:
        pq.write_table(pa.table({name: [1] for name in columns}), path)
    with pytest.raises(InputError) as refused:
        opened(path, request_rate=2.0)
    assert f"{path} has {columns[0]!r}, {columns[1]!r}: neither a trace" in str(refused.value)
    assert "--format" not in str(refused.value)


def test_a_trace_is_one_by_its_columns(tmp_path: Path) -> None:
    path = write_trace(tmp_path / "t.parquet", steady(3))
    assert isinstance(opened(path), TraceSource)


def test_options_that_a_traces_lengths_leave_unused_are_told(tmp_path: Path) -> None:
    path = write_trace(tmp_path / "t.parquet", [*steady(3), TraceRequest(10**9, prompt_tokens=5)])
    assert list(opened(path).notes) == []
    assert list(opened(path, temperature=0.5).notes) == []
    assert list(opened(path, max_tokens=9, natural_lengths=True).notes) == []
    (note,) = opened(path, max_tokens=9, stop=["x"]).notes
    assert note.startswith(
        "--max-tokens and --stop changed nothing for the 3 requests of which the trace says how long"
    )
    open_ended = write_trace(tmp_path / "open.parquet", [TraceRequest(0, prompt_tokens=5)])
    assert list(opened(open_ended, max_tokens=9).notes) == []
