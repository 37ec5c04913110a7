"""Tiny llama models with random weights, written in milliseconds: for the build probe and for tests.

One token a byte, so any UTF-8 text round-trips and its length in tokens is its length in bytes.
Knows the GGUF format through the `gguf` package; knows nothing of the native library.
"""

from __future__ import annotations

from pathlib import Path

import gguf
import numpy as np
import numpy.typing as npt

CHATML = (
    "{% for message in messages %}<|im_start|>{{ message['role'] }}\n{{ message['content'] }}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)

BOS, EOS, UNK, IM_START, IM_END = range(256, 261)
N_VOCAB = 261
N_LAYERS = 2
N_HEADS = 4
N_KV_HEADS = 2
N_CTX = 2048

_WIDTH = 64
_WIDTH_OF_SUPERBLOCKS = 256

Weights = npt.NDArray[np.float32]


def write_tiny(
    path: Path, *, weight_type: str = "F32", seed: int = 0, chat_template: str | None = CHATML, add_bos: bool = True
) -> Path:
    """Write a two-layer llama model to `path` and return it.

    Args:
        path: where to write; its folder must exist.
        weight_type: ggml type of every matrix (`F32`, `Q4_0`, `Q6_K`, ...). Types that `gguf` can't quantise
            get all-zero blocks: the kernels run, the logits are zero.
        seed: of the weights.
        chat_template: Jinja source; None leaves it out.
        add_bos: whether the tokenizer adds BOS.
    """
    quant = gguf.GGMLQuantizationType[weight_type]
    writer = gguf.GGUFWriter(path, "llama")
    _add_metadata(writer, width_for(weight_type))
    _add_vocabulary(writer, add_bos)
    if chat_template is not None:
        writer.add_chat_template(chat_template)
    for name, weights in _tensors(width_for(weight_type), np.random.default_rng(seed)).items():
        if weights.ndim == 1:
            writer.add_tensor(name, weights)
        else:
            writer.add_tensor(name, _encode(weights, quant), raw_dtype=quant)
    return _finish(writer, path)


def write_tiny_lora(path: Path, *, width: int = _WIDTH, rank: int = 4, alpha: float = 8.0, seed: int = 0) -> Path:
    """Write a LoRA adapter for the query projections of a tiny model of that width, and return `path`."""
    rng = np.random.default_rng(seed)
    writer = gguf.GGUFWriter(path, "llama")
    writer.add_type(gguf.GGUFType.ADAPTER)
    writer.add_string("adapter.type", "lora")
    writer.add_float32("adapter.lora.alpha", alpha)
    for layer in range(N_LAYERS):
        writer.add_tensor(f"blk.{layer}.attn_q.weight.lora_a", _normal(rng, rank, width, gain=1.0))
        writer.add_tensor(f"blk.{layer}.attn_q.weight.lora_b", _normal(rng, width, rank, gain=1.0))
    return _finish(writer, path)


def width_for(weight_type: str) -> int:
    """Embedding width of the tiny model: rows must be whole blocks, of 256 weights in the K- and I-quants."""
    block, _ = gguf.GGML_QUANT_SIZES[gguf.GGMLQuantizationType[weight_type]]
    return _WIDTH if _WIDTH % block == 0 else _WIDTH_OF_SUPERBLOCKS


def _add_metadata(writer: gguf.GGUFWriter, width: int) -> None:
    writer.add_type(gguf.GGUFType.MODEL)
    writer.add_name("cbatch tiny")
    writer.add_context_length(N_CTX)
    writer.add_embedding_length(width)
    writer.add_feed_forward_length(width)
    writer.add_block_count(N_LAYERS)
    writer.add_head_count(N_HEADS)
    writer.add_head_count_kv(N_KV_HEADS)
    writer.add_rope_dimension_count(width // N_HEADS)
    writer.add_layer_norm_rms_eps(1e-5)
    writer.add_vocab_size(N_VOCAB)


def _add_vocabulary(writer: gguf.GGUFWriter, add_bos: bool) -> None:
    bytes_as_text = _gpt2_alphabet()
    special = ["<s>", "</s>", "<unk>", "<|im_start|>", "<|im_end|>"]
    writer.add_tokenizer_model("gpt2")
    # of the byte-level pre-tokenisers, one whose text the library doesn't tidy up (with gpt-2, " ." comes back as ".")
    writer.add_tokenizer_pre("qwen2")
    writer.add_token_list([*bytes_as_text, *special])
    writer.add_token_types([gguf.TokenType.NORMAL] * 256 + [gguf.TokenType.CONTROL] * len(special))
    # The library wants at least one merge; no UTF-8 text holds the byte 0xFF, so this one never applies.
    writer.add_token_merges([f"{bytes_as_text[255]} {bytes_as_text[255]}"])
    writer.add_bos_token_id(BOS)
    writer.add_eos_token_id(EOS)
    writer.add_unk_token_id(UNK)
    writer.add_add_bos_token(add_bos)


def _gpt2_alphabet() -> list[str]:
    """The printable character that stands for each byte in byte-level BPE vocabularies (Radford et al. 2019)."""
    printable = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    rest = iter(range(256, 512))
    return [chr(byte) if byte in printable else chr(next(rest)) for byte in range(256)]


def _tensors(width: int, rng: np.random.Generator) -> dict[str, Weights]:
    """All weights by name. The gains make attention sharp and logits well apart (standard deviation about 2.5)."""
    kv_width = width // N_HEADS * N_KV_HEADS
    tensors = {
        "token_embd.weight": _normal(rng, N_VOCAB, width, gain=width**0.5),
        "output_norm.weight": np.ones(width, np.float32),
        "output.weight": _normal(rng, N_VOCAB, width, gain=2.5),
    }
    for layer in range(N_LAYERS):
        block = f"blk.{layer}"
        tensors[f"{block}.attn_norm.weight"] = np.ones(width, np.float32)
        tensors[f"{block}.attn_q.weight"] = _normal(rng, width, width, gain=1.5)
        tensors[f"{block}.attn_k.weight"] = _normal(rng, kv_width, width, gain=1.5)
        tensors[f"{block}.attn_v.weight"] = _normal(rng, kv_width, width, gain=2.0)
        tensors[f"{block}.attn_output.weight"] = _normal(rng, width, width, gain=1.0)
        tensors[f"{block}.ffn_norm.weight"] = np.ones(width, np.float32)
        tensors[f"{block}.ffn_gate.weight"] = _normal(rng, width, width, gain=1.5)
        tensors[f"{block}.ffn_up.weight"] = _normal(rng, width, width, gain=1.5)
        tensors[f"{block}.ffn_down.weight"] = _normal(rng, width, width, gain=1.0)
    return tensors


def _normal(rng: np.random.Generator, rows: int, columns: int, *, gain: float) -> Weights:
    """float32[rows, columns] that maps a vector of unit RMS to one of RMS `gain`."""
    return rng.normal(0, gain / columns**0.5, (rows, columns)).astype(np.float32)


def _encode(weights: Weights, quant: gguf.GGMLQuantizationType) -> npt.NDArray[np.generic]:
    """`weights` in the bytes of `quant`, or zero blocks where `gguf` can't quantise to it."""
    try:
        encoded: npt.NDArray[np.generic] = gguf.quants.quantize(weights, quant)
    except NotImplementedError:
        block, size = gguf.GGML_QUANT_SIZES[quant]
        encoded = np.zeros((weights.shape[0], weights.shape[1] // block * size), np.uint8)
    return encoded


def _finish(writer: gguf.GGUFWriter, path: Path) -> Path:
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path
