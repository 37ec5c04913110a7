"""The llama.cpp runner: composes decode calls, makes them, handles every return code, samples, and streams text."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from cbatch.clock import Clock
from cbatch.config import ContextConfig
from cbatch.engine.compose import Call, compose, num_outputs
from cbatch.engine.runner import CallTiming, Capacity, Failed, Sampled, StepPlan, StepResult, Work
from cbatch.engine.sequence import Sequence
from cbatch.errors import EngineError, Interrupted
from cbatch.llama import lib
from cbatch.llama.batch import Batch
from cbatch.llama.context import Context
from cbatch.llama.echo import Echo, text_bytes
from cbatch.llama.kv_slots import KVSlots
from cbatch.llama.memory import within_memory
from cbatch.llama.model import Model
from cbatch.llama.sampling import Logits, Sampler, logprobs_at, rows_to_score
from cbatch.llama.shift import shift_obstacle
from cbatch.llama.text_stream import TextStream
from cbatch.llama.tokenizer import Tokenizer
from cbatch.types import Request

_OK, _NO_ROOM, _ABORTED, _REFUSED = 0, 1, 2, -1
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
        self._sampler = Sampler(model.n_vocab, self.context.resolved.threads)
        self._echo = Echo()
        self._streams: dict[Sequence, TextStream] = {}
        """Of sequences with stop strings."""
        self._fatal_in_a_row = 0
        self._aborted = False
        self._start()

    def _start(self) -> None:
        self._slots = KVSlots(self.context, self.clock)
        self._batch = Batch(self.context.max_batched_tokens)
        self.context.warm_up(self._batch.fill([_warm_up_work()]))

    @property
    def capacity(self) -> Capacity:
        context = self.context
        resolved = context.resolved
        return Capacity(
            resolved.max_num_seqs,
            context.cells_per_seq,
            context.total_cells,
            context.max_batched_tokens,
            cuts=self.model.memory.cuts,
            holes_cost=resolved.kv_mode == "split",
            shifts=shift_obstacle(context) is None,
        )

    def run(self, plan: StepPlan) -> StepResult:
        result = StepResult()
        self._slots.prepare(plan, result)
        for call in self._compose(plan):
            self._execute(call, result)
        self._slots.save(plan, result)
        return result

    def _compose(self, plan: StepPlan) -> list[Call]:
        resolved = self.context.resolved
        # recurrent states are computed like streams, whatever the KV beside them
        streams = resolved.kv_mode == "split" or self.model.memory.has_state
        return compose(plan, streams=streams, ubatch=resolved.ubatch, max_outputs=resolved.max_outputs)

    def _execute(self, call: Call, result: StepResult) -> None:
        if self._aborted:  # a GPU doesn't look at the context's abort flag, and a grown context has a new one
            raise Interrupted("stopped between two decode calls")
        works = _still_due(call.works, result)
        if not works:
            return
        batch = self._batch.fill(works)
        start = self.clock.now_ns()
        code = self.context.decode(batch)
        end = self.clock.now_ns()
        result.calls.append(CallTiming(call.kind, start, end, tuple(works) if code == _OK else ()))
        if code == _OK:
            self._fatal_in_a_row = 0
            self._read(works, result)
            result.sample_ns += self.clock.now_ns() - end
        elif code == _ABORTED or self._aborted:
            raise Interrupted("stopped inside a decode call")
        else:
            self._recover(Call(call.kind, works), code, result)

    def _read(self, works: list[Work], result: StepResult) -> None:
        """Take in the logits of a call: of prompts that are scored, and of tokens to choose."""
        outputs = [num_outputs(work) for work in works]
        total = sum(outputs)
        if total == 0:
            return
        logits = self.context.logits(total)
        seqs = [work.seq for work in works if work.samples]
        if len(seqs) < total:
            result.prompt_logprobs += self._echo.read(works, logits)
            last = np.cumsum(outputs) - 1
            logits = logits[[row for row, work in zip(last, works, strict=True) if work.samples]]
        if seqs:
            self._sample(seqs, logits, result)

    def _sample(self, seqs: list[Sequence], logits: Logits, result: StepResult) -> None:
        to_score = rows_to_score(logits, seqs)
        tokens = self._sampler.sample(logits, seqs)
        now = self.clock.now_ns()
        for i, (seq, token) in enumerate(zip(seqs, tokens, strict=True)):
            if token < 0:
                result.failed.append(Failed(seq, "the model gave no usable logits (NaN): the weights may be damaged"))
                continue
            stopped = bool(seq.request.sampling.stop) and self._stops(seq, token)
            k = seq.request.sampling.logprobs_needed
            logprobs = None if k is None else logprobs_at(to_score[i], token, k)
            result.sampled.append(Sampled(seq, token, now, stopped, logprobs))

    def _stops(self, seq: Sequence, token: int) -> bool:
        """Whether a stop string is complete. Only where there are some does text matter before the sequence ends."""
        if seq.request.is_end(token):
            return False
        stream = self._streams.get(seq)
        if stream is None:
            stream = self._streams[seq] = self._new_stream(seq)
        return stream.push([token])

    def _new_stream(self, seq: Sequence) -> TextStream:
        sampling = seq.request.sampling
        before = text_bytes(self._tokenizer, seq.request.prompt) if sampling.echo else b""
        return TextStream(self._tokenizer.token_bytes, sampling.stop, before)

    def _recover(self, call: Call, code: int, result: StepResult) -> None:
        """After a failed call: bring the sequences back to where they were, then find the one to blame by halving."""
        if code not in (_NO_ROOM, _REFUSED) and self.model.memory.has_state:
            # states change places while they are computed, also those of sequences that aren't in the call
            raise EngineError(
                f"llama_decode failed (code {code}), after which no state of a recurrent model can be trusted: "
                f"{lib.take_errors() or 'the library gives no reason'}"
            )
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
        if self.context.is_intact(slot, work.start):
            return True
        if work.start > 0 and self.context.cut(slot, work.start) and self.context.is_intact(slot, work.start):
            return True
        self.context.clear(slot)
        if work.start == 0:
            return True
        result.rewound[work.seq] = 0
        return False

    def finish(self, seq: Sequence) -> str:
        self._sampler.forget(seq)
        self._echo.forget(seq)
        stream = self._streams.pop(seq, None)
        if stream is None:
            if not seq.output:
                return ""
            stream = self._new_stream(seq)
            stream.push(seq.answer)
        return stream.finish()

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

    def num_tokens(self, slot: int) -> int:
        tokens = self.context.num_cells(slot)
        return tokens if self.context.is_intact(slot, tokens) else -1

    def abort(self) -> None:
        self._aborted = True
        self.context.abort()

    def close(self) -> None:
        self.context.close()


def _warm_up_work() -> Work:
    seq = Sequence(Request("warm-up", np.zeros(1, np.int32)), 0)
    seq.slot = 0
    return Work(seq, 0, 1)


def _still_due(works: list[Work], result: StepResult) -> list[Work]:
    """Without those of sequences that an earlier call of the step has failed or lost: a prompt may be in several."""
    if not (result.failed or result.rewound):
        return works
    gone = {failed.seq for failed in result.failed} | result.rewound.keys()
    return [work for work in works if work.seq not in gone]


def _halves(works: list[Work]) -> list[list[Work]]:
    middle = (len(works) + 1) // 2
    return [half for half in (works[:middle], works[middle:]) if half]


def _explain(code: int, length: int) -> str:
    detail = lib.take_errors()
    reason = {
        _NO_ROOM: f"no KV room for {length} more tokens: raise --ctx or use fewer slots",
        _REFUSED: "llama.cpp refused the batch",
    }.get(code, f"llama_decode failed with code {code}")
    return f"{reason} ({detail})" if detail else reason
