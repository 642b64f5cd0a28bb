"""The chain against brute force over all A^T plans, zero probabilities included."""

from __future__ import annotations

import itertools

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

import p3iv.plans.viterbi
from allocations import LargestTensor
from p3iv.errors import PlanError
from p3iv.plans.chain import Chain


def all_plans(num_actions: int, horizon: int) -> Tensor:
    return torch.tensor(list(itertools.product(range(num_actions), repeat=horizon)))


def weigh(emissions: Tensor, transitions: Tensor, plans: Tensor) -> Tensor:
    """The definition, plan by plan: (N, A^T)."""
    table = torch.ones(len(emissions), len(plans), dtype=torch.float64)
    for window, emission in enumerate(emissions.double()):
        for number, plan in enumerate(plans.tolist()):
            for position, action in enumerate(plan):
                table[window, number] *= emission[position, action]
                if position:
                    table[window, number] *= transitions[plan[position - 1], action]
    return table


def random_weights(seed: int, horizon: int, num_actions: int, zeros: float) -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(seed)
    tables = []
    for shape in ((3, horizon, num_actions), (num_actions, num_actions)):
        weights = torch.rand(shape, generator=generator, dtype=torch.float64)
        tables.append(weights * (torch.rand(shape, generator=generator) >= zeros))
    return tables[0], tables[1]


@given(
    seed=st.integers(0, 10_000),
    horizon=st.integers(1, 4),
    num_actions=st.integers(1, 4),
    zeros=st.sampled_from([0, 0.4]),
)
def test_every_answer_equals_brute_force(seed: int, horizon: int, num_actions: int, zeros: float) -> None:
    emissions, transitions = random_weights(seed, horizon, num_actions, zeros)
    chain, plans = Chain.of(emissions, transitions), all_plans(num_actions, horizon)
    weights = weigh(emissions, transitions, plans)
    paths, scores = chain.best_paths()
    torch.testing.assert_close(scores.exp(), weights.max(dim=1).values)
    torch.testing.assert_close(chain.log_normaliser().exp(), weights.sum(dim=1))
    for window in range(len(weights)):
        if not weights[window].any():
            continue
        shares = weights[window] / weights[window].sum()
        (number,) = (plans == paths[window]).all(dim=1).nonzero()[0]
        assert weights[window, number] == pytest.approx(weights[window].max().item())
        given_window = torch.full((len(plans),), window)
        torch.testing.assert_close(chain.log_probability(plans, given_window).exp(), shares)
        for position, action in itertools.product(range(horizon), range(num_actions)):
            expected = shares[plans[:, position] == action].sum()
            torch.testing.assert_close(chain.marginals()[window, position, action], expected)


@given(
    seed=st.integers(0, 10_000),
    horizon=st.integers(1, 4),
    num_actions=st.integers(1, 4),
    zeros=st.sampled_from([0, 0.4]),
    number=st.integers(1, 9),
)
def test_the_best_plans_are_those_of_brute_force_in_order(
    seed: int, horizon: int, num_actions: int, zeros: float, number: int
) -> None:
    emissions, transitions = random_weights(seed, horizon, num_actions, zeros)
    chain, plans = Chain.of(emissions, transitions), all_plans(num_actions, horizon)
    weights = weigh(emissions, transitions, plans)
    found, logs = chain.best_plans(number)
    assert found.shape == (3, number, horizon)
    for window in range(3):
        if not weights[window].any():
            continue
        shares = weights[window] / weights[window].sum()
        most = shares.sort(descending=True).values[:number]
        torch.testing.assert_close(logs[window, : len(most)].exp(), most)
        assert (logs[window, len(most) :] == -torch.inf).all()
        possible = found[window][logs[window] > -torch.inf]
        assert len(possible.unique(dim=0)) == len(possible)
        given_window = torch.full((len(possible),), window)
        torch.testing.assert_close(chain.log_probability(possible, given_window), logs[window, : len(possible)])


