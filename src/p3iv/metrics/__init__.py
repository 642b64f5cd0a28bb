"""Metrics that mean what they say."""

from p3iv.metrics.plans import PlanScores, score_plans

__all__ = ["PlanScores", "score_plans"]
