"""Tiny models with random weights, written in milliseconds, one kind for each kind of memory: for the build probe and
for tests.

One token a byte, so any UTF-8 text round-trips and its length in tokens is its length in bytes.
Knows the GGUF format through the `gguf` package; knows nothing of the native library.
"""

from __future__ import annotations

from cbatch.llama.tiny.llama import N_LAYERS
from cbatch.llama.tiny.vocabulary import BOS, CHATML, EOS, IM_END, IM_START, N_VOCAB, UNK
from cbatch.llama.tiny.weights import N_CTX, width_for
from cbatch.llama.tiny.write import KINDS, write_tiny, write_tiny_lora

__all__ = [
    "BOS",
    "CHATML",
    "EOS",
    "IM_END",
    "IM_START",
    "KINDS",
    "N_CTX",
    "N_LAYERS",
    "N_VOCAB",
    "UNK",
    "width_for",
    "write_tiny",
    "write_tiny_lora",
]
