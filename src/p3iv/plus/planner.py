"""P3IV+ as a planner of the house: built, fitted, taught, calibrated after every epoch, and asked for plans."""

from __future__ import annotations

import torch
from torch import Tensor

from p3iv.chain import Chain
from p3iv.config import Config
from p3iv.interface import Merit, PlannerKind, Sync
from p3iv.metrics import PlanScores, exact_divergences, references_of
from p3iv.models import PlannerShape
from p3iv.observations import PlanningData
from p3iv.plus.effect_weight import NATS_WORTH, choose_weight
from p3iv.plus.learner import Lessons, PlusLearner
from p3iv.plus.network import P3IVPlus
from p3iv.plus.sampler import ChainSampler
from p3iv.transitions import Transitions

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
