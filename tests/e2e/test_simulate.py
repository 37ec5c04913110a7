"""`cbatch simulate` as a user runs it, with profiles of runs whose costs are known."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from cbatch.config import ContextConfig
from cbatch.metrics import ReplayAccumulator
from cbatch.traces.reader import read_trace
from cbatch.traces.trace import TraceRequest
from cbatch.types import Request
from tests.e2e.command import cbatch, results, run_json, table
from tests.e2e.test_replay import steady, write_trace
from tests.engine.factories import request
from tests.sim.recording import COSTS, Recorder, play

TRACES = Path(__file__).parents[2] / "traces"
POISSON = TRACES / "poisson.parquet"
OPTIONS = {"max_num_seqs": 16, "max_num_batched_tokens": 256, "prefix_cache": "0", "ctx": 512}


def measured(directory: Path, trace: Path, **more: Any) -> Path:
    """A replay of the trace, as it lies on disk."""
    requests = [_request(number, each) for number, each in enumerate(read_trace(trace), 1)]
    context = ContextConfig(max_num_seqs=16, cells_per_seq=512)
    recorder = play(requests, context=context, max_num_batched_tokens=256)
    made = read_trace(trace).manifest
    told = {"trace": str(trace), "requests": len(requests), "made": dict(made.source), "changes": dict(made.changes)}
    told |= {"request_rate": made.request_rate, "requested_rate": made.request_rate}
    return recorder.write(
        directory,
        status="complete",
        options=OPTIONS,
        context={"kv_mode": "split", "ubatch": 512},
        replay={**told, "transforms": [], "closed_loop": False, **more},
        totals=totals(recorder),
    )


def _request(number: int, asked: TraceRequest) -> Request:
    assert asked.prompt_tokens is not None
    assert asked.output_tokens is not None
    return request(str(number), asked.prompt_tokens, asked.output_tokens, arrival_ns=asked.arrival_ns)


def totals(recorder: Recorder) -> dict[str, Any]:
    heard = ReplayAccumulator()
    for step in recorder.steps:
        heard.step(step, _no_view)
    for ref, output in recorder.outputs:
        heard.finished(ref, output)
    return heard.summary().to_dict()


def _no_view() -> Any:
    raise AssertionError("nobody looks")


@pytest.fixture(scope="module")
def profile(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return measured(tmp_path_factory.mktemp("profile") / "poisson.replay", POISSON)


def simulate(*arguments: object) -> dict[str, Any]:
    ran = cbatch("simulate", *arguments, "--summary", "json")
    assert ran.code == 0, ran.err
    return dict(json.loads(ran.out))


def test_a_replay_is_predicted_from_its_own_steps(profile: Path) -> None:
    found = simulate(POISSON, "--profile", profile)
    assert found["completed"] == 120
    assert found["model_error"]["mean"] < 0.03
    assert found["measured"].keys() == {"requests_per_s", "output_tokens_per_s", "ttft_ns", "tpot_ns", "e2e_ns"}
    assert all(abs(each["off"]) < 0.05 for each in found["measured"].values())


def test_tables_say_how_far_to_trust_it(profile: Path) -> None:
    ran = cbatch("simulate", POISSON, "-p", profile)
    assert ran.code == 0
    assert "The cost model is off by" in ran.out
    assert "the same replay" in ran.out
    assert max(map(len, ran.out.splitlines())) <= 80


def test_other_settings_are_beside_nothing_measured(profile: Path) -> None:
    assert simulate(POISSON, "-p", profile, "--max-num-seqs", 2)["measured"] == {}
    assert simulate(POISSON, "-p", profile, "--speedup", 2)["measured"] == {}
    assert simulate(POISSON, "-p", profile, "--request-rate", 3)["measured"] == {}


def test_a_replay_of_other_requests_is_beside_nothing_measured(tmp_path: Path) -> None:
    trace = tmp_path / "t.parquet"
    assert cbatch("trace", "gen", "--num-requests", 20, "-r", 4, "-o", trace).code == 0
    own = measured(tmp_path / "r", trace)
    assert simulate(trace, "-p", own)["measured"] != {}
    assert cbatch("trace", "gen", "--num-requests", 20, "-r", 4, "--seed", 1, "-o", trace, "--force").code == 0
    assert simulate(trace, "-p", own)["measured"] == {}


@pytest.mark.parametrize(("natural", "compared"), [((), True), (("--natural-lengths",), False)])
def test_a_real_replay_is_beside_its_simulation(
    tiny_model: Path, tmp_path: Path, natural: tuple[str, ...], compared: bool
) -> None:
    trace = write_trace(tmp_path / "t.parquet", steady(60))
    ran = cbatch("replay", trace, "-m", tiny_model, "-q", "-o", tmp_path / "r", "--max-num-seqs", 8, *natural)
    assert ran.code == 0, ran.err
    assert bool(simulate(trace, "-p", tmp_path / "r")["measured"]) is compared


def test_a_closed_loop_of_small_static_groups_ends(profile: Path) -> None:
    options = ("-r", "inf", "--max-concurrency", 2, "--batching", "static", "--static-wait", 50)
    assert simulate(POISSON, "-p", profile, "--limit", 6, *options)["completed"] == 6


def test_variants(profile: Path) -> None:
    found = simulate(
        POISSON,
        "-p",
        profile,
        "--request-rate",
        8,
        "--variant",
        "one:max_num_seqs=1",
        "--variant",
        "static:compact=off",
    )["variants"]
    assert list(found) == ["profile", "one", "static"]
    assert found["one"]["peak_running"] == 1
    ttft = {name: summary["latencies"]["ttft_ns"]["mean_ns"] for name, summary in found.items()}
    assert ttft["profile"] < ttft["static"] < ttft["one"]
    ran = cbatch("simulate", POISSON, "-p", profile, "--variant", "few:max_num_seqs=4")
    assert ran.code == 0
    assert [line.split()[0] for line in ran.out.splitlines()[1:3]] == ["profile", "few"]


def test_rates(profile: Path) -> None:
    found = simulate(POISSON, "-p", profile, "--sweep-rate", "1:4:2x", "--goodput", "ttft:500", "tpot:200")
    assert [point["rate"] for point in found["points"]] == [1, 2, 4]
    assert found["model_error"]["steps"] > 0
    ran = cbatch("simulate", POISSON, "-p", profile, "--find-capacity", "--goodput", "ttft:1000")
    assert ran.code == 0
    assert "Highest rate that held" in ran.out


def test_the_search_goes_up_until_requests_arrive(profile: Path) -> None:
    goal = ("--find-capacity", "--goodput", "ttft:1000")
    found = simulate(POISSON, "-p", profile, *goal, "--duration", 0.2)
    assert found["points"][0]["arrived"] == 0
    assert found["capacity"]["rate"] > found["points"][0]["rate"]
    ran = cbatch("simulate", POISSON, "-p", profile, *goal, "--duration", 1e-6)
    assert "No rate can be judged: no request arrived." in ran.out


def test_shared_prefixes_are_restored(profile: Path) -> None:
    trace = TRACES / "shared-prefix.parquet"
    cached = simulate(trace, "-p", profile, "--prefix-cache", "1GiB", "--ctx", 2048)
    assert cached["run"]["prefix_hit_rate"] > 0.2
    assert cached["run"]["restored_tokens"] > 0
    without = simulate(trace, "-p", profile, "--ctx", 2048)
    assert without["run"]["restored_tokens"] == 0
    assert without["latencies"]["ttft_ns"]["mean_ns"] > cached["latencies"]["ttft_ns"]["mean_ns"]


def test_a_profile_may_be_a_file_of_costs(tmp_path: Path) -> None:
    path = tmp_path / "profile.json"
    path.write_text(json.dumps({"step_costs": COSTS.to_dict()}), "utf-8")
    found = simulate(write_trace(tmp_path / "t.parquet", steady(5)), "-p", path)
    assert found["completed"] == 5
    assert found["model_error"] is None
    assert found["measured"] == {}


def test_it_is_kept_as_a_replay_is_and_can_be_reported_on(profile: Path, tmp_path: Path) -> None:
    found = simulate(POISSON, "-p", profile, "-o", tmp_path / "o", "--goodput", "ttft:500")
    assert found["paths"]["requests"] == str(tmp_path / "o" / "requests.parquet")
    requests, steps = table(tmp_path / "o" / "requests.parquet"), table(tmp_path / "o" / "steps.parquet")
    assert sorted(row["row"] for row in requests) == list(range(1, 121))
    assert sum(row["ttft_ns"] for row in requests) / 120 == pytest.approx(found["latencies"]["ttft_ns"]["mean_ns"])
    assert len(steps) == found["run"]["steps"]
    record = run_json(tmp_path / "o")
    assert record["status"] == "complete"
    assert record["error"] is None
    assert record["simulated"]["profile"] == str(profile)
    assert record["simulated"]["step_costs"]["version"] == 2
    assert record["simulated"]["error"] == found["model_error"]
    assert record["notes"][0] == f"simulated, by the step costs of {profile}"
    assert record["totals"]["latencies"] == found["latencies"]
    assert record["replay"]["objectives"] == {"ttft_ns": 5e8}
    assert record["replay"]["requests"] == 120
    assert record["options"]["max_num_seqs"] == 16
    assert record["overflow"] == {"policy": "error", "keep": 0}
    ran = cbatch("report", tmp_path / "o", "-o", tmp_path / "r.html")
    assert ran.code == 0, ran.err
    assert "o: simulated, by the step costs of" in (tmp_path / "r.html").read_text("utf-8")


def test_what_was_simulated_has_the_costs_it_was_simulated_with(profile: Path, tmp_path: Path) -> None:
    first = simulate(POISSON, "-p", profile, "-o", tmp_path / "o")
    again = simulate(POISSON, "-p", tmp_path / "o")
    assert again["latencies"] == first["latencies"]
    assert again["model_error"] == first["model_error"]
    assert again["measured"] == {}, "nothing was measured"


def test_an_earlier_one_is_replaced_only_by_force(profile: Path, tmp_path: Path) -> None:
    arguments = (POISSON, "-p", profile, "--limit", 5, "-o", tmp_path / "o")
    simulate(*arguments)
    assert "exists and isn't empty" in refused(*arguments)
    simulate(*arguments, "--force")
    assert len(table(tmp_path / "o" / "requests.parquet")) == 5


def test_variants_and_rates_have_a_directory_each(profile: Path, tmp_path: Path) -> None:
    arguments = (POISSON, "-p", profile, "--limit", 20)
    simulate(*arguments, "--variant", "few:max_num_seqs=2", "-o", tmp_path / "v")
    assert run_json(tmp_path / "v" / "profile")["scheduler"]["max_num_seqs"] == 16
    assert run_json(tmp_path / "v" / "few")["scheduler"]["max_num_seqs"] == 2
    found = simulate(*arguments, "--sweep-rate", "1,2.5", "--goodput", "ttft:500", "-o", tmp_path / "s")
    assert found["paths"]["sweep"] == str(tmp_path / "s" / "sweep.parquet")
    assert run_json(tmp_path / "s" / "rate-2.5")["replay"]["requested_rate"] == 2.5
    ran = cbatch("report", tmp_path / "s", tmp_path / "v" / "few", "-o", tmp_path / "r.html")
    assert ran.code == 0, ran.err


def test_requests_that_fail_are_in_the_results(profile: Path, tmp_path: Path) -> None:
    trace = write_trace(tmp_path / "t.parquet", [*steady(2), TraceRequest(10**9, prompt_tokens=900, output_tokens=3)])
    ran = cbatch("simulate", trace, "-p", profile, "-o", tmp_path / "o")
    assert ran.code == 3
    assert [row["error_code"] for row in results(tmp_path / "o")] == [None, None, "prompt_too_long"]


def test_neither_model_nor_native_library_is_loaded(profile: Path) -> None:
    code = (
        "import sys; sys.argv[0] = 'cbatch'\n"
        "from cbatch.cli import main\n"
        "try: main()\n"
        "except SystemExit: pass\n"
        "print(any(name.split('.')[0] == 'llama_cpp' for name in sys.modules), file=sys.stderr)"
    )
    arguments = [sys.executable, "-c", code, "simulate", str(POISSON), "-p", str(profile)]
    done = subprocess.run(arguments, capture_output=True, text=True, check=True, env=os.environ)
    assert done.stderr.strip() == "False"


def refused(*arguments: object) -> str:
    ran = cbatch("simulate", *arguments)
    assert ran.code == 2, ran.out + ran.err
    return " ".join(ran.err.split())


def test_traces_of_text_have_no_lengths(profile: Path, tmp_path: Path) -> None:
    trace = write_trace(tmp_path / "t.parquet", [*steady(2), TraceRequest(10**9, prompt="Hello", output_tokens=3)])
    assert "request 3: its prompt is a text, and no model is loaded" in refused(trace, "-p", profile)


def test_outputs_without_a_length_are_told(profile: Path, tmp_path: Path) -> None:
    trace = write_trace(tmp_path / "t.parquet", [TraceRequest(0, prompt_tokens=4)])
    found = simulate(trace, "-p", profile, "--max-tokens", 7)
    assert found["run"]["output_tokens"] == 7
    assert found["notes"] == [
        "the trace has no output length for 1 of its requests: such a one gets 7 tokens (--max-tokens)"
    ]


def test_mistakes_are_told(profile: Path, tmp_path: Path) -> None:
    assert "has no run.json" in refused(POISSON, "-p", tmp_path)
    assert "can't be read" in refused(POISSON, "-p", tmp_path / "none")
    (tmp_path / "other.json").write_text("{}", "utf-8")
    assert "has no 'step_costs'" in refused(POISSON, "-p", tmp_path / "other.json")
    (tmp_path / "other.json").write_text('{"step_costs": {"version": 9}}', "utf-8")
    assert "version 9" in refused(POISSON, "-p", tmp_path / "other.json")
    assert "threads is in the profile's costs" in refused(POISSON, "-p", profile, "--variant", "t:threads=4")
    assert "give one" in refused(POISSON, POISSON, "-p", profile)
    assert "--static-wait is for static" in refused(POISSON, "-p", profile, "--static-wait", 50)
    assert "--grace-period begins when" in refused(POISSON, "-p", profile, "--grace-period", 5)
    assert "--variant is for one rate" in refused(
        POISSON, "-p", profile, "--variant", "a:max_num_seqs=1", "--sweep-rate", "1,2"
    )
