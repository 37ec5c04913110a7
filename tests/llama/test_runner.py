"""The llama runner on a tiny real model: same tokens in any company, every return code, growth, text, abort."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from cbatch.config import ContextConfig, ModelConfig
from cbatch.errors import EngineError, Interrupted, ModelError, UsageError
from cbatch.llama import machine
from cbatch.llama.context import Context
from cbatch.llama.memory import kv_budget, kv_bytes_per_cell, within_memory
from cbatch.llama.model import Model
from cbatch.llama.runner import LlamaRunner
from cbatch.llama.tiny import write_tiny_lora
from cbatch.sampling import SamplingParams
from cbatch.types import FinishReason, Request
from tests.llama.running import answer, llama_engine, requests

EXACT: dict[str, Any] = {"kv_type": "f32", "flash_attn": "off"}
"""Arithmetic that doesn't depend on the shape of a batch."""


@pytest.fixture(scope="module")
def alone(tiny: Model) -> dict[str, list[int]]:
    """Greedy tokens of 32 requests, each run by itself, prompt in one piece."""
    with llama_engine(tiny, max_num_seqs=1, **EXACT) as (engine, _):
        return {r.id: answer(engine, [r])[r.id].token_ids.tolist() for r in requests(32)}


@pytest.mark.parametrize("kv_mode", ["split", "unified"])
@pytest.mark.parametrize("chunk", [1, 7, 64, None])
def test_a_row_gets_the_same_tokens_alone_or_beside_31_others(
    tiny: Model, alone: dict[str, list[int]], kv_mode: str, chunk: int | None
) -> None:
    with llama_engine(tiny, max_num_seqs=32, kv_mode=kv_mode, prefill_chunk=chunk, **EXACT) as (engine, _):
        together = answer(engine, requests(32))
    assert {name: output.token_ids.tolist() for name, output in together.items()} == alone
    assert len({tuple(tokens) for tokens in alone.values()}) > 16  # the model tells prompts apart


@pytest.mark.parametrize("kv_mode", ["split", "unified"])
def test_refilled_slots_start_clean(tiny: Model, alone: dict[str, list[int]], kv_mode: str) -> None:
    with llama_engine(tiny, max_num_seqs=3, kv_mode=kv_mode, **EXACT) as (engine, _):
        outputs = answer(engine, requests(32))
    assert {name: output.token_ids.tolist() for name, output in outputs.items()} == alone


def test_sampled_rows_do_not_depend_on_company(tiny: Model) -> None:
    wanted = requests(12, temperature=0.9, top_k=30, top_p=0.95)
    with llama_engine(tiny, max_num_seqs=1, **EXACT) as (engine, _):
        by_itself = {r.id: answer(engine, [r])[r.id].token_ids.tolist() for r in wanted}
    with llama_engine(tiny, max_num_seqs=12, **EXACT) as (engine, _):
        together = answer(engine, wanted)
    assert {name: output.token_ids.tolist() for name, output in together.items()} == by_itself


class Failing:
    """Stands before `Context.decode` and fails calls by a rule on the slots in the call."""

    def __init__(self, context: Context, rule: Callable[[set[int]], int]) -> None:
        self._decode = context.decode
        self._rule = rule
        self.calls = 0

    def __call__(self, batch: Any) -> int:
        self.calls += 1
        slots = {batch.seq_id[i][0] for i in range(batch.n_tokens)}
        return self._rule(slots) or self._decode(batch)


