"""The types that K and V can be kept in: their sizes, the defaults, and which of them a model can have."""

from __future__ import annotations

from typing import TYPE_CHECKING

from cbatch.config import ContextConfig
from cbatch.errors import UsageError

if TYPE_CHECKING:
    from cbatch.llama.memory_kind import ModelMemory
    from cbatch.llama.model import Model

BYTES_PER_ELEMENT = {
    "f32": 4.0,
    "f16": 2.0,
    "bf16": 2.0,
    "q8_0": 34 / 32,
    "q5_1": 24 / 32,
    "q5_0": 22 / 32,
    "q4_1": 20 / 32,
    "q4_0": 18 / 32,
    "iq4_nl": 18 / 32,
}
"""ggml's block sizes: bytes of a block / elements of a block."""
_PLAIN = ("f32", "f16", "bf16")
_BLOCK = 32
"""Elements of a block of each quantised type above."""


def kv_types(model: Model, config: ContextConfig) -> tuple[str, str]:
    """Of K and V; measured on CPUs, bf16 with flash attention decodes up to twice as fast as llama.cpp's own f16.

    Keys in bf16 can't be shifted, and it's V's type that decides most of the speed.
    """
    kv_type = config.kv_type
    if kv_type is None:
        apart = all(layer.value > 0 for layer in model.memory.layers)
        shiftable = "f16/bf16" if apart else "f16"
        kv_type = "f16" if model.offloaded else shiftable if config.shifts else "bf16"
    type_k, _, type_v = kv_type.partition("/")
    return type_k, type_v or type_k


def check_kv_types(memory: ModelMemory, type_k: str, type_v: str, flash_attn: str) -> None:
    """Raises `UsageError` where llama.cpp refuses the types, or takes them and computes nonsense.

    It checks the block of K only with flash attention on; without, heads that are no whole blocks give wrong logits.
    """
    if type_v not in _PLAIN and flash_attn == "off":
        raise UsageError(
            f"kv-type is {type_k}/{type_v}: a quantised V needs flash attention; give --flash-attn on, or "
            f"--kv-type {type_k}/bf16"
        )
    for name, kv_type, lengths in (
        ("K", type_k, {layer.key for layer in memory.layers}),
        ("V", type_v, {layer.value for layer in memory.layers}),
    ):
        odd = sorted(length for length in lengths if length % _BLOCK) if kv_type not in _PLAIN else []
        if odd:
            raise UsageError(
                f"kv-type {kv_type} keeps blocks of {_BLOCK} elements, and this model's {name} heads have {odd[0]}: "
                "give --kv-type bf16 or f16"
            )
    if type_k != type_v and any(layer.value == 0 for layer in memory.layers):
        raise UsageError(f"kv-type is {type_k}/{type_v}: this model keeps K and V as one, so give a single type")
