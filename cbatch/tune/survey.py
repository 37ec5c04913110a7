"""All that the step-cost model wants to know of one setting: which loads to run, on contexts of which sizes."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass

from cbatch.sim.costs import StepCostModel
from cbatch.sim.fit import fit, held_out
from cbatch.sim.measured import Deviation, MeasuredStep
from cbatch.tune.bench import Bench, settled
from cbatch.tune.loads import Decodes, Load, Prompts, Tails, cells_of, slots_of
from cbatch.tune.mix import Mix, Speeds

OpenBench = Callable[[int, int], AbstractContextManager[Bench]]
"""Given slots and cells."""
Room = Callable[[int, int], int]
"""Given slots and cells of each: for how many of these slots there is memory."""
RUNNING = (1, 2, 4, 8, 16, 32, 64)
"""Sequences that decode at once."""
_CHUNKS = (2, 4, 8, 16, 32, 64, 128, 256, 512)
_MOST_STEPS = 6
_FEW_SLOTS_STEPS = 12
"""Decodes of a kind, shared out among few slots: with these there are few kinds to learn from."""
_LEAST_STEP = 0.1
"""Of a step with many sequences, what one with a single sequence takes."""
_DEEP = 16
"""Sequences of the context in which long ones are measured."""
_TAIL = 32
"""Tokens behind a long context: few enough for the kernels of thin streams."""


def _unlimited(slots: int, _: int) -> int:
    return slots


@dataclass(frozen=True, slots=True)
class Stand:
    """A context, and what is run on it."""

    loads: tuple[Load, ...]

    @property
    def slots(self) -> int:
        return slots_of(self.loads)

    @property
    def cells(self) -> int:
        return cells_of(self.loads)

    def has(self, room: Room) -> bool:
        return room(self.slots, self.cells) >= self.slots

    def within(self, room: Room) -> Stand:
        """Without the largest loads, if there is no room for them; one stays in any case."""
        loads = sorted(self.loads, key=lambda load: (load.cells, load.slots))
        while len(loads) > 1 and not Stand(tuple(loads)).has(room):
            loads.pop()
        return Stand(tuple(load for load in self.loads if load in loads))


@dataclass(frozen=True, slots=True)
class Costs:
    """A fitted model, and how far it is from steps that it wasn't fitted to."""

    model: StepCostModel
    error: Deviation


def stands(
    mix: Mix,
    most_slots: int,
    ubatch: int,
    *,
    tokens: int,
    steps: int = _MOST_STEPS,
    room: Room = _unlimited,
    longest: int = 2**31,
) -> list[Stand]:
    """Wide: many sequences at the job's context length. Deep: longer and shorter contexts, and prompts.

    `tokens`: about so many prompt tokens may be computed. `steps`: decodes of each kind, more where few sequences give
    few kinds. What memory has no `room` for is made with fewer sequences, or left out. No sequence gets longer than
    `longest`: where learned positions end, llama.cpp ends the process.
    """
    steps = max(min(steps, _MOST_STEPS), min(_FEW_SLOTS_STEPS // most_slots, 8))
    running = [n for n in RUNNING if n < most_slots] + [most_slots]
    wide = Stand(tuple(mix.decodes(n, steps) for n in running))
    slots = min(_DEEP, most_slots)
    deep = _deep(mix, slots, ubatch, tokens, steps, longest)
    while slots > 1 and not deep.has(room):
        slots //= 2
        deep = _deep(mix, slots, ubatch, tokens, steps, longest)
    return [wide.within(room), deep.within(room)]


def _deep(mix: Mix, slots: int, ubatch: int, tokens: int, steps: int, longest: int) -> Stand:
    short = [Decodes(n, max(1, mix.context // 4), steps) for n in sorted({1, slots})]
    loads = (*_prompts(mix, slots, ubatch, tokens), *short, *_long(mix, slots, tokens, steps, longest))
    return Stand(tuple(load for load in loads if load.cells <= longest))


def _long(mix: Mix, slots: int, tokens: int, steps: int, longest: int) -> list[Load]:
    """Contexts of a third of the tokens, where that is enough to see what attention costs, and to compute behind it."""
    context = min(4 * mix.context, tokens // 3, longest - _TAIL - steps)
    twice = min(2 * mix.context, longest - steps)
    if context < twice or slots == 1:
        return [Decodes(n, max(1, twice), steps) for n in sorted({1, slots})]
    return [Tails(slots, context, max(1, min(_TAIL, tokens // 4 // slots)), steps)]


def _prompts(mix: Mix, slots: int, ubatch: int, tokens: int) -> Iterator[Prompts]:
    """A call full of chunks of each length, one of a single chunk, one of two, and prompts as the job's."""
    share = max(16, tokens // 12)
    for chunk in _CHUNKS:
        if chunk <= share:
            yield Prompts((chunk,) * max(1, min(slots, min(ubatch, share) // chunk)))
            if chunk >= 64 and chunk <= share // 2:
                yield Prompts((chunk,))
    if ubatch > _CHUNKS[-1] and ubatch <= tokens // 3:
        yield Prompts((ubatch,))
    yield mix.prompts_of(tokens // 4, slots)


def expected_s(stands: Iterable[Stand], speeds: Speeds) -> float:
    """What it takes to run all of them once, about, where another setting or load had such speeds."""
    return sum(_expected_ns(load, speeds) for stand in stands for load in stand.loads) / 1e9


def _expected_ns(load: Load, speeds: Speeds) -> float:
    if isinstance(load, Prompts):
        return sum(load.lengths) * speeds.prompt_ns
    if isinstance(load, Tails):
        return (load.prefix + load.running * load.length) * speeds.prompt_ns + _decodes_ns(load, speeds)
    return load.context * speeds.prompt_ns + _decodes_ns(load, speeds)


def _decodes_ns(load: Tails | Decodes, speeds: Speeds) -> float:
    share = max(_LEAST_STEP, load.running / speeds.running)
    return (load.steps + 1) * share * speeds.step_ns


def survey(
    stands: list[Stand], open_bench: OpenBench, rounds: Iterable[object], earlier: Sequence[MeasuredStep] = ()
) -> Costs:
    """Run all of it in each of the rounds, of which there is one at least.

    `earlier`: steps of the same setting that were measured before. Of a machine whose speed drifts, they tell more of
    its usual one: all costs are scaled to that. What costs are to one another is learned from the survey alone, since
    steps of another minute would bend it.
    """
    found = [[step for stand in stands for step in _run(stand, open_bench)] for _ in rounds]
    steps = settled(found)
    model = fit(steps)
    both = [*steps * len(found), *earlier]
    slower = sum(step.total_ns for step in both) / sum(step.predicted_ns(model) for step in both)
    return Costs(model.scaled(slower), held_out(steps))


def _run(stand: Stand, open_bench: OpenBench) -> Iterator[MeasuredStep]:
    with open_bench(stand.slots, stand.cells) as bench:
        for load in stand.loads:
            yield from bench.run(load)
