from __future__ import annotations

from itertools import islice
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from scipy import stats

from cbatch.errors import UsageError
from cbatch.traces import arrivals
from cbatch.traces.arrivals import ArrivalProcess
from cbatch.traces.streams import stream

N = 10_000


def times(process: ArrivalProcess, seed: int = 0, count: int = N) -> list[int]:
    return list(islice(process.arrivals(stream(seed, "arrivals")), count))


def gaps_s(process: ArrivalProcess, seed: int = 0) -> npt.NDArray[np.float64]:
    """From 0, in seconds."""
    return np.diff(times(process, seed), prepend=0) / 1e9


def test_poisson_gaps_are_exponential() -> None:
    gaps = gaps_s(ArrivalProcess("poisson", 4.0))
    assert stats.kstest(gaps, "expon", args=(0, 1 / 4)).pvalue > 0.01


def test_the_test_of_poisson_gaps_can_fail() -> None:
    uniform = np.random.default_rng(0).uniform(0, 2 / 4, N)
    assert stats.kstest(uniform, "expon", args=(0, 1 / 4)).pvalue < 1e-6


@pytest.mark.parametrize("burstiness", [0.25, 1.0, 4.0])
def test_gamma_gaps_have_their_shape(burstiness: float) -> None:
    gaps = gaps_s(ArrivalProcess("gamma", 10.0, burstiness))
    assert stats.kstest(gaps, "gamma", args=(burstiness, 0, 1 / (10 * burstiness))).pvalue > 0.01
    assert gaps.mean() == pytest.approx(0.1, rel=0.05)
    assert gaps.std() / gaps.mean() == pytest.approx(burstiness**-0.5, rel=0.05)


def test_constant_begins_at_0_and_never_drifts() -> None:
    found = times(ArrivalProcess("constant", 3.0), count=3_000_001)
    assert found[:4] == [0, 333_333_333, 666_666_667, 1_000_000_000]
    assert found[-1] == 1_000_000 * 10**9


def test_burst_is_all_at_0() -> None:
    assert times(ArrivalProcess("burst"), count=3) == [0, 0, 0]


@pytest.mark.parametrize("process", [ArrivalProcess("poisson", 1e5), ArrivalProcess("gamma", 0.5, 0.3)])
def test_chunks_do_not_show(process: ArrivalProcess, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = times(process)
    monkeypatch.setattr(arrivals, "CHUNK", 7)
    assert times(process) == whole


def test_the_seed_decides() -> None:
    process = ArrivalProcess("poisson", 1.0)
    assert times(process, 0) == times(process, 0) != times(process, 1)


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        (("uniform", 1.0), "--arrival is 'uniform': give one of poisson, gamma, constant, burst"),
        (("poisson",), "--arrival poisson needs --request-rate, in requests per second"),
        (("poisson", 0.0), "--request-rate is 0: give 1e-06 to 1e+09 requests per second, or --arrival burst"),
        (("constant", float("inf")), "--request-rate is inf: give"),
        (("constant", float("nan")), "--request-rate is nan: give"),
        (("burst", 2.0), "--request-rate is 2, but --arrival burst sends all requests at once"),
        (("poisson", 1.0, 1.0), "--burstiness is 1, but --arrival is poisson: leave it out, or give --arrival gamma"),
        (("gamma", 1.0), "--arrival gamma needs --burstiness"),
        (("gamma", 1.0, 0.0), "--burstiness is 0: give 0.001 or more; 1 is Poisson"),
        (("gamma", 1.0, float("inf")), "--burstiness is inf: give 0.001 or more"),
    ],
)
def test_what_no_process_is(fields: tuple[Any, ...], message: str) -> None:
    with pytest.raises(UsageError) as caught:
        ArrivalProcess(*fields)
    assert str(caught.value).startswith(message)
