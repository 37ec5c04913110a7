"""Log-probabilities on a tiny real model against a float64 reference: any chunks, any company, every mishap."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from scipy.special import log_softmax

from cbatch.config import ModelConfig
from cbatch.engine import Engine
from cbatch.engine.runner import StepPlan, StepResult
from cbatch.llama import echo, runner
from cbatch.llama.echo import text_bytes
from cbatch.llama.lib import C
from cbatch.llama.model import Model
from cbatch.llama.runner import LlamaRunner
from cbatch.llama.tokenizer import Tokenizer
from cbatch.logprobs import TokenLogprobs
from cbatch.sampling import SamplingParams
from cbatch.types import Request, RequestOutput
from tests.llama.running import answer, llama_engine, requests
from tests.llama.vocabularies import write_vocabulary

EXACT: dict[str, Any] = {"kv_type": "f32", "flash_attn": "off"}
KINDS: list[dict[str, Any]] = [
    {"logprobs": 5, "echo": True},
    {},
    {"logprobs": 0, "echo": True, "temperature": 0.9, "top_k": 30, "top_p": 0.95},
    {"logprobs": 2},
    {"echo": True},
    {"logprobs": 20, "echo": True, "repetition_penalty": 1.3, "logit_bias": ((65, 9.0), (66, -100.0))},
    {"logprobs": 1, "temperature": 1.5, "frequency_penalty": 1.0, "presence_penalty": 0.5},
    {"temperature": 1.0, "n": 1, "best_of": 2},
]


NOTHING = TokenLogprobs(np.nan, np.empty(0, np.int32), np.empty(0))
"""Of a prompt's first token."""


class Recorder:
    """Stands before a runner's `run` and keeps what is said of each request's tokens."""

    def __init__(self, runner: LlamaRunner) -> None:
        self._run = runner.run
        self.prompts: dict[str, list[TokenLogprobs]] = defaultdict(list)
        self.outputs: dict[str, list[TokenLogprobs]] = defaultdict(list)
        runner.run = self.run  # type: ignore[method-assign]

    def run(self, plan: StepPlan) -> StepResult:
        result = self._run(plan)
        for seq, start, places in result.prompt_logprobs:
            assert start == 1 + len(self.prompts[seq.id])  # in order, and none twice
            self.prompts[seq.id] += places
        for sampled in result.sampled:
            if sampled.logprobs is not None:
                self.outputs[sampled.seq.id].append(sampled.logprobs)
        return result


def reference(model: Model, tokens: npt.NDArray[np.int32]) -> npt.NDArray[np.float64]:
    """float64[n, n_vocab] after each token: one call in a context of its own, by the library's functions alone."""
    params = C.llama_context_default_params()
    params.n_ctx = params.n_batch = params.n_ubatch = 512
    params.type_k = params.type_v = C.GGML_TYPE_F32
    params.flash_attn_type = C.LLAMA_FLASH_ATTN_TYPE_DISABLED
    context = C.llama_init_from_model(model.handle, params)
    batch = C.llama_batch_init(512, 0, 1)
    for i, token in enumerate(tokens.tolist()):
        batch.token[i], batch.pos[i], batch.n_seq_id[i], batch.seq_id[i][0], batch.logits[i] = token, i, 1, 0, 1
    batch.n_tokens = tokens.size
    assert C.llama_decode(context, batch) == 0
    logits = np.ctypeslib.as_array(C.llama_get_logits(context), (tokens.size, model.n_vocab)).astype(np.float64)
    C.llama_batch_free(batch)
    C.llama_free(context)
    return np.asarray(log_softmax(logits, axis=1))


def mixed(count: int) -> list[Request]:
    """Requests of every kind, in turn."""
    kinds = [SamplingParams(max_tokens=12, **KINDS[i % len(KINDS)]) for i in range(count)]
    return [replace(r, sampling=sampling) for r, sampling in zip(requests(count), kinds, strict=True)]


def check(model: Model, outputs: dict[str, RequestOutput], found: Recorder) -> None:
    """Everything that was asked for is there and right, and nothing else is."""
    for name, output in outputs.items():
        sampling, prompt = output.request.sampling, output.request.prompt
        asked = sampling.logprobs_needed
        echoed = sampling.echo and sampling.logprobs is not None
        assert len(found.prompts[name]) == (prompt.size - 1 if echoed else 0)
        assert len(found.outputs[name]) == (output.token_ids.size if asked is not None else 0)
        for arrays, heard in (
            (output.logprobs, found.outputs[name]),
            (output.prompt_logprobs, [NOTHING, *found.prompts[name]]),
        ):
            if arrays is not None:
                np.testing.assert_array_equal(arrays.tokens, [place.token for place in heard])
        assert (output.prompt_logprobs is not None) == echoed
        if sampling.logprobs is not None:
            assert output.logprobs is not None
        if asked is None:
            continue
        tokens = np.concatenate([prompt, output.token_ids])
        after = reference(model, tokens)
        places = dict(enumerate(found.prompts[name], 1)) | dict(enumerate(found.outputs[name], prompt.size))
        for position, place in places.items():
            expected = after[position - 1]
            assert place.token == pytest.approx(expected[tokens[position]], abs=1e-5)
            assert place.top_ids.size == place.top.size == asked
            np.testing.assert_allclose(place.top, np.sort(expected)[::-1][:asked], rtol=0, atol=1e-5)
            np.testing.assert_allclose(place.top, expected[place.top_ids], rtol=0, atol=1e-5)


