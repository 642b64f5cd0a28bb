"""The likelihood that P3IV+ is trained through, and its gradients, against brute force and the chain that decodes."""

from __future__ import annotations

import numpy as np
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from p3iv.planners.plus.likelihood import chain_scores, forward_messages
from p3iv.plans.chain import Chain
from plans.test_chain import all_plans, random_weights


def log_weights(log_emissions: Tensor, log_transitions: Tensor, window: int, plans: Tensor) -> Tensor:
    """The definition with a graph: (A^T,)."""
    steps = log_emissions[window, torch.arange(plans.shape[1]), plans].sum(dim=1)
    return steps + log_transitions[plans[:, :-1], plans[:, 1:]].sum(dim=1)


def log_normaliser(log_emissions: Tensor, log_transitions: Tensor) -> Tensor:
    return forward_messages(log_emissions, log_transitions)[:, -1].logsumexp(dim=1)


@given(seed=st.integers(0, 10_000), horizon=st.integers(2, 3), num_actions=st.integers(2, 4))
def test_log_z_is_that_of_the_chain_and_its_gradient_the_marginals(seed: int, horizon: int, num_actions: int) -> None:
    weights = [np.log(part.clip(min=1e-3)) for part in random_weights(seed, horizon, num_actions, zeros=0)]
    emissions, transitions = (torch.from_numpy(part).requires_grad_() for part in weights)
    chain, log_z = Chain(*weights), log_normaliser(emissions, transitions)
    np.testing.assert_allclose(log_z.detach().numpy(), chain.log_normaliser())
    gradients = torch.autograd.grad(log_z.sum(), (emissions, transitions))
    np.testing.assert_allclose(gradients[0].numpy(), chain.marginals(), atol=1e-12)
    plans = torch.from_numpy(all_plans(num_actions, horizon))
    written = sum(log_weights(emissions, transitions, w, plans).logsumexp(dim=0) for w in range(3))
    expected = torch.autograd.grad(written, (emissions, transitions))  # type: ignore[arg-type]
    torch.testing.assert_close(gradients, expected)


def test_the_gradient_of_improbable_plans_is_the_marginals() -> None:
    emissions = torch.tensor([[[0.0, -800.0], [-2000.0, 0.0]]], dtype=torch.float64, requires_grad=True)
    log_z = log_normaliser(emissions, torch.eye(2, dtype=torch.float64).log())
    assert log_z.item() == -800
    (gradient,) = torch.autograd.grad(log_z.sum(), emissions)
    torch.testing.assert_close(gradient[0], torch.tensor([[0.0, 1.0], [0.0, 1.0]], dtype=torch.float64))


def test_log_z_and_score_are_those_of_brute_force_with_each_window_s_own_fold() -> None:
    generator = torch.Generator().manual_seed(5)
    emissions = torch.randn(6, 3, 4, generator=generator, dtype=torch.float64, requires_grad=True)
    base = torch.randn(3, 4, 4, generator=generator, dtype=torch.float64)
    beta = torch.tensor(0.8, dtype=torch.float64, requires_grad=True)
    ids, fold = torch.randint(4, (6, 3), generator=generator), torch.tensor([2, 0, 2, 0, 0, 2])  # none of fold 1
    plans = torch.from_numpy(all_plans(4, 3))

    found = chain_scores(emissions, base, beta, ids, fold)
    written = [log_weights(emissions, beta * base[fold[w]], w, plans) for w in range(6)]
    log_z = torch.stack([weights.logsumexp(dim=0) for weights in written])
    score = torch.stack([written[w][(plans == ids[w]).all(dim=1)][0] for w in range(6)])
    torch.testing.assert_close(found, (log_z, score))
    gradients = (torch.autograd.grad((z - s).sum(), (emissions, beta)) for z, s in (found, (log_z, score)))
    torch.testing.assert_close(*gradients)
