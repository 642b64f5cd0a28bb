"""What each planner is known for."""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from p3iv.errors import DatasetError
from p3iv.planners.base import Batch
from p3iv.planners.baselines.ext_gail import ExtGailLearner, with_parts
from p3iv.planners.registry import PLANNERS, planner_class
from p3iv.plans.draws import SampleSettings
from planners.baselines.conftest import Build
from runs import quick

VISUAL = ("upn", "ddn", "plate", "ext-gail", "ext-gail-no-aug")


def batch(number: int = 8, horizon: int = 3, *, with_steps: bool = True) -> Batch:
    generator = torch.Generator().manual_seed(7)
    start, goal = torch.randn(2, number, 6, dtype=torch.float64, generator=generator)
    steps = torch.randn(number, horizon, 6, dtype=torch.float64, generator=generator)
    ids = torch.randint(4, (number, horizon), generator=generator)
    return Batch(start, goal, ids, steps=steps if with_steps else None)


def test_upn_s_descent_lowers_its_planning_loss_and_needs_no_gradients_outside(build: Build) -> None:
    planner, given = build("upn", baseline__inner_rate=1.0), batch()
    with torch.no_grad():
        logits, path = planner.descend(given.start, given.goal)
    assert path.shape == (5, 8)
    assert (path.diff(dim=0) < 0).all()
    with_graph, _ = planner.descend(given.start, given.goal)
    assert torch.allclose(logits, with_graph)
    assert not logits.requires_grad
    assert with_graph.requires_grad


def test_upn_s_gradients_reach_the_encoder_through_the_descent(build: Build) -> None:
    planner, given = build("upn"), batch()
    planner.losses(given)["action"].backward()
    for parameter in (*planner.encode_observation.parameters(), *planner.model.parameters(), planner.log_rates):
        assert parameter.grad is not None
    assert planner.encode_observation[0].weight.grad.abs().sum() > 0
    assert planner.log_rates.grad.abs().sum() > 0


def test_upn_s_gradient_through_the_descent_is_that_of_finite_differences(build: Build) -> None:
    planner, given = build("upn"), batch(2)
    weight = planner.encode_observation[2].weight
    planner.losses(given)["action"].backward()
    slope = float(weight.grad[1, 2])
    values = []
    for step in (1e-6, -1e-6):
        with torch.no_grad():
            weight[1, 2] += step
            values.append(float(planner.losses(given)["action"]))
            weight[1, 2] -= step
    assert slope == pytest.approx((values[0] - values[1]) / 2e-6, rel=1e-4)


@torch.no_grad()
def test_plate_s_mask_lets_no_later_token_through(build: Build) -> None:
    planner = build("plate")
    tokens = torch.randn(2, 7, 32, dtype=torch.float64, generator=torch.Generator().manual_seed(1))
    for branch in (planner.action_branch, planner.state_branch):
        before = branch(tokens)
        for place in range(1, 7):
            changed = tokens.clone()
            changed[:, place:] += 5.0
            after = branch(changed)
            assert torch.allclose(before[:, :place], after[:, :place], atol=1e-12)
            assert not torch.allclose(before[:, place:], after[:, place:])


@torch.no_grad()
def test_ext_gail_s_context_changes_the_plans(build: Build) -> None:
    planner, given = build("ext-gail"), batch(1)
    planner.action_head[-1].weight.mul_(20.0)
    shares, marginals = [], []
    for log_variance in (3.0, -100.0):  # a wide context, and one that is clamped to next to nothing
        planner.context_head[-1].bias[planner.context_width :] = log_variance
        draws = planner.sampler(SampleSettings(200)).draw(given.start.numpy(), given.goal.numpy())
        assert draws.plan is not None
        shares.append((draws.argmax[0] == draws.plan[0]).all(axis=1).mean())
        marginals.append(draws.marginals)
    assert shares[0] < 0.5
    assert shares[1] > 0.9
    assert np.abs(marginals[0] - marginals[1]).max() > 0.1


def values_of(module: nn.Module) -> Tensor:
    return nn.utils.parameters_to_vector(module.parameters()).detach().clone()


def slopes_of(module: nn.Module) -> Tensor:
    return torch.cat([torch.zeros(0) if p.grad is None else p.grad.flatten().clone() for p in module.parameters()])


