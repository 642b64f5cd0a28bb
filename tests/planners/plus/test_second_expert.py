"""The second network of P3IV+: its formula, its training windows, its share in the chain, and planners without it."""

from __future__ import annotations

import json
from copy import deepcopy
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors import safe_open
from safetensors.torch import save_file
from torch import Tensor, nn

from p3iv.data.tensors import PlanningData
from p3iv.planners.checkpoint import load_planner
from p3iv.planners.header import BEST
from p3iv.planners.plus.learner import see_nearby
from p3iv.planners.plus.planner import SECOND_WEIGHTS, P3IVPlus
from p3iv.planners.plus.second_expert import SecondExpert
from p3iv.plans.chain import Chain


@pytest.fixture(scope="module")
def planner(plus_run: Path) -> P3IVPlus:
    found = load_planner(plus_run / BEST).planner
    assert isinstance(found, P3IVPlus)
    return found


@pytest.fixture(scope="module")
def expert(planner: P3IVPlus) -> SecondExpert:
    assert planner.second is not None
    return planner.second


def scores_in_words(expert: SecondExpert, start: Tensor, goal: Tensor, horizon: int) -> Tensor:
    """The formula at the top of planners/plus/second_expert.py, for one pair (F,), term by term: (T, A)."""
    _, layer, norm = expert.moment

    def encode(features: Tensor) -> Tensor:
        centred = features - expert.mean
        encoded: Tensor = norm(layer(centred / centred.square().mean().sqrt()))
        return encoded

    first, last = encode(start), encode(goal)
    hidden = expert.join[0](torch.cat((first, last))).relu()
    scores = torch.stack([expert.score(expert.gates[t] * hidden) + expert.biases[t] for t in range(horizon)])
    scores[0] += expert.ends[0](first)
    scores[-1] += expert.ends[1](last)
    return scores


@torch.no_grad()
def test_the_chain_has_a_weighted_mean_of_both_networks(
    planner: P3IVPlus, expert: SecondExpert, data: PlanningData
) -> None:
    start, goal = data.val.start[:4], data.val.goal[:4]
    found = torch.stack([scores_in_words(expert, *pair, 3) for pair in zip(start, goal, strict=True)])
    torch.testing.assert_close(expert.score_pairs(start, goal).emissions, found, atol=1e-3, rtol=1e-4)
    joined = deepcopy(planner)
    joined.second_weight.fill_(0.35)
    expected = 0.65 * planner(start, goal).emissions + 0.35 * found
    torch.testing.assert_close(joined.emissions(start, goal), expected, atol=1e-3, rtol=1e-4)
    torch.testing.assert_close(joined.beta, 0.65 * planner.first_beta + 0.35 * expert.beta)


@torch.no_grad()
def test_the_share_is_the_one_under_which_validation_plans_are_most_probable(
    planner: P3IVPlus, data: PlanningData
) -> None:
    changed, ids = deepcopy(planner), data.val.action_ids.numpy()

    def log_likelihood(share: float) -> float:
        changed.second_weight.fill_(share)
        emissions = changed.emissions(data.val.start, data.val.goal).double().numpy()
        transitions = (changed.beta * changed.log_transitions).double().numpy()
        return float(Chain(emissions, transitions).log_probability(ids, np.arange(len(ids))).sum())

    likelihoods = {share: log_likelihood(share) for share in SECOND_WEIGHTS}
    changed.calibrate(data)
    assert float(changed.second_weight) == pytest.approx(max(likelihoods, key=likelihoods.__getitem__))


def test_it_shares_no_parameter_with_the_first_network(planner: P3IVPlus, data: PlanningData) -> None:
    changed = deepcopy(planner)
    assert changed.second is not None
    changed.second.score_pairs(data.train.start[:4], data.train.goal[:4]).emissions.sum().backward()
    touched = {name for name, one in changed.named_parameters() if one.grad is not None}
    assert touched
    assert all(name.startswith("second.") for name in touched)


def test_training_windows_are_seen_at_their_own_second_or_nearby() -> None:
    torch.manual_seed(0)
    own = torch.zeros(300, 2), torch.zeros(300, 2)
    nearby = torch.stack([torch.full((2, 5, 2), float(number + 1)) for number in range(4)])  # (4, 2, 5, F)
    rows = torch.arange(300) % 5, torch.arange(300) % 5
    seen = see_nearby(own, nearby, rows)
    for side in seen:
        counts = side[:, 0].long().bincount(minlength=5)
        assert counts.min() > 30  # each of the five seconds for about 60 windows
    assert not torch.equal(*seen)  # start and goal are moved by themselves
    assert see_nearby(own, None, rows) is own


def test_a_planner_from_before_the_second_network_still_loads(plus_run: Path, tmp_path: Path) -> None:
    """Such a file has neither the setting nor a tensor of a second network."""
    with safe_open(plus_run / BEST, "pt") as file:
        old = {name: file.get_tensor(name) for name in file.keys() if "second" not in name}  # noqa: SIM118
        header = json.loads(file.metadata()["p3iv"])
    del header["config"]["plus"]["second"]
    save_file(old, tmp_path / "old.safetensors", metadata={"p3iv": json.dumps(header)})
    found = load_planner(tmp_path / "old.safetensors").planner
    assert isinstance(found, P3IVPlus)
    assert found.second is None
    assert isinstance(found.log_beta, nn.Parameter)
    assert found.beta == found.first_beta
