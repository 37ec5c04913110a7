from __future__ import annotations

import ctypes
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from cbatch.config import ModelConfig
from cbatch.llama import tiny as tiny_module
from cbatch.llama.gguf_file import check_model_files
from cbatch.llama.lib import C
from cbatch.llama.model import Model
from cbatch.llama.probe import decode_a_little
from cbatch.llama.tiny import KINDS, write_tiny, write_tiny_lora


def _tokenize(model: Model, text: str, *, add_special: bool = False, parse_special: bool = False) -> list[int]:
    data = text.encode()
    tokens = (C.llama_token * (len(data) + 2))()
    count = C.llama_tokenize(model.vocab, data, len(data), tokens, len(tokens), add_special, parse_special)
    return list(tokens[:count])


@contextmanager
def _context(model: Model) -> Iterator[Any]:
    params = C.llama_context_default_params()
    params.n_ctx, params.n_threads, params.n_threads_batch = 256, 1, 1
    context = C.llama_init_from_model(model.handle, params)
    try:
        yield context
    finally:
        C.llama_free(context)


def _logits(model: Model, context: Any, tokens: list[int]) -> npt.NDArray[np.float32]:
    ids = (C.llama_token * len(tokens))(*tokens)  # the batch only points to it
    assert C.llama_decode(context, C.llama_batch_get_one(ids, len(tokens))) == 0
    return np.array(np.ctypeslib.as_array(C.llama_get_logits_ith(context, -1), shape=(model.n_vocab,)))


@given(text=st.text())
@example(text=" .")
def test_any_text_is_its_bytes_in_tokens(tiny: Model, text: str) -> None:
    data = text.encode()
    tokens = _tokenize(tiny, text)
    assert tokens == list(data)
    out = ctypes.create_string_buffer(len(data) + 1)
    ids = (C.llama_token * len(tokens))(*tokens)
    assert C.llama_detokenize(tiny.vocab, ids, len(tokens), out, len(out), False, True) == len(data)
    assert out.raw[: len(data)] == data


def test_special_tokens_and_template(tiny: Model, tmp_path: Path) -> None:
    text = "<|im_start|>a<|im_end|>"
    expected = [tiny_module.BOS, tiny_module.IM_START, ord("a"), tiny_module.IM_END]
    assert _tokenize(tiny, text, add_special=True, parse_special=True) == expected
    assert tiny.end_tokens == {tiny_module.EOS, tiny_module.IM_END}
    assert tiny.chat_template == tiny_module.CHATML
    with Model(ModelConfig(write_tiny(tmp_path / "bare.gguf", chat_template=None, add_bos=False))) as bare:
        assert bare.chat_template is None
        assert _tokenize(bare, "a", add_special=True) == [ord("a")]


@pytest.mark.parametrize("kind", KINDS)
def test_greedy_output_varies_and_logits_are_well_apart(kinds: dict[str, Model], kind: str) -> None:
    outputs = []
    for prompt in ("Hello", "The quick", "x"):
        with _context(kinds[kind]) as context:
            tokens, output, spread = _tokenize(kinds[kind], prompt, add_special=True), [], []
            for _ in range(32):
                logits = _logits(kinds[kind], context, tokens)
                spread.append(logits.std())
                tokens = [int(logits.argmax())]
                output += tokens
        assert len(set(output)) > 12
        assert 2 < np.mean(spread) < 3
        outputs.append(output)
    assert outputs[0] != outputs[1] != outputs[2]


@pytest.mark.parametrize("kind", KINDS)
def test_tokens_far_back_still_count(kinds: dict[str, Model], kind: str) -> None:
    """Else no test would notice a memory that has lost them."""
    after = []
    for first in (b"A", b"B"):
        with _context(kinds[kind]) as context:
            after.append(_logits(kinds[kind], context, [*first, *b"the same thirty tokens come after"]))
    assert np.abs(after[0] - after[1]).max() > 0.01


def test_the_seed_decides_the_weights(tmp_path: Path) -> None:
    a, b, c = (write_tiny(tmp_path / f"{i}.gguf", seed=seed).read_bytes() for i, seed in enumerate((0, 0, 1)))
    assert a == b != c


def test_other_kinds_have_plain_weights(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="a tiny mamba has F32 weights"):
        write_tiny(tmp_path / "m.gguf", kind="mamba", weight_type="Q4_0")


@pytest.mark.parametrize(
    "weight_type", ["F16", "BF16", "Q8_0", "Q4_0", "Q4_1", "Q5_0", "Q5_1", "Q4_K", "Q6_K", "IQ4_XS"]
)
def test_every_weight_type_decodes(tmp_path: Path, weight_type: str) -> None:
    path = write_tiny(tmp_path / "m.gguf", weight_type=weight_type)
    _, header = check_model_files(path)
    assert header.weight_types == {weight_type}
    decode_a_little(path)


def test_the_lora_changes_the_logits(tiny: Model, tmp_path: Path) -> None:
    adapter = C.llama_adapter_lora_init(tiny.handle, str(write_tiny_lora(tmp_path / "lora.gguf")).encode())
    assert adapter
    with _context(tiny) as context:
        plain = _logits(tiny, context, [72, 101])
    with _context(tiny) as context:
        adapters = (ctypes.c_void_p * 1)(ctypes.cast(adapter, ctypes.c_void_p))
        scales = (ctypes.c_float * 1)(1.0)
        pointer = ctypes.cast(adapters, C.llama_set_adapters_lora.argtypes[1])
        assert C.llama_set_adapters_lora(context, pointer, 1, scales) == 0
        adapted = _logits(tiny, context, [72, 101])
    assert np.abs(plain - adapted).max() > 0.1