@pytest.mark.parametrize("kv_mode", ["split", "unified"])
@pytest.mark.parametrize("chunk", [1, 7, 64, None])
def test_agrees_with_a_float64_reference_beside_others(tiny: Model, kv_mode: str, chunk: int | None) -> None:
    with llama_engine(tiny, max_num_seqs=16, kv_mode=kv_mode, prefill_chunk=chunk, **EXACT) as (engine, llama):
        found = Recorder(llama)
        check(tiny, answer(engine, mixed(32)), found)


@pytest.mark.parametrize("chunk", [1, 7, None])
def test_agrees_with_a_float64_reference_alone(tiny: Model, chunk: int | None) -> None:
    with llama_engine(tiny, max_num_seqs=1, prefill_chunk=chunk, **EXACT) as (engine, llama):
        found = Recorder(llama)
        check(tiny, answer(engine, mixed(8)), found)


@pytest.mark.parametrize("kv_mode", ["split", "unified"])
def test_asking_changes_no_answer(tiny: Model, kv_mode: str) -> None:
    asking = mixed(16)
    with llama_engine(tiny, max_num_seqs=8, kv_mode=kv_mode, **EXACT) as (engine, _):
        with_them = answer(engine, asking)
        silent = [replace(r, sampling=replace(r.sampling, logprobs=None, echo=False, best_of=None)) for r in asking]
        without = answer(engine, silent)
    assert {n: o.token_ids.tolist() for n, o in with_them.items()} == {
        n: o.token_ids.tolist() for n, o in without.items()
    }


