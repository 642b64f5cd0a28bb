"""An ensemble averages probabilities: of one member with itself it is that member."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from torch import Tensor

from p3iv.errors import ConfigError
from p3iv.plans.chain import Chain
from p3iv.plans.draws import Draws, join_chains, join_draws


def random_chain(seed: int) -> Chain:
    generator = torch.Generator().manual_seed(seed)
    sizes = (2, 3, 4), (4, 4)
    return Chain(*(torch.randn(*size, generator=generator, dtype=torch.float64) for size in sizes))


def draws_of(seed: int, number: int = 6) -> Draws:
    generator = torch.Generator().manual_seed(seed)
    marginals = torch.rand(2, 3, 4, generator=generator, dtype=torch.float64).softmax(dim=2)
    plans = torch.randint(4, (2, number, 3), generator=generator)
    uniforms = torch.rand(number, 3, generator=generator, dtype=torch.float64)
    return Draws(marginals, plans, (plans + 1) % 4, uniforms)


def as_chain(seed: int) -> Draws:
    chain, part = random_chain(seed), draws_of(seed)
    return replace(part, chain=chain, plan=chain.best_paths()[0])


def every_plan() -> Tensor:
    return torch.cartesian_prod(*[torch.arange(4)] * 3)


def test_a_chain_joined_with_itself_is_itself() -> None:
    one = random_chain(1)
    both, plans = join_chains([one, one]), every_plan()
    for window in (0, 1):
        where = torch.full((len(plans),), window)
        torch.testing.assert_close(both.log_probability(plans, where), one.log_probability(plans, where))


def test_emissions_are_the_mean_of_the_softmaxes() -> None:
    first, second = random_chain(1), random_chain(2)
    joined = join_chains([first, second])
    expected = (first.log_emissions.softmax(dim=2) + second.log_emissions.softmax(dim=2)) / 2
    torch.testing.assert_close(joined.log_emissions.exp(), expected)


def test_chains_are_decoded_and_drawn_as_one() -> None:
    joined = join_draws([as_chain(1), as_chain(2)])
    assert joined.chain is not None
    assert joined.plan is not None
    assert torch.equal(joined.plan, joined.chain.best_paths()[0])
    assert torch.equal(joined.argmax, joined.chain.draw(joined.chain_uniforms))


def test_of_others_marginals_are_averaged_and_samples_taken_in_turn() -> None:
    parts = [draws_of(seed) for seed in (1, 2, 3)]
    joined = join_draws(parts)
    torch.testing.assert_close(joined.marginals, sum(part.marginals for part in parts) / 3)
    for number in range(6):
        assert torch.equal(joined.argmax[:, number], parts[number % 3].argmax[:, number])
        assert torch.equal(joined.categorical[:, number], parts[number % 3].categorical[:, number])


def test_planners_without_probabilities_are_refused() -> None:
    part = draws_of(1)
    for other in (replace(part, plan=part.argmax[:, 0]), as_chain(1)):
        with pytest.raises(ConfigError, match="--ensemble averages probabilities"):
            join_draws([part, other])
