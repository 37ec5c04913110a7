"""Calibrations that are kept: for which jobs, and that a damaged one is none."""

from __future__ import annotations

from pathlib import Path

import pytest

from cbatch.config import ModelConfig
from cbatch.tune.calibration import Calibration, calibration_path, lengths_of, load_calibration, save_calibration
from cbatch.tune.mix import Mix
from cbatch.tune.profile import profile_key, profile_path

MIX = Mix((100, 128, 156), 64.0, 160)
FOUND = Calibration("2026-11-30T02:00:00+00:00", {"kv_type": "f16", "flash_attn": "off"}, lengths_of(MIX), 32, 1.1, 6.5)


def test_it_is_found_again_beside_profiles(tiny_model: Path, tmp_path: Path) -> None:
    key = profile_key(ModelConfig(tiny_model))
    path = calibration_path(key, tmp_path)
    assert path.parent != profile_path(key, tmp_path).parent
    assert load_calibration(path) is None
    save_calibration(path, FOUND, key)
    assert load_calibration(path) == FOUND
    assert FOUND.date == "2026-11-30"


@pytest.mark.parametrize(
    ("mix", "fits"),
    [
        (MIX, True),
        (Mix((200,), 40.0, 220), True),
        (Mix((1000,), 64.0, 160), False),
        (Mix((128,), 8.0, 160), False),
        (Mix((128,), 64.0, 1000), False),
    ],
)
def test_it_holds_for_jobs_of_about_such_lengths(mix: Mix, fits: bool) -> None:
    assert FOUND.fits(mix, 32) is fits


@pytest.mark.parametrize(("slots", "fits"), [(64, True), (16, True), (15, False), (2, False)])
def test_it_holds_for_about_so_many_slots(slots: int, fits: bool) -> None:
    """Flash attention that is faster for one sequence isn't for many."""
    assert FOUND.fits(MIX, slots) is fits


@pytest.mark.parametrize(
    "text",
    [
        "",
        "{",
        "[]",
        "null",
        "{}",
        '{"version": 0}',
        '{"version": 1, "created": "x", "settings": {}, "lengths": [1, 2], "slots": 1, "ratio": 1, "seconds": 1}',
        '{"version": 1, "created": "x", "settings": {}, "lengths": [1, 2, 3], "ratio": 1, "seconds": 1}',
        '{"version": 1, "created": "x", "settings": null, "lengths": [1, 2, 3], "slots": 1, "ratio": 1, "seconds": 1}',
    ],
)
def test_what_is_damaged_is_none(tmp_path: Path, text: str) -> None:
    path = tmp_path / "c.json"
    path.write_text(text, "utf-8")
    assert load_calibration(path) is None
