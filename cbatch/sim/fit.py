"""Fits the step-cost model to measured steps. Knows no files.

Non-negative least squares of relative errors, reweighted by what the last round predicted: dividing by what was
measured instead would favour whatever happened to be fast. Calls that took far longer than predicted (another program
had the CPU) count little for the shape, and all for the total, which the fitted model has in common with the steps.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from cbatch.errors import InputError
from cbatch.sim.costs import StepCostModel
from cbatch.sim.measured import Deviation, MeasuredCall, MeasuredStep, calls_of, deviation_of
from cbatch.sim.nnls import Array, nnls

KNOTS = (1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128, 192, 256, 384, 512, 768, 1024, 2048)
_LEAST = 5
"""Ubatches for a knot of their own."""
_LEAST_CALLS = 20
_ROUNDS = 4
_FAR = 0.5
"""Relative error from which a call counts less."""
_SMOOTH = 0.3
"""Weight of equal slopes on both sides of a knot, against one call's relative error."""
_ALIKE = 0.1
"""Weight of equal costs of attention in all kinds of streams, against one call's relative error."""
_PAIRS = slice(-4, -1)
"""Of what `_sizes` gives: pairs in streams of one, few and many tokens."""
_FOLD = 5
"""Every so many steps, one is held out to tell the error."""
_GUESS = 0.01
"""Of a prompt token's time, what saving or restoring it takes where it was never measured."""


def fit(steps: Sequence[MeasuredStep]) -> StepCostModel:
    """The model that is nearest to the steps. Raises `InputError` where they are too few."""
    calls = [call for call in calls_of(steps) if call.ns > 0 and call.ubatches]
    if len(calls) < _LEAST_CALLS:
        raise InputError(
            f"{len(calls)} native calls are too few to learn their costs from: "
            f"give a run or replay of {_LEAST_CALLS} steps or more"
        )
    knots = _knots(calls)
    values = _fit_calls(calls, knots)
    weights = np.cumsum(values[: len(knots)])
    output, single, thin, thick, scanned = values[len(knots) :].tolist()
    step, running = _line([s.running for s in steps], [s.overhead_ns for s in steps])
    sampling, sampled = _line(*_columns([(s.sampled, s.sample_ns) for s in steps if s.sampled]))
    guess = _GUESS * float(weights[-1]) / knots[-1]
    restore = _rate([(s.restored_tokens, s.restore_ns) for s in steps], guess)
    return StepCostModel(
        knots=knots,
        weights_ns=tuple(weights.tolist()),
        output_ns=output,
        single_ns=single,
        thin_ns=thin,
        thick_ns=thick,
        scanned_ns=scanned,
        step_ns=step,
        running_ns=running,
        sampling_ns=sampling,
        sampled_ns=sampled,
        restore_ns=restore,
        save_ns=_rate([(s.saved_tokens, s.save_ns) for s in steps], restore),
    )


def held_out(steps: Sequence[MeasuredStep]) -> Deviation:
    """The error on every fifth step of a model fitted to the others. Raises as `fit`."""
    rest = [step for i, step in enumerate(steps) if i % _FOLD != _FOLD - 1]
    return deviation_of(fit(rest), [step for step in steps[_FOLD - 1 :: _FOLD] if step.total_ns > 0])


def _knots(calls: Sequence[MeasuredCall]) -> tuple[int, ...]:
    """0, and sizes that enough ubatches were near to; the last one is the largest seen."""
    sizes = np.sort([ubatch.tokens for call in calls for ubatch in call.ubatches])
    found, below = [0], 0
    for knot in KNOTS:
        upto = int(np.searchsorted(sizes, knot, side="right"))
        if upto - below >= _LEAST and knot < sizes[-1]:
            found.append(knot)
            below = upto
    return (*found, int(sizes[-1]))


def _fit_calls(calls: Sequence[MeasuredCall], knots: tuple[int, ...]) -> Array:
    """float64[knots + 5]: the rise of `weights` to each knot, then the coefficients of `_sizes`."""
    sizes = np.array([_sizes(call, knots) for call in calls], float)
    ns = np.array([call.ns for call in calls], float)
    typical_ns = float(np.median(ns))
    hints = np.vstack([_smooth(knots, sizes.shape[1]), _alike(sizes)]) / typical_ns
    predicted, trust = ns, np.ones_like(ns)
    for _ in range(_ROUNDS):
        rows, wanted = sizes * (trust / predicted)[:, np.newaxis], ns * trust / predicted
        values = nnls(np.vstack([rows, hints]), np.concatenate([wanted, np.zeros(len(hints))]))
        predicted = np.maximum(sizes @ values, 0.01 * ns)
        trust = np.sqrt(np.minimum(1.0, _FAR / np.maximum(np.abs(ns / predicted - 1), 1e-9)))
    scaled: Array = values * (ns.sum() / (sizes @ values).sum())
    return scaled


def _sizes(call: MeasuredCall, knots: tuple[int, ...]) -> list[float]:
    """What each coefficient is multiplied by."""
    reached = np.zeros(len(knots))
    for ubatch in call.ubatches:
        reached += _reached(ubatch.tokens, knots)
    return [*reached, *(float(sum(column)) for column in list(zip(*call.ubatches, strict=True))[1:])]


def _reached(tokens: int, knots: tuple[int, ...]) -> Array:
    """Of the way from each knot to the next, the share that lies below `tokens`; 1 for the first knot."""
    ends = np.array(knots, float)
    shares: Array = np.clip((tokens - ends[:-1]) / np.diff(ends), 0, 1)
    return np.concatenate([[1.0], shares])


def _smooth(knots: tuple[int, ...], width: int) -> Array:
    """Rows that ask for equal slopes on both sides of each knot but the first."""
    lengths = np.diff(np.array(knots, float))
    rows = np.zeros((max(0, len(lengths) - 1), width))
    for i in range(len(rows)):
        shorter = min(lengths[i], lengths[i + 1])
        rows[i, i + 1], rows[i, i + 2] = -shorter / lengths[i], shorter / lengths[i + 1]
    return rows * _SMOOTH


def _alike(sizes: Array) -> Array:
    """Rows that ask for one cost of a pair, whatever its stream: some kind may never have been measured."""
    typical = float(np.median(sizes[:, _PAIRS].sum(axis=1)))
    rows = np.zeros((2, sizes.shape[1]))
    rows[:, _PAIRS] = [[typical, -typical, 0], [0, typical, -typical]]
    return rows * _ALIKE


def _line(x: Sequence[int], y: Sequence[int]) -> tuple[float, float]:
    """(base, slope), neither negative, of y over x."""
    if not x:
        return 0.0, 0.0
    base, slope = nnls(np.column_stack([np.ones(len(x)), np.array(x, float)]), np.array(y, float)).tolist()
    return base, slope


def _columns(pairs: Sequence[tuple[int, int]]) -> tuple[list[int], list[int]]:
    return [x for x, _ in pairs], [y for _, y in pairs]


def _rate(pairs: Sequence[tuple[int, int]], otherwise: float) -> float:
    """ns a token over all; `otherwise` where none was handled."""
    tokens = sum(tokens for tokens, _ in pairs)
    ns = sum(ns for tokens, ns in pairs if tokens)
    return ns / tokens if tokens and ns else otherwise
