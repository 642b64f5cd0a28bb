"""The random numbers of samples, and what is made of them, each against a literal transcription."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from p3iv.plans.decoding import distinct_plans
from p3iv.plans.draws import (
    BLOCK,
    Draws,
    SampleSettings,
    chain_uniforms,
    collect_latents,
    normal_blocks,
    pick,
    uniform_blocks,
)
from p3iv.types import Array


def test_the_numbers_of_a_seed_never_change() -> None:
    """Plans of a seed are printed in papers and compared between machines: other numbers would change all of them."""
    settings = SampleSettings(3, seed=4)
    uniforms = [[16177025, 11186633], [16727884, 9347930], [3670045, 14540507]]
    assert (uniform_blocks(settings, "categorical", 2)[0, :3] * 2**24).tolist() == uniforms
    normals = [[0.974007785320282, 1.808072805404663], [-0.3319673538208008, 1.3845248222351074]]
    assert normal_blocks(settings, "latents", 2)[0, :2].tolist() == normals
    exact = [[0.901446404703129, 0.15967847305667104, 0.21265017054423074]]
    assert chain_uniforms(settings, 2, rescored=True)[:1].tolist() == exact


@pytest.mark.parametrize("blocks", [uniform_blocks, normal_blocks])
def test_fewer_numbers_are_a_prefix_of_more_in_whole_blocks(
    blocks: Callable[[SampleSettings, str, int], Array],
) -> None:
    few, many = (blocks(SampleSettings(number, seed=9), "latents", 5) for number in (3, 2 * BLOCK + 1))
    assert (few.shape, many.shape) == ((1, BLOCK, 5), (3, BLOCK, 5))
    assert np.array_equal(many[:1], few)
    assert len(np.unique(many)) > 0.99 * many.size
    other_seed, other_purpose = blocks(SampleSettings(3), "latents", 5), blocks(SampleSettings(3, seed=9), "input", 5)
    assert (few != other_seed).mean() > 0.99
    assert (few != other_purpose).mean() > 0.99


def test_fewer_uniforms_of_a_chain_are_a_prefix_of_more_and_rescoring_adds_a_column() -> None:
    few, many = (chain_uniforms(SampleSettings(number), 4) for number in (7, BLOCK + 7))
    assert many.shape == (BLOCK + 7, 4)
    assert np.array_equal(many[:7], few)
    rescored = chain_uniforms(SampleSettings(7), 4, rescored=True)
    assert rescored.shape == (7, 5)
    assert np.array_equal(rescored[:, :4], few)


def test_uniform_numbers_stay_below_one_in_single_precision() -> None:
    numbers = uniform_blocks(SampleSettings(60_000), "categorical", 9)
    assert np.array_equal(numbers.astype(np.float32), numbers)
    assert 0 <= numbers.min() < 1e-4
    assert 1 - 1e-4 < numbers.max() < 1
    assert np.float32(1 - 2.0**-24) < 1  # the largest there can be


def test_normal_numbers_are_standard_and_of_single_precision() -> None:
    numbers = normal_blocks(SampleSettings(60_000), "latents", 2)
    assert numbers.dtype == np.float32
    assert abs(numbers.mean()) < 0.02
    assert numbers.std() == pytest.approx(1, abs=0.02)


def literal_pick(weights: list[float], uniform: float) -> int:
    """The first action at which the cumulative weight is above the share that the uniform number asks for."""
    wanted, total = uniform * math.fsum(weights), 0.0
    for action, weight in enumerate(weights):
        total += weight
        if total > wanted:
            return action
    return max(action for action, weight in enumerate(weights) if weight > 0)


@given(
    seed=st.integers(0, 10_000), num_actions=st.sampled_from([1, 2, 31, 32, 33, 105]), scale=st.sampled_from([1, 20])
)
def test_an_action_is_picked_where_the_cumulative_weights_pass_the_uniform_number(
    seed: int, num_actions: int, scale: int
) -> None:
    generator = np.random.default_rng(seed)
    weights = np.exp(scale * generator.standard_normal((5, 3, num_actions)))
    weights[generator.random(weights.shape) < 0.3] = 0
    weights[..., generator.integers(num_actions)] += 1
    uniforms = generator.integers(2**24, size=(5, 3)) / 2**24
    found = pick(weights, uniforms)
    for row, position in np.ndindex(5, 3):
        assert found[row, position] == literal_pick(weights[row, position].tolist(), float(uniforms[row, position]))


@given(seed=st.integers(0, 10_000), num_actions=st.integers(1, 80))
def test_no_action_of_weight_zero_is_picked_even_at_the_ends(seed: int, num_actions: int) -> None:
    generator = np.random.default_rng(seed)
    weights = generator.random((40, 2, num_actions), dtype=np.float32)
    weights[generator.random(weights.shape) < 0.7] = 0
    weights[..., generator.integers(num_actions)] = 1e-3
    uniforms = np.repeat([[0.0, 1 - 2.0**-24]], 40, axis=0)
    chosen = np.take_along_axis(weights, pick(weights, uniforms)[..., None], axis=2)
    assert (chosen > 0).all()


@pytest.mark.parametrize("number", [1, 6, 9, 12])
def test_latents_are_collected_one_by_one(number: int) -> None:
    """In blocks of 4, of which the last goes beyond K."""
    generator = np.random.default_rng(number)
    logits = generator.standard_normal((12, 3, 7)).astype(np.float32)
    uniforms = generator.integers(2**24, size=(12, 3)) / 2**24
    blocks = [logits[first : first + 4] for first in range(0, number, 4)]
    marginals, argmax, categorical = collect_latents(iter(blocks), uniforms, number)
    mean = [[0.0] * 7 for _ in range(3)]
    for row in range(number):
        for position in range(3):
            scores = logits[row, position].tolist()
            weights = [math.exp(score) for score in scores]
            shares = [weight / sum(weights) for weight in weights]
            assert argmax[row, position] == scores.index(max(scores))
            assert categorical[row, position] == literal_pick(shares, float(uniforms[row, position]))
            mean[position] = [old + share / number for old, share in zip(mean[position], shares, strict=True)]
    assert (argmax.shape, categorical.shape) == ((number, 3), (number, 3))
    assert marginals.dtype == np.float64
    np.testing.assert_allclose(marginals, mean, rtol=1e-5)
    np.testing.assert_allclose(marginals.sum(axis=1), 1, rtol=1e-12)


@given(
    seed=st.integers(0, 10_000), num_actions=st.sampled_from([1, 2, 5, 778]), horizon=st.sampled_from([1, 3, 7, 9, 40])
)
def test_distinct_plans_are_those_of_a_literal_count(seed: int, num_actions: int, horizon: int) -> None:
    generator = np.random.default_rng(seed)
    some = generator.integers(num_actions, size=(8, horizon))
    samples = some[generator.integers(8, size=30)]
    plans, counts = distinct_plans(samples)
    literal = Counter(map(tuple, samples.tolist()))
    expected = sorted(literal.items(), key=lambda item: (-item[1], item[0]))
    assert list(zip(map(tuple, plans.tolist()), counts.tolist(), strict=True)) == expected


def test_frequencies_count_every_action_at_every_position() -> None:
    generator = np.random.default_rng(0)
    plans: Array = generator.integers(4, size=(3, 10, 2))
    draws = Draws(np.full((3, 2, 5), 0.2), plans, plans, np.zeros((10, 2)))
    for window, position, action in np.ndindex(3, 2, 5):
        share = [plan[position] for plan in plans[window].tolist()].count(action) / 10
        assert draws.frequencies[window, position, action] == share
