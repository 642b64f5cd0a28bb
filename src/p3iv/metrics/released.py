"""Metrics as released code computes them, under names of their own, so that published numbers can be compared.

None of them is what its column heading says. What the code computes, as of its last commit:

- P3IV: mIoU is `bitwise_ious`, mAcc is `macro_precision`. SkipPlan and SCHEMA use the same mIoU, and plain accuracy
  as mAcc. (SkipPlan weights batches by their size // T: the mean over windows, except for the last batch.)
- PDPP: prints `batch_ious` as MIoU1, and as MIoU2 the set IoU of every window. Its KL and NLL are
  `marginal_divergences`; so are SCHEMA's.
- SCHEMA also prints a fourth IoU, of sets that grow from window to window of a batch and are never cleared.
"""

from __future__ import annotations

import torch
from torch import Tensor

from p3iv.metrics.counts import PlanCounts
from p3iv.metrics.distributions import Divergences, count_actions, sampled_actions
from p3iv.metrics.intervals import Clusters, Interval, jackknife_interval, mean_intervals
from p3iv.metrics.references import ReferencePlans

BATCH_SIZE = 32
_EPSILON = 1e-6  # the released code's
_SHARPNESS = 10  # PDPP multiplies marginals by it before the softmax
_CLASSES = 128  # actions counted at a time


def bitwise_ious(plans: Tensor, references: Tensor) -> Tensor:
    """P3IV's mIoU: sums of the bitwise `and` and `or` of the ids at every position, divided: (N,) float64.

    The same actions in another order score low, and different actions with similar ids score high:

    >>> bitwise_ious(torch.tensor([[3, 5, 9], [104, 105, 103]]), torch.tensor([[9, 5, 3], [96, 97, 99]]))
    tensor([0.2593, 0.9359], dtype=torch.float64)

    It changes when the same actions are numbered in another order. Our ids count from 0; P3IV's files of CrossTask
    count from 1, in an order of their own.
    """
    both = (plans & references).sum(dim=1).double()
    either = (plans | references).sum(dim=1).double()
    return (both + _EPSILON) / (either + _EPSILON)


def macro_precision(plans: Tensor, references: Tensor) -> float:
    """P3IV's mAcc: the precision of every action over all positions of all windows, averaged over actions.

    As scikit-learn's `precision_score(average="macro")`, it takes the actions that occur among references or
    plans, and an action that was never predicted has precision 0.

    >>> macro_precision(torch.tensor([[1, 1, 1, 1, 1, 9]]), torch.tensor([[1, 1, 1, 1, 1, 2]]))  # (1 + 0 + 0) / 3
    0.3333333333333333
    """
    size = 1 + int(torch.maximum(plans.max(), references.max()))
    hits = torch.bincount(plans[plans == references], minlength=size)
    predicted = torch.bincount(plans.flatten(), minlength=size)
    occurs = predicted + torch.bincount(references.flatten(), minlength=size) > 0
    return (hits / predicted.clamp_min(1).double())[occurs].mean().item()


def batch_ious(plans: Tensor, references: Tensor, batch_size: int = BATCH_SIZE) -> Tensor:
    """PDPP's MIoU1: the IoU of all actions of a mini-batch, given to each of its windows: (N,) float64.

    Their mean is PDPP's, which weights batches by their sizes. It changes with the batch size and the order of windows.

    >>> batch_ious(torch.tensor([[1, 2], [3, 4]]), torch.tensor([[3, 4], [1, 2]]), batch_size=2)  # set IoU: 0 and 0
    tensor([1., 1.], dtype=torch.float64)

    The default is 32: PDPP's documented evaluation runs `--batch_size_val=256` on 8 processes, and P3IV and SkipPlan
    use 32 too. (PDPP's default of 1024 would give 128.) Its processes take every eighth window each; our batches are
    consecutive windows.
    """
    batch = torch.arange(len(plans)) // batch_size  # (N,)
    actions, ids = torch.unique(torch.stack((plans, references)), return_inverse=True)
    held = torch.zeros(2, int(batch[-1]) + 1, len(actions), dtype=torch.bool)  # by plans, by references
    held[0, batch[:, None], ids[0]] = True
    held[1, batch[:, None], ids[1]] = True
    iou = held.all(dim=0).sum(dim=1).double() / held.any(dim=0).sum(dim=1)
    return iou[batch]


