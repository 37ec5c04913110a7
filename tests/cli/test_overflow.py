"""How many tokens of a prompt can stay when others go, and that every command says it the same way."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import typer
from typer.testing import CliRunner

from cbatch.cli.overflow import planned_overflow
from cbatch.cli.simulate import simulate
from cbatch.config import Overflow
from cbatch.errors import UsageError
from cbatch.llama.model import Model
from tests.cli.test_sizing import options
from tests.e2e.test_replay import steady, write_trace
from tests.sim.recording import COSTS

app = typer.Typer()
app.command()(simulate)


def test_half_of_the_context_can_be_kept() -> None:
    assert options(on_overflow="truncate-left", keep=128).overflow(256) == Overflow("truncate-left", 128)
    with pytest.raises(UsageError, match="--keep is 129, and a context of 256 can keep half of it: give 128 or less"):
        options(on_overflow="truncate-left", keep=129).overflow(256)


@pytest.mark.parametrize(("keep", "kept"), [(None, 1), (0, 0), (7, 7)])
def test_a_bos_stays_unless_told(tiny: Model, keep: int | None, kept: int) -> None:
    given = options(on_overflow="truncate-middle", keep=keep)
    assert planned_overflow(given, tiny, given.context_config(), 512) == Overflow("truncate-middle", kept)


def test_a_plan_asks_what_can_be_shifted(tiny: Model) -> None:
    shifting = options(on_overflow="shift", threads=1)
    assert planned_overflow(shifting, tiny, shifting.context_config(), 512) == Overflow("shift", 1)
    bf16 = options(on_overflow="shift", threads=1, kv_type="bf16")
    with pytest.raises(UsageError, match="can't rotate keys in bf16"):
        planned_overflow(bf16, tiny, bf16.context_config(), 512)


def test_a_simulation_with_a_smaller_context_than_was_measured_with_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "profile.json"
    kept = {"on_overflow": "truncate-left", "keep": 300, "ctx": 2048}
    path.write_text(json.dumps({"step_costs": COSTS.to_dict(), "options": kept}), "utf-8")
    arguments = [write_trace(tmp_path / "t.parquet", steady(5)), "-p", path]
    assert CliRunner().invoke(app, list(map(str, arguments))).exit_code == 0
    ran = CliRunner().invoke(app, list(map(str, [*arguments, "--ctx", 512])))
    assert isinstance(ran.exception, UsageError)
    assert str(ran.exception) == "--keep is 300, and a context of 512 can keep half of it: give 256 or less"
