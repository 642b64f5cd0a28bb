"""Sampling: the fast path equals the network, and a pair's plans depend on the seed alone."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from p3iv.config import ModelConfig
from p3iv.errors import ConfigError
from p3iv.planners.header import PlannerShape
from p3iv.planners.p3iv.network import P3IVNetwork
from p3iv.planners.p3iv.sampler import PlanSampler, source_of
from p3iv.plans.decoding import VITERBI, chain_of, decode, decode_all, decoders_of, distinct_plans
from p3iv.plans.draws import BLOCK, MODES, Draws, SampleSettings, normal_blocks
from p3iv.plans.transitions import Transitions, uniform_transitions
from p3iv.types import Array

SMALL = {"width": 32, "heads": 4, "feed_forward": 48, "encoder_hidden": 16, "head_hidden": 24, "memory_slots": 6}


def make_planner(horizon: int = 3, num_actions: int = 11, **sizes: int) -> P3IVNetwork:
    """Random parameters everywhere, biases and norms included."""
    torch.manual_seed(0)
    planner = P3IVNetwork(PlannerShape(horizon, num_actions, 20, 8), ModelConfig(**{**SMALL, **sizes}))
    for parameter in planner.parameters():
        parameter.data += 0.3 * torch.randn_like(parameter)
    planner.join.weight.data[:, planner.sizes.width :] *= 10  # so that latents make a difference
    planner.decoder.stack[-1].feed_norm.weight.data *= 6
    planner.fit_scale(torch.randn(50, 20) * 3 + 1)
    return planner.eval()


def pairs(number: int) -> tuple[Array, Array]:
    start, goal = np.random.default_rng(1).standard_normal((2, number, 20), dtype=np.float32)
    return start, goal


@pytest.mark.parametrize("sizes", [{}, {"layers": 1}, {"layers": 3}, {"memory_slots": 0}, {"noise_width": 5}])
@pytest.mark.parametrize("horizon", [1, 3, 6])
def test_the_fast_path_gives_the_logits_of_the_network(sizes: dict[str, int], horizon: int) -> None:
    planner = make_planner(horizon, **sizes).double()
    start, goal = (torch.from_numpy(side).double() for side in pairs(1))
    settings = SampleSettings(num_samples=2 * BLOCK)
    source = source_of(planner, settings)
    latents = torch.from_numpy(normal_blocks(settings, "latents", planner.sizes.noise_width)).flatten(0, 1)
    with torch.inference_mode():
        fast = torch.cat(list(source.logits(start[0], goal[0])))
        expected = planner(start.expand(2 * BLOCK, -1), goal.expand(2 * BLOCK, -1), latents.double()).action_logits
    torch.testing.assert_close(fast, expected, atol=1e-10, rtol=1e-10)


@pytest.mark.parametrize(
    "settings", [SampleSettings(200), SampleSettings(200, input_noise=0.5), SampleSettings(200, dropout=0.3)]
)
def test_the_callers_batch_does_not_change_a_pairs_plans(settings: SampleSettings) -> None:
    planner, (start, goal) = make_planner(), pairs(7)
    together = PlanSampler(planner, settings).draw(start, goal)
    for number in (0, 3, 6):
        alone = PlanSampler(planner, settings).draw(start[number : number + 1], goal[number : number + 1])
        assert np.array_equal(alone.marginals[0], together.marginals[number])
        for mode in MODES:
            transitions = uniform_transitions(11)
            assert np.array_equal(alone.plans(mode, transitions)[0], together.plans(mode, transitions)[number])


@pytest.mark.parametrize(
    "change", [{}, {"input_noise": 0.5}, {"dropout": 0.3}], ids=["latents", "input noise", "dropout"]
)
def test_fewer_samples_are_a_prefix_of_more(change: dict[str, float]) -> None:
    planner, (start, goal) = make_planner(), pairs(2)
    many, few = (PlanSampler(planner, SampleSettings(k, **change)).draw(start, goal) for k in (400, 37))  # type: ignore[arg-type]
    assert np.array_equal(many.argmax[:, :37], few.argmax)
    assert np.array_equal(many.categorical[:, :37], few.categorical)
    assert np.array_equal(many.chain_uniforms[:37], few.chain_uniforms)


def test_another_seed_draws_other_plans() -> None:
    planner, (start, goal) = make_planner(), pairs(1)
    one, other = (PlanSampler(planner, SampleSettings(300, seed=seed)).draw(start, goal) for seed in (0, 1))
    assert not np.array_equal(one.argmax, other.argmax)
    assert not np.array_equal(one.categorical, other.categorical)


def test_marginals_average_the_softmax_and_argmax_follows_each_latent() -> None:
    planner, (start, goal) = make_planner(), pairs(1)
    number = BLOCK + 7
    settings = SampleSettings(number)
    draws = PlanSampler(planner, settings).draw(start, goal)
    latents = torch.from_numpy(normal_blocks(settings, "latents", 32)).flatten(0, 1)
    ends = (torch.from_numpy(side).expand(number, -1) for side in (start, goal))
    with torch.inference_mode():
        logits = planner(*ends, latents[:number]).action_logits
    np.testing.assert_allclose(draws.marginals[0], logits.softmax(-1).double().mean(dim=0), atol=1e-5, rtol=1e-4)
    assert np.array_equal(draws.argmax[0], logits.argmax(-1))
    counts = np.stack([np.bincount(draws.argmax[0, :, t], minlength=11) for t in range(3)])
    np.testing.assert_allclose(draws.frequencies[0], counts / number)


def test_categorical_draws_follow_the_softmax() -> None:
    """A planner without noise draws K times from one softmax."""
    planner, (start, goal) = make_planner(noise_width=0), pairs(1)
    draws = PlanSampler(planner, SampleSettings(20_000)).draw(start, goal)
    shares = np.stack([np.bincount(draws.categorical[0, :, t], minlength=11) for t in range(3)]) / 20_000
    assert np.abs(shares - draws.marginals[0]).max() < 4 * 0.5 / 20_000**0.5
    plans, counts = distinct_plans(draws.argmax[0])
    assert len(plans) == 1
    assert counts.tolist() == [20_000]


def test_input_noise_and_dropout_make_a_deterministic_planner_vary() -> None:
    planner, (start, goal) = make_planner(noise_width=0), pairs(1)
    for change in ({"input_noise": 5.0}, {"dropout": 0.7}):
        source = source_of(planner, SampleSettings(300, **change))  # type: ignore[arg-type]
        with torch.inference_mode():
            logits = torch.cat(list(source.logits(torch.from_numpy(start[0]), torch.from_numpy(goal[0]))))
        assert logits.shape == (300, 3, 11)
        assert (logits.std(dim=0) > 0.01).all()
        assert len(logits.unique(dim=0)) > 290  # every sample has its own noise or mask
    assert not planner.decoder.training
    assert planner.decoder.dropout == 0.1


def test_input_noise_is_of_the_standardised_features() -> None:
    planner, (start, goal) = make_planner(), (torch.from_numpy(side) for side in pairs(1))
    settings = SampleSettings(BLOCK, input_noise=2.0)
    noise = 2.0 * torch.from_numpy(normal_blocks(settings, "input", 40)[0])
    with torch.inference_mode():
        (drawn,) = source_of(planner, settings).logits(start[0], goal[0])
        at_start, at_goal = noise[:, :20] * planner.feature_scale, noise[:, 20:] * planner.feature_scale
        expected = planner(start + at_start, goal + at_goal).action_logits
    torch.testing.assert_close(drawn, expected)


def test_sampling_leaves_the_global_random_state_alone() -> None:
    planner, (start, goal) = make_planner(), pairs(1)
    before, numpy_before = torch.random.get_rng_state(), np.random.get_state(legacy=False)["state"]
    for change in ({}, {"input_noise": 1.0}, {"dropout": 0.5}):
        PlanSampler(planner, SampleSettings(10, **change)).draw(start, goal)  # type: ignore[arg-type]
    assert torch.equal(torch.random.get_rng_state(), before)
    numpy_after = np.random.get_state(legacy=False)["state"]
    assert numpy_after["pos"] == numpy_before["pos"]
    assert np.array_equal(numpy_after["key"], numpy_before["key"])


@pytest.mark.parametrize(
    "change", [{"num_samples": 0}, {"seed": -1}, {"input_noise": -1.0}, {"dropout": 1.0}, {"input_noise": float("nan")}]
)
def test_settings_outside_what_is_allowed_are_refused(change: dict[str, float]) -> None:
    with pytest.raises(ConfigError):
        SampleSettings(**change)  # type: ignore[arg-type]


def test_input_noise_and_dropout_are_alternatives() -> None:
    with pytest.raises(ConfigError, match="alternatives"):
        SampleSettings(input_noise=1.0, dropout=0.1)


def some_draws() -> tuple[Draws, Transitions]:
    planner, (start, goal) = make_planner(), pairs(4)
    weights = np.random.default_rng(3).random((2, 11, 11))
    row, paper = weights / weights.sum(axis=2, keepdims=True)
    return PlanSampler(planner, SampleSettings(300)).draw(start, goal), Transitions(row, paper, 1.0)


def test_decoders_do_what_their_names_say() -> None:
    draws, transitions = some_draws()
    plans = decode_all(draws, transitions)
    assert set(plans) == {*VITERBI, "mode", "argmax"} == set(decoders_of(draws))
    assert all(np.array_equal(decode(draws, transitions, name), plans[name]) for name in plans)
    assert np.array_equal(plans["argmax"], draws.marginals.argmax(axis=-1))
    # With uniform transitions the best path takes the likeliest action of every position.
    places = plans["viterbi_paper_uniform_transitions"][..., None]
    assert np.array_equal(np.take_along_axis(draws.frequencies, places, axis=2)[..., 0], draws.frequencies.max(axis=-1))
    # With uniform emissions the pair does not matter.
    assert len(np.unique(plans["viterbi_paper_uniform_emissions"], axis=0)) == 1
    best = chain_of(draws, transitions).best_paths()[1]
    for other in plans.values():
        score = chain_of(draws, transitions).log_probability(other, np.arange(4))
        assert (score + chain_of(draws, transitions).log_normaliser() <= best + 1e-9).all()
