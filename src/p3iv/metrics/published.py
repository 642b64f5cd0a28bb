"""The metrics of released code under their own names, so that published numbers can be compared with each other.

None of them is what its column heading says. What the code does, as of its last commit:

- P3IV: mIoU is `bitwise_ious`, mAcc is `macro_precision`. SkipPlan and SCHEMA took the first over, and score mAcc as
  plain accuracy. (SkipPlan weighs batches by their size // T, which is the mean over windows but for the last batch.)
- PDPP: prints `batch_ious` as MIoU1, and as MIoU2 the set IoU of every window. Its KL and NLL are
  `marginal_divergences`; so are SCHEMA's.
- SCHEMA also prints a fourth IoU, of sets that grow from window to window of a batch and are never cleared.
"""

from __future__ import annotations

import torch
from torch import Tensor

from p3iv.metrics.distributions import Divergences, count_actions, sampled_actions
from p3iv.metrics.references import ReferencePlans
from p3iv.plans.distribution import PlanCounts

BATCH_SIZE = 32
_EPSILON = 1e-6  # the released code's
_SHARPNESS = 10  # PDPP multiplies marginals by it before the softmax


def bitwise_ious(predictions: Tensor, references: Tensor) -> Tensor:
    """P3IV's mIoU: sums of the bitwise `and` and `or` of the ids at every position, divided: (N,) float64.

    The same actions in another order lose, and unlike actions with like ids win:

    >>> bitwise_ious(torch.tensor([[3, 5, 9], [104, 105, 103]]), torch.tensor([[9, 5, 3], [96, 97, 99]]))
    tensor([0.2593, 0.9359], dtype=torch.float64)

    It changes when the same actions are numbered otherwise. Ids are taken as they come, here from 0; P3IV's files of
    CrossTask count from 1, in an order of their own.
    """
    both = (predictions & references).sum(dim=1).double()
    either = (predictions | references).sum(dim=1).double()
    return (both + _EPSILON) / (either + _EPSILON)


def macro_precision(predictions: Tensor, references: Tensor) -> float:
    """P3IV's mAcc: the precision of every action over all positions of all windows, averaged over actions.

    As scikit-learn's `precision_score(average="macro")`, it takes the actions that occur among references or
    predictions, and an action that was never predicted has precision 0.

    >>> macro_precision(torch.tensor([[1, 1, 1, 1, 1, 9]]), torch.tensor([[1, 1, 1, 1, 1, 2]]))  # (1 + 0 + 0) / 3
    0.3333333333333333
    """
    size = 1 + int(torch.maximum(predictions.max(), references.max()))
    hits = torch.bincount(predictions[predictions == references], minlength=size)
    predicted = torch.bincount(predictions.flatten(), minlength=size)
    occurs = predicted + torch.bincount(references.flatten(), minlength=size) > 0
    return (hits / predicted.clamp_min(1).double())[occurs].mean().item()


def batch_ious(predictions: Tensor, references: Tensor, batch_size: int = BATCH_SIZE) -> Tensor:
    """PDPP's MIoU1: the IoU of all actions of a mini-batch, given to each of its windows: (N,) float64.

    Their mean is PDPP's, which weighs batches by their sizes. It changes with the batch size and the order of windows.

    >>> batch_ious(torch.tensor([[1, 2], [3, 4]]), torch.tensor([[3, 4], [1, 2]]), batch_size=2)  # set IoU: 0 and 0
    tensor([1., 1.], dtype=torch.float64)

    The default is what PDPP's documented evaluation makes of `--batch_size_val=256` on its 8 processes (and the batch
    size of P3IV and SkipPlan); its argument's own default, 1024, would be 128. There every process takes each eighth
    window; here batches are windows that follow one another.
    """
    batch = torch.arange(len(predictions)) // batch_size  # (N,)
    actions, ids = torch.unique(torch.stack((predictions, references)), return_inverse=True)
    held = torch.zeros(2, int(batch[-1]) + 1, len(actions), dtype=torch.bool)  # by predictions, by references
    held[0, batch[:, None], ids[0]] = True
    held[1, batch[:, None], ids[1]] = True
    iou = held.all(dim=0).sum(dim=1).double() / held.any(dim=0).sum(dim=1)
    return iou[batch]


def marginal_divergences(samples: PlanCounts, references: ReferencePlans, num_actions: int) -> Divergences:
    """PDPP's KL and NLL: of the actions at single positions, averaged over positions.

    Shares of the samples and of the references (each as often as it occurs) are multiplied by 10 and put through a
    softmax over all actions; two distributions of plans that agree at every position are equal to it. Computed in
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
    return Divergences(kl=kl.clamp_min(0), nll=nll)  # below 0 by rounding alone


def _marginals(references: ReferencePlans, groups: Tensor, num_actions: int) -> Tensor:
    """Probability of every action at every position in some groups: (g, T, A)."""
    place = torch.full((len(references.first) - 1,), -1).index_copy(0, groups, torch.arange(len(groups)))
    owner = place[references.group_of_row]
    here = owner >= 0
    return count_actions(references.plans[here], references.probabilities[here], owner[here], len(groups), num_actions)
