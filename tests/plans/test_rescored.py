"""The rescored chain against brute force over all A^T plans."""

from __future__ import annotations

import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

import p3iv.plans.chain
from p3iv.plans.chain import Chain, RescoredChain
from p3iv.plans.draws import join_chains
from plans.test_chain import all_plans, random_weights, weigh

FEW = 5


@pytest.fixture(autouse=True)
def few(monkeypatch: pytest.MonkeyPatch) -> None:
    """Weigh five plans again, so that others are left."""
    monkeypatch.setattr(p3iv.plans.chain, "NUM_RESCORED", FEW)


def example(seed: int, horizon: int, num_actions: int, zeros: float = 0.0) -> tuple[RescoredChain, Tensor]:
    """A chain, and the probabilities of all plans of its three windows written out, (3, A^T)."""
    emissions, transitions = random_weights(seed, horizon, num_actions, zeros)
    generator = torch.Generator().manual_seed(seed + 1)
    each = 2 * torch.randn(3, num_actions, generator=generator, dtype=torch.float64)
    both = torch.randn(num_actions, num_actions, generator=generator, dtype=torch.float64)
    both = both + both.T
    plans = all_plans(num_actions, horizon)
    weights = weigh(emissions, transitions, plans)
    shares = weights / weights.sum(dim=1, keepdim=True)
    written = shares.clone()
    for window in range(3):
        first = shares[window].argsort(descending=True, stable=True)[:FEW].tolist()
        mass = sum(float(shares[window, number]) for number in first)
        reweighted = {}
        for number in first:
            plan = plans[number].tolist()
            fit = sum(float(each[window, a]) for a in plan) - sum(float(both[a, b]) for a in plan for b in plan)
            reweighted[number] = float(shares[window, number]) * math.exp(fit)
        for number in first:
            fitted = mass * reweighted[number] / sum(reweighted.values())
            written[window, number] = 0.9 * fitted + 0.1 * shares[window, number]
    return RescoredChain.over(Chain.of(emissions, transitions), each, both), written


@given(
    seed=st.integers(0, 10_000),
    horizon=st.integers(1, 4),
    num_actions=st.integers(2, 4),
    zeros=st.sampled_from([0, 0.3]),
)
def test_every_answer_equals_brute_force(seed: int, horizon: int, num_actions: int, zeros: float) -> None:
    chain, written = example(seed, horizon, num_actions, zeros)
    plans = all_plans(num_actions, horizon)
    for window in range(3):
        shares = written[window]
        if not torch.isfinite(shares).all():  # no plan is possible
            continue
        own = torch.full((len(plans),), window)
        torch.testing.assert_close(chain.log_probability(plans, own).exp(), shares)
        assert chain.log_probability(plans, own).exp().sum().item() == pytest.approx(1.0)
        best, score = (part[window] for part in chain.best_paths())
        assert shares[(plans == best).all(dim=1)].item() == pytest.approx(shares.max().item())
        assert (score - chain.log_normaliser()[window]).exp().item() == pytest.approx(shares.max().item())
        torch.testing.assert_close(
            chain.best_plans(8)[1][window].exp()[: len(plans)], shares.sort(descending=True).values[:8]
        )
        marginals = torch.zeros(horizon, num_actions, dtype=torch.float64)
        for share, plan in zip(shares, plans, strict=True):
            marginals[torch.arange(horizon), plan] += share
        torch.testing.assert_close(chain.marginals()[window], marginals)


@given(
    draw=st.data(),
    horizon=st.integers(1, 4),
    num_actions=st.integers(2, 4),
    number=st.integers(1, 12),
)
def test_the_best_plans_under_ties_are_those_of_an_enumeration(
    draw: st.DataObject, horizon: int, num_actions: int, number: int
) -> None:
    """Weights that are powers of two, so that many plans are exactly equally probable."""
    exponents = st.sampled_from([0.0, 0.0, -1.0, -torch.inf])
    sizes = horizon * num_actions, num_actions**2
    emissions, transitions = (
        torch.tensor(draw.draw(st.lists(exponents, min_size=size, max_size=size)), dtype=torch.float64).exp2()
        for size in sizes
    )
    generator = torch.Generator().manual_seed(draw.draw(st.integers(0, 100)))
    each = 2 * torch.randn(1, num_actions, generator=generator, dtype=torch.float64)
    both = torch.zeros(num_actions, num_actions, dtype=torch.float64)
    plain = Chain.of(emissions.view(1, horizon, num_actions), transitions.view(num_actions, num_actions))
    chain, plans = RescoredChain.over(plain, each, both), all_plans(num_actions, horizon)
    own = torch.zeros(len(plans), dtype=torch.int64)
    before, after = plain.log_probability(plans, own), chain.log_probability(plans, own)
    if before.isnan().any():  # no plan is possible
        return
    assert after.exp().sum().item() == pytest.approx(1.0)
    moved = before[(before - after).abs() > 1e-9]  # five at most, and as probable as any
    assert len(moved) <= FEW
    assert (moved >= before.sort(descending=True).values[:FEW][-1] - 1e-9).all()

    found, logs = (part[0] for part in chain.best_plans(number))
    possible = logs > -torch.inf
    assert possible.sum() == min(number, int((after > -torch.inf).sum()))
    assert len(found[possible].unique(dim=0)) == possible.sum()
    torch.testing.assert_close(logs[possible], after.sort(descending=True).values[: possible.sum()])
    torch.testing.assert_close(chain.log_probability(found[possible], own[: possible.sum()]), logs[possible])


def test_draws_are_as_frequent_as_plans_are_probable() -> None:
    chain, written = example(3, 3, 3)
    uniforms = torch.rand(40_000, 4, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    drawn, plans = chain.draw(uniforms), all_plans(3, 3)
    for window in range(3):
        found = (drawn[window][:, None] == plans).all(dim=2).double().mean(dim=0)
        torch.testing.assert_close(found, written[window], atol=0.012, rtol=0)
        before = Chain(chain.log_emissions, chain.log_transitions).log_probability(plans, torch.tensor(window)[None])
        assert (found - before.exp()).abs().max() > 0.05  # so that the test can tell


def test_a_window_answers_the_same_alone_and_among_others() -> None:
    chain, _ = example(4, 3, 4)
    alone = chain.split()
    torch.testing.assert_close(chain.marginals(), torch.cat([part.marginals() for part in alone]))
    assert torch.equal(chain.best_paths()[0], torch.cat([part.best_paths()[0] for part in alone]))
    uniforms = torch.rand(50, 4, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    assert torch.equal(chain.draw(uniforms), torch.cat([part.draw(uniforms) for part in alone]))


def test_an_ensemble_weighs_with_the_mean_of_what_its_members_add() -> None:
    chain, _ = example(5, 3, 4)
    plain = Chain(chain.log_emissions, chain.log_transitions)
    joined = join_chains([chain, plain])
    assert isinstance(joined, RescoredChain)
    torch.testing.assert_close(joined.log_each, chain.log_each / 2)
    torch.testing.assert_close(joined.log_both, chain.log_both / 2)
    assert not isinstance(join_chains([plain, plain]), RescoredChain)
