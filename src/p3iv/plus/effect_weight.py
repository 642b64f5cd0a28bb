"""How much the effects of a plan count: chosen on validation windows after every epoch, 0 unless it clearly helps.

Clearly: the mean gain of a window, in the merit by which an epoch is chosen, is larger than three standard errors over
videos. Seven weights after each of a dozen epochs are many chances: at two, one was chosen for CaptainCook4D, where it
changes nothing on test windows.
"""

from __future__ import annotations

import torch
from torch import Tensor

from p3iv.chain import Chain
from p3iv.metrics import accuracies, ious, successes
from p3iv.observations import WindowTensors
from p3iv.plus.network import P3IVPlus
from p3iv.plus.pairs import video_numbers
from p3iv.rescored import RESCORED, fit_of, share_anew

WEIGHTS = (0.3, 1.0, 3.0, 10.0, 30.0, 100.0, 300.0)
NATS_WORTH = 2.0  # percent of success rate, accuracy and IoU together
CLEARLY = 3.0  # standard errors
_MOST_WINDOWS = 512
_LEAST_LOG = -50.0  # of a plan that transitions without back-off make impossible


@torch.no_grad()
def choose_weight(planner: P3IVPlus, val: WindowTensors) -> None:
    """Choose the weight with the largest gain, or 0."""
    planner.eval()
    planner.effects.weight.zero_()
    rows = torch.randperm(len(val), generator=torch.Generator().manual_seed(0))[:_MOST_WINDOWS]
    start, goal = (side[rows].to(planner.scale) for side in (val.start, val.goal))
    chain, truth = planner.chain(start, goal), val.action_ids[rows]
    plans, logs = chain.best_plans(RESCORED)
    fit = fit_of(plans, *planner.effects.terms(start, goal))
    plain = _merits(chain, plans, logs, truth)
    gains = [_merits(chain, plans, share_anew(logs, weight * fit), truth) - plain for weight in WEIGHTS]
    best = max(range(len(WEIGHTS)), key=lambda number: float(gains[number].mean()))
    if gains[best].mean() > CLEARLY * standard_error(gains[best], video_numbers(val)[rows]):
        planner.effects.weight.fill_(WEIGHTS[best])


def _merits(chain: Chain, plans: Tensor, logs: Tensor, truth: Tensor) -> Tensor:
    """What the likeliest of plans (N, n, T) is worth where they have these log probabilities (N, n): (N,)."""
    window = torch.arange(len(plans))
    first = plans[window, logs.argmax(dim=1)]
    is_truth = (plans == truth[:, None]).all(dim=2) & (logs > -torch.inf)
    place = is_truth.long().argmax(dim=1)
    log_truth = torch.where(is_truth.any(dim=1), logs[window, place], chain.log_probability(truth, window))
    percent = 100 * (successes(first, truth).double() + accuracies(first, truth) + ious(first, truth))
    return percent + NATS_WORTH * log_truth.clamp_min(_LEAST_LOG)


def standard_error(values: Tensor, groups: Tensor) -> Tensor:
    """Of the mean of values (N,) that are alike within a group (N,): (); infinite where there is one group only."""
    names, group = groups.unique(return_inverse=True)
    number = len(names)
    if number < 2:
        return torch.full((), torch.inf, dtype=values.dtype)
    sums = torch.zeros(number, dtype=values.dtype).index_add_(0, group, values - values.mean())
    return (sums.square().sum() * number / (number - 1)).sqrt() / len(values)
