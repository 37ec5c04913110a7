from __future__ import annotations

import pytest

from cbatch.llama.gguf_header import GgufTensor
from cbatch.llama.repack import weight_bytes

AMX = frozenset({"AVX2", "AVX512", "AMX_INT8", "REPACK"})
AVX2 = frozenset({"AVX2", "REPACK"})
ARM = frozenset({"NEON", "DOTPROD", "REPACK"})


def tensor(kind: str, *shape: int, size: int = 34_000, name: str = "blk.0.ffn_up.weight") -> GgufTensor:
    return GgufTensor(name, kind, (*shape, *[1] * (4 - len(shape))), size, 0)


@pytest.mark.parametrize(
    ("kind", "shape", "features", "copied"),
    [
        ("Q8_0", (64, 64), AMX, 38_000),
        ("Q8_0", (64, 64), AVX2, 0),
        ("Q8_0", (64, 64), ARM, 34_000),
        ("Q4_1", (64, 64), AMX, 34_000),
        ("Q4_1", (64, 40), AMX, 0),  # rows in tiles of 32
        ("Q4_0", (64, 40), AMX, 34_000),  # the interleaving kernels take eight
        ("Q4_0", (64, 44), AMX, 0),
        ("Q4_K", (256, 64), AVX2, 34_000),
        ("Q4_K", (256, 64), frozenset({"AVX2"}), 0),
        ("Q4_1", (64, 64, 8), AMX, 0),  # experts are none of AMX's
        ("Q4_0", (64, 64, 8), AMX, 34_000),
        ("F32", (64, 64), AMX, 0),
        ("F16", (64, 64), AMX, 34_000),
        ("Q4_0", (64,), AMX, 0),
    ],
)
def test_what_kernels_take_is_copied(kind: str, shape: tuple[int, ...], features: frozenset[str], copied: int) -> None:
    assert weight_bytes([tensor(kind, *shape)], features) == (0 if copied else 34_000, copied)


def test_embeddings_are_copied_where_they_are_the_output_too() -> None:
    embedding = tensor("Q4_0", 64, 256, name="token_embd.weight")
    output = tensor("Q4_0", 64, 256, name="output.weight", size=7)
    assert weight_bytes([embedding], AVX2) == (34_000, 34_000)
    assert weight_bytes([embedding, output], AVX2) == (34_000, 7)
    assert weight_bytes([embedding, output], frozenset()) == (34_007, 0)
