"""Turns rows into requests: chat template, tokens, BOS, end tokens, seeds. Knows no context and no queue.

Whether a prompt fits the context is not asked here.
"""

from __future__ import annotations

import hashlib
import threading

from cbatch.errors import EngineError, ParameterError
from cbatch.llama.chat import ChatTemplate, ChatTemplateError, ControlGuard, with_system
from cbatch.llama.model import Model
from cbatch.llama.tokenizer import Tokenizer
from cbatch.sampling import SamplingParams
from cbatch.types import Messages, Request, Row, RowFault, RowKind, RowRef, Tokens


class Encoder:
    """Encodes the rows of one run. A reader's thread may use it while the engine runs; close it before the model."""

    def __init__(
        self,
        model: Model,
        tokenizer: Tokenizer,
        *,
        template: ChatTemplate | None,
        raw: bool = False,
        system: str | None = None,
        parse_special: bool = False,
        run_seed: int = 0,
    ) -> None:
        """`raw` keeps plain prompts out of the template; `system` goes before chats without a system message;
        `parse_special` lets the text of rows write control tokens."""
        self._model = model
        self._tokenizer = tokenizer
        self._template = template
        self._raw = raw
        self._system = system
        self._parse_special = parse_special
        self._run_seed = run_seed
        self._busy = threading.Lock()
        self._closed = False
        self._guard = ControlGuard(tokenizer.control_texts)

    @property
    def templates_prompts(self) -> bool:
        """Whether a plain prompt becomes a chat."""
        return self._template is not None and not self._raw

    @property
    def applied(self) -> str:
        """What becomes of a plain prompt, for the summary."""
        if self._template is None:
            return "raw (the model has no chat template)"
        return "raw" if self._raw else self._template.origin

    def encode(self, row: Row) -> Request | RowFault:
        """The row's request, or why it can't be one. Raises nothing for a bad row; `EngineError` once closed."""
        with self._busy:
            if self._closed:
                raise EngineError("the encoder is closed")
            return self._encode(row)

    def from_tokens(self, ref: RowRef, prompt: Tokens, sampling: SamplingParams, priority: int = 0) -> Request:
        """A request for a prompt that is tokens already, BOS included."""
        return self._request(Row(ref, "", sampling, priority), prompt)

    def close(self) -> None:
        """Let the row that is being encoded be finished, and no other begun: the model may go then."""
        with self._busy:
            self._closed = True

    def _encode(self, row: Row) -> Request | RowFault:
        if not row.content:
            return RowFault(row.ref, "no_tokens", "the prompt is empty: give some text")
        if row.kind is RowKind.CHAT and self._template is None:
            return RowFault(
                row.ref, "no_chat_template", "the model has no chat template for messages: give --chat-template FILE"
            )
        try:
            check_tokens(row.sampling, self._model.n_vocab)
            prompt = self._prompt(row)
        except ParameterError as error:
            return RowFault(row.ref, "unknown_token", str(error))
        except ChatTemplateError as error:
            return RowFault(row.ref, "chat_template_failed", str(error))
        except RecursionError:
            return RowFault(row.ref, "chat_template_failed", "the messages are nested too deeply: flatten them")
        except UnicodeEncodeError as error:
            return RowFault(row.ref, "invalid_unicode", _lone_surrogate(error))
        if prompt.size == 0:
            return RowFault(row.ref, "no_tokens", f"the prompt {row.content!r:.80} has no tokens: give some text")
        return self._request(row, self._tokenizer.with_bos(prompt))

    def _request(self, row: Row, prompt: Tokens) -> Request:
        seeds = [
            stream_seed(self._run_seed, row.ref.id, row.sampling.seed, sample)
            for sample in range(row.sampling.num_samples)
        ]
        return Request(
            id=row.ref.id,
            prompt=prompt,
            sampling=row.sampling,
            priority=row.priority,
            arrival_ns=row.ref.arrival_ns,
            end_tokens=frozenset() if row.sampling.ignore_eos else self._model.end_tokens,
            stream_seed=seeds[0],
            fork_seeds=tuple(seeds[1:]),
        )

    def _prompt(self, row: Row) -> Tokens:
        """Tokens without the vocabulary's BOS, though a template may have written one."""
        if not isinstance(row.content, str):
            return self._chat(row.content)
        if row.kind is RowKind.COMPLETION or not self.templates_prompts:
            return self._tokenizer.tokenize(row.content, parse_special=self._parse_special)
        return self._chat([{"role": "user", "content": row.content}])

    def _chat(self, messages: Messages) -> Tokens:
        assert self._template is not None
        if self._system is not None:
            messages = with_system(messages, self._system)
        if self._parse_special:
            return self._tokenizer.tokenize(self._template.render(messages), parse_special=True)
        return self._tokenizer.tokenize_pieces(self._guard.split(self._template.render, messages))


def check_tokens(sampling: SamplingParams, n_vocab: int) -> None:
    """Raise `ParameterError` for a token id that a vocabulary of `n_vocab` lacks: sampling relies on that."""
    named = [("logit_bias", token) for token, _ in sampling.logit_bias]
    named += [("stop_token_ids", token) for token in sampling.stop_token_ids]
    for name, token in named:
        if token >= n_vocab:
            raise ParameterError(f"{name} names token {token}: the model has tokens 0 to {n_vocab - 1}")


def stream_seed(run_seed: int, row_id: str, row_seed: int | None, sample: int = 0) -> int:
    """64 bits for a sample's random numbers: from the row's seed, else from the run's seed and the row's id.

    Sample i of a row with seed s is the only one of a row with seed s + i.
    """
    if row_seed is not None:
        source = f"seed {(row_seed + sample) % 2**63}"
    elif sample:
        source = f"run {run_seed} sample {sample} row {row_id}"
    else:
        source = f"run {run_seed} row {row_id}"
    digest = hashlib.blake2b(source.encode("utf-8", "surrogatepass"), digest_size=8).digest()
    return int.from_bytes(digest, "little")


def _lone_surrogate(error: UnicodeEncodeError) -> str:
    found = error.object[error.start]
    return f"the text isn't valid Unicode: it holds the lone surrogate \\u{ord(found):04x}; write whole characters"
