"""Metrics of one plan per window against its reference."""

from __future__ import annotations

import torch
from torch import Tensor

from p3iv.types import PlanScores


def score_plans(plans: Tensor, references: Tensor) -> PlanScores:
    """Success rate, mean accuracy and mean IoU of plans (N, T) against references (N, T)."""
    return PlanScores(
        success_rate=successes(plans, references).double().mean().item(),
        mean_accuracy=accuracies(plans, references).mean().item(),
        mean_iou=ious(plans, references).mean().item(),
        num_windows=len(references),
    )


def plan_values(plans: Tensor, references: Tensor) -> dict[str, Tensor]:
    """Every metric of every window, (N,) each: a new metric of plans is added here and to the catalogue."""
    return {
        "success_rate": successes(plans, references),
        "mean_accuracy": accuracies(plans, references),
        "mean_iou": ious(plans, references),
    }


def successes(plans: Tensor, references: Tensor) -> Tensor:
    """Which plans match their reference at every position: (N,)."""
    return (plans == references).all(dim=1)


def accuracies(plans: Tensor, references: Tensor) -> Tensor:
    """Share of the positions of every window that hold the right action: (N,) float64.

    >>> accuracies(torch.tensor([[1, 1, 1, 1, 1, 9]]), torch.tensor([[1, 1, 1, 1, 1, 2]]))  # 5/6
    tensor([0.8333], dtype=torch.float64)
    """
    return (plans == references).double().mean(dim=1)


def ious(plans: Tensor, references: Tensor) -> Tensor:
    """Intersection over union of the two sets of actions of every window: (N,) float64.

    >>> ious(torch.tensor([[3, 5, 9], [104, 105, 103]]), torch.tensor([[9, 5, 3], [96, 97, 99]]))
    tensor([1., 0.], dtype=torch.float64)
    """
    first_in_prediction = _is_first(plans)
    shared = ((plans[:, :, None] == references[:, None, :]).any(dim=2) & first_in_prediction).sum(dim=1)
    sizes = first_in_prediction.sum(dim=1) + _is_first(references).sum(dim=1)
    return shared.double() / (sizes - shared).double()


def _is_first(plans: Tensor) -> Tensor:
    """Whether a position holds an action for the first time: (N, T)."""
    earlier = torch.ones(plans.shape[1], plans.shape[1], dtype=torch.bool, device=plans.device).tril(-1)
    return ~((plans[:, :, None] == plans[:, None, :]) & earlier).any(dim=2)
