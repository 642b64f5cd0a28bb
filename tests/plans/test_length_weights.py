"""How probable every length is, and what that is inferred from."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from p3iv.plans.chain import Chain, RescoredChain, fit_of
from p3iv.plans.evidence import EVIDENCE
from p3iv.plans.lengths import KINDS, NUM_CLUES, LengthWeights, length_clues

NUM_ACTIONS = 3


@given(seed=st.integers(0, 99), has=st.tuples(*(st.booleans() for _ in EVIDENCE)))
def test_it_is_a_softmax_of_weighted_clues(seed: int, has: tuple[bool, ...]) -> None:
    random = np.random.default_rng(seed)
    weights = LengthWeights(random.standard_normal((len(KINDS), 4)), random.standard_normal((len(KINDS), NUM_CLUES)))
    clues = random.standard_normal((2, NUM_CLUES, 4))
    kind = 0 if has[1] else 1 if has[3] else 2  # a picture of the goal, words, neither
    bias, slope = weights.bias[kind], weights.slope[kind]
    scores = [[bias[t] + sum(slope * clues[n, :, t]) for t in range(4)] for n in range(2)]
    wanted = np.exp(scores) / np.exp(scores).sum(axis=1, keepdims=True)
    np.testing.assert_allclose(np.exp(weights.log_probabilities(clues, np.array(has))), wanted)


@pytest.mark.parametrize("is_rescored", [False, True])
def test_the_clues_are_normalisers_the_regression_and_effects(is_rescored: bool) -> None:
    random = np.random.default_rng(0)
    transitions = random.standard_normal((NUM_ACTIONS, NUM_ACTIONS))
    each, both = random.standard_normal((1, NUM_ACTIONS)), np.eye(NUM_ACTIONS)
    chains = [Chain(random.standard_normal((1, horizon, NUM_ACTIONS)), transitions) for horizon in (1, 2, 3)]
    asked = [RescoredChain.over(chain, each, both) for chain in chains] if is_rescored else chains
    fit = random.standard_normal((1, 3))
    normaliser, regression, effects = length_clues(asked, fit)[0]
    np.testing.assert_array_equal(regression, fit[0])
    assert not length_clues(chains, None)[0, 1].any()
    for number, chain in enumerate(chains):  # few enough plans that all of them are rescored
        plans = np.array(list(product(range(NUM_ACTIONS), repeat=number + 1)))
        weights = chain.log_emissions[0, np.arange(number + 1), plans].sum(axis=1)
        weights = np.exp(weights + transitions[plans[:, :-1], plans[:, 1:]].sum(axis=1))
        assert normaliser[number] == pytest.approx(np.log(weights.sum()))
        mean = (weights * np.exp(fit_of(plans[None], each, both)[0])).sum() / weights.sum()
        assert effects[number] == pytest.approx(np.log(mean) if is_rescored else 0.0)
