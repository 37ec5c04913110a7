"""What the measured costs of steps allow at best: a bound that no policy on this machine can beat. Knows no policy."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np
import numpy.typing as npt

from cbatch.types import StepRecord, Tokens

Column = npt.NDArray[np.float64]

MINIMUM_STEPS = 3
"""A cost is believed if it was seen in so many steps."""


class _Costs:
    """(ns, tokens, steps) by a key."""

    def __init__(self) -> None:
        self._sums: dict[int, tuple[int, int, int]] = {}

    def add(self, key: int, ns: int, tokens: int, steps: int = 1) -> None:
        have = self._sums.get(key, (0, 0, 0))
        self._sums[key] = (have[0] + ns, have[1] + tokens, have[2] + steps)

    def merge(self, other: _Costs) -> None:
        for key, sums in other._sums.items():
            self.add(key, *sums)

    def steps(self) -> dict[int, float]:
        """Mean ns a step, by key."""
        return {key: ns / steps for key, (ns, _, steps) in self._sums.items()}

    def least(self) -> float | None:
        """Lowest mean ns a token over the keys seen often enough; else over all."""
        means = [(steps >= MINIMUM_STEPS, ns / tokens) for ns, tokens, steps in self._sums.values() if tokens]
        often = [mean for enough, mean in means if enough]
        return min(often or [mean for _, mean in means], default=None)


class StepCosts:
    """Costs of prompt and output tokens, gathered from steps: by sequences decoding, by prompt tokens (powers of two).

    A call that holds both (unified KV) counts as either in proportion to its tokens.
    """

    def __init__(self) -> None:
        self._decode = _Costs()
        self._prefill = _Costs()

    def add(self, record: StepRecord) -> None:
        decodes, prompts = record.decode_seqs + record.padding_seqs, record.prefill_tokens
        shared = record.mixed_call_ns * decodes // max(1, decodes + prompts)
        decode_ns, prefill_ns = record.decode_call_ns + shared, record.prefill_call_ns + record.mixed_call_ns - shared
        if decode_ns and decodes:
            self._decode.add(decodes, decode_ns, decodes)
        if prefill_ns and prompts:
            self._prefill.add(prompts.bit_length(), prefill_ns, prompts)

    def merge(self, other: StepCosts) -> None:
        self._decode.merge(other._decode)
        self._prefill.merge(other._prefill)

    @property
    def decode_steps_ns(self) -> dict[int, float]:
        """Mean time inside the decode calls of a step, ns, by sequences that decoded."""
        return self._decode.steps()

    @property
    def decode_ns(self) -> float | None:
        """Of an output token, ns, at the batch size at which it was cheapest."""
        return self._decode.least()

    @property
    def prefill_ns(self) -> float | None:
        """Of a prompt token, ns, at the chunk size at which it was cheapest."""
        return self._prefill.least()


def merged(costs: Iterable[StepCosts]) -> StepCosts:
    """All together."""
    total = StepCosts()
    for each in costs:
        total.merge(each)
    return total


def unshared_tokens(prompts: Sequence[Tokens]) -> Column:
    """How many tokens of each prompt have to be computed, float64[n], though what was for those before it is kept.

    They are what follows the longest beginning that an earlier prompt has too; the last token is always one of them,
    since the first output token is drawn from its logits. NaN for an empty prompt, of a row that couldn't be run.

    In an order in which prompts that begin alike stand together, a prompt shares most with one of its neighbours; once
    it is taken out, those share the lesser of what they shared with it. So the latest prompts are taken out first.
    """
    end = len(prompts)  # stands before the first and after the last, and shares nothing
    order = [end, *sorted(range(end), key=lambda i: prompts[i].tobytes())]
    left = dict(zip(order, [order[-1], *order], strict=False))
    right = dict(zip(order, [*order[1:], end], strict=True))
    shared = {i: _common(prompts[left[i]], prompts[i]) if end not in (i, left[i]) else 0 for i in order}
    found = np.full(end, np.nan)
    for i in reversed(range(end)):
        one, other = left[i], right[i]
        size = prompts[i].size
        if size:
            found[i] = max(1, size - max(shared[i], shared[other]))
        left[other], right[one], shared[other] = one, other, min(shared[i], shared[other])
    return found


def _common(one: Tokens, other: Tokens) -> int:
    """How many first tokens are the same."""
    length = min(one.size, other.size)
    differing = np.flatnonzero(one[:length] != other[:length])
    return int(differing[0]) if differing.size else length


def shortest_ns(arrival_ns: Column, unshared: Column, output_tokens: Column, costs: StepCosts) -> float | None:
    """The shortest time, ns, from the first arrival on, in which n requests could be served.

    Each array is float64[n], of completed requests; `unshared` is of `unshared_tokens`, since prefixes that prompts
    share can be restored. All tokens at their cheapest take unshared prompt tokens x prefill cost + (output tokens - 1)
    x decode cost, since the first output token comes with the prompt; and no work can be done before its request
    arrives: max over i of arrival_i + the work of all that arrive at i or later (the makespan of one machine with
    release dates, Lawler et al. 1993). None without requests, or where no costs are known.
    """
    prefill_ns, decode_ns = costs.prefill_ns, costs.decode_ns
    decodes = output_tokens - 1
    if arrival_ns.size == 0 or prefill_ns is None or (decode_ns is None and decodes.sum() > 0):
        return None
    order = np.argsort(arrival_ns)
    work = (unshared * prefill_ns + decodes * (decode_ns or 0.0))[order]
    from_here = np.cumsum(work[::-1])[::-1]
    return float((arrival_ns[order] - arrival_ns.min() + from_here).max())
