"""The memory table, and what else a page says of shared prefixes, samples and preemptions."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from cbatch.metrics import KVTable, KVWay
from cbatch.pages.memory import memory
from cbatch.pages.play import Group, Play, read_play
from cbatch.pages.tables import facts
from cbatch.pages.words import NBSP
from tests.pages.directories import write_replay

WAYS = {
    "static": KVWay(4096, 4000.0, 0.2, 8.0),
    "per_slot": KVWay(2048, 1600.0, 0.5, 20.0),
    "pooled": KVWay(1024, 800.0, 1.0, 40.0),
    "shared": KVWay(512, 400.0, 2.0, 80.0),
}


def group(directory: Path, label: str = "r", *, is_replay: bool = True, **totals: Any) -> Group:
    """Of a replay that has these totals of a run."""
    write_replay(directory, count=4, is_replay=is_replay)
    path = directory / "run.json"
    record = json.loads(path.read_text("utf-8"))
    (record["totals"]["run"] if is_replay else record["totals"]).update(totals)
    path.write_text(json.dumps(record), "utf-8")
    return Group(label, (read_play(directory),), 0)


def table(bytes_per_token: float | None) -> Mapping[str, object]:
    return KVTable(8192, bytes_per_token, WAYS).to_dict()


def test_a_row_says_what_one_way_would_have_held(tmp_path: Path) -> None:
    found = memory([group(tmp_path / "r", kv_memory=table(2.0**18))])
    assert found is not None
    assert found.rows == (
        ("Static reservation", f"1.00{NBSP}GiB", f"0.977{NBSP}GiB", "0.200", "8.00"),
        ("Reserved for prompt and max_tokens", f"512{NBSP}MiB", f"400{NBSP}MiB", "0.500", "20.0"),
        ("A cell for each token", f"256{NBSP}MiB", f"200{NBSP}MiB", "1.00", "40.0"),
        ("The same, shared prefixes once", f"128{NBSP}MiB", f"100{NBSP}MiB", "2.00", "80.0"),
    )


def test_runs_beside_each_other_have_their_names(tmp_path: Path) -> None:
    groups = [
        group(tmp_path / "a", "a", kv_memory=table(None)),
        group(tmp_path / "b", "b", is_replay=False, kv_memory=table(None)),
    ]
    found = memory(groups)
    assert found is not None
    assert [row[0] for row in found.rows[3:5]] == ["a: The same, shared prefixes once", "b: Static reservation"]
    assert found.rows[0][1:3] == (f"4,096{NBSP}cells", f"4,000{NBSP}cells")


def test_a_run_that_says_nothing_has_no_table(tmp_path: Path) -> None:
    assert memory([group(tmp_path / "r", kv_memory=None)]) is None


def told(play: Play) -> dict[str, str]:
    return {row[0]: row[1] for row in facts([Group("r", (play,), 0)]).rows}


def test_prefixes_and_preemptions_are_told_where_there_were_any(tmp_path: Path) -> None:
    plain = told(group(tmp_path / "plain").first)
    assert "Prompt tokens restored" not in plain
    assert "Preemptions" not in plain
    reuse: dict[str, Any] = {"restored_tokens": 10, "prefix_hit_rate": 0.74, "ideal_prefix_hit_rate": 0.76}
    found = told(group(tmp_path / "r", **reuse, preemptions=1200).first)
    assert found["Prompt tokens restored"] == f"74{NBSP}%, 76{NBSP}% at best"
    assert found["Preemptions"] == "1,200"


def test_rows_are_counted_not_their_samples(tmp_path: Path) -> None:
    directory = tmp_path / "r"
    write_replay(directory, count=4)
    assert told(read_play(directory))["Requests"] == "4 completed, 0 not"
    path = directory / "requests.parquet"
    lines = pq.read_table(path)
    broken = lines.set_column(
        lines.schema.get_field_index("finish_reason"), lines.schema.field("finish_reason"), pa.array(["error"] * 4)
    )
    pq.write_table(pa.concat_tables([lines, broken]), path)
    play = read_play(directory)
    assert told(play)["Requests"] == "4 completed, 0 not; 8 samples"
    assert (play.missed, play.answered) == (0, 4)