def marginal_divergences(samples: PlanCounts, references: ReferencePlans, num_actions: int) -> Divergences:
    """PDPP's KL and NLL: of the actions at single positions, averaged over positions.

    Shares of the samples and of the references (each as often as it occurs) are multiplied by 10 and put through a
    softmax over all actions; it cannot distinguish two distributions of plans that agree at every position. Computed in
    float64 where PDPP has float32.
    """
    kl, nll = (torch.empty(len(samples), dtype=torch.float64) for _ in range(2))
    for windows, counts in sampled_actions(samples, num_actions):
        groups, place = torch.unique(references.group[windows], return_inverse=True)
        log_p = torch.log_softmax(_SHARPNESS * _marginals(references, groups, num_actions), dim=2)
        log_q = torch.log_softmax(_SHARPNESS * counts / samples.totals[windows, None, None], dim=2)
        p = log_p.exp()
        nll[windows] = -(p[place] * log_q).sum(dim=2).mean(dim=1)
        kl[windows] = nll[windows] + (p * log_p).sum(dim=2).mean(dim=1)[place]
    return Divergences(kl=kl.clamp_min(0), nll=nll)  # below 0 only by rounding


def score_released(
    plans: Tensor, references: Tensor, clusters: Clusters, *, batch_size: int = BATCH_SIZE
) -> dict[str, Interval]:
    """Plans (N, T) as released code scores them.

    The clusters of the batch IoU are its batches. Forming batches again without a video would shift all windows after
    it into other batches.
    """
    batches = Clusters.of([number // batch_size for number in range(len(plans))])
    return {
        "macro_precision": macro_precision_interval(plans, references, clusters),
        **mean_intervals({"bitwise_iou": bitwise_ious(plans, references)}, clusters),
        **mean_intervals({"batch_iou": batch_ious(plans, references, batch_size)}, batches),
    }


def marginal_values(samples: PlanCounts, references: ReferencePlans, num_actions: int) -> dict[str, Tensor]:
    """PDPP's KL and NLL of every window, (N,) each."""
    divergences = marginal_divergences(samples, references, num_actions)
    return {"marginal_kl": divergences.kl, "marginal_nll": divergences.nll}


def macro_precision_interval(plans: Tensor, references: Tensor, clusters: Clusters) -> Interval:
    """Macro precision with its interval; it is not a mean over windows, so every action is counted in every video."""
    actions, ids = torch.unique(torch.stack((plans, references)), return_inverse=True)  # (2, N, T)
    total, number = (torch.zeros(len(clusters), dtype=torch.float64) for _ in range(2))
    for start in range(0, len(actions), _CLASSES):
        counts = _class_counts(ids - start, min(_CLASSES, len(actions) - start), clusters)
        hits, predicted, occurring = (count.sum(dim=0) - count for count in counts)  # without each of the clusters
        total += (hits / predicted.clamp_min(1)).sum(dim=1)
        number += (occurring > 0).sum(dim=1)
    sizes = clusters.add_up(torch.ones(len(plans)))
    return jackknife_interval(macro_precision(plans, references), total / number, sizes)


def _class_counts(ids: Tensor, num_actions: int, clusters: Clusters) -> tuple[Tensor, Tensor, Tensor]:
    """How often actions 0 to C - 1 are hit, predicted, and predicted or referred to, in every cluster: (V, C) each."""
    predicted, referred = ids
    cluster = clusters.number[:, None].expand_as(predicted)

    def count(chosen: Tensor) -> Tensor:
        here = (chosen >= 0) & (chosen < num_actions)
        places = cluster[here] * num_actions + chosen[here]
        return torch.bincount(places, minlength=len(clusters) * num_actions).view(-1, num_actions).double()

    by_plan = count(predicted)
    return count(torch.where(predicted == referred, predicted, -1)), by_plan, by_plan + count(referred)


def _marginals(references: ReferencePlans, groups: Tensor, num_actions: int) -> Tensor:
    """Probability of every action at every position in some groups: (g, T, A)."""
    place = torch.full((len(references.first) - 1,), -1).index_copy(0, groups, torch.arange(len(groups)))
    owner = place[references.group_of_row]
    here = owner >= 0
    return count_actions(references.plans[here], references.probabilities[here], owner[here], len(groups), num_actions)
