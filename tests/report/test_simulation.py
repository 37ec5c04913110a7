from __future__ import annotations

import io
import json

from rich.console import Console

from cbatch.report.simulation import (
    print_simulation,
    print_sweep_simulation,
    print_variants,
    simulation_json,
    sweep_simulation_json,
    variants_json,
)
from cbatch.sim.agreement import Agreement
from cbatch.sim.measured import Deviation
from tests.report.replays import make_replay

ERROR = Deviation(184, 0.074, 0.151, 0.014)
MEASURED = [Agreement("requests_per_s", 3.98, 4.0), Agreement("ttft_ns", 437.5e6, 500e6)]


def console() -> Console:
    return Console(file=io.StringIO(), width=80, record=True)


def lines(shown: Console) -> list[str]:
    return [line.rstrip() for line in shown.export_text().splitlines()]


def test_a_simulation_says_how_far_to_trust_it() -> None:
    shown = console()
    print_simulation(make_replay(), ERROR, MEASURED, ["a note"], console=shown)
    found = lines(shown)
    text = " ".join(" ".join(found).split())
    assert (
        "The cost model is off by 7 % of a step's time in the mean, p90 15 %, and by +1.4% of the time of all, on 184 "
        "measured steps that it wasn't fitted to."
    ) in text
    assert "requests/s 3.98 4.00 -0.5%" in text
    assert "TTFT mean 438 ms 500 ms -12.5%" in text
    assert found[-1] == "  a note"
    assert max(map(len, found)) <= 80


def test_what_isnt_known_isnt_told() -> None:
    shown = console()
    print_simulation(make_replay(), None, console=shown)
    found = lines(shown)
    assert found[-1] == "The profile doesn't say how far its step costs are from measured steps."


def test_variants_are_a_row_each() -> None:
    shown = console()
    print_variants({"profile": make_replay(), "few": make_replay(attainment=0.5)}, ERROR, console=shown)
    found = lines(shown)
    assert [line.split()[0] for line in found[1:3]] == ["profile", "few"]
    assert found[0].split()[-1] == "SLO"
    assert max(map(len, found)) <= 80
    shown = console()
    print_variants({"a": make_replay(attainment=None, goodput_rps=None)}, ERROR, console=shown)
    assert "SLO" not in lines(shown)[0]


def test_a_variant_may_have_any_name() -> None:
    shown, long = console(), "the-one-with-few-slots-that-nobody-would-ever-want-[bold]"
    print_variants({"few[seqs=8]": make_replay(), long: make_replay()}, ERROR, console=shown)
    found = lines(shown)
    assert found[1].split()[:2] == ["few[seqs=8]", "3.98"]
    assert max(map(len, found)) <= 80
    names = "".join(line.split()[0] for line in found[2 : found.index("")])
    assert names == long, "it goes on below, and no figure is cut"
    assert "…" not in "".join(found)


def test_a_sweep_has_its_table_and_the_error() -> None:
    shown = console()
    print_sweep_simulation([(4.0, make_replay())], 0.8, ERROR, ["a note"], console=shown)
    text = "\n".join(lines(shown))
    assert "Highest rate that held" in text
    assert "The cost model" in text
    assert text.count("a note") == 1


def test_json() -> None:
    one = json.loads(simulation_json(make_replay(), ERROR, MEASURED, ["a note"]))
    assert one["model_error"] == {"steps": 184, "mean": 0.074, "p90": 0.151, "total": 0.014}
    assert one["measured"]["ttft_ns"] == {"name": "ttft_ns", "predicted": 437.5e6, "measured": 500e6, "off": -0.125}
    assert (one["completed"], one["notes"], one["paths"]) == (996, ["a note"], {})
    assert json.loads(simulation_json(make_replay(), None))["model_error"] is None
    assert json.loads(variants_json({"a": make_replay()}, ERROR))["variants"]["a"]["completed"] == 996
    sweep = json.loads(sweep_simulation_json([(4.0, make_replay())], 0.8, ERROR))
    assert sweep["points"][0]["rate"] == 4
    assert sweep["model_error"]["steps"] == 184
