"""What an exported planner must give: its outputs as torch computes them, and how far a file differs from them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

import numpy as np
import torch
from torch import Tensor

from p3iv.planners.checkpoint import TrainedPlanner
from p3iv.planners.layers import Standardised
from p3iv.planners.onnx_planner import OnnxPlanner
from p3iv.planners.onnx_queries import FOLLOW_CONSTANTS, LENGTH_CONSTANTS, LENGTH_FIT, UNDER_WAY, emissions_of
from p3iv.planners.p3iv.network import P3IVNetwork
from p3iv.planners.plus.network import P3IVPlusNetwork
from p3iv.planners.queries.evidence import QueryTensors
from p3iv.planners.queries.planner import QueryPlanner
from p3iv.plans.evidence import EVIDENCE, subsets_of
from p3iv.types import Array

_NUM_EXAMPLES: Final = 8  # of each spread, that every file is compared with torch on
_SPREADS: Final = (0.0, 1.0, 10.0, 100.0)  # of the observations, in standard deviations of the training features
_NUM_LATENTS: Final = 20

Arrays = dict[str, Array]


@torch.inference_mode()
def largest_difference(trained: TrainedPlanner, exported: OnnxPlanner) -> float:
    """The largest difference of outputs by onnxruntime and by torch, over usual and extreme observations.

    Of a planner of queries, with every mix of evidence.
    """
    constants = {name: np.asarray(constant) for name, constant in constants_of(trained).items()}
    differences = []
    for given in _examples(trained):
        wanted = {**_scores_of(trained.planner, given), **constants}
        for found, other in zip(exported.scores(*wanted, **given), wanted.values(), strict=True):
            size = max(1.0, float(np.abs(other).max()))
            differences.append(float(np.abs(found - other).max()) / size)
    return max(differences)


def constants_of(trained: TrainedPlanner) -> dict[str, Any]:
    """The outputs that do not depend on the inputs."""
    planner, transitions = trained.planner, trained.transitions
    found: dict[str, Any] = {"transitions_row": transitions.row, "transitions_paper": transitions.paper}
    if isinstance(planner, P3IVPlusNetwork | QueryPlanner):
        found["log_transitions"] = planner.beta * planner.log_transitions
        if weight := float(planner.effects.weight):
            found["log_both"] = weight * planner.effects.overlap.double()
    if isinstance(planner, QueryPlanner):
        found |= dict(zip(LENGTH_CONSTANTS, (planner.lengths.bias, planner.lengths.slope), strict=True))
        numbers = vars(planner.follow_numbers)
        found |= {name: numbers[name.removeprefix("follow_")] for name in FOLLOW_CONSTANTS}
    return found


def scaling_of(planner: Any) -> Standardised:
    """The module that knows mean and scale of the features."""
    network: Standardised = planner.base if isinstance(planner, P3IVPlusNetwork | QueryPlanner) else planner
    return network


def _examples(trained: TrainedPlanner) -> Iterator[Arrays]:
    """Inputs around the mean of the training features, from the mean itself to far outside of all of them."""
    network, random = scaling_of(trained.planner), np.random.default_rng(0)
    mean, scale = (part.cpu().numpy() for part in (network.feature_mean, network.feature_scale))
    for spread in _SPREADS:
        for _ in range(_NUM_EXAMPLES):
            seen = {
                name: (mean + spread * scale * random.standard_normal(mean.shape))[None]
                for name in ("start", "goal", "history")
            }
            given = _complete(trained, seen, random)
            yield {name: array.astype(mean.dtype) for name, array in given.items()}


def _complete(trained: TrainedPlanner, seen: Arrays, random: np.random.Generator) -> Arrays:
    """The inputs of a planner, from observations (1, F); those of a planner of queries with every mix of evidence."""
    shape, width = trained.header.shape, trained.header.config.model.noise_width
    if isinstance(trained.planner, QueryPlanner):
        sizes = {"last_step": shape.num_actions, "procedure": shape.num_procedures}
        said = {name: random.dirichlet(np.full(size, 0.1))[None] for name, size in sizes.items()}
        mixes = subsets_of(np.ones(len(EVIDENCE)))
        return {**{name: part.repeat(len(mixes), axis=0) for name, part in {**seen, **said}.items()}, "has": mixes}
    pair = {name: seen[name] for name in ("start", "goal")}
    if isinstance(trained.planner, P3IVNetwork) and width:
        pair["latents"] = random.standard_normal((_NUM_LATENTS, width))
    return pair


def _scores_of(planner: Any, given: Arrays) -> Arrays:
    """The outputs that depend on the inputs, by torch."""
    tensors = {name: torch.from_numpy(array) for name, array in given.items()}
    start, goal, latents = tensors["start"], tensors["goal"], tensors.get("latents")
    found: dict[str, Tensor] = {}
    if isinstance(planner, QueryPlanner):
        query = QueryTensors(**tensors)
        found = {emissions_of(horizon): planner.log_emissions(query, horizon) for horizon in planner.horizons}
        found[LENGTH_FIT] = planner.experts.score_lengths(start, goal)
        found[UNDER_WAY] = planner.score_step_under_way(query)
    elif isinstance(planner, P3IVPlusNetwork):
        found["log_emissions"] = planner.emissions(start, goal) / planner.temperature
    else:
        hidden = planner.decode(planner.tokens(start, goal), None if latents is None else latents[None])[0]
        found["action_logits"] = planner.action_head(hidden)
    scores = {name: tensor.numpy() for name, tensor in found.items()}
    if isinstance(planner, P3IVPlusNetwork | QueryPlanner) and (weight := float(planner.effects.weight)):
        scores["log_each"] = weight * planner.effects.each(start, goal)
    return scores
