"""Sampled plans of many pairs: how they are drawn, what is kept of them, and how an ensemble joins its samples."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Tensor

from p3iv.catalogue import DEFAULT_NUM_SAMPLES, SAMPLING_MODES
from p3iv.errors import ConfigError
from p3iv.plans.chain import Chain, RescoredChain
from p3iv.types import hash_number
from p3iv.validation import shown

MODES = tuple(SAMPLING_MODES)

BLOCK = 150  # latents at a time: on a CPU their activations fit the cache


@dataclass(frozen=True)
class SampleSettings:
    """How many plans are drawn, from which seed, and what makes them differ."""

    num_samples: int = DEFAULT_NUM_SAMPLES  # K
    seed: int = 0
    input_noise: float = 0.0  # sigma of noise on the standardised features, in place of latents (supplement G)
    dropout: float = 0.0  # at inference, in place of latents (supplement G)

    def __post_init__(self) -> None:
        if not 1 <= self.num_samples <= 1_000_000:
            raise ConfigError(f"samples={self.num_samples}, but it must be from 1 to 1000000.")
        if not 0 <= self.seed < 2**63:
            raise ConfigError(f"seed={self.seed}, but it must be from 0 to 2**63 - 1.")
        if not 0 <= self.input_noise < float("inf") or not 0 <= self.dropout < 1:
            raise ConfigError(
                f"input noise {self.input_noise} and dropout {self.dropout}, but the first must be a finite number "
                f"from 0 and the second from 0 to below 1."
            )
        if self.input_noise and self.dropout:
            raise ConfigError("Input noise and dropout are alternatives: pass one of the two.")


def refuse_noise(settings: SampleSettings, planner: str) -> None:
    """Refuse input noise and dropout for a planner without latents, which they would replace."""
    if settings.input_noise or settings.dropout:
        raise ConfigError(
            f"input noise {settings.input_noise} and dropout {settings.dropout} replace the latents of a network, "
            f"but planner={planner} has none: leave both at 0."
        )


@dataclass(frozen=True)
class Draws:
    """The samples of several pairs."""

    marginals: Tensor  # (N, T, A) float64: softmax averaged over the K latents
    argmax: Tensor  # (N, K, T): the most likely actions under each latent, the paper's plans
    categorical: Tensor  # (N, K, T): actions drawn from each latent's softmax
    chain_uniforms: Tensor  # (K, T), or (K, T + 1) for a `RescoredChain`: uniform numbers of exact samples
    plan: Tensor | None = None  # (N, T): the recommended plan of planners that choose it themselves
    chain: Chain | None = None  # of planners that are a chain: all their samples are drawn from it

    @property
    def frequencies(self) -> Tensor:
        """How often each action was drawn at each position in the paper's plans: (N, T, A) float64."""
        windows, samples, _ = self.argmax.shape
        counts = torch.zeros(self.marginals.shape, dtype=torch.float64)
        ones = torch.ones((), dtype=torch.float64).expand(windows, self.argmax.shape[2], samples)
        return counts.scatter_add_(2, self.argmax.transpose(1, 2), ones) / samples

    def plans(self, mode: str, transitions: Tensor) -> Tensor:
        """The K plans of every pair in one of MODES, (N, K, T); `chain` draws from marginals and transitions."""
        if mode == "chain" and self.chain is None:
            return Chain.of(self.marginals, transitions).draw(self.chain_uniforms)
        if mode not in MODES:
            raise ConfigError(f"mode={shown(mode)}, but it must be one of {', '.join(MODES)}.")
        return self.argmax if mode == "argmax" else self.categorical


def pick(probabilities: Tensor, uniforms: Tensor) -> Tensor:
    """Actions (k, T): the inverse of the cumulative (k, T, A) at uniforms (k, T); never one of weight 0."""
    total = probabilities.cumsum(dim=-1)
    return (total <= uniforms[..., None] * total[..., -1:]).sum(dim=-1)


def blocks_of(draw: object, number: int, width: int, *, seed: int, dtype: torch.dtype = torch.float32) -> Tensor:
    """Random rows in whole blocks, (blocks, BLOCK, width); fewer rows are a prefix of more."""
    generator = torch.Generator().manual_seed(seed)
    num_blocks = -(-number // BLOCK)
    rows = [draw(BLOCK, width, generator=generator, dtype=dtype) for _ in range(num_blocks)]  # type: ignore[operator]
    return torch.stack(rows)


def seed_of(settings: SampleSettings, purpose: str) -> int:
    """The seed of one purpose; torch takes 63 bits."""
    return hash_number(f"{settings.seed}/{purpose}") >> 1


class Sampler(Protocol):
    """Draws plans, one seed for all pairs; neither the other pairs of a call nor K change a pair's plans."""

    def draw(self, start: Tensor, goal: Tensor) -> Draws:
        """Draw for pairs of observations (N, F)."""


class EnsembleSampler:
    """Draws from every member and joins the samples."""

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
        ConfigError: for planners that choose a plan themselves without probabilities that could be averaged.
    """
    chains = [part.chain for part in parts if part.chain is not None]
    uniforms = parts[0].chain_uniforms
    if len(chains) == len(parts):
        joined = join_chains(chains)
        plans = joined.draw(uniforms)
        return Draws(joined.marginals(), plans, plans, uniforms, joined.best_paths()[0], joined)
    if chains or any(part.plan is not None for part in parts):
        raise ConfigError(
            "--ensemble averages probabilities, so its planners must all be chains, or all be decoded by the default "
            "Viterbi. At least one of these chooses its plan in another way."
        )
    marginals = torch.stack([part.marginals for part in parts]).mean(dim=0)
    return Draws(marginals, _in_turn([p.argmax for p in parts]), _in_turn([p.categorical for p in parts]), uniforms)


def join_chains(chains: Sequence[Chain]) -> Chain:
    """One chain whose emissions are the average of the softmaxes of several.

    If members rescore their likeliest plans, so does the joined chain, with the mean of their terms (0 for the others).
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
