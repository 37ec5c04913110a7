"""Figures from timestamps: of one request, and of a run. Pure functions and one accumulator; no files, no display."""

from cbatch.metrics.attribution import Attribution
from cbatch.metrics.percentiles import Distribution
from cbatch.metrics.request import RequestMetrics
from cbatch.metrics.run import RunAccumulator, RunSummary

__all__ = ["Attribution", "Distribution", "RequestMetrics", "RunAccumulator", "RunSummary"]
