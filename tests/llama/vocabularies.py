"""Small vocabularies of the kinds that real models have beside byte-level BPE, written as GGUF files without weights.

Each holds 1,110 words, each with its space, and the things that make joined texts tokenise otherwise: words that the
tokeniser never makes, and a token that holds two words.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path

import gguf

SYLLABLES = ["ka", "lo", "mi", "ne", "ru", "so", "ta", "ve", "wi", "zo"]
WORDS = [
    *SYLLABLES,
    *(a + b for a in SYLLABLES for b in SYLLABLES),
    *(a + b + c for a in SYLLABLES for b in SYLLABLES for c in SYLLABLES),
]
"""Many begin with another one of them."""
NEVER_MADE = "unreachable"
"""A word that is a token of the `llama` and `t5` vocabularies, and not what its text tokenises to."""
JOINED = ("of", "the")
"""Two words that are one token where they meet."""

NORMAL, CONTROL, UNKNOWN, BYTE = (
    gguf.TokenType.NORMAL,
    gguf.TokenType.CONTROL,
    gguf.TokenType.UNKNOWN,
    gguf.TokenType.BYTE,
)
_Entry = tuple[str, float, gguf.TokenType]


def write_vocabulary(path: Path, kind: str) -> Path:
    """Write a vocabulary of a kind in `KINDS` to `path`, and return it."""
    writer = gguf.GGUFWriter(path, "llama")
    writer.add_name(f"cbatch {kind} vocabulary")
    writer.add_tokenizer_model(kind)
    texts, scores, types = zip(*KINDS[kind](writer), strict=True)
    writer.add_token_list(texts)
    writer.add_token_scores(scores)
    writer.add_token_types(types)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.close()
    return path


def _llama(writer: gguf.GGUFWriter) -> Iterable[_Entry]:
    """SentencePiece BPE: merges the best-scored pair first, anywhere in the text; adds a space before it, and BOS."""
    writer.add_unk_token_id(0)
    writer.add_bos_token_id(1)
    writer.add_eos_token_id(2)
    yield from [("<unk>", 0.0, UNKNOWN), ("<s>", 0.0, CONTROL), ("</s>", 0.0, CONTROL)]
    yield from ((f"<0x{byte:02X}>", 0.0, BYTE) for byte in range(256))
    made = [*WORDS, *JOINED, "▁".join(JOINED)]
    steps = sorted({f"▁{word}"[:end] for word in made for end in range(1, len(word) + 2)}, key=lambda s: (len(s), s))
    yield from ((text, -float(rank), NORMAL) for rank, text in enumerate(steps))
    yield f"▁{NEVER_MADE}", 0.0, NORMAL


def _t5(writer: gguf.GGUFWriter) -> Iterable[_Entry]:
    """Unigram: the segmentation of the whole text with the best sum of scores; spaces are tidied up; no BOS."""
    writer.add_pad_token_id(0)
    writer.add_eos_token_id(1)
    writer.add_unk_token_id(2)
    writer.add_add_space_prefix(True)
    writer.add_remove_extra_whitespaces(True)
    yield from [("<pad>", 0.0, CONTROL), ("</s>", 0.0, CONTROL), ("<unk>", -99.0, UNKNOWN)]
    yield from ((letter, -5.0, NORMAL) for letter in "▁abcdefghijklmnopqrstuvwxyz")
    yield from ((f"▁{word}", -8.0 - rank / 1000, NORMAL) for rank, word in enumerate([*WORDS, *JOINED]))
    yield f"▁{NEVER_MADE}", -500.0, NORMAL
    yield "▁" + "▁".join(JOINED), -9.0, NORMAL


def _bert(writer: gguf.GGUFWriter) -> Iterable[_Entry]:
    """WordPiece: words at white space, each by its longest pieces from the left; adds BOS."""
    special = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
    writer.add_pad_token_id(0)
    writer.add_unk_token_id(1)
    writer.add_bos_token_id(2)
    writer.add_sep_token_id(3)
    writer.add_mask_token_id(4)
    yield from ((text, 0.0, CONTROL) for text in special)
    yield from ((letter, 0.0, NORMAL) for letter in "▁abcdefghijklmnopqrstuvwxyz")
    yield from ((f"▁{word}", 0.0, NORMAL) for word in [*WORDS, *JOINED])


def _rwkv(writer: gguf.GGUFWriter) -> Iterable[_Entry]:
    """The longest token at each place of the text, across spaces too; no BOS."""
    yield "<s>", 0.0, CONTROL
    yield from ((f"\\x{byte:02x}", 0.0, NORMAL) for byte in range(256))
    yield from ((f" {word}", 0.0, NORMAL) for word in [*WORDS, *JOINED])
    yield " " + " ".join(JOINED), 0.0, NORMAL


KINDS: dict[str, Callable[[gguf.GGUFWriter], Iterable[_Entry]]] = {
    "llama": _llama,
    "t5": _t5,
    "bert": _bert,
    "rwkv": _rwkv,
}
