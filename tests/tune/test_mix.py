"""What a job is made of, on numbers that can be checked by hand."""

from __future__ import annotations

from cbatch.tune.mix import Mix, Speeds, made_up


def test_lengths_of_rows() -> None:
    mix = Mix.of(made_up([100, 300], [10, 30], 50))
    assert mix.prompts == (100, 300)
    assert (mix.prompt, mix.outputs) == (200, 20)
    assert mix.context == round((10 * 105 + 30 * 315) / 40)


def test_shared_beginnings_are_not_computed_again() -> None:
    assert Mix.of(made_up([100, 300], [10, 30], 50), shared_tokens=200).prompts == (50, 150)


def test_what_a_row_takes() -> None:
    mix = Mix((100,), 11.0, 105)
    assert mix.row_ns(Speeds(prompt_ns=2.0, step_ns=80.0, running=8)) == 100 * 2 + 10 * 10


def test_prompts_to_try_are_like_the_job_s() -> None:
    mix = Mix((10, 20, 30, 40, 50), 8.0, 30)
    assert mix.prompts_of(150, 32).lengths == (10, 20, 30, 40, 50)
    assert mix.prompts_of(60, 32).lengths == (20, 40)
    assert mix.prompts_of(3000, 2).lengths == (20, 40)
    assert mix.prompts_of(20, 32).lengths == (20,)
