"""What a step costs: the time of native calls and of what is done around them, as a formula with fitted coefficients.

A ubatch of T tokens takes

    weights(T) + output x rows of logits + single, thin or thick x pairs of a token and a cell that it attends to
        + scanned x pairs of a token and a cell that is passed over

where `weights` is piecewise linear and never falls: on CPUs the time of a batched decode grows in steps with the number
of sequences, not as one line. Attention to n cells costs in proportion to them; its kernels differ for streams of one,
of few and of many tokens (`cbatch.sim.ubatches`). Knows no plans and no clock; all times are ns.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, fields, replace
from functools import cached_property
from typing import Any

from cbatch.sim.ubatches import Ubatch

VERSION = 2
"""Of the JSON form."""


@dataclass(frozen=True)
class StepCostModel:
    """Coefficients, none negative."""

    knots: tuple[int, ...]
    """Tokens of a ubatch, ascending, the first 0; at least two."""
    weights_ns: tuple[float, ...]
    """What a ubatch of so many tokens takes without attention and logits; never falls."""
    output_ns: float = 0.0
    """A row of logits."""
    single_ns: float = 0.0
    """A pair of a token and a cell that it attends to, in streams of one token."""
    thin_ns: float = 0.0
    """The same, in streams of few."""
    thick_ns: float = 0.0
    """The same, in streams of many."""
    scanned_ns: float = 0.0
    """A pair of a token and a cell that is passed over for it."""
    step_ns: float = 0.0
    """Of a step, outside of calls and sampling: scheduling, and what is done between two steps."""
    running_ns: float = 0.0
    """The same, for each sequence that runs."""
    sampling_ns: float = 0.0
    """Of a call that gives tokens: choosing them."""
    sampled_ns: float = 0.0
    """The same, for each token."""
    restore_ns: float = 0.0
    """Putting a snapshot into a slot, for each token."""
    save_ns: float = 0.0
    """Taking one, for each token."""

    def __post_init__(self) -> None:
        ascending = all(a < b for a, b in zip(self.knots, self.knots[1:], strict=False))
        rising = all(a <= b for a, b in zip(self.weights_ns, self.weights_ns[1:], strict=False))
        if not (len(self.knots) == len(self.weights_ns) >= 2 and self.knots[0] == 0 and ascending and rising):
            raise ValueError(f"knots {self.knots} and weights_ns {self.weights_ns} are no rising function from 0 on")
        costs = {name: getattr(self, name) for name in self.single_costs()}
        costs |= {"weights_ns": self.weights_ns[0], "last of weights_ns": self.weights_ns[-1]}
        for name, ns in costs.items():
            if not 0 <= ns < math.inf:
                raise ValueError(f"{name} is {ns}: a time is 0 or more")

    @classmethod
    def single_costs(cls) -> tuple[str, ...]:
        """The names of the coefficients beside `weights_ns`."""
        return tuple(f.name for f in fields(cls) if f.name not in ("knots", "weights_ns"))

    def scaled(self, factor: float) -> StepCostModel:
        """Of a machine on which all takes that many times as long."""
        costs = {name: factor * getattr(self, name) for name in self.single_costs()}
        return replace(self, weights_ns=tuple(factor * ns for ns in self.weights_ns), **costs)

    def weights(self, tokens: int) -> float:
        """Of a ubatch of so many tokens. Beyond the last knot it goes on as in the last half of the knots' range."""
        knots, values = self.knots, self.weights_ns
        if tokens > knots[-1]:
            return values[-1] + self._tail_ns * (tokens - knots[-1])
        i = max(1, bisect_left(knots, tokens))
        share = (tokens - knots[i - 1]) / (knots[i] - knots[i - 1])
        return values[i - 1] + share * (values[i] - values[i - 1])

    @cached_property
    def _tail_ns(self) -> float:
        """A token more, over the last half of the knots' range: of the last segment alone it would be noise."""
        half = min(bisect_left(self.knots, self.knots[-1] / 2), len(self.knots) - 2)
        return (self.weights_ns[-1] - self.weights_ns[half]) / (self.knots[-1] - self.knots[half])

    def call_ns(self, ubatches: Iterable[Ubatch]) -> float:
        """Of a native call, or of several."""
        return sum(
            self.weights(tokens)
            + outputs * self.output_ns
            + single * self.single_ns
            + thin * self.thin_ns
            + thick * self.thick_ns
            + scanned * self.scanned_ns
            for tokens, outputs, single, thin, thick, scanned in ubatches
        )

    def overhead_ns(self, running: int) -> float:
        """Of a step with so many sequences, outside of calls, sampling and snapshots."""
        return self.step_ns + running * self.running_ns

    def sample_ns(self, sampled: int) -> float:
        """Choosing the tokens of a call; nothing where it gives none."""
        return self.sampling_ns + sampled * self.sampled_ns if sampled else 0.0

    def to_dict(self) -> dict[str, Any]:
        """JSON-ready."""
        record = asdict(self)
        return {"version": VERSION, **record, "knots": list(self.knots), "weights_ns": list(self.weights_ns)}

    @classmethod
    def from_dict(cls, record: Mapping[str, Any]) -> StepCostModel:
        """What `to_dict` made. Raises `ValueError` for anything else."""
        if record.get("version") != VERSION:
            raise ValueError(f"step costs of version {record.get('version')!r}, and this cbatch knows {VERSION}")
        try:
            knots = tuple(int(knot) for knot in record["knots"])
            weights = tuple(float(ns) for ns in record["weights_ns"])
            return cls(knots, weights, **{name: float(record[name]) for name in cls.single_costs()})
        except (KeyError, TypeError) as error:
            raise ValueError(f"step costs lack or garble a coefficient: {error}") from error
