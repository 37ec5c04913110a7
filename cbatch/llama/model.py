"""A loaded model: its weights, vocabulary and metadata. Knows no context and no batch."""

from __future__ import annotations

import ctypes
import os
from functools import cached_property
from pathlib import Path
from typing import Any

from cbatch.config import ModelConfig
from cbatch.errors import ModelError, UsageError
from cbatch.llama import lib
from cbatch.llama.gguf_header import parse_numbers
from cbatch.llama.lib import C
from cbatch.llama.memory_kind import ModelMemory, model_memory


class Model:
    """Weights of one GGUF file. Raises `ModelError` where it can't be loaded or can't generate text.

    Close it (or use it as a context manager) after every context made from it.
    """

    def __init__(self, config: ModelConfig, *, vocab_only: bool = False) -> None:
        lib.start()
        self.config = config
        params = self._params()
        params.vocab_only = vocab_only
        if config.tensor_split:
            if len(config.tensor_split) > C.llama_max_devices():
                raise UsageError(
                    f"tensor-split has {len(config.tensor_split)} shares: give {C.llama_max_devices()} at most"
                )
            shares = (ctypes.c_float * C.llama_max_devices())(*config.tensor_split)
            self._tensor_split = shares  # the library keeps the pointer while it loads
            params.tensor_split = shares
        self._load(params)
        self.loras: list[tuple[Any, float]] = []
        """(native adapter, scale), applied to every context; freed with the model."""
        if not vocab_only:
            self._refuse_non_generators()
            self.loras = [(self._load_lora(path), scale) for path, scale in config.loras]

    def _params(self) -> Any:
        """As the library takes them."""
        params = C.llama_model_default_params()
        params.use_extra_bufts = self.config.use_extra_bufts
        params.n_gpu_layers = self.config.gpu_layers
        if self.config.main_gpu is not None:
            params.split_mode = C.LLAMA_SPLIT_MODE_NONE  # else main_gpu isn't looked at
            params.main_gpu = self.config.main_gpu
        return params

    def _load(self, params: Any) -> None:
        lib.take_errors()
        self.handle: Any = C.llama_model_load_from_file(os.fsencode(self.config.path), params)
        if not self.handle:
            reason = lib.take_errors() or "the library gives no reason"
            raise ModelError(f"{self.config.path} can't be loaded: {reason}")
        self.vocab: Any = C.llama_model_get_vocab(self.handle)

    def _load_lora(self, path: Path) -> Any:
        if not os.path.isfile(path):  # Path raises for some names
            self.close()
            raise ModelError(f"{path}: there is no such LoRA adapter")
        lib.take_errors()
        adapter = C.llama_adapter_lora_init(self.handle, os.fsencode(path))
        if not adapter:
            reason = lib.take_errors() or "the library gives no reason"
            self.close()
            raise ModelError(f"{path} can't be used as a LoRA adapter of {self.config.path}: {reason}")
        return adapter

    @property
    def offloaded(self) -> bool:
        """Whether layers were put on a GPU."""
        return self.config.gpu_layers != 0 and bool(C.llama_supports_gpu_offload())

    def _refuse_non_generators(self) -> None:
        path = self.config.path
        reason = None
        if C.llama_model_has_encoder(self.handle):
            reason = "is an encoder-decoder model, which cbatch can't run: give a decoder-only model"
        elif not C.llama_model_has_decoder(self.handle):
            reason = "is an embedding model, which can't generate text: give a decoder-only model"
        elif C.llama_model_is_diffusion(self.handle):
            reason = "is a diffusion model, which cbatch can't run: give a decoder-only model"
        if reason is not None:
            self.close()
            raise ModelError(f"{path} {reason}")

    @cached_property
    def n_vocab(self) -> int:
        return int(C.llama_vocab_n_tokens(self.vocab))

    @cached_property
    def n_ctx_train(self) -> int:
        """Context the model was trained for, in tokens."""
        return int(C.llama_model_n_ctx_train(self.handle))

    @cached_property
    def n_ctx_original(self) -> int | None:
        """Context before it was extended, in tokens; None where the model doesn't tell.

        LongRoPE models rotate keys by other factors in contexts beyond it (llama_model::get_rope_factors).
        """
        key = f"{self.metadata.get('general.architecture')}.rope.scaling.original_context_length"
        return int(self.metadata[key]) if key in self.metadata else None

    @cached_property
    def end_tokens(self) -> frozenset[int]:
        """End-of-generation tokens of the vocabulary."""
        return frozenset(t for t in range(self.n_vocab) if C.llama_vocab_is_eog(self.vocab, t))

    @cached_property
    def chat_template(self) -> str | None:
        """The model's own Jinja chat template."""
        template = C.llama_model_chat_template(self.handle, None)
        return template.decode("utf-8", "replace") if template else None

    @cached_property
    def metadata(self) -> dict[str, str]:
        """The GGUF's scalar metadata as strings (arrays are shortened by the library)."""
        found = {}
        for i in range(C.llama_model_meta_count(self.handle)):
            key = _text(C.llama_model_meta_key_by_index, self.handle, i)
            found[key] = _text(C.llama_model_meta_val_str_by_index, self.handle, i)
        return found

    @cached_property
    def memory(self) -> ModelMemory:
        """What the model keeps of the tokens of a sequence."""
        return model_memory(
            self.metadata.get("general.architecture", ""),
            parse_numbers(self.config.path),
            recurrent=bool(C.llama_model_is_recurrent(self.handle)),
            hybrid=bool(C.llama_model_is_hybrid(self.handle)),
            window=int(C.llama_model_n_swa(self.handle)),
        )

    @property
    def description(self) -> str:
        """Such as `llama 135M Q4_1`."""
        return _text(C.llama_model_desc, self.handle)

    def close(self) -> None:
        if self.handle:
            C.llama_model_free(self.handle)
            self.handle = None

    def __enter__(self) -> Model:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def _text(function: Any, *arguments: Any) -> str:
    """Call a snprintf-like function, with a larger buffer if it asks for one."""
    size = 256
    while True:
        buffer = ctypes.create_string_buffer(size)
        needed = function(*arguments, buffer, size)
        if needed < size:
            return buffer.value.decode("utf-8", "replace")
        size = needed + 1
