"""Runs and replays as they lie on disk, whole and damaged."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from cbatch.errors import InputError
from cbatch.metrics import Attribution
from cbatch.pages.play import Group, Play, read_play
from tests.pages.directories import change, write_replay
from tests.replay.virtual import MS


def test_a_replay_says_what_its_summary_says(tmp_path: Path) -> None:
    summary = write_replay(tmp_path / "r", deadline_ns=2_000 * MS)
    play = read_play(tmp_path / "r")
    group = Group("r", (play,), 0)
    assert (play.is_replay, play.slots, play.missed) == (True, 2, summary.unfinished)
    assert summary.unfinished > 0
    assert play.requests["completed"].sum() == summary.completed
    assert play.objective_ns("ttft_ns") == 100 * MS
    for name in ("ttft_ns", "tpot_ns", "e2e_ns"):
        assert group.distribution(name) == summary.adjusted[name]
    assert group.parts_ns() == pytest.approx(dict(summary.attribution))
    assert list(group.parts_ns()) == list(Attribution._fields)
    assert play.output_tokens_per_s == summary.run.output_tokens_per_s


def test_repetitions_are_taken_together(tmp_path: Path) -> None:
    for seed in (1, 2):
        write_replay(tmp_path / str(seed), seed=seed, count=20)
    plays = tuple(read_play(tmp_path / str(seed)) for seed in (1, 2))
    together = Group("both", plays, 0).completed("e2e_ns")
    assert together.tolist() == [*plays[0].requests["e2e_ns"], *plays[1].requests["e2e_ns"]]


def test_a_run_that_goes_on_may_lack_its_tables(tmp_path: Path) -> None:
    write_replay(tmp_path / "r", status="running", totals=None)
    for name in ("requests.parquet", "steps.parquet"):
        (tmp_path / "r" / name).unlink()
    play = read_play(tmp_path / "r")
    assert (play.ended, play.slots, play.missed, play.output_tokens_per_s) == (False, 0, 0, None)
    assert not Group("r", (play,), 0).has_requests


def test_throughput_is_computed_where_no_totals_are(tmp_path: Path) -> None:
    summary = write_replay(tmp_path / "r", status="running", totals=None)
    assert read_play(tmp_path / "r").output_tokens_per_s == pytest.approx(summary.run.output_tokens_per_s)


@pytest.mark.parametrize("name", ["requests.parquet", "steps.parquet", "run.json"])
def test_a_missing_file_is_named(tmp_path: Path, name: str) -> None:
    write_replay(tmp_path / "r", count=5)
    (tmp_path / "r" / name).unlink()
    with pytest.raises(InputError, match=rf"{name} can't be used: No such file.*; give a directory that cbatch wrote"):
        read_play(tmp_path / "r")


@pytest.mark.parametrize("name", ["requests.parquet", "steps.parquet", "run.json"])
def test_a_damaged_file_is_named(tmp_path: Path, name: str) -> None:
    write_replay(tmp_path / "r", count=5)
    path = tmp_path / "r" / name
    path.write_bytes(path.read_bytes()[:-60])
    with pytest.raises(InputError, match=f"{name} can't be used"):
        read_play(tmp_path / "r")


def test_a_file_of_another_kind_is_named(tmp_path: Path) -> None:
    write_replay(tmp_path / "r", count=5)
    path = tmp_path / "r" / "requests.parquet"
    whole = pq.read_table(path)
    pq.write_table(whole.drop_columns(["ttft_ns", "slot"]), path)
    with pytest.raises(InputError, match="it has no column slot, ttft_ns"):
        read_play(tmp_path / "r")
    words = whole.drop_columns(["slot"]).append_column("slot", pa.array(["a"] * 5))
    pq.write_table(words, path)
    with pytest.raises(InputError, match="column slot holds no numbers"):
        read_play(tmp_path / "r")
    pq.write_table(whole.drop_columns(["attribution"]).append_column("attribution", pa.array([1] * 5)), path)
    with pytest.raises(InputError, match="its attribution has no"):
        read_play(tmp_path / "r")


def test_a_run_json_without_totals_is_named(tmp_path: Path) -> None:
    write_replay(tmp_path / "r", count=5)
    change(tmp_path / "r" / "run.json", totals=None)
    with pytest.raises(InputError, match=r"run\.json can't be used: it says complete and holds no totals"):
        read_play(tmp_path / "r")
    (tmp_path / "r" / "run.json").write_text("[1]", "utf-8")
    with pytest.raises(InputError, match="holds no JSON object"):
        read_play(tmp_path / "r")


def test_waiting_begins_when_the_request_came(tmp_path: Path) -> None:
    """A run reads its rows ahead: they wait from when the engine got them."""
    write_replay(tmp_path / "replay", count=30)
    write_replay(tmp_path / "run", count=30, is_replay=False)
    replay, run = read_play(tmp_path / "replay"), read_play(tmp_path / "run")
    assert np.array_equal(replay.came_ns, replay.since_start("arrival_ns"))
    assert np.array_equal(run.came_ns, run.since_start("enqueued_ns"))


def test_the_mean_running_of_the_worked_example() -> None:
    """Output lengths 50, 10 and 80 in one static group of three: 140 of 240 slot-steps."""
    steps = {"start_ns": [0, 10, 50], "end_ns": [10, 50, 80], "slots_busy": [3, 2, 1], "finished": [1, 1, 1]}
    columns = {name: np.array(values, dtype=np.float64) for name, values in steps.items()}
    play = Play(Path(), {}, {"arrival_ns": np.zeros(3)}, columns)
    assert play.mean_running(np.array([0.0, 80])) == pytest.approx([140 / 80])
    assert play.mean_running(np.array([0.0, 40, 60])) == pytest.approx([90 / 40, 30 / 20])
