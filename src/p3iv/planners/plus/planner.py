"""P3IV+ as a planner of the house: built, fitted, taught, calibrated after every epoch, and asked for plans."""

from __future__ import annotations

import torch
from torch import Tensor

from p3iv.config import Config
from p3iv.data.tensors import PlanningData, WindowTensors
from p3iv.metrics.distributions import exact_divergences
from p3iv.metrics.plans import PlanScores, accuracies, ious, successes
from p3iv.metrics.references import references_of
from p3iv.planners.base import Merit, PlannerKind, PlannerShape, Sync
from p3iv.planners.plus.learner import Lessons, PlusLearner
from p3iv.planners.plus.network import P3IVPlus, video_numbers
from p3iv.plans.chain import Chain
from p3iv.plans.draws import Draws, SampleSettings, blocks_of, refuse_noise, seed_of
from p3iv.plans.rescored import RESCORED, fit_of, share_anew
from p3iv.plans.transitions import Transitions


class ChainSampler:
    """Draws exactly, by forward filtering and backward sampling; all modes are this one."""

    def __init__(self, planner: P3IVPlus, settings: SampleSettings) -> None:
        refuse_noise(settings, planner.config.planner)
        self.planner = planner.eval()
        columns = (("chain", planner.shape.horizon), ("rescored", 1))
        uniforms = [
            blocks_of(torch.rand, settings.num_samples, width, seed=seed_of(settings, name), dtype=torch.float64)
            for name, width in columns
        ]
        self._uniforms = torch.cat(uniforms, dim=2).flatten(0, 1)[: settings.num_samples]  # (K, T + 1)

    @torch.no_grad()
    def draw(self, start: Tensor, goal: Tensor) -> Draws:
        """Draw for pairs of observations (N, F), each computed by itself so that its neighbours change nothing."""
        place = self.planner.scale
        chains = [
            self.planner.chain(one[None].to(place), other[None].to(place))
            for one, other in zip(start, goal, strict=True)
        ]
        plans = torch.cat([part.draw(self._uniforms) for part in chains])
        best = torch.cat([part.best_paths()[0] for part in chains])
        marginals = torch.cat([part.marginals() for part in chains])
        return Draws(marginals, plans, plans, self._uniforms, best, type(chains[0]).stack(chains))


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


TEMPERATURES = tuple(1.15**step for step in range(-5, 9))  # from a half to three


def _fit(planner: P3IVPlus, data: PlanningData) -> None:
    planner.fit(data)


def _teach(planner: P3IVPlus, data: PlanningData, config: Config, sync: Sync) -> PlusLearner:
    return PlusLearner(planner, Lessons.of(planner, data), config, sync=sync)


def _scores(planner: P3IVPlus, start: Tensor, goal: Tensor) -> Tensor:
    emissions: Tensor = planner(start, goal).emissions
    return emissions


def _predict(planner: P3IVPlus, transitions: Transitions, start: Tensor, goal: Tensor) -> Tensor:  # noqa: ARG001
    return planner.chain(start, goal).best_paths()[0].to(start.device)


def _settle(planner: P3IVPlus, data: PlanningData) -> None:
    """Choose on validation windows how peaked the emissions are, and how much the effects of a plan count."""
    planner.effects.weight.zero_()
    if planner.config.plus.calibrated:
        _choose_temperature(planner, data)
    if planner.config.plus.effects:
        choose_weight(planner, data.val)


def _choose_temperature(planner: P3IVPlus, data: PlanningData) -> None:
    """Choose the one under which the plans of the validation windows are most probable."""
    planner.temperature.fill_(1.0)
    chain = _val_chain(planner, data)
    hotter = [Chain(chain.log_emissions / value, chain.log_transitions) for value in TEMPERATURES]
    nlls = [_nll(at, data) for at in hotter]
    planner.temperature.fill_(TEMPERATURES[min(range(len(nlls)), key=nlls.__getitem__)])


def _merit(planner: P3IVPlus, data: PlanningData, val: PlanScores) -> Merit:
    """Right plans and right probabilities: the three scores in percent, less two a nat."""
    percent = 100 * (val.success_rate + val.mean_accuracy + val.mean_iou)
    return (percent - NATS_WORTH * _nll(_val_chain(planner, data), data),)


def _nll(chain: Chain, data: PlanningData) -> float:
    references = references_of(data.val.action_ids)
    window, row = references.pairs
    logs = chain.log_probability(references.plans[row], window)
    return float(exact_divergences(logs, references, len(data.names)).nll.mean())


@torch.no_grad()
def _val_chain(planner: P3IVPlus, data: PlanningData) -> Chain:
    planner.eval()
    return planner.chain(data.val.start.to(planner.scale), data.val.goal.to(planner.scale))


def _describe(config: Config) -> str:
    plus = config.plus
    parts = {"linear path": plus.linear, "decoder": plus.decoder, "end heads": plus.end_heads}
    fed = ", ".join(name for name, is_on in parts.items() if is_on)
    weighed = "; plans weighed by their effects" if plus.effects else ""
    taught = "through the chain" if plus.chain else "position by position"
    return f"a chain fed by {fed}; trained {taught}{weighed}; chosen by SR + mAcc + mIoU - 2 NLL of that chain"


def _nearby_s(config: Config) -> int:
    return config.plus.nearby if config.plus.linear else 0


def _build(shape: PlannerShape, config: Config) -> P3IVPlus:
    return P3IVPlus(shape, config)


KIND = PlannerKind(
    build=_build,
    fit=_fit,
    teach=_teach,
    sampler=ChainSampler,
    scores=_scores,
    predict=_predict,
    describe=_describe,
    reads=("plus.",),
    nearby_s=_nearby_s,
    settle=_settle,
    merit=_merit,
    preset="p3iv-plus",
)
