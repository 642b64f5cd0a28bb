"""Metrics of one plan per window against its reference."""

from __future__ import annotations

import torch
from torch import Tensor

from p3iv.data.padding import PAD, plan_lengths, same_width
from p3iv.metrics.intervals import Clusters, Interval, jackknife_interval
from p3iv.types import PlanScores

NUM_BINS = 10  # of the calibration error
MAX_ENTRIES = 2**22  # of a table at a time, of which every window has T x T


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


def length_values(plans: Tensor, references: Tensor) -> dict[str, Tensor]:
    """Every metric of plans of unknown length, (N,) each: a new one is added here and to the catalogue.

    Args:
        plans: (N, T), padded as in `data.padding`.
        references: (N, T'), padded; a plan and its reference may have different lengths.
    """
    plans, references = same_width(plans, references)
    return {
        "success_rate": successes(plans, references),
        "mean_iou": ious(plans, references),
        "edit_score": edit_scores(plans, references),
        "length_accuracy": plan_lengths(plans) == plan_lengths(references),
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

    Plans and references may be padded.
    """
    size = max(1, MAX_ENTRIES // plans.shape[1] ** 2)
    return torch.cat([_ious(*some) for some in zip(plans.split(size), references.split(size), strict=True)])


def _ious(plans: Tensor, references: Tensor) -> Tensor:
    first_in_prediction = _is_first(plans)
    shared = ((plans[:, :, None] == references[:, None, :]).any(dim=2) & first_in_prediction).sum(dim=1)
    sizes = first_in_prediction.sum(dim=1) + _is_first(references).sum(dim=1)
    return shared.double() / (sizes - shared).double()


def _is_first(plans: Tensor) -> Tensor:
    """Whether a position holds an action, and for the first time: (N, T)."""
    earlier = torch.ones(plans.shape[1], plans.shape[1], dtype=torch.bool, device=plans.device).tril(-1)
    return ~((plans[:, :, None] == plans[:, None, :]) & earlier).any(dim=2) & (plans != PAD)


def edit_scores(plans: Tensor, references: Tensor) -> Tensor:
    """1 - Levenshtein distance / length of the longer of the two, of padded rows: (N,) float64.

    RAP (arXiv 2403.18600) scores plans of unknown length by a mean edit score. We take the edit score of temporal
    action segmentation, with the steps of a plan as segments; equal steps in a row are not merged.

    >>> edit_scores(torch.tensor([[1, 2, 3], [1, 2, 3]]), torch.tensor([[2, 3, -1], [1, 9, 3]]))
    tensor([0.6667, 0.6667], dtype=torch.float64)
    """
    longer = torch.maximum(plan_lengths(plans), plan_lengths(references))
    return 1 - edit_distances(plans, references).double() / longer


def edit_distances(plans: Tensor, references: Tensor) -> Tensor:
    """The fewest insertions, deletions and substitutions that make a plan its reference: (N,) int64.

    The usual table, row by row for all windows at once. D[i, j] is for the first i steps of the plan and the first j
    of the reference. Insertions go along a row: D[i, j] is the smallest C[k] + j - k with k <= j, where C is what
    deletions and substitutions give, so a running minimum of C[k] - k takes the place of a loop over j.
    """
    ends, place = plan_lengths(plans), plan_lengths(references)[:, None]  # (N,), (N, 1)
    column = torch.arange(references.shape[1] + 1)
    row = column.repeat(len(plans), 1)  # (N, T' + 1)
    found = row.gather(1, place)[:, 0]
    for number, actions in enumerate(plans.unbind(dim=1), start=1):
        substituted = row[:, :-1] + (actions[:, None] != references)
        costs = torch.cat((row[:, :1] + 1, torch.minimum(row[:, 1:] + 1, substituted)), dim=1)
        row = (costs - column).cummin(dim=1).values + column
        found = torch.where(ends == number, row.gather(1, place)[:, 0], found)
    return found


def calibration_error(probabilities: Tensor, is_right: Tensor) -> float:
    """The expected calibration error of plans' probabilities (N,), in ten bins of equal width.

    >>> calibration_error(torch.tensor([0.25, 0.25, 0.75, 1]), torch.tensor([0, 1, 0, 1]))  # |0.5 - 1|, 0.75 and 0
    0.3125
    """
    gaps = _gaps(probabilities, is_right, torch.zeros(len(is_right), dtype=torch.int64), 1)
    return (gaps.abs().sum() / len(is_right)).item()


def calibration_interval(probabilities: Tensor, is_right: Tensor, clusters: Clusters) -> Interval:
    """The calibration error with its interval; it is not a mean over windows, so each video is left out in turn."""
    value = calibration_error(probabilities, is_right)
    if len(clusters) < 2:
        return Interval(value)
    gaps = _gaps(probabilities, is_right, clusters.number, len(clusters))
    sizes = clusters.add_up(torch.ones(len(is_right)))
    without = (gaps.sum(0) - gaps).abs().sum(1) / (len(is_right) - sizes)
    return jackknife_interval(value, without.double(), sizes)


def _gaps(probabilities: Tensor, is_right: Tensor, video: Tensor, num_videos: int) -> Tensor:
    """The sum of probability - is right by video and bin, (V, 10); a probability of 1 is in the last bin."""
    place = (probabilities.double() * NUM_BINS).long().clamp(max=NUM_BINS - 1)
    gaps = torch.zeros(num_videos * NUM_BINS, dtype=torch.float64)
    gaps.index_add_(0, video * NUM_BINS + place, probabilities.double() - is_right.double())
    return gaps.view(num_videos, NUM_BINS)