@given(seed=st.integers(0, 10_000), horizon=st.integers(2, 3), num_actions=st.integers(2, 4))
def test_the_gradient_of_log_z_is_the_marginals_and_of_log_p_that_of_brute_force(
    seed: int, horizon: int, num_actions: int
) -> None:
    weights = random_weights(seed, horizon, num_actions, zeros=0)
    emissions, transitions = (part.clamp_min(1e-3).log().requires_grad_() for part in weights)
    chain, plans = Chain(emissions, transitions), all_plans(num_actions, horizon)
    (gradient,) = torch.autograd.grad(chain.log_normaliser().sum(), emissions, retain_graph=True)
    torch.testing.assert_close(gradient, chain.marginals().detach())

    chosen = plans[torch.arange(3) % len(plans)]
    written = torch.stack([log_weights(emissions, transitions, w, plans) for w in range(3)]).log_softmax(dim=1)
    expected = written[torch.arange(3), torch.arange(3) % len(plans)].sum()
    found = chain.log_probability(chosen, torch.arange(3)).sum()
    torch.testing.assert_close(found, expected)
    gradients = (torch.autograd.grad(value, (emissions, transitions)) for value in (found, expected))
    torch.testing.assert_close(*gradients)


def log_weights(log_emissions: Tensor, log_transitions: Tensor, window: int, plans: Tensor) -> Tensor:
    """The definition with a graph: (A^T,)."""
    steps = log_emissions[window, torch.arange(plans.shape[1]), plans].sum(dim=1)
    return steps + log_transitions[plans[:, :-1], plans[:, 1:]].sum(dim=1)


