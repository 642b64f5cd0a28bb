"""Evaluation of a trained planner: every decoder, every metric, over one side of the split."""

from p3iv.evaluation.evaluate import EvaluationRequest, evaluate, evaluation_files
from p3iv.evaluation.result import Evaluation

__all__ = ["Evaluation", "EvaluationRequest", "evaluate", "evaluation_files"]
