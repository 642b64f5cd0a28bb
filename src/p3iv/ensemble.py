"""Several planners as one: their probabilities are averaged, then plans are drawn and decoded as from a single one."""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
from torch import Tensor

from p3iv.chain import Chain
from p3iv.errors import ConfigError
from p3iv.interface import Sampler
from p3iv.rescored import RescoredChain
from p3iv.sampling import Draws


class EnsembleSampler:
    """Asks every member and joins their answers."""

    def __init__(self, members: Sequence[Sampler]) -> None:
        self.members = members

    def draw(self, start: Tensor, goal: Tensor) -> Draws:
        """Draw for pairs of observations (N, F)."""
        return join_draws([member.draw(start, goal) for member in self.members])


def join_draws(parts: Sequence[Draws]) -> Draws:
    """The draws of an ensemble.

    Chains become one: the softmax of the emissions is averaged, and so are the log transitions, which differ in their
    exponent only. Of other planners the marginals are averaged, and the samples are taken from each member in turn.

    Raises:
        ConfigError: for planners that choose a plan themselves and have no probabilities to average.
    """
    chains = [part.chain for part in parts if part.chain is not None]
    uniforms = parts[0].chain_uniforms
    if len(chains) == len(parts):
        joined = join_chains(chains)
        plans = joined.draw(uniforms)
        return Draws(joined.marginals(), plans, plans, uniforms, joined.best_paths()[0], joined)
    if chains or any(part.best is not None for part in parts):
        raise ConfigError(
            "--ensemble averages probabilities: of planners that are all chains, or all decoded by the default "
            "Viterbi. At least one of these chooses its plan in another way."
        )
    marginals = torch.stack([part.marginals for part in parts]).mean(dim=0)
    return Draws(marginals, _in_turn([p.argmax for p in parts]), _in_turn([p.categorical for p in parts]), uniforms)


def join_chains(chains: Sequence[Chain]) -> Chain:
    """One chain whose emissions are the average of the softmaxes of several.

    Where members weigh their likeliest plans again, so does the whole, with the mean of what they add: 0 of the others.
    """
    number = len(chains)
    shares = torch.stack([chain.log_emissions.log_softmax(dim=2) for chain in chains])
    transitions = torch.stack([chain.log_transitions for chain in chains])
    joined = Chain(shares.logsumexp(dim=0) - math.log(number), transitions.mean(dim=0))
    rescored = [chain for chain in chains if isinstance(chain, RescoredChain)]
    if not rescored:
        return joined
    each, both = (torch.stack([getattr(c, name) for c in rescored]).sum(dim=0) for name in ("log_each", "log_both"))
    return RescoredChain.over(joined, each / number, both / number)


def _in_turn(plans: Sequence[Tensor]) -> Tensor:
    """Plan k of member k modulo their number: (N, K, T) each."""
    chosen = torch.arange(plans[0].shape[1])
    return torch.stack(list(plans))[chosen % len(plans), :, chosen].transpose(0, 1)