def test_not_asked_for_costs_nothing(tiny: Model, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise AssertionError("nobody asked")

    monkeypatch.setattr(runner, "logprobs_at", refuse)
    monkeypatch.setattr(echo, "logprobs_at", refuse)
    with llama_engine(tiny, max_num_seqs=8, **EXACT) as (engine, llama):
        rows: list[int] = []
        logits = llama.context.logits

        def counted(n: int) -> npt.NDArray[np.float32]:
            rows.append(n)
            return logits(n)

        monkeypatch.setattr(llama.context, "logits", counted)
        found = Recorder(llama)
        silent = [replace(r, sampling=replace(r.sampling, echo=i % 2 == 0)) for i, r in enumerate(requests(16))]
        outputs = answer(engine, silent)
    assert not found.prompts
    assert not found.outputs
    assert sum(rows) == sum(output.token_ids.size for output in outputs.values())


@pytest.mark.parametrize("kv_mode", ["split", "unified"])
@pytest.mark.parametrize("cuttable", [True, False])
def test_a_prompt_that_is_computed_again_is_scored_once(
    tiny: Model, kv_mode: str, cuttable: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Calls fail after some of their ubatches were computed, also on a memory that can't be cut and so loses all."""
    with llama_engine(tiny, max_num_seqs=8, kv_mode=kv_mode, prefill_chunk=20, **EXACT) as (engine, llama):
        context = llama.context
        decode, calls = context.decode, iter(range(10**6))

        def fail_now_and_then(batch: Any) -> int:
            code = decode(batch)
            return -3 if batch.n_tokens > 1 and next(calls) % 7 == 3 else code

        monkeypatch.setattr(context, "decode", fail_now_and_then)
        if not cuttable:
            monkeypatch.setattr(context, "cut", lambda slot, start: False)
        found = Recorder(llama)
        outputs = {name: o for name, o in answer(engine, mixed(16)).items() if o.error is None}
        assert len(outputs) > 8
    check(tiny, outputs, found)


@pytest.mark.parametrize("kv_mode", ["split", "unified"])
def test_a_scored_prompt_that_fails_half_way_costs_no_other(
    tiny: Model, kv_mode: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with llama_engine(tiny, max_num_seqs=8, kv_mode=kv_mode, **EXACT) as (engine, llama):
        decode = llama.context.decode

        def fail_in_slot_5(batch: Any) -> int:
            late = any(batch.seq_id[i][0] == 5 and batch.pos[i] >= 20 for i in range(batch.n_tokens))
            return 1 if late else decode(batch)

        monkeypatch.setattr(llama.context, "decode", fail_in_slot_5)
        found = Recorder(llama)
        wanted = [replace(r, sampling=SamplingParams(max_tokens=4, logprobs=3, echo=True)) for r in requests(8)]
        assert wanted[5].prompt.size > 30
        outputs = answer(engine, wanted)
    failed = outputs.pop("5")
    assert "no KV room" in str(failed.error)
    assert all(output.error is None for output in outputs.values())
    check(tiny, outputs, found)


@pytest.mark.parametrize("kv_mode", ["split", "unified"])
def test_each_sample_is_what_a_single_row_with_its_seed_gives(tiny: Model, kv_mode: str) -> None:
    prompt = requests(1)[0].prompt
    sampling = SamplingParams(max_tokens=12, temperature=1.0, n=8, logprobs=2, echo=True)
    forked = Request("f", prompt, sampling, stream_seed=100, fork_seeds=tuple(range(101, 108)))
    single = [Request(str(i), prompt, replace(sampling, n=1), stream_seed=100 + i) for i in range(8)]
    with llama_engine(tiny, max_num_seqs=4, kv_mode=kv_mode, **EXACT) as (engine, llama):
        found = Recorder(llama)
        first = answer(engine, [forked])["f"]
        alone = answer(engine, single)
    samples = [first, *first.others]
    assert [sample.sample for sample in samples] == list(range(8))
    assert [s.token_ids.tolist() for s in samples] == [alone[str(i)].token_ids.tolist() for i in range(8)]
    assert [s.text for s in samples] == [alone[str(i)].text for i in range(8)]
    assert len({s.text for s in samples}) == 8
    check(tiny, {f"f#{s.sample}" if s.sample else "f": s for s in samples} | alone, found)


def test_the_best_samples_are_those_with_the_highest_mean(tiny: Model) -> None:
    prompt = requests(1)[0].prompt
    sampling = SamplingParams(max_tokens=6, temperature=1.5, n=2, best_of=6)
    seeds = tuple(range(1, 6))
    with llama_engine(tiny, max_num_seqs=4, **EXACT) as (engine, llama):
        found = Recorder(llama)
        best = answer(engine, [Request("f", prompt, sampling, stream_seed=0, fork_seeds=seeds)])["f"]
        means = {name: np.mean([place.token for place in places]) for name, places in found.outputs.items()}
    assert len(means) == 6
    ranked = sorted(means, key=lambda name: -means[name])
    assert [f"f#{o.sample}" if o.sample else "f" for o in (best, *best.others)] == ranked[:2]


def test_a_prompt_of_one_token(tiny: Model) -> None:
    only = Request("one", np.array([65], np.int32), SamplingParams(max_tokens=3, logprobs=1, echo=True))
    with llama_engine(tiny, **EXACT) as (engine, llama):
        found = Recorder(llama)
        outputs = answer(engine, [only])
        assert outputs["one"].text.startswith("A")
    check(tiny, outputs, found)


def echoing(engine: Engine, prompt: bytes, **fields: Any) -> RequestOutput:
    tokens = np.array([256, *prompt], np.int32)  # BOS, then a token a byte
    end = fields.pop("end_tokens", frozenset())
    return answer(engine, [Request("e", tokens, SamplingParams(max_tokens=8, **fields), end_tokens=end)])["e"]


def test_text_begins_with_the_prompts_and_tokens_do_not(tiny: Model) -> None:
    with llama_engine(tiny, **EXACT) as (engine, _):
        plain = echoing(engine, b"Stop it")
        echoed = echoing(engine, b"Stop it", echo=True)
        assert echoed.text == "Stop it" + plain.text
        assert echoed.token_ids.tolist() == plain.token_ids.tolist()
        # a stop string counts in the output alone, and neither do an end token's or a stopped output's prompts get lost
        assert echoing(engine, b"Stop it", echo=True, stop=("top", "p it")).text == echoed.text
        assert echoing(engine, b"Stop it", echo=True, stop=(plain.text[0],)).text == "Stop it"
        assert echoing(engine, b"Stop it", echo=True, end_tokens=frozenset({int(plain.token_ids[0])})).text == "Stop it"
        assert echoing(engine, "Stop €".encode()[:-1], echo=True).text.startswith("Stop \ufffd")


def test_the_space_that_a_vocabulary_puts_before_a_text_is_not_said_back(tmp_path: Path) -> None:
    with Model(ModelConfig(write_vocabulary(tmp_path / "v.gguf", "llama")), vocab_only=True) as model:
        tokenizer = Tokenizer(model)
        for text in ("kalo mine", " kalo", "x", "  y"):
            tokens = tokenizer.with_bos(tokenizer.tokenize(text, parse_special=False))
            assert text_bytes(tokenizer, tokens) == text.encode()
