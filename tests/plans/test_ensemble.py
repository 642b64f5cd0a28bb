"""An ensemble averages probabilities: of one member with itself it is that member."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from p3iv.errors import ConfigError
from p3iv.plans.chain import Chain
from p3iv.plans.draws import Draws, join_chains, join_draws
from p3iv.types import Array


def random_chain(seed: int) -> Chain:
    generator = np.random.default_rng(seed)
    return Chain(*(generator.standard_normal(size) for size in ((2, 3, 4), (4, 4))))


def draws_of(seed: int, number: int = 6) -> Draws:
    generator = np.random.default_rng(seed)
    marginals = softmax(generator.random((2, 3, 4)))
    plans = generator.integers(4, size=(2, number, 3))
    uniforms = generator.random((number, 3))
    return Draws(marginals, plans, (plans + 1) % 4, uniforms)


def as_chain(seed: int) -> Draws:
    chain, part = random_chain(seed), draws_of(seed)
    return replace(part, chain=chain, plan=chain.best_paths()[0])


def every_plan() -> Array:
    return np.indices((4, 4, 4)).reshape(3, -1).T


def softmax(scores: Array) -> Array:
    weights = np.exp(scores)
    shares: Array = weights / weights.sum(axis=-1, keepdims=True)
    return shares


def test_a_chain_joined_with_itself_is_itself() -> None:
    one = random_chain(1)
    both, plans = join_chains([one, one]), every_plan()
    for window in (0, 1):
        where = np.full(len(plans), window)
        np.testing.assert_allclose(both.log_probability(plans, where), one.log_probability(plans, where))


def test_emissions_are_the_mean_of_the_softmaxes() -> None:
    first, second = random_chain(1), random_chain(2)
    joined = join_chains([first, second])
    expected = (softmax(first.log_emissions) + softmax(second.log_emissions)) / 2
    np.testing.assert_allclose(np.exp(joined.log_emissions), expected)


def test_chains_are_decoded_and_drawn_as_one() -> None:
    joined = join_draws([as_chain(1), as_chain(2)])
    assert joined.chain is not None
    assert joined.plan is not None
    assert np.array_equal(joined.plan, joined.chain.best_paths()[0])
    assert np.array_equal(joined.argmax, joined.chain.draw(joined.chain_uniforms))


def test_of_others_marginals_are_averaged_and_samples_taken_in_turn() -> None:
    parts = [draws_of(seed) for seed in (1, 2, 3)]
    joined = join_draws(parts)
    np.testing.assert_allclose(joined.marginals, sum(part.marginals for part in parts) / 3)
    for number in range(6):
        assert np.array_equal(joined.argmax[:, number], parts[number % 3].argmax[:, number])
        assert np.array_equal(joined.categorical[:, number], parts[number % 3].categorical[:, number])


def test_planners_without_probabilities_are_refused() -> None:
    part = draws_of(1)
    for other in (replace(part, plan=part.argmax[:, 0]), as_chain(1)):
        with pytest.raises(ConfigError, match="--ensemble averages probabilities"):
            join_draws([part, other])
