"""P3IV+ behind the interface of all planners: how it is trained, calibrated after every epoch, and sampled."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from p3iv.config import Config
from p3iv.data.tensors import PlanningData, WindowTensors
from p3iv.metrics.distributions import exact_divergences
from p3iv.metrics.plans import accuracies, ious, successes
from p3iv.metrics.references import references_of
from p3iv.planners.base import ChainPlanner, Sync
from p3iv.planners.header import SelectionScore
from p3iv.planners.plus.learner import HeldOutScores, PlusLearner, train_second
from p3iv.planners.plus.network import ChainNetwork, P3IVPlusNetwork, as_array, video_numbers
from p3iv.planners.plus.second_expert import SecondExpert
from p3iv.plans.chain import NUM_RESCORED, Chain, fit_of, redistribute
from p3iv.types import Array, PlanScores

TEMPERATURES = tuple(1.15**step for step in range(-5, 9))  # of the emissions, from a half to three
SECOND_WEIGHTS = (0.0, 0.2, 0.35, 0.5, 0.65)  # of the second network
WEIGHTS = (0.3, 1.0, 3.0, 10.0, 30.0, 100.0, 300.0)  # of the effects
MIN_GAIN = 3.0  # standard errors that a weight must gain to be chosen
NLL_WEIGHT = 2.0  # percent points of success rate + accuracy + IoU that one nat counts for

_MAX_WINDOWS = 512  # that a weight is chosen on
_MIN_LOG = -50.0  # of a plan that transitions without back-off make impossible


class P3IVPlus(P3IVPlusNetwork, ChainPlanner):
    """A chain that chooses its plans itself, trained and selected by its plans and its probabilities."""

    preset = "p3iv-plus"
    own_settings = ("plus.",)
    chosen_buffers = ("second_weight", "temperature", "effects.weight")
    # It has a schedule of its own, no critic and no latents, and its chain takes the place of the action loss.
    unused_settings = (
        "optim.decay",
        "optim.critic",
        "loss.action",
        "loss.adversarial",
        "loss.diversity",
        "loss.latents",
    )

    @classmethod
    def describe(cls, config: Config) -> str:
        plus = config.plus
        parts = {"linear path": plus.linear, "decoder": plus.decoder, "end heads": plus.end_heads}
        inputs = ", ".join(name for name, is_on in parts.items() if is_on)
        how = "through the chain" if plus.chain else "position by position"
        inputs += " and a second network" if plus.second else ""
        effects = "; plans reweighted by their effects" if plus.effects else ""
        score = f"SR + mAcc + mIoU - {NLL_WEIGHT:g} NLL"
        return f"a chain fed by {inputs}; trained {how}{effects}; chosen by {score} of that chain"

    @classmethod
    def nearby_s(cls, config: Config) -> int:
        return config.plus.nearby if config.plus.linear else 0

    def fit(self, data: PlanningData) -> None:
        super().fit(data)
        if self.second is not None:
            train_second(self.second, data, self.config)

    def make_learner(self, data: PlanningData, sync: Sync) -> PlusLearner:
        return PlusLearner(self, HeldOutScores.of(self, data), sync=sync)

    def action_logits(self, start: Tensor, goal: Tensor) -> Tensor:
        return self.emissions(start, goal)

    def calibrate(self, data: PlanningData) -> None:
        """Choose the weight of the second network, the temperature of the emissions and the weight of the effects."""
        self.effects.weight.zero_()
        if self.second is not None:
            choose_second_weight(self, self.second, data.val)
        if self.config.plus.calibrated:
            choose_temperature(self, data)
        if self.config.plus.effects:
            choose_weight(self, data.val)

    def selection_score(self, data: PlanningData, val: PlanScores) -> SelectionScore:
        """Right plans and right probabilities: the three scores in percent, minus `NLL_WEIGHT` per nat of NLL."""
        percent = 100 * (val.success_rate + val.mean_accuracy + val.mean_iou)
        return (percent - NLL_WEIGHT * mean_nll(val_chain(self, data), data.val.action_ids, len(data.names)),)


@torch.no_grad()
def choose_second_weight(planner: P3IVPlusNetwork, second: SecondExpert, val: WindowTensors) -> None:
    """Choose the share of the second network under which the plans of validation windows are most probable."""
    planner.eval()
    part = val.take(some_rows(len(val)))
    start, goal = part.start.to(planner.scale), part.goal.to(planner.scale)
    both = planner(start, goal).emissions, second.score_pairs(start, goal).emissions
    logs = second_likelihoods(planner, both, part.action_ids)
    planner.second_weight.fill_(SECOND_WEIGHTS[int(logs.argmax())])


def second_likelihoods(planner: ChainNetwork, both: tuple[Tensor, Tensor], action_ids: Tensor) -> Array:
    """The log-likelihood of plans (N, T) with each of `SECOND_WEIGHTS`: (len(SECOND_WEIGHTS),).

    Args:
        planner: with a second network.
        both: scores of the first and of the second network, (N, T, A) each.
        action_ids: the plans.
    """
    if planner.second is None:
        raise AssertionError("there is no second network")
    logs, rows = [], np.arange(len(action_ids))
    for weight in SECOND_WEIGHTS:
        beta = planner.first_beta.lerp(planner.second.beta, weight)
        chain = Chain(as_array(both[0].lerp(both[1], weight)), as_array(beta * planner.log_transitions))
        logs.append(chain.log_probability(action_ids.numpy(), rows).clip(_MIN_LOG).sum())
    return np.array(logs)


def some_rows(number: int) -> Tensor:
    """At most `_MAX_WINDOWS` of so many windows, the same ones every time."""
    return torch.randperm(number, generator=torch.Generator().manual_seed(0))[:_MAX_WINDOWS]


def choose_temperature(planner: P3IVPlusNetwork, data: PlanningData) -> None:
    """Choose the temperature under which the plans of the validation windows are most probable."""
    planner.temperature.fill_(1.0)
    planner.temperature.fill_(best_temperature(val_chain(planner, data), data.val.action_ids, len(data.names)))


def best_temperature(chain: Chain, action_ids: Tensor, num_actions: int) -> float:
    """The temperature of the emissions under which the plans of windows are most probable."""
    nlls = [mean_nll(chain.with_emissions(chain.log_emissions / t), action_ids, num_actions) for t in TEMPERATURES]
    return TEMPERATURES[min(range(len(nlls)), key=nlls.__getitem__)]


def mean_nll(chain: Chain, action_ids: Tensor, num_actions: int) -> float:
    """The mean NLL of the references of windows under a chain."""
    return float(exact_divergences(chain.log_probability, references_of(action_ids), num_actions).nll.mean())


@torch.no_grad()
def val_chain(planner: P3IVPlusNetwork, data: PlanningData) -> Chain:
    """The chain of the validation windows."""
    planner.eval()
    return planner.chain(data.val.start.to(planner.scale), data.val.goal.to(planner.scale))


@torch.no_grad()
def choose_weight(planner: P3IVPlusNetwork, val: WindowTensors) -> None:
    """Choose the weight of the effects with the largest gain on validation windows, or 0 without a clear gain."""
    planner.eval()
    planner.effects.weight.zero_()
    rows = some_rows(len(val))
    start, goal = (side[rows].to(planner.scale) for side in (val.start, val.goal))
    terms = planner.effects.terms(start, goal)
    gains = weight_gains(planner.chain(start, goal), terms, val.action_ids[rows])
    planner.effects.weight.fill_(best_weight(gains, video_numbers(val)[rows]))


def weight_gains(chain: Chain, terms: tuple[Array, Array], truth: Tensor) -> Tensor:
    """What each of WEIGHTS gains on windows with these plans (N, T): (len(WEIGHTS), N)."""
    plans, logs = chain.best_plans(NUM_RESCORED)
    fit = fit_of(plans, *terms)
    plain = _window_scores(chain, plans, logs, truth)
    return torch.stack(
        [_window_scores(chain, plans, redistribute(logs, weight * fit), truth) - plain for weight in WEIGHTS]
    )


def best_weight(gains: Tensor, groups: Tensor) -> float:
    """The weight of the effects with the largest gain on windows of some videos (N,), or 0 without a clear gain."""
    best = max(range(len(WEIGHTS)), key=lambda number: float(gains[number].mean()))
    is_clear = gains[best].mean() > MIN_GAIN * standard_error(gains[best], groups)
    return WEIGHTS[best] if bool(is_clear) else 0.0


def _window_scores(chain: Chain, plans: Array, logs: Array, truth: Tensor) -> Tensor:
    """The score of each window if its plans (N, n, T) have these log probabilities (N, n): (N,)."""
    window, ids = np.arange(len(plans)), truth.numpy()
    first = torch.from_numpy(plans[window, logs.argmax(axis=1)])
    is_truth = (plans == ids[:, None]).all(axis=2) & (logs > -np.inf)
    place = is_truth.argmax(axis=1)
    log_truth = np.where(is_truth.any(axis=1), logs[window, place], chain.log_probability(ids, window))
    percent = 100 * (successes(first, truth).double() + accuracies(first, truth) + ious(first, truth))
    return percent + NLL_WEIGHT * torch.from_numpy(log_truth).clamp_min(_MIN_LOG)


def standard_error(values: Tensor, groups: Tensor) -> Tensor:
    """Standard error of the mean of values (N,) that are correlated within groups (N,); infinite for one group."""
    names, group = groups.unique(return_inverse=True)
    number = len(names)
    if number < 2:
        return torch.full((), torch.inf, dtype=values.dtype)
    sums = torch.zeros(number, dtype=values.dtype).index_add_(0, group, values - values.mean())
    return (sums.square().sum() * number / (number - 1)).sqrt() / len(values)
