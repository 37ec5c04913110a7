"""The llama.cpp runner: composes decode calls, makes them, handles every return code, samples, and streams text."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from cbatch.clock import Clock
from cbatch.config import ContextConfig
from cbatch.engine.runner import CallTiming, Capacity, Failed, Sampled, StepPlan, StepResult, Work
from cbatch.engine.sequence import Sequence
from cbatch.errors import EngineError, Interrupted
from cbatch.llama import lib
from cbatch.llama.batch import Batch
from cbatch.llama.compose import Call, compose
from cbatch.llama.context import Context
from cbatch.llama.memory import within_memory
from cbatch.llama.model import Model
from cbatch.llama.sampling import Sampler
from cbatch.llama.text_stream import TextStream
from cbatch.llama.tokenizer import Tokenizer
from cbatch.types import Request

_OK, _NO_ROOM, _ABORTED = 0, 1, 2
_FATAL_IN_A_ROW = 8


class LlamaRunner:
    """Runs plans on a llama context. `max_cells` is the most cells a sequence that `grow` may make room for.

    Close it before its model.
    """

    def __init__(
        self, model: Model, tokenizer: Tokenizer, config: ContextConfig, clock: Clock, *, max_cells: int = 0
    ) -> None:
        self.model = model
        self.context = Context(model, config)
        self._tokenizer = tokenizer
        self.clock = clock
        self._max_cells = max_cells
        self._sampler = Sampler(model.n_vocab)
        self._texts: dict[Sequence, TextStream] = {}
        self._fatal_in_a_row = 0
        self._aborted = False
        self._start()

    def _start(self) -> None:
        self._batch = Batch(self.context.max_batched_tokens)
        self.context.warm_up(self._batch.fill([_warm_up_work()]))

    @property
    def capacity(self) -> Capacity:
        context = self.context
        resolved = context.resolved
        return Capacity(resolved.max_num_seqs, context.cells_per_seq, context.total_cells, context.max_batched_tokens)

    def run(self, plan: StepPlan) -> StepResult:
        result = StepResult()
        for slot in plan.freed:
            self.context.clear(slot)
        for call in compose(plan, kv_mode=self.context.resolved.kv_mode, ubatch=self.context.resolved.ubatch):
            self._execute(call, result)
        return result

    def _execute(self, call: Call, result: StepResult) -> None:
        if self._aborted:  # a GPU doesn't look at the context's abort flag, and a grown context has a new one
            raise Interrupted("stopped between two decode calls")
        batch = self._batch.fill(call.works)
        start = self.clock.now_ns()
        code = self.context.decode(batch)
        end = self.clock.now_ns()
        result.calls.append(CallTiming(call.kind, start, end, tuple(call.works) if code == _OK else ()))
        if code == _OK:
            self._fatal_in_a_row = 0
            self._sample(call.works, result)
            result.sample_ns += self.clock.now_ns() - end
        elif code == _ABORTED or self._aborted:
            raise Interrupted("stopped inside a decode call")
        else:
            self._recover(call, code, result)

    def _sample(self, works: list[Work], result: StepResult) -> None:
        seqs = [work.seq for work in works if work.samples]
        if not seqs:
            return
        tokens = self._sampler.sample(self.context.logits(len(seqs)), seqs)
        now = self.clock.now_ns()
        for seq, token in zip(seqs, tokens, strict=True):
            if token < 0:
                result.failed.append(Failed(seq, "the model gave no usable logits (NaN): the weights may be damaged"))
            elif seq.request.is_end(token):
                result.sampled.append(Sampled(seq, token, now))
            else:
                text, stopped = self._stream(seq).push(token)
                result.sampled.append(Sampled(seq, token, now, text, stopped))

    def _stream(self, seq: Sequence) -> TextStream:
        stream = self._texts.get(seq)
        if stream is None:
            stream = TextStream(self._tokenizer.token_bytes, seq.request.sampling.stop)
            self._texts[seq] = stream
        return stream

    def _recover(self, call: Call, code: int, result: StepResult) -> None:
        """After a failed call: bring the sequences back to where they were, then find the one to blame by halving."""
        intact = [work for work in call.works if self._roll_back(work, result)]
        if len(call.works) > 1:
            for part in _halves(intact):
                self._execute(Call(call.kind, part), result)
            return
        seq, _, length = call.works[0]
        result.rewound.pop(seq, None)
        result.failed.append(Failed(seq, _explain(code, length)))
        if code != _NO_ROOM:
            self._fatal_in_a_row += 1
        if self._fatal_in_a_row >= _FATAL_IN_A_ROW:
            raise EngineError(
                f"llama_decode failed {_FATAL_IN_A_ROW} times in a row (code {code}): {lib.take_errors()}"
            )

    def _roll_back(self, work: Work, result: StepResult) -> bool:
        """Undo what a failed call left of the work. Memories that can't be cut lose all, and it is computed again."""
        slot = work.seq.slot
        assert slot is not None
        if self.context.num_cells(slot) == work.start:
            return True
        if work.start > 0 and self.context.cut(slot, work.start) and self.context.num_cells(slot) == work.start:
            return True
        self.context.clear(slot)
        if work.start == 0:
            return True
        result.rewound[work.seq] = 0
        return False

    def finish(self, seq: Sequence) -> str:
        self._sampler.forget(seq)
        stream = self._texts.pop(seq, None)
        return stream.finish() if stream is not None else ""

    def grow(self, cells_per_seq: int) -> Capacity:
        if cells_per_seq > self._max_cells:
            return self.capacity
        # the first context's threads: by now this thread may be bound to one CPU, and would be counted with one core
        old = replace(self.context.config, threads=self.context.resolved.threads)
        shares = old.max_num_seqs if old.kv_mode == "unified" else 1
        wanted = replace(old, cells_per_seq=-(-cells_per_seq // shares))
        larger = within_memory(self.model, wanted, replaced=old)
        if larger is None:
            return self.capacity
        self.context.close()
        try:
            self.context = Context(self.model, larger)
        except EngineError:
            self.context = Context(self.model, old)
        self._start()
        return self.capacity

    def abort(self) -> None:
        self._aborted = True
        self.context.abort()

    def close(self) -> None:
        self.context.close()


def _warm_up_work() -> Work:
    seq = Sequence(Request("warm-up", np.zeros(1, np.int32)), 0)
    seq.slot = 0
    return Work(seq, 0, 1)


def _halves(works: list[Work]) -> list[list[Work]]:
    middle = (len(works) + 1) // 2
    return [half for half in (works[:middle], works[middle:]) if half]


def _explain(code: int, length: int) -> str:
    detail = lib.take_errors()
    reason = {
        _NO_ROOM: f"no KV room for {length} more tokens: raise --ctx or use fewer slots",
        -1: "llama.cpp refused the batch",
    }.get(code, f"llama_decode failed with code {code}")
    return f"{reason} ({detail})" if detail else reason
