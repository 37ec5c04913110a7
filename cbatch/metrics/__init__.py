"""Figures from timestamps: of one request, and of a run. Pure functions and accumulators; no files, no display."""

from cbatch.metrics.attribution import Attribution
from cbatch.metrics.objectives import Objectives, parse_objectives
from cbatch.metrics.percentiles import Distribution, parse_percentiles
from cbatch.metrics.replay import ReplayAccumulator, ReplaySummary
from cbatch.metrics.request import RequestMetrics
from cbatch.metrics.run import RunAccumulator, RunSummary
from cbatch.metrics.saturation import Saturation
from cbatch.metrics.steady import SteadyState

__all__ = [
    "Attribution",
    "Distribution",
    "Objectives",
    "ReplayAccumulator",
    "ReplaySummary",
    "RequestMetrics",
    "RunAccumulator",
    "RunSummary",
    "Saturation",
    "SteadyState",
    "parse_objectives",
    "parse_percentiles",
]
