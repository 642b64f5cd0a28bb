"""ViterbiPlanNet: its layer against slow transcriptions, its chain, and what its losses reach."""

from __future__ import annotations

import itertools
from dataclasses import replace

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor
from torch.nn import functional

from p3iv.data.tensors import PlanningData
from p3iv.errors import ConfigError
from p3iv.planners.base import Batch
from p3iv.planners.header import PlannerShape
from p3iv.planners.registry import planner_class
from p3iv.planners.successors.states import log_plan_transitions, procedure_ranks
from p3iv.planners.successors.viterbi_plan_net import ViterbiPlanNet, chain_marginals
from runs import quick

FLOOR = 1e-10

cases = st.tuples(st.integers(0, 999), st.integers(2, 5), st.integers(1, 4))


def random_chain(seed: int, num_actions: int, horizon: int) -> tuple[Tensor, Tensor]:
    """Log emissions below 0 of three pairs, and transitions of a few plans, most of which never occur."""
    random = np.random.RandomState(seed)
    emissions = torch.from_numpy(-3 * random.standard_exponential((3, horizon, num_actions)))
    plans = random.randint(num_actions, size=(3, 3)).tolist()
    return emissions, torch.from_numpy(log_plan_transitions(plans, num_actions, FLOOR))


def enumerate_marginals(log_emissions: Tensor, log_transitions: Tensor) -> Tensor:
    """The marginals of one pair (T, A) by adding up all A^T plans."""
    horizon, num_actions = log_emissions.shape
    marginals = torch.zeros_like(log_emissions)
    for plan in itertools.product(range(num_actions), repeat=horizon):
        score = sum(float(log_emissions[t, a]) for t, a in enumerate(plan))
        score += sum(float(log_transitions[a, b]) for a, b in itertools.pairwise(plan))
        for position, action in enumerate(plan):
            marginals[position, action] += np.exp(score)
    return marginals / marginals.sum(dim=1, keepdim=True)


def decode_softly(log_emissions: Tensor, log_transitions: Tensor) -> Tensor:
    """The paper's layer for one pair (T, A), step by step: Viterbi with a soft maximum and soft back-pointers."""
    horizon, num_actions = log_emissions.shape
    trellis, pointers = [log_emissions[0] - np.log(num_actions)], []
    for position in range(1, horizon):
        maxima, sources = [], []
        for action in range(num_actions):
            scores = trellis[-1] + log_transitions[:, action]
            maxima.append(scores.logsumexp(dim=0))
            sources.append(scores.softmax(dim=0))
        trellis.append(log_emissions[position] + torch.stack(maxima))
        pointers.append(torch.stack(sources))  # (to, from)
    path = [trellis[-1].softmax(dim=0)]
    for sources_of in reversed(pointers):
        path.insert(0, sum(path[0][action] * sources_of[action] for action in range(num_actions)))
    return torch.stack(path)


@given(cases)
def test_the_layer_gives_the_marginals_of_the_chain(case: tuple[int, int, int]) -> None:
    emissions, transitions = random_chain(*case)
    found = chain_marginals(emissions, transitions)
    for one, expected in zip(found, emissions, strict=True):
        assert torch.allclose(one, enumerate_marginals(expected, transitions), atol=1e-9)


@given(cases)
def test_the_layer_and_its_slopes_are_those_of_viterbi_with_soft_back_pointers(case: tuple[int, int, int]) -> None:
    emissions, transitions = random_chain(*case)
    target = functional.one_hot(torch.zeros(3, case[2], dtype=torch.int64), case[1]).double()

    def layer_of_the_paper(scores: Tensor) -> Tensor:
        return torch.stack([decode_softly(one, transitions) for one in scores])

    found, expected = emissions.clone().requires_grad_(), emissions.clone().requires_grad_()
    ours, theirs = chain_marginals(found, transitions), layer_of_the_paper(expected)
    assert torch.allclose(ours, theirs, atol=1e-9)
    for marginals in (ours, theirs):
        functional.mse_loss(marginals, target).backward()
    assert found.grad is not None and expected.grad is not None
    assert torch.allclose(found.grad, expected.grad, atol=1e-9)


def test_transitions_are_counted_in_plans_and_have_a_floor() -> None:
    found = np.exp(log_plan_transitions([[0, 1, 2], [0, 2, 1], [0, 1, 0]], 4, 0.1))
    assert np.allclose(found.sum(axis=1), 1)
    assert np.allclose(found[0], np.array([0.1, 2 / 3, 1 / 3, 0.1]) / 1.2)
    assert np.allclose(found[3], 0.25)  # nothing ever followed it


@pytest.fixture
def planner(data: PlanningData) -> ViterbiPlanNet:
    config = quick("viterbi-plan-net")
    torch.manual_seed(0)
    planner = ViterbiPlanNet(PlannerShape.of(data, config), config)
    planner.fit(data)
    return planner.eval()


@pytest.mark.parametrize("name", ["schema", "viterbi-plan-net"])
def test_a_dataset_without_step_texts_is_refused(name: str, data: PlanningData) -> None:
    config, without = quick(name), replace(data, language=None)
    with pytest.raises(
        ConfigError, match=rf"planner={name} .* needs language\.npz\. Make it with `p3iv data embed DIR`"
    ):
        planner_class(name)(PlannerShape.of(without, config), config).fit(without)


@torch.no_grad()
def test_the_loss_is_that_of_the_marginals_of_the_chain_that_decodes(
    planner: ViterbiPlanNet, data: PlanningData, batch: Batch
) -> None:
    losses = planner.losses(batch, procedure_ranks(data.train)[batch.rows])
    chain = planner.chain(batch.start, batch.goal)
    right = functional.one_hot(batch.action_ids, len(data.names)).numpy()
    assert float(losses["marginals"]) == pytest.approx(float(np.square(chain.marginals() - right).mean()), rel=1e-4)
    assert chain.log_emissions.max() <= 0
    plans = planner.plan(batch.start, batch.goal).numpy()
    best = chain.log_probability(plans, np.arange(len(plans)))
    assert (best >= chain.log_probability(batch.action_ids.numpy(), np.arange(len(plans))) - 1e-9).all()


@torch.no_grad()
def test_start_and_goal_are_compared_with_texts_of_their_own_kind(planner: ViterbiPlanNet, batch: Batch) -> None:
    states, said = planner.encode(batch.start, batch.goal), planner.states.describe(planner.language)
    scores = planner.states.similarities(states, said)  # (B, 2, A)
    scale = float(planner.states.log_scale.exp())
    assert scale == pytest.approx(1 / 0.07)
    for end, kind in enumerate((planner.states.before, planner.states.after)):
        texts = planner.language @ kind.weight.T
        cosine = torch.cosine_similarity(states[3, end][None], texts)
        assert torch.allclose(scores[3, end], scale * cosine, atol=1e-4)
    rows = torch.arange(len(states))
    first, last = (scores[:, end].log_softmax(dim=1)[rows, batch.action_ids[:, -end]] for end in (0, 1))
    expected = -(first.mean() + last.mean()) / 2
    assert torch.allclose(planner.states.loss(states, said, batch.action_ids), expected)
