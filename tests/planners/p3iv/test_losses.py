"""Each loss equals a slow, literal transcription of its formula, forward and gradient."""

from __future__ import annotations

import math
from collections.abc import Callable

import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from p3iv.planners.p3iv.losses import (
    EPSILON,
    action_loss,
    critic_loss,
    diversity_loss,
    diversity_ratio,
    generator_loss,
    language_loss,
    least_diverse_pair,
    visual_loss,
)

seeds = st.integers(0, 2**32 - 1)


def draw(seed: int, *shape: int) -> Tensor:
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(*shape, generator=generator, dtype=torch.float64).requires_grad_()


def assert_same(fast: Callable[[], Tensor], slow: Callable[[], Tensor], *inputs: Tensor) -> None:
    first, second = fast(), slow()
    assert torch.allclose(first, second)
    for one, other in zip(torch.autograd.grad(first, inputs), torch.autograd.grad(second, inputs), strict=True):
        assert torch.allclose(one, other)


@given(seeds)
def test_action_loss(seed: int) -> None:
    logits, ids = draw(seed, 3, 4, 5), torch.randint(0, 5, (3, 4), generator=torch.Generator().manual_seed(seed))

    def literal() -> Tensor:
        total = torch.zeros((), dtype=torch.float64)
        for window in range(3):
            for t in range(4):
                scores = [logits[window, t, a].exp() for a in range(5)]
                total = total - torch.log(scores[int(ids[window, t])] / sum(scores))
        return total / 3

    assert_same(lambda: action_loss(logits, ids), literal, logits)


@given(seeds, st.sampled_from([1.0, math.exp(0.7)]))
def test_language_loss_compares_with_the_whole_vocabulary(seed: int, temperature: float) -> None:
    states, words = draw(seed, 2, 3, 4), draw(seed + 1, 6, 4)
    ids = torch.randint(0, 6, (2, 3), generator=torch.Generator().manual_seed(seed))

    def literal() -> Tensor:
        total = torch.zeros((), dtype=torch.float64)
        for window in range(2):
            for t in range(3):
                score = [torch.exp(words[j] @ states[window, t] / temperature) for j in range(6)]
                total = total - torch.log(score[int(ids[window, t])] / sum(score))
        return total / 2

    assert_same(lambda: language_loss(states, words, ids, temperature), literal, states, words)


@given(seeds)
def test_visual_loss_takes_the_other_steps_of_the_batch_as_negatives(seed: int) -> None:
    states, targets = draw(seed, 2, 3, 4), draw(seed + 1, 2, 3, 4)

    def literal() -> Tensor:
        total = torch.zeros((), dtype=torch.float64)
        for window in range(2):
            for t in range(3):
                score = {(w, u): torch.exp(targets[w, u] @ states[window, t]) for w in range(2) for u in range(3)}
                total = total - torch.log(score[window, t] / sum(score.values()))
        return total / 2

    assert_same(lambda: visual_loss(states, targets), literal, states, targets)


@given(seeds)
def test_adversarial_losses(seed: int) -> None:
    real, generated = draw(seed, 5), draw(seed + 1, 5)

    def c(logit: Tensor) -> Tensor:
        return 1 / (1 + torch.exp(-logit))

    def literal_critic() -> Tensor:
        return -sum(torch.log(c(real[i])) + torch.log(1 - c(generated[i])) for i in range(5)) / 5  # type: ignore[return-value]

    def literal_generator() -> Tensor:
        return -sum(torch.log(c(generated[i])) for i in range(5)) / 5  # type: ignore[return-value]

    assert_same(lambda: critic_loss(real, generated), literal_critic, real, generated)
    assert_same(lambda: generator_loss(generated), literal_generator, generated)


@given(seeds, st.sampled_from(["inverse", "paper"]))
def test_diversity_loss_is_the_largest_over_all_pairs(seed: int, form: str) -> None:
    """Eq. 9: per window the maximum of L_reg over pairs, with the chosen pair alone in the graph."""
    states, noise = draw(seed, 2, 5, 3, 4), draw(seed + 1, 1, 5, 6).detach()

    def ratio(window: int, i: int, j: int) -> Tensor:
        moved = sum((states[window, i, t, d] - states[window, j, t, d]).abs() for t in range(3) for d in range(4))
        apart = sum((noise[0, i, k] - noise[0, j, k]).abs() for k in range(6))
        return torch.as_tensor(moved / apart)

    def literal() -> Tensor:
        total = torch.zeros((), dtype=torch.float64)
        for window in range(2):
            pairs = [ratio(window, i, j) for i in range(5) for j in range(i)]
            total = total + max((-r if form == "paper" else 1 / (r + EPSILON)) for r in pairs)
        return total / 2

    def fast() -> Tensor:
        pair = least_diverse_pair(states.detach(), noise)
        index = torch.stack((pair.first, pair.second), dim=1)
        chosen = states[torch.arange(2)[:, None], index]
        value = diversity_ratio(chosen, noise[0][index])
        return diversity_loss(value, form)

    assert_same(fast, literal, states)


def test_the_pair_may_differ_between_windows() -> None:
    states = torch.zeros(2, 3, 1, 1)
    states[0, :, 0, 0] = torch.tensor([0.0, 1.0, 1.1])
    states[1, :, 0, 0] = torch.tensor([0.0, 0.1, 5.0])
    noise = torch.tensor([[[0.0], [1.0], [2.0]]])
    pair = least_diverse_pair(states, noise)
    chosen = [{int(a), int(b)} for a, b in zip(pair.first, pair.second, strict=True)]
    assert chosen == [{1, 2}, {0, 1}]