def test_draws_have_the_exact_distribution() -> None:
    """Pearson's chi-squared over all plans of positive probability; none of probability 0 is ever drawn."""
    emissions, transitions = random_weights(7, 3, 4, zeros=0.25)
    plans, number = all_plans(4, 3), 40_000
    uniforms = torch.rand(number, 3, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    drawn = Chain.of(emissions, transitions).draw(uniforms)
    for window, weights in enumerate(weigh(emissions, transitions, plans)):
        expected = number * weights / weights.sum()
        keys = (drawn[window] * torch.tensor([16, 4, 1])).sum(dim=1)
        counts = torch.bincount(keys, minlength=64).double()
        possible = expected > 0
        assert counts[~possible].sum() == 0
        statistic = ((counts - expected)[possible] ** 2 / expected[possible]).sum()
        freedom = possible.sum() - 1
        assert statistic < freedom + 4 * (2 * freedom) ** 0.5  # mean and four standard deviations


def test_a_window_is_drawn_by_itself() -> None:
    emissions, transitions = random_weights(3, 3, 4, zeros=0)
    uniforms = torch.rand(50, 3, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    together = Chain.of(emissions, transitions).draw(uniforms)
    for window in range(len(emissions)):
        assert torch.equal(Chain.of(emissions[window : window + 1], transitions).draw(uniforms)[0], together[window])


def test_a_long_chain_does_not_underflow() -> None:
    emissions = torch.full((1, 400, 5), 1e-3, dtype=torch.float64)
    transitions = torch.full((5, 5), 1e-3, dtype=torch.float64)
    chain = Chain.of(emissions, transitions)
    log_plan = 799 * torch.tensor(1e-3, dtype=torch.float64).log()
    torch.testing.assert_close(chain.log_normaliser()[0], log_plan + 400 * torch.tensor(5.0).double().log())
    assert chain.best_paths()[1].isfinite().all()


@given(draw=st.data(), horizon=st.integers(1, 4), num_actions=st.integers(1, 3))
def test_improbable_plans_are_possible(draw: st.DataObject, horizon: int, num_actions: int) -> None:
    """Weights whose exponentials are zero in float64, next to dead ends: all answers equal brute force in log space."""
    sizes = horizon * num_actions, num_actions**2
    logs = st.sampled_from([0.0, -1.0, -300.0, -800.0, -2000.0, -torch.inf])
    emissions, transitions = (
        torch.tensor(draw.draw(st.lists(logs, min_size=size, max_size=size)), dtype=torch.float64) for size in sizes
    )
    chain = Chain(emissions.view(1, horizon, num_actions), transitions.view(num_actions, num_actions))
    plans = all_plans(num_actions, horizon)
    written = log_weights(chain.log_emissions, chain.log_transitions, 0, plans)
    torch.testing.assert_close(chain.log_normaliser()[0], written.logsumexp(dim=0))
    torch.testing.assert_close(chain.best_paths()[1][0], written.max())
    if written.max() == -torch.inf:
        return
    written = written.log_softmax(dim=0)
    torch.testing.assert_close(chain.log_probability(plans, torch.zeros(len(plans), dtype=torch.int64)), written)
    marginals = torch.zeros(horizon, num_actions, dtype=torch.float64)
    for share, plan in zip(written.exp(), plans, strict=True):
        marginals[torch.arange(horizon), plan] += share
    torch.testing.assert_close(chain.marginals()[0], marginals)
    drawn = chain.draw(torch.rand(20, horizon, generator=torch.Generator().manual_seed(0), dtype=torch.float64))[0]
    assert (chain.log_probability(drawn, torch.zeros(20, dtype=torch.int64)) > -30).all()


def test_the_gradient_of_improbable_plans_is_the_marginals() -> None:
    emissions = torch.tensor([[[0.0, -800.0], [-2000.0, 0.0]]], dtype=torch.float64, requires_grad=True)
    transitions = torch.eye(2, dtype=torch.float64).log()
    log_z = Chain(emissions, transitions).log_normaliser()
    assert log_z.item() == -800
    (gradient,) = torch.autograd.grad(log_z.sum(), emissions)
    torch.testing.assert_close(gradient[0], torch.tensor([[0.0, 1.0], [0.0, 1.0]], dtype=torch.float64))


def test_blocks_do_not_change_the_best_path(monkeypatch: pytest.MonkeyPatch) -> None:
    emissions, transitions = random_weights(5, 4, 6, zeros=0.2)
    whole = Chain.of(emissions, transitions).best_paths()
    monkeypatch.setattr(p3iv.plans.viterbi, "MAX_ELEMENTS", 1)
    parts = Chain.of(emissions, transitions).best_paths()
    assert torch.equal(whole[0], parts[0])
    assert torch.equal(whole[1], parts[1])


@given(
    seed=st.integers(0, 10_000),
    horizon=st.integers(1, 4),
    zeros=st.sampled_from([0, 0.4]),
    sharpness=st.sampled_from([1, 6, 30]),
    number=st.integers(1, 5),
)
def test_candidates_do_not_change_the_best_plans(
    seed: int, horizon: int, zeros: float, sharpness: int, number: int
) -> None:
    emissions, transitions = random_weights(seed, horizon, 20, zeros)
    emissions = emissions.round(decimals=1) ** sharpness  # rounded, so that some actions are equally good
    whole = Chain.of(emissions, transitions)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(p3iv.plans.viterbi, "NUM_CANDIDATES", 3)
        few = Chain.of(emissions, transitions)
        paths, best = few.best_paths(), few.best_plans(number)
    assert torch.equal(paths[0], whole.best_paths()[0])
    assert torch.equal(paths[1], whole.best_paths()[1])
    assert torch.equal(best[1], whole.best_plans(number)[1])  # equally good plans may come in another order


def test_clear_emissions_need_no_search_among_all_actions(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(p3iv.plans.viterbi, "_search_all", None)
    emissions = torch.eye(300, dtype=torch.float64)[None, 5:8] + 1e-9
    transitions = torch.rand(300, 300, generator=torch.Generator().manual_seed(0)) + 0.1
    chain = Chain.of(emissions, transitions)
    assert chain.best_paths()[0].tolist() == [[5, 6, 7]]
    assert chain.best_plans(1)[0].tolist() == [[[5, 6, 7]]]


def test_one_window_of_a_large_vocabulary_takes_no_memory_for_all_pairs_of_actions() -> None:
    number = 1500  # 2.25 million pairs, above MAX_ELEMENTS
    generator = torch.Generator().manual_seed(0)
    chain = Chain(torch.randn(1, 2, number, generator=generator), torch.randn(number, number, generator=generator))
    uniforms = torch.rand(number, 2, generator=generator)
    _ = chain.transitions, chain.split()[0].best_paths()  # what all windows share
    with LargestTensor() as largest:
        chain.best_paths()
        chain.best_plans(3)
        chain.draw(uniforms)
    assert largest.elements <= 2 * p3iv.plans.viterbi.MAX_ELEMENTS < 2 * number**2


def test_the_parts_of_a_chain_share_what_is_computed_from_the_transitions() -> None:
    emissions, transitions = random_weights(2, 3, 4, zeros=0)
    chain = Chain.of(emissions, transitions)
    parts = chain.split()
    assert [len(part.log_emissions) for part in parts] == [1, 1, 1]
    assert all(part.transitions is chain.transitions for part in parts)
    assert torch.equal(torch.cat([part.best_paths()[0] for part in parts]), chain.best_paths()[0])
    other = chain.with_emissions(chain.log_emissions / 2)
    assert other.transitions is chain.transitions
    torch.testing.assert_close(other.marginals(), Chain.of(emissions.sqrt(), transitions).marginals())


def test_nothing_can_be_drawn_where_no_plan_is_possible() -> None:
    chain = Chain.of(torch.eye(2)[None], torch.eye(2))
    assert chain.best_paths()[1].item() == -torch.inf
    with pytest.raises(PlanError, match="No plan is possible"):
        chain.draw(torch.rand(3, 2))
