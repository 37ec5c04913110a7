"""How long the rest will take, from tokens. Knows no rows' texts and no terminal.

    eta = prompt tokens left  * time per prompt token
        + output tokens left  * time per output token

Time per token: each step's wall time is split between prompt and output tokens as its native calls' time is (a mixed
call's by its tokens), so the two terms don't count the same second twice, whichever way the steps are composed.

Prompt tokens left: those of rows read that are neither computed nor restored, plus the mean prompt for each row not yet
read; of all these, the share that was computed so far, as prefixes and samples' prompts are restored for others.

Output tokens left: `m` for each unfinished row, where m = output tokens so far / rows finished. It is the maximum
likelihood estimate of a mean from lifetimes of which some are still running (exponential, right-censored), so it
isn't fooled by short answers finishing first. It never exceeds what max_tokens leaves room for.
"""

from __future__ import annotations

from cbatch.metrics.request import samples_of
from cbatch.types import Request, RequestOutput, StepRecord


class TokenEta:
    """Sums over requests and steps, and what follows from them. Rows are told apart by their number."""

    def __init__(self) -> None:
        self._unfinished: dict[int, Request] = {}
        self._read = 0
        self._finished = 0
        self._prompt_read = 0
        self._prompt_skipped = 0
        self._prompt_computed = 0
        self._prompt_restored = 0
        self._max_read = 0
        self._max_unfinished = 0
        self._output = 0
        self._output_unfinished = 0.0
        self._prompt_ns = 0.0
        self._output_ns = 0.0

    def read(self, row: int, request: Request) -> None:
        """A request that is going to run."""
        self._unfinished[row] = request
        self._read += 1
        self._prompt_read += _prompt_tokens(request)
        self._max_read += _max_tokens(request)
        self._max_unfinished += _max_tokens(request)

    def step(self, record: StepRecord) -> None:
        prompt_ns, output_ns = split_ns(record)
        self._prompt_ns += prompt_ns
        self._output_ns += output_ns
        self._prompt_computed += record.prefill_tokens
        self._prompt_restored += record.restored_tokens
        self._output += record.output_tokens
        self._output_unfinished += record.output_tokens

    def finished(self, row: int, output: RequestOutput) -> None:
        self._output_unfinished -= _sampled_tokens(output)
        self._finished += 1
        self._leave(row, computed=output.first_token_ns is not None)

    def refused(self, row: int) -> None:
        """A row that won't run, whether it was read as a request or not."""
        self._leave(row, computed=False)

    def _leave(self, row: int, *, computed: bool) -> None:
        request = self._unfinished.pop(row, None)
        if request is None:
            return
        self._max_unfinished -= _max_tokens(request)
        if not computed:
            self._prompt_skipped += _prompt_tokens(request)

    def seconds(self, unread_rows: int) -> float | None:
        """Until the last row ends, with `unread_rows` more to come; None while there is nothing to tell it from."""
        if self._read == 0:
            return None
        prompt = self._prompt_left(unread_rows)
        output = self._output_left(unread_rows)
        if (prompt > 0 and self._prompt_computed == 0) or (output > 0 and self._output == 0):
            return None
        per_prompt = self._prompt_ns / max(1, self._prompt_computed)
        per_output = self._output_ns / max(1, self._output)
        return (prompt * per_prompt + output * per_output) / 1e9

    def _prompt_left(self, unread_rows: int) -> float:
        done = self._prompt_computed + self._prompt_restored
        left = max(0, self._prompt_read - self._prompt_skipped - done) + unread_rows * self._prompt_read / self._read
        return left * self._prompt_computed / done if done else left

    def _output_left(self, unread_rows: int) -> float:
        unread_max = unread_rows * self._max_read / self._read
        most = max(0.0, self._max_unfinished - self._output_unfinished) + unread_max
        if self._finished == 0:
            return most
        return min(most, (len(self._unfinished) + unread_rows) * self._output / self._finished)


def _prompt_tokens(request: Request) -> int:
    """Of all its samples."""
    return request.num_samples * int(request.prompt.size)


def _max_tokens(request: Request) -> int:
    return request.num_samples * request.sampling.max_tokens


def _sampled_tokens(output: RequestOutput) -> float:
    """Of all its samples: those that `best_of` left out count as the others do."""
    given = samples_of(output)
    return sum(each.token_ids.size for each in given) * output.request.num_samples / len(given)


def split_ns(record: StepRecord) -> tuple[float, float]:
    """The step's wall time in ns: what its prompt tokens took, and what its output tokens took."""
    wall = record.end_ns - record.start_ns
    tokens = record.prefill_tokens + record.decode_seqs
    by_tokens = record.prefill_tokens / tokens if tokens else 0.0
    prompt_ns = record.prefill_call_ns + record.mixed_call_ns * by_tokens
    share = prompt_ns / record.llama_ns if record.llama_ns else by_tokens
    return wall * share, wall * (1 - share)
