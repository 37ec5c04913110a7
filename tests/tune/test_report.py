"""What is printed of a tuning: which setting won, by how much, and what was tried."""

from __future__ import annotations

import io
import json
from dataclasses import replace

import pytest
from rich.console import Console

from cbatch.report.tuning import print_tuning, tuning_json
from cbatch.sim.measured import Deviation
from cbatch.tune.choice import SlotOption
from cbatch.tune.mix import Speeds
from cbatch.tune.result import Confirmation, Tried, Tuning
from cbatch.tune.setting import Setting
from tests.tune.machines import BF16, F16

Q8 = Setting("q8_0", "on")
SLOTS = (SlotOption(32, 90.0, 344e6), SlotOption(64, 92.0, 674e6))


def tried(setting: Setting, over_llama_cpp: float, divergence: float | None = None) -> Tried:
    return Tried(setting, Speeds(3.3e6, 1.4e8, 32), 90.0 * over_llama_cpp, 1.0, over_llama_cpp, divergence)


TUNING = Tuning(
    tried=(tried(BF16, 1.25), tried(F16, 1.0), Tried(Setting("f32", "on"), None, None, None, None)),
    default=BF16,
    llama_cpp=F16,
    setting=BF16,
    slots=SLOTS[0],
    slot_options=SLOTS,
    error=Deviation(16, 0.03, 0.06, 0.01),
    gain=1.25,
    usual_slots=32,
    few_rows=False,
    is_default=True,
    confirmations=(),
    seconds=97.6,
    notes=("a note",),
)


def printed(tuning: Tuning, width: int = 80) -> list[str]:
    console = Console(file=io.StringIO(), width=width, record=True)
    print_tuning(tuning, {"profile": "p.json"}, console=console)
    return [line.rstrip() for line in console.export_text().splitlines()]


@pytest.mark.parametrize("width", [80, 120])
def test_the_choice_is_marked_and_its_gain_is_told(width: int) -> None:
    lines = printed(TUNING, width)
    assert max(map(len, lines)) <= 80
    assert "* bf16 fa split 512      303     229  112         1.25" in lines
    assert "  f16 fa split 512       303     229   90         1.00" in lines
    assert "  f32 fa split 512         -       -    -      no time" in lines
    assert "* 32                      90  344 ms" in lines
    text = " ".join(" ".join(lines).split())
    assert "gain 1.25 times llama.cpp's defaults (f16 fa split 512, 32 slots)" in text
    assert "the choice is what cbatch does anyway: nothing else was faster by more than noise" in text
    assert "* choice bf16, flash attention on, split KV, ubatch 512, 32 slots" in text
    assert "took 97.6 s" in text


def test_what_was_run_in_turns_and_what_came_of_it() -> None:
    found = (Confirmation(F16, 32, BF16, 32, 1.05, (1.04, 1.06), 32), Confirmation(F16, 64, F16, 32, 0.99, (0.99,), 64))
    text = " ".join(" ".join(printed(replace(TUNING, setting=F16, is_default=False, confirmations=found))).split())
    assert "f16 fa split 512: 1.05 times as fast as bf16 fa split 512 on 32 rows (by pairs: 1.04, 1.06); taken" in text
    assert "64 slots: 0.99 times as fast as 32 on 64 rows (by pairs: 0.99); not taken" in text
    assert "defaults without a profile, cbatch takes bf16 fa split 512" in text


def test_divergence_has_a_column_and_an_explanation() -> None:
    lines = printed(replace(TUNING, tried=(*TUNING.tried[:2], tried(Q8, 1.1, 0.034))))
    assert lines[0].split()[-1] == "differs"
    assert next(line for line in lines if "q8_0" in line).endswith("3 %")
    assert any("share of tokens that the model chose otherwise than with bf16 fa split 512" in line for line in lines)
    assert max(map(len, lines[:12])) <= 80


def test_under_objectives_the_share_that_meets_them_is_told() -> None:
    options = (SlotOption(1, 60.0, 2e7, attainment=0.98), replace(SLOTS[0], attainment=0.91))
    slow = replace(TUNING, slots=options[0], slot_options=options, gain=None, is_default=False)
    text = " ".join(" ".join(printed(slow)).split())
    assert "SLO 98 % of requests within the limits, 91 % with 32 slots (predicted)" in text
    assert "ubatch 512, 1 slot " in text
    assert "gain" not in text


def test_json() -> None:
    confirmed = replace(TUNING, confirmations=(Confirmation(F16, 32, BF16, 32, 0.98, (0.98,), 32),))
    record = json.loads(tuning_json(confirmed, {"profile": "p.json"}))
    assert record["choice"] == {
        "kv_type": "bf16",
        "flash_attn": "on",
        "kv_mode": "split",
        "ubatch": 512,
        "threads": None,
        "max_num_seqs": 32,
        "max_num_batched_tokens": None,
    }
    assert record["gain_over_llama_cpp"] == 1.25
    assert (record["confirmations"][0]["ratio"], record["confirmations"][0]["holds"]) == (0.98, False)
    assert (record["paths"], record["notes"]) == ({"profile": "p.json"}, ["a note"])
