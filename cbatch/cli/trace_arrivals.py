"""The arrival process that a few options spell. Knows no trace."""

from __future__ import annotations

from cbatch.traces.arrivals import ArrivalProcess


def arrival_process(arrival: str | None, request_rate: float | None, burstiness: float | None) -> ArrivalProcess:
    """Without `arrival` it is Poisson, or gamma where a burstiness is given. Raises `UsageError`."""
    implied = "poisson" if burstiness is None else "gamma"
    return ArrivalProcess(implied if arrival is None else arrival, request_rate, burstiness)