@pytest.mark.parametrize(("code", "message"), [(1, "no KV room"), (-1, "refused the batch"), (-3, "code -3")])
@pytest.mark.parametrize("kv_mode", ["split", "unified"])
def test_only_the_sequence_to_blame_fails(
    tiny: Model, alone: dict[str, list[int]], kv_mode: str, code: int, message: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with llama_engine(tiny, max_num_seqs=8, kv_mode=kv_mode, **EXACT) as (engine, runner):
        failing = Failing(runner.context, lambda slots: code if 5 in slots else 0)
        monkeypatch.setattr(runner.context, "decode", failing)
        outputs = answer(engine, requests(8))
    failed = {name: output.error for name, output in outputs.items() if output.error is not None}
    assert failed.keys() == {"5"}
    assert message in str(failed["5"])
    assert all(outputs[name].token_ids.tolist() == alone[name] for name in outputs if name != "5")


@pytest.mark.parametrize("cuttable", [True, False])
def test_what_a_failed_call_left_behind_is_undone(
    tiny: Model, alone: dict[str, list[int]], cuttable: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A fatal code after some ubatches were computed, on memories that can be cut and on those that can't."""
    with llama_engine(tiny, max_num_seqs=8, kv_mode="unified", **EXACT) as (engine, runner):
        context = runner.context
        decode, failures = context.decode, iter([0, 0, 1, 0, 0, 1])

        def fail_after_computing(batch: Any) -> int:
            code = decode(batch)
            return -3 if batch.n_tokens > 1 and next(failures, 0) else code

        monkeypatch.setattr(context, "decode", fail_after_computing)
        if not cuttable:
            monkeypatch.setattr(context, "cut", lambda slot, start: False)
        outputs = answer(engine, requests(8))
    assert {name: output.token_ids.tolist() for name, output in outputs.items()} == {
        name: alone[name] for name in outputs
    }


def test_a_library_that_fails_every_time_ends_the_run(tiny: Model, monkeypatch: pytest.MonkeyPatch) -> None:
    with llama_engine(tiny) as (engine, runner):
        monkeypatch.setattr(runner.context, "decode", lambda batch: -3)
        with pytest.raises(EngineError, match="8 times in a row"):
            answer(engine, requests(20))


def test_abort_ends_a_long_decode_call_from_another_thread(tiny: Model) -> None:
    with llama_engine(tiny, max_num_seqs=1, cells_per_seq=32768, max_num_batched_tokens=32768) as (engine, runner):
        engine.add(Request("long", np.full(32000, 65, np.int32), SamplingParams(max_tokens=1)))
        start = time.perf_counter()
        threading.Timer(0.2, runner.abort).start()
        with pytest.raises(Interrupted):
            engine.step()
        assert time.perf_counter() - start < 10


def test_stop_strings_and_end_tokens_leave_no_trace(tiny: Model) -> None:
    with llama_engine(tiny, max_num_seqs=2, **EXACT) as (engine, _):
        free = answer(engine, [requests(1, max_tokens=20)[0]])["0"]
        stop = free.text[5:8]
        prompt = requests(1)[0].prompt
        stopped = answer(engine, [Request("s", prompt, SamplingParams(max_tokens=20, stop=(stop,)))])["s"]
        end = int(free.token_ids[3])
        ended = answer(engine, [Request("e", prompt, SamplingParams(max_tokens=20), end_tokens=frozenset({end}))])["e"]
    assert stopped.text == free.text[: free.text.index(stop)]
    assert stopped.finish_reason is ended.finish_reason is FinishReason.STOP
    assert ended.token_ids.tolist() == free.token_ids[: free.token_ids.tolist().index(end) + 1].tolist()
    assert free.text.startswith(ended.text)


def test_the_context_grows_for_a_longer_request_within_its_limit(tiny: Model) -> None:
    long = Request("long", np.full(400, 66, np.int32), SamplingParams(max_tokens=4))
    longest = Request("longest", np.full(1500, 66, np.int32), SamplingParams(max_tokens=4))
    with llama_engine(tiny, max_cells=1000) as (engine, runner):
        outputs = answer(engine, [*requests(6), long, longest])
        assert runner.capacity.cells_per_seq == 512
    assert len(outputs["long"].token_ids) == 4
    assert "1503 KV cells" in str(outputs["longest"].error)
    assert sum(output.error is None for output in outputs.values()) == 7


@pytest.mark.parametrize(("kv_mode", "cells", "length"), [("split", 100, 150), ("unified", 75, 310), ("split", 1, 9)])
def test_contexts_that_the_library_rounds_up_take_what_they_say(
    tiny: Model, kv_mode: str, cells: int, length: int
) -> None:
    """llama.cpp aborts the process for a call of more tokens than a context was asked to hold before rounding."""
    prompts = [Request(str(i), np.full(length, 65, np.int32), SamplingParams(max_tokens=2)) for i in range(4)]
    with llama_engine(tiny, max_num_seqs=4, cells_per_seq=cells, kv_mode=kv_mode) as (engine, runner):
        assert runner.capacity.cells_per_seq >= length + 1
        assert all(output.error is None for output in answer(engine, prompts).values())


def test_growing_twice_and_being_refused_leaves_clean_slots(tiny: Model, alone: dict[str, list[int]]) -> None:
    def filled(name: str, length: int) -> Request:
        return Request(name, np.full(length, 66, np.int32), SamplingParams(max_tokens=2))

    with llama_engine(tiny, max_num_seqs=1, max_cells=1000, **EXACT) as (engine, runner):
        for long, cells in (
            (filled("a", 300), 512),
            (filled("b", 450), 512),
            (filled("c", 3000), 512),
            (filled("d", 900), 1024),
        ):
            output = answer(engine, [long])[long.id]
            assert (output.error is not None) == (long.id == "c")
            assert runner.capacity.cells_per_seq == cells
            assert answer(engine, [requests(1)[0]])["0"].token_ids.tolist() == alone["0"]


def test_a_pool_grows_as_a_whole(tiny: Model) -> None:
    long = Request("long", np.full(1500, 66, np.int32), SamplingParams(max_tokens=4))
    with llama_engine(tiny, max_cells=2000, kv_mode="unified", cells_per_seq=256) as (engine, runner):
        assert runner.capacity.cells_per_seq == 1024
        assert answer(engine, [*requests(3), long])["long"].error is None
        assert runner.capacity.cells_per_seq == 2048


def test_a_lora_adapter_changes_the_answers(tiny_model: Path, tiny: Model, tmp_path: Path) -> None:
    adapter = write_tiny_lora(tmp_path / "lora.gguf")

    def tokens(*loras: tuple[Path, float]) -> list[list[int]]:
        with Model(ModelConfig(tiny_model, loras=loras)) as model, llama_engine(model, **EXACT) as (engine, _):
            return [output.token_ids.tolist() for _, output in sorted(answer(engine, requests(4)).items())]

    plain = tokens()
    assert tokens((adapter, 0.0)) == plain
    assert tokens((adapter, 8.0)) != plain


def test_adapters_that_cannot_be_used_are_refused(tiny_model: Path, tmp_path: Path) -> None:
    with pytest.raises(ModelError, match="no such LoRA"):
        Model(ModelConfig(tiny_model, loras=((tmp_path / "none.gguf", 1.0),)))
    with pytest.raises(ModelError, match="can't be used as a LoRA adapter"):
        Model(ModelConfig(tiny_model, loras=((tiny_model, 1.0),)))


def test_a_thread_pool_with_a_mask_computes_the_same(tiny: Model, alone: dict[str, list[int]]) -> None:
    with llama_engine(tiny, max_num_seqs=8, cpus=(0,), priority="low", **EXACT) as (engine, _):
        outputs = answer(engine, requests(8))
    assert all(output.token_ids.tolist() == alone[name] for name, output in outputs.items())


def test_contexts_that_cannot_be_made_say_why(tiny: Model) -> None:
    with pytest.raises(EngineError, match="no context of 257 x 256"):
        Context(tiny, ContextConfig(max_num_seqs=257, cells_per_seq=256))
    for wrong in ({"kv_type": "q9"}, {"kv_mode": "both"}, {"flash_attn": "yes"}, {"threads": 0}, {"cells_per_seq": 0}):
        with pytest.raises(UsageError):
            ContextConfig(**wrong)


def test_kv_memory_halves_slots_until_it_fits(tiny: Model) -> None:
    config = ContextConfig(max_num_seqs=8, cells_per_seq=256, kv_type="f32")
    per_cell = kv_bytes_per_cell(tiny, config)
    assert per_cell == 2 * 2 * (16 + 16) * 4  # layers x KV heads x (key + value) x bytes
    assert within_memory(tiny, config, budget=8 * 256 * per_cell) == config
    fitting = within_memory(tiny, config, budget=3 * 256 * per_cell)
    assert fitting is not None
    assert fitting.max_num_seqs == 2
    assert within_memory(tiny, config, budget=255 * per_cell) is None
    assert within_memory(tiny, config, budget=0, replaced=fitting) == fitting
    assert 0 < kv_budget(tiny) < machine.total_memory()


def test_the_runner_reports_time_inside_the_library(tiny: Model) -> None:
    with llama_engine(tiny) as (engine, runner):
        assert isinstance(runner, LlamaRunner)
        engine.add(requests(1)[0])
        engine.step()
        record = engine.last_step
    assert record is not None
    assert 0 < record.prefill_call_ns <= record.end_ns - record.start_ns
    assert record.calls == 1
    assert record.output_tokens == 1
