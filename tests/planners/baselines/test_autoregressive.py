"""Plans made action by action: searches against exhaustive ones, draws against enumerated probabilities."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
import torch
from torch import Tensor

from p3iv.planners.baselines.autoregressive import Autoregressive, beam_search
from p3iv.plans.draws import SampleSettings
from planners.baselines.conftest import Build

STEP_BY_STEP = ("wltdo", "uaaa", "ddn", "plate", "ext-gail")


def pairs(number: int) -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(5)
    start, goal = torch.randn(2, number, 6, dtype=torch.float64, generator=generator)
    return 3 * start, 3 * goal


def literal_score(planner: Autoregressive, start: Tensor, goal: Tensor, plan: tuple[int, ...]) -> float:
    """Log probability of one plan, action by action, and what its end is worth."""
    memory, score = planner.begin(start[None], goal[None]), 0.0
    for action in plan:
        score += float(planner.act(memory).log_softmax(dim=-1)[0, action])
        memory = planner.move(memory, torch.tensor([action]))
    return score + float(planner.arrival(memory))


@torch.no_grad()
@pytest.mark.parametrize("name", STEP_BY_STEP)
def test_a_beam_as_wide_as_all_plans_is_an_exhaustive_search(build: Build, name: str) -> None:
    planner = build(name, baseline__goal_weight=5.0)
    start, goal = pairs(3)
    beams = beam_search(planner, start, goal, 4**3)
    assert beams.plans.shape == (3, 64, 3)
    for number in range(3):
        scores = {
            plan: literal_score(planner, start[number], goal[number], plan)
            for plan in itertools.product(range(4), repeat=3)
        }
        ranked = sorted(scores, key=lambda plan: -scores[plan])
        assert [tuple(plan) for plan in beams.plans[number].tolist()] == ranked
        assert beams.scores[number].tolist() == pytest.approx([scores[plan] for plan in ranked])


@torch.no_grad()
@pytest.mark.parametrize("name", ["ddn", "plate"])
def test_the_distance_to_the_goal_decides_among_beams(build: Build, name: str) -> None:
    start, goal = pairs(40)
    blind, drawn = (build(name, baseline__goal_weight=weight, baseline__beam=64) for weight in (0.0, 1000.0))
    plans, near = blind.plan(start, goal), drawn.plan(start, goal)
    assert (plans != near).any()

    def distance(chosen: Tensor) -> Tensor:
        memory = drawn.force(start, goal, chosen).memories[-1]
        squared: Tensor = (memory[0] - memory[1]).square().mean(dim=1)
        return squared

    assert (distance(near) <= distance(plans) + 1e-9).all()


@torch.no_grad()
@pytest.mark.parametrize("name", STEP_BY_STEP)
def test_at_inference_a_planner_follows_its_own_actions(build: Build, name: str) -> None:
    """Teacher forcing is off: every step continues from the action that the planner itself chose."""
    planner, (start, goal) = build(name), pairs(8)
    followed = planner.follow(start, goal)
    memory = planner.begin(start, goal)
    for position in range(3):
        logits = planner.act(memory)
        assert torch.equal(followed.action_logits[:, position], logits)
        assert torch.equal(followed.action_ids[:, position], logits.argmax(dim=1))
        memory = planner.move(memory, logits.argmax(dim=1))
    others = (followed.action_ids + 1) % 4
    forced = planner.force(start, goal, others)
    assert torch.equal(forced.action_logits[:, 0], followed.action_logits[:, 0])
    assert not torch.allclose(forced.action_logits[:, 1:], followed.action_logits[:, 1:])


@torch.no_grad()
@pytest.mark.parametrize("name", ["wltdo", "uaaa", "ddn", "plate"])
def test_draws_have_the_probabilities_of_their_plans(build: Build, name: str) -> None:
    planner, (start, goal) = build(name, horizon=2, num_actions=3, baseline__temperature=0.5), pairs(1)
    draws = planner.sampler(SampleSettings(6000)).draw(start.numpy(), goal.numpy())
    marginals = np.zeros((2, 3))
    for plan in itertools.product(range(3), repeat=2):
        forced = planner.force(start, goal, torch.tensor([plan]))
        steps = (forced.action_logits[0] / 0.5).softmax(dim=-1)
        probability = float(steps[0, plan[0]] * steps[1, plan[1]])
        share = (draws.categorical[0] == plan).all(axis=1).mean()
        assert abs(share - probability) < 0.025
        for position, action in enumerate(plan):
            marginals[position, action] += probability
    assert np.allclose(draws.marginals[0], marginals, atol=0.01)
    assert draws.plan is not None
    assert (draws.argmax == draws.plan[:, None]).all() != (name in {"uaaa", "plate"})