def test_ext_gail_s_two_players_learn_apart(build: Build) -> None:
    """The critic's step leaves the planner alone, and the planner's leaves the critic alone."""
    planner = build("ext-gail")
    learner = ExtGailLearner(planner, lambda _: None)
    players = planner, learner.modules["critic"]
    learner.train_step(batch())  # from now on both have slopes that the other's step could follow
    slopes, values = [slopes_of(planner)], [[values_of(player) for player in players]]
    critic_s, planner_s = learner.optimizers["critic_optimizer"], learner.optimizers["optimizer"]
    critic_s.register_step_pre_hook(lambda *_: slopes.extend(map(slopes_of, players)))
    planner_s.register_step_pre_hook(lambda *_: values.append([values_of(player) for player in players]))
    terms = learner.train_step(batch())
    before, between, after = *values, [values_of(player) for player in players]
    assert [torch.equal(*pair) for pair in zip(before, between, strict=True)] == [True, False]
    assert [torch.equal(*pair) for pair in zip(between, after, strict=True)] == [False, True]
    assert torch.equal(slopes[0], slopes[1])  # the critic's loss gives the planner none
    assert torch.equal(slopes[2], slopes_of(players[1]))  # nor the planner's the critic
    assert {"action", "state", "context", "adversarial", "recovery", "critic", "total"} == set(terms)
    assert all(p.requires_grad for p in players[1].parameters())


def test_ext_gail_s_policy_learns_from_the_critic_through_its_gumbel_actions(build: Build) -> None:
    planner, given = build("ext-gail"), batch()
    learner = ExtGailLearner(planner, lambda _: None)
    start, goal = planner.encode(given.start), planner.encode(given.goal)
    states, actions = learner.own_plan(start, goal, planner.context_of(start, goal)[0])
    context, scored = torch.zeros(8, planner.context_width, dtype=torch.float64), torch.ones(8, 3, dtype=torch.float64)
    learner.adversarial_term(states.detach(), actions, context, scored).backward()
    assert all(parameter.grad.abs().sum() > 0 for parameter in planner.action_head.parameters())
    assert all(parameter.grad is None for parameter in learner.discriminator.parameters())


def test_ext_gail_s_critic_learns_to_recognise_a_policy_that_does_not_change(build: Build) -> None:
    torch.manual_seed(0)
    learner = ExtGailLearner(build("ext-gail-no-aug"), lambda _: None)
    learner.optimizer.param_groups.clear()
    losses = [float(learner.train_step(batch())["critic"]) for _ in range(60)]
    chance = 2 * math.log(2)
    assert losses[0] == pytest.approx(chance, abs=0.05)
    assert sum(losses[-10:]) / 10 < 0.8 * chance


def parts_of(horizon: int) -> Iterator[tuple[Tensor, Tensor, Tensor]]:
    for seed in range(20):
        torch.manual_seed(seed)
        ids = torch.arange(10 * horizon).view(10, horizon)
        seen = torch.arange(10 * (horizon + 1)).view(10, horizon + 1, 1).double()
        yield with_parts(seen, ids)


@pytest.mark.parametrize("horizon", [2, 3, 5])
def test_ext_gail_s_augmentation_adds_proper_parts_of_windows(horizon: int) -> None:
    lengths = set()
    for seen, ids, is_scored in parts_of(horizon):
        assert len(seen) == len(ids) == 13
        assert is_scored[:10].all()
        for states, actions, scored in zip(seen[10:, :, 0], ids[10:], is_scored[10:], strict=True):
            length = int(scored.sum())
            lengths.add(length)
            assert scored.tolist() == [True] * length + [False] * (horizon - length)
            window, first = divmod(int(actions[0]), horizon)
            assert actions[:length].tolist() == list(range(int(actions[0]), int(actions[0]) + length))
            assert first + length <= horizon
            expected = [window * (horizon + 1) + first + number for number in range(length + 1)]
            assert states[: length + 1].tolist() == expected
    assert lengths == set(range(1, horizon))


@pytest.mark.parametrize("name", VISUAL)
def test_visually_supervised_planners_refuse_windows_without_intermediate_observations(build: Build, name: str) -> None:
    learner = build(name).make_learner(None, lambda _: None)
    with pytest.raises(DatasetError, match=r"start and goal only.*--planner p3iv"):
        learner.train_step(batch(with_steps=False))


def test_the_table_says_which_planners_are_visually_supervised() -> None:
    assert {name for name in PLANNERS if planner_class(name).is_visual(quick(name))} == set(VISUAL)
