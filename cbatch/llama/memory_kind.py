"""What a model keeps of the tokens of a sequence, from its metadata. Pure; knows single architectures only where their
metadata leaves things out.

Full attention keeps K and V of each token in a cell of each layer. Sliding windows give up cells that no later token
looks at. Recurrent layers keep one state of fixed size for the whole sequence, which can't be taken back to an earlier
token. Hybrids have layers of both sorts.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

from cbatch.llama.kv_types import BYTES_PER_ELEMENT

ATTENTION, SLIDING_WINDOW, RECURRENT, HYBRID = KINDS = ("attention", "sliding-window", "recurrent", "hybrid")

Numbers = Mapping[str, tuple[int, ...]]
"""A model's metadata: whole numbers by key without the architecture, a tuple of one or of one for each layer."""

_STATE_BYTES = 4
"""llama.cpp keeps recurrent states in f32, whatever the KV type."""
# Every how many layers one is without window, the last of them, where files leave it out: load_swa_pattern's defaults
# in llama.cpp's src/models. Of others every layer is counted as if it had none.
_PATTERNS = {
    "cohere2": 4,
    "exaone4": 4,
    "gemma2": 2,
    "gemma3": 6,
    "gemma3n": 5,
    "gpt-oss": 2,
    "llama4": 4,
    "olmo2": 4,
}


class AttentionLayer(NamedTuple):
    """A layer that keeps K and V."""

    heads: int
    """KV heads."""
    key: int
    """Elements of a head's K, of one token."""
    value: int
    """The same of V; 0 where it is computed from K (multi-head latent attention)."""
    windowed: bool
    """Whether it looks at the window only."""

    def bytes_per_token(self, type_k: str, type_v: str) -> float:
        return self.heads * (self.key * BYTES_PER_ELEMENT[type_k] + self.value * BYTES_PER_ELEMENT[type_v])


@dataclass(frozen=True, slots=True)
class ModelMemory:
    """What a model keeps of a sequence."""

    kind: str
    """One of `KINDS`."""
    window: int
    """Tokens that windowed layers look at, the one that looks included; 0 where no layer is windowed."""
    layers: tuple[AttentionLayer, ...]
    state_bytes: int
    """Of the recurrent layers of a sequence, however long it is."""

    @property
    def cuts(self) -> bool:
        """Whether a sequence can be cut back to any earlier position."""
        return self.kind == ATTENTION

    @property
    def has_state(self) -> bool:
        """Whether any layer is recurrent."""
        return self.kind in (RECURRENT, HYBRID)

    def bytes_per_token(self, type_k: str, type_v: str, *, windowed: bool | None = None) -> float:
        """Bytes of K and V of one token, of all layers or of those that are windowed or not.

        80 layers with 8 KV heads of 128 take 327,680 in f16.
        """
        layers = [layer for layer in self.layers if windowed is None or layer.windowed == windowed]
        return sum(layer.bytes_per_token(type_k, type_v) for layer in layers)


def model_memory(architecture: str, numbers: Numbers, *, recurrent: bool, hybrid: bool, window: int) -> ModelMemory:
    """The memory of a model that llama.cpp calls recurrent or hybrid or neither, with that `window` (0 for none)."""
    kind = RECURRENT if recurrent else HYBRID if hybrid else SLIDING_WINDOW if window else ATTENTION
    count = _one(numbers, "block_count") - _one(numbers, "nextn_predict_layers")
    stateful = _stateful(architecture, numbers, count, kind)
    layers = () if recurrent else _attention_layers(architecture, numbers, count, stateful, window)
    return ModelMemory(kind, window, layers, sum(stateful) * _state_elements(numbers) * _STATE_BYTES)


def _one(numbers: Numbers, key: str, default: int = 0) -> int:
    values = numbers.get(key, ())
    return values[0] if values else default


def _each(numbers: Numbers, key: str, count: int, default: int) -> tuple[int, ...]:
    """A value for each layer, from one or from one for each."""
    values = numbers.get(key, (default,))
    return values * count if len(values) == 1 else values[:count]


def _stateful(architecture: str, numbers: Numbers, count: int, kind: str) -> list[bool]:
    """Layer by layer: whether it keeps a state."""
    if kind in (ATTENTION, SLIDING_WINDOW):
        return [False] * count
    if kind == RECURRENT or architecture == "falcon-h1":
        return [True] * count
    if "full_attention_interval" in numbers:
        interval = _one(numbers, "full_attention_interval")
        return [(i + 1) % interval != 0 for i in range(count)]
    heads = _each(numbers, "attention.head_count_kv", count, 0)
    feed_forward = _each(numbers, "feed_forward_length", count, 0)
    # nemotron's layers are one of three: a state, attention, or a feed-forward network
    apart = architecture.startswith("nemotron_h")
    return [n == 0 and not (apart and width) for n, width in zip(heads, feed_forward, strict=True)]


def _attention_layers(
    architecture: str, numbers: Numbers, count: int, stateful: list[bool], window: int
) -> tuple[AttentionLayer, ...]:
    heads = _each(numbers, "attention.head_count", count, 0)
    kv_heads = _each(numbers, "attention.head_count_kv", count, 0) if "attention.head_count_kv" in numbers else heads
    width = _one(numbers, "embedding_length") // max(1, *heads)
    key, value = _one(numbers, "attention.key_length", width), _one(numbers, "attention.value_length", width)
    key_windowed = _one(numbers, "attention.key_length_swa", key)
    value_windowed = _one(numbers, "attention.value_length_swa", value)
    if "attention.key_length_mla" in numbers:
        value = value_windowed = 0
    keeps = count - _one(numbers, "attention.shared_kv_layers")  # the last layers use the cells of earlier ones
    both = architecture == "falcon-h1"
    return tuple(
        AttentionLayer(n, key_windowed if windowed else key, value_windowed if windowed else value, windowed)
        for n, state, windowed in list(
            zip(kv_heads, stateful, _windowed(architecture, numbers, count, window), strict=True)
        )[:keeps]
        if n and (both or not state)
    )


def _windowed(architecture: str, numbers: Numbers, count: int, window: int) -> list[bool]:
    """Layer by layer: whether it looks at the window only."""
    pattern = numbers.get("attention.sliding_window_pattern", ())
    if not window:
        return [False] * count
    if len(pattern) > 1:
        return [bool(value) for value in pattern[:count]]
    every = pattern[0] if pattern else _PATTERNS.get(architecture, 1)
    return [every == 0 or i % every < every - 1 for i in range(count)]


def _state_elements(numbers: Numbers) -> int:
    """Of the state of one recurrent layer: llama.cpp's llama_hparams::n_embd_r and n_embd_s together."""
    width = _one(numbers, "embedding_length")
    if head := _one(numbers, "wkv.head_size"):  # RWKV
        return width * (_one(numbers, "token_shift_count", 2) + head)
    if kernel := _one(numbers, "shortconv.l_cache"):  # LFM2
        return width * (kernel - 1)
    kernel = _one(numbers, "ssm.conv_kernel")
    if head := _one(numbers, "kda.head_dim"):  # Kimi
        inner = max(numbers.get("attention.head_count", (0,))) * head
        return inner * (3 * (kernel - 1 if kernel else 3) + head)
    inner, state = _one(numbers, "ssm.inner_size"), _one(numbers, "ssm.state_size")
    return max(0, kernel - 1) * (inner + 2 * _one(numbers, "ssm.group_count") * state) + state * inner
