"""What a comparison says of the machine, on virtual runs."""

from __future__ import annotations

from cbatch.cli.compare_notes import machine_notes
from cbatch.metrics import RunCollector, RunData
from cbatch.metrics.compare import compare
from tests.metrics.loads import play, poisson


def run(slots: int) -> RunData:
    collector = RunCollector()
    play(poisson(0.9, 200, seed=0, slots=4, steps=5), collector, slots=slots, steps=5)
    return collector.data()


def test_leaders_bounds_and_what_a_batch_is_worth() -> None:
    runs = {"one": [run(1), run(1)], "four": [run(4), run(4)]}
    leaders, reached, worth = machine_notes(compare(runs, "one"), runs)
    assert "throughput four" in leaders
    assert "mean TTFT four" in leaders
    assert reached.startswith("of the best throughput that the costs of steps allow here: one ")
    assert worth.startswith("a decode step of 4 sequences takes")


def test_the_bound_says_that_it_computes_once_what_prompts_share() -> None:
    shared = {"a": [run(2)], "b": [run(4)]}  # the prompts are one token, which is computed in any case
    alike = "with what prompts share computed once"
    assert not any(alike in note for note in machine_notes(compare(shared, "a"), shared))
    for runs in shared.values():
        runs[0].columns["prompt_tokens"][:] = 2
    assert any(f"allow here, {alike}: a " in note for note in machine_notes(compare(shared, "a"), shared))


def test_equal_runs_have_no_leader() -> None:
    runs = {"a": [run(2)], "b": [run(2)]}
    assert not any("best median" in note for note in machine_notes(compare(runs, "a"), runs))
