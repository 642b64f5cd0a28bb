"""Planners to compare with."""

from p3iv.baselines.retrieval import nearest_plans

__all__ = ["nearest_plans"]
