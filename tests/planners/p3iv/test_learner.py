from __future__ import annotations

import pytest
import torch
from torch import Tensor

from p3iv.config import Config, ModelConfig, override
from p3iv.planners.base import Batch
from p3iv.planners.header import PlannerShape
from p3iv.planners.p3iv.learner import P3IVLearner
from p3iv.planners.p3iv.losses import action_loss, diversity_loss, generator_loss, language_loss
from p3iv.planners.p3iv.planner import P3IV

SMALL = ModelConfig(width=16, heads=4, memory_slots=5, noise_width=3, feed_forward=24, encoder_hidden=12, head_hidden=8)
SIZES = {f"model.{name}": value for name, value in vars(SMALL).items()} | {"loss.latents": 5}


def learner(**changes: object) -> P3IVLearner:
    torch.manual_seed(0)
    config = override(Config(), SIZES | {name.replace("__", "."): value for name, value in changes.items()})
    planner = P3IV(PlannerShape(3, 7, 6, 9), config)
    return P3IVLearner(planner, config, torch.randn(7, 9), sync=lambda _: None)


def batch() -> Batch:
    generator = torch.Generator().manual_seed(1)
    start, goal, noise = (torch.randn(4, n, generator=generator) for n in (6, 6, 3))
    ids = torch.randint(0, 7, (4, 3), generator=generator)
    return Batch(start, goal, ids, noise, torch.randn(1, 5, 3, generator=generator))


def grads(module: torch.nn.Module) -> list[Tensor]:
    return [p.grad.clone() if p.grad is not None else torch.zeros_like(p) for p in module.parameters()]


def test_a_step_is_the_weighted_sum_of_the_written_losses() -> None:
    """Gradients of one step, without dropout, equal those of the four losses written one after another."""
    subject = learner(model__dropout=0.0)
    given, net = batch(), subject.planner
    latents = given.latents
    assert latents is not None
    subject.optimizer.step = lambda *_: None  # type: ignore[method-assign, assignment]
    subject.train_step(given)
    stepped = grads(net)
    net.zero_grad()

    out = net(given.start, given.goal, given.noise)
    words = net.encode_target(subject.language)
    total = action_loss(out.action_logits, given.action_ids)
    total = total + 0.5 * language_loss(out.state_embeddings, words, given.action_ids)
    total = total + 0.1 * generator_loss(subject.critic(out.state_embeddings))
    ratios = torch.full((4, 5, 5), torch.inf)
    for i in range(5):
        for j in range(i):
            first = net(given.start, given.goal, latents[0, i].expand(4, -1)).state_embeddings
            second = net(given.start, given.goal, latents[0, j].expand(4, -1)).state_embeddings
            ratios[:, i, j] = (first - second).abs().sum((1, 2)) / (latents[0, i] - latents[0, j]).abs().sum()
    total = total + 0.1 * diversity_loss(ratios.flatten(1).min(dim=1).values)
    total.backward()
    for one, other in zip(stepped, grads(net), strict=True):
        assert torch.allclose(one, other, atol=1e-5)


def test_the_critic_s_step_does_not_reach_the_planner_nor_the_other_way_round() -> None:
    subject = learner()
    given = batch()
    real, generated = torch.randn(4, 3, 16), torch.randn(4, 3, 16)
    before = [p.clone() for p in subject.planner.parameters()]
    subject.train_critic(real, generated)
    assert all(p.grad is None for p in subject.planner.parameters())
    assert all(torch.equal(a, b) for a, b in zip(before, subject.planner.parameters(), strict=True))

    subject.train_step(given)
    after_critic = grads(subject.critic)
    subject.critic.zero_grad()
    subject.adversarial_term(torch.randn(4, 3, 16, requires_grad=True)).backward()
    assert all(p.grad is None for p in subject.critic.parameters())
    assert all(p.requires_grad for p in subject.critic.parameters())
    assert any(g.abs().sum() > 0 for g in after_critic)


def test_the_critic_learns_to_tell_real_from_generated() -> None:
    subject = learner(optim__critic_learning_rate=1e-2)
    real, generated = torch.randn(64, 3, 16) + 1, torch.randn(64, 3, 16) - 1
    for _ in range(60):
        seen = subject.train_critic(real, generated)
    assert seen["critic_real"] > 0.95
    assert seen["critic_generated"] > 0.95


def test_the_planner_is_pulled_towards_what_the_critic_takes_for_real() -> None:
    subject = learner()
    states = torch.randn(4, 3, 16, requires_grad=True)
    generator_loss(subject.critic(states)).backward()
    assert states.grad is not None
    moved = states - 0.5 * states.grad
    assert (subject.critic(moved) > subject.critic(states)).all()


def test_terms_that_are_off_cost_nothing() -> None:
    subject = learner(loss__language=0.0, loss__adversarial=0.0, loss__diversity=0.0)
    given = batch()
    assert set(subject.train_step(given)) == {"total", "action"}
    untouched = [name for name, p in subject.planner.named_parameters() if p.grad is None]
    assert all(name.startswith(("encode_target", "state_head")) for name in untouched)
    assert untouched


def test_a_step_leaves_the_planner_in_training_mode() -> None:
    subject = learner()
    terms = subject.train_step(batch())
    assert "diversity_ratio" in terms  # it is computed without dropout
    assert all(module.training for module in subject.planner.modules())


def test_both_learning_rates_fall_every_40_epochs() -> None:
    subject = learner()
    rates = []
    for epoch in (1, 40, 41, 81):
        subject.start_epoch(epoch)
        rates.append(tuple(o.param_groups[0]["lr"] for o in subject.optimizers.values()))
    expected = [(7e-4 * factor, 1e-5 * factor) for factor in (1, 1, 0.65, 0.65**2)]
    assert [rate for pair in rates for rate in pair] == pytest.approx([rate for pair in expected for rate in pair])
    assert subject.learning_rate == rates[-1][0]
