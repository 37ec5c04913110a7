"""A prompt said back: its text, and its log-probabilities. Knows no calls, and no token that is chosen.

The logits at a position say something of the token at the next one. So a chunk's say something of its tokens but the
first, and of the first of the chunk after it, which is known already; nothing says anything of a prompt's first token.
"""

from __future__ import annotations

from collections.abc import Iterable

from cbatch.engine.compose import num_echoed, num_outputs
from cbatch.engine.runner import PromptLogprobs, Work
from cbatch.engine.sequence import Sequence
from cbatch.llama.sampling import Logits, logprobs_at
from cbatch.llama.tokenizer import Tokenizer
from cbatch.types import Tokens


class Echo:
    """Scores prompts as they are computed, each token once, though the prompt may be computed again."""

    def __init__(self) -> None:
        self._known: dict[Sequence, int] = {}
        """Up to which position a prompt is scored."""

    def read(self, works: Iterable[Work], logits: Logits) -> list[PromptLogprobs]:
        """What the rows of a call say of prompts: float32[n, n_vocab], `num_outputs` rows for each work, in order."""
        found = []
        row = 0
        for work in works:
            new = self._score(work, logits[row : row + num_echoed(work)])
            if new is not None:
                found.append(new)
            row += num_outputs(work)
        return found

    def _score(self, work: Work, rows: Logits) -> PromptLogprobs | None:
        seq, next_token = work.seq, work.start + 1
        end = next_token + len(rows)
        start = max(next_token, self._known.get(seq, 0))
        if start >= end:
            return None
        self._known[seq] = end
        k = seq.request.sampling.logprobs
        assert k is not None
        scored = zip(rows[start - next_token :], seq.request.prompt[start:end].tolist(), strict=True)
        return PromptLogprobs(seq, start, [logprobs_at(row, token, k) for row, token in scored])

    def forget(self, seq: Sequence) -> None:
        """Free what is kept for a sequence; harmless for one without."""
        self._known.pop(seq, None)


def text_bytes(tokenizer: Tokenizer, prompt: Tokens) -> bytes:
    """What the prompt prints: no control tokens, and no space that the vocabulary put before it."""
    data = b"".join(tokenizer.token_bytes(token) for token in prompt.tolist())
    adds_space = tokenizer.detokenize(tokenizer.tokenize("a", parse_special=False)).startswith(" ")
    return data.removeprefix(b" ") if adds_space else data
