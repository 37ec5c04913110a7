"""A local model for programs: everything between a model's name and requests that an engine can run."""

from __future__ import annotations

import warnings
from itertools import count
from typing import Any

from cbatch.clock import WallClock
from cbatch.config import ContextConfig, ModelConfig
from cbatch.errors import ParameterError
from cbatch.llama.chat import load_template
from cbatch.llama.encode import Encoder
from cbatch.llama.gguf_file import check_model_files
from cbatch.llama.locate import resolve_model
from cbatch.llama.model import Model
from cbatch.llama.probe import probe, warning_for
from cbatch.llama.runner import LlamaRunner
from cbatch.llama.tokenizer import Tokenizer
from cbatch.sampling import SamplingParams
from cbatch.types import Messages, Request, Row, RowFault, RowKind, RowRef


class LocalModel:
    """A model loaded with a context to run it in; a context manager.

        with LocalModel("smollm2", max_num_seqs=8) as model:
            engine = Engine(model.runner)
            engine.add(model.request("a", "What is the capital of France?", SamplingParams(max_tokens=16)))
            for output in engine:
                print(output.id, output.text)

    `spec` is what `cbatch run --model` takes; `context` are fields of `ContextConfig`. The context grows for requests
    that need more than its `cells_per_seq`. Raises `ModelError`, `UsageError` or `EngineError`.
    """

    def __init__(self, spec: str = "smollm2", **context: Any) -> None:
        config = ContextConfig(**context)
        path, header = check_model_files(resolve_model(spec))
        kernels = probe(header.weight_types)
        if not kernels.ok:
            warnings.warn(warning_for(kernels), stacklevel=2)
        self._model = Model(ModelConfig(path, use_extra_bufts=kernels.ok))
        tokenizer = Tokenizer(self._model)
        self._encoder = Encoder(self._model, tokenizer, template=load_template(self._model, None, {}))
        self._numbers = count(1)
        self.runner = LlamaRunner(self._model, tokenizer, config, WallClock(), max_cells=self._model.n_ctx_train)

    def request(
        self,
        request_id: str,
        prompt: str | Messages,
        sampling: SamplingParams | None = None,
        *,
        raw: bool = False,
        priority: int = 0,
    ) -> Request:
        """A request for an engine on `runner`, arriving now.

        A string becomes one user message where the model has a chat template, unless `raw`. Raises `ParameterError`
        for what would be an error row of `cbatch run`.
        """
        content = prompt if isinstance(prompt, str) else tuple(prompt)
        plain = RowKind.COMPLETION if raw else RowKind.PROMPT
        kind = plain if isinstance(prompt, str) else RowKind.CHAT
        ref = RowRef(next(self._numbers), request_id, request_id, self.runner.clock.now_ns(), kind)
        row = Row(ref, content, sampling if sampling is not None else SamplingParams(), priority)
        made = self._encoder.encode(row)
        if isinstance(made, RowFault):
            raise ParameterError(f"request {request_id!r}: {made.message}")
        return made

    def close(self) -> None:
        self.runner.close()
        self._model.close()

    def __enter__(self) -> LocalModel:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
