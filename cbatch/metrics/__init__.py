"""Figures from timestamps: of one request, and of a run. Pure functions and accumulators; no files, no display."""

from cbatch.metrics.attribution import Attribution
from cbatch.metrics.compare import Comparison
from cbatch.metrics.divergence import Audit, Repeatability, audit, repeatability
from cbatch.metrics.kv_table import KVTable, KVWay
from cbatch.metrics.objectives import Objectives, parse_objectives
from cbatch.metrics.percentiles import Distribution, parse_percentiles
from cbatch.metrics.replay import ReplayAccumulator, ReplaySummary
from cbatch.metrics.request import RequestMetrics
from cbatch.metrics.run import RunAccumulator, RunSummary
from cbatch.metrics.run_data import RunCollector, RunData
from cbatch.metrics.saturation import Saturation
from cbatch.metrics.steady import SteadyState

__all__ = [
    "Attribution",
    "Audit",
    "Comparison",
    "Distribution",
    "KVTable",
    "KVWay",
    "Objectives",
    "Repeatability",
    "ReplayAccumulator",
    "ReplaySummary",
    "RequestMetrics",
    "RunAccumulator",
    "RunCollector",
    "RunData",
    "RunSummary",
    "Saturation",
    "SteadyState",
    "audit",
    "parse_objectives",
    "parse_percentiles",
    "repeatability",
]
