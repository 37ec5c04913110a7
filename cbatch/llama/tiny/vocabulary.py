"""The vocabulary of the tiny models: a token for each byte, five special ones, and a chat template."""

from __future__ import annotations

import gguf

CHATML = (
    "{% for message in messages %}<|im_start|>{{ message['role'] }}\n{{ message['content'] }}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)

BOS, EOS, UNK, IM_START, IM_END = range(256, 261)
N_VOCAB = 261


def add_vocabulary(writer: gguf.GGUFWriter, add_bos: bool) -> None:
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
