"""Sampled plans of many pairs: how they are drawn, what is kept of them, and how an ensemble joins its samples."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Protocol, TypeVar

import numpy as np

from p3iv.catalogue import DEFAULT_NUM_SAMPLES, SAMPLING_MODES
from p3iv.errors import ConfigError
from p3iv.plans.chain import Chain, RescoredChain, log_sum
from p3iv.plans.evidence import Answer, Answers
from p3iv.types import Array, hash_number
from p3iv.validation import shown

AnswerT = TypeVar("AnswerT", Answer, Answers)

MODES = tuple(SAMPLING_MODES)

BLOCK = 150  # latents at a time: on a CPU their activations fit the cache
_GROUP = 16  # actions that are picked from at a time


@dataclass(frozen=True)
class SampleSettings:
    """How many plans are drawn, from which seed, and what makes them differ."""

    num_samples: int = DEFAULT_NUM_SAMPLES  # K
    seed: int = 0
    input_noise: float = 0.0  # sigma of noise on the standardised features, in place of latents (supplement G)
    dropout: float = 0.0  # at inference, in place of latents (supplement G)
    horizon: int | None = None  # of planners for several lengths; None: the longest

    def __post_init__(self) -> None:
        if not isinstance(self.num_samples, int) or not 1 <= self.num_samples <= 1_000_000:
            raise ConfigError(f"samples={shown(self.num_samples)}, but it must be a whole number from 1 to 1000000.")
        if not isinstance(self.seed, int) or not 0 <= self.seed < 2**63:
            raise ConfigError(f"seed={shown(self.seed)}, but it must be a whole number from 0 to 2**63 - 1.")
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


@dataclass(frozen=True, eq=False)
class Draws:
    """The samples of several pairs."""

    marginals: Array  # (N, T, A) float64: softmax averaged over the K latents
    argmax: Array  # (N, K, T): the most likely actions under each latent, the paper's plans
    categorical: Array  # (N, K, T): actions drawn from each latent's softmax
    chain_uniforms: Array  # (K, T), or (K, T + 1) for a `RescoredChain`: uniform numbers of exact samples
    plan: Array | None = None  # (N, T): the recommended plan of planners that choose it themselves
    chain: Chain | None = None  # of planners that are a chain: all their samples are drawn from it

    def __len__(self) -> int:
        return len(self.marginals)

    @property
    def frequencies(self) -> Array:
        """How often each action was drawn at each position in the paper's plans: (N, T, A) float64."""
        windows, samples, horizon = self.argmax.shape
        num_actions = self.marginals.shape[2]
        row = np.arange(windows)[:, None, None] * horizon + np.arange(horizon)
        counts = np.bincount((row * num_actions + self.argmax).ravel(), minlength=self.marginals.size)
        return counts.reshape(self.marginals.shape) / samples

    def plans(self, mode: str, transitions: Array) -> Array:
        """The K plans of every pair in one of MODES, (N, K, T); `chain` draws from marginals and transitions."""
        if mode == "chain" and self.chain is None:
            return Chain.of(self.marginals, transitions).draw(self.chain_uniforms)
        if mode not in MODES:
            raise ConfigError(f"mode={shown(mode)}, but it must be one of {', '.join(MODES)}.")
        return self.argmax if mode == "argmax" else self.categorical


def collect_latents(blocks: Iterable[Array], uniforms: Array, number: int) -> tuple[Array, Array, Array]:
    """The marginals (T, A), most likely plans (K, T) and drawn plans (K, T) of one pair.

    Args:
        blocks: logits of the plans of some latents at a time, (k, T, A) each; the last may go beyond K.
        uniforms: (K or more, T) of the drawn plans.
        number: K.
    """
    total: Array | float = 0.0
    argmax, categorical = [], []
    done = 0
    for logits in blocks:
        probabilities = logits - logits.max(axis=-1, keepdims=True)
        np.exp(probabilities, out=probabilities)
        probabilities /= probabilities.sum(axis=-1, keepdims=True)
        argmax.append(logits.argmax(axis=-1))
        categorical.append(pick(probabilities, uniforms[done : done + len(logits)]))
        total = total + probabilities[: number - done].sum(axis=0, dtype=np.float64)
        done += len(logits)
    summed = np.asarray(total)
    marginals = summed / summed.sum(axis=-1, keepdims=True)
    return marginals, np.concatenate(argmax)[:number], np.concatenate(categorical)[:number]


def pick(probabilities: Array, uniforms: Array) -> Array:
    """Actions (k, T): the inverse of the cumulative (k, T, A) at uniforms (k, T); never one of weight 0.

    First a group of actions is picked, then an action of that group: numpy is slow at cumulative sums.
    """
    num_actions = probabilities.shape[-1]
    weights, row = probabilities.reshape(-1, num_actions), np.arange(uniforms.size)
    ends = np.add.reduceat(weights, np.arange(0, num_actions, _GROUP), axis=1).cumsum(axis=1)  # of groups
    wanted = uniforms.ravel().astype(ends.dtype) * ends[:, -1]
    group = (ends > wanted[:, None]).argmax(axis=1)
    actions = group[:, None] * _GROUP + np.arange(_GROUP)
    inside = weights[row[:, None], np.minimum(actions, num_actions - 1)]
    inside[actions >= num_actions] = 0
    inside = inside.cumsum(axis=1)
    wanted -= np.where(group > 0, ends[row, group - 1], 0)
    wanted = np.minimum(wanted, np.nextafter(inside[:, -1], 0))  # sums in another order are rounded in another way
    picked: Array = group * _GROUP + (inside <= wanted[:, None]).sum(axis=1)
    return picked.reshape(uniforms.shape)


def uniform_blocks(settings: SampleSettings, purpose: str, width: int) -> Array:
    """Uniform numbers of K or more rows in whole blocks, (blocks, BLOCK, width); fewer rows are a prefix of more.

    Multiples of 2^-24, so that they stay below 1 in single precision, too.
    """
    return np.floor(_generator(settings, purpose).random_sample(_shape(settings, width)) * 2**24) / 2**24


def normal_blocks(settings: SampleSettings, purpose: str, width: int) -> Array:
    """Standard normal numbers of K or more rows in whole blocks, (blocks, BLOCK, width) float32."""
    return _generator(settings, purpose).standard_normal(_shape(settings, width)).astype(np.float32)


def chain_uniforms(settings: SampleSettings, horizon: int, *, rescored: bool = False) -> Array:
    """The uniform numbers of the exact samples of a chain: (K, T), or (K, T + 1) for one that rescores its plans."""
    columns = [("chain", horizon), ("rescored", 1)][: 1 + rescored]
    parts = [_generator(settings, name).random_sample(_shape(settings, width)) for name, width in columns]
    return np.concatenate(parts, axis=2).reshape(-1, horizon + rescored)[: settings.num_samples]


def length_uniforms(settings: SampleSettings) -> Array:
    """The uniform numbers that choose the lengths of samples: (K,)."""
    drawn = _generator(settings, "length").random_sample(_shape(settings, 1))
    return drawn.reshape(-1)[: settings.num_samples]


def _shape(settings: SampleSettings, width: int) -> tuple[int, int, int]:
    return -(-settings.num_samples // BLOCK), BLOCK, width


def seed_of(settings: SampleSettings, purpose: str) -> int:
    """The seed of one purpose, of 63 bits."""
    return hash_number(f"{settings.seed}/{purpose}") >> 1


def _generator(settings: SampleSettings, purpose: str) -> np.random.RandomState:
    """The generator of one purpose. Of numpy's, this is the one whose numbers are promised to stay the same."""
    seed = seed_of(settings, purpose)
    return np.random.RandomState([seed >> 32, seed & 0xFFFFFFFF])


class Sampler(Protocol):
    """Draws plans, one seed for all pairs; neither the other pairs of a call nor K change a pair's plans."""

    def draw(self, start: Array, goal: Array) -> Draws:
        """Draw for pairs of observations (N, F)."""


class ChainDraws(Draws):
    """The draws of planners that are a chain: all modes give the same plans; computed when they are asked for.

    Args:
        chain: of all windows.
        parts: the same as several chains, each of which is computed by itself.
        uniforms: of exact samples.
    """

    _parts: Sequence[Chain]

    def __init__(self, chain: Chain, parts: Sequence[Chain], uniforms: Array) -> None:
        vars(self).update(chain=chain, chain_uniforms=uniforms, _parts=parts)

    def __len__(self) -> int:
        return sum(map(len, self._parts))

    @cached_property
    def marginals(self) -> Array:
        return np.concatenate([part.marginals() for part in self._parts])

    @cached_property
    def argmax(self) -> Array:
        return np.concatenate([part.draw(self.chain_uniforms) for part in self._parts])

    @property
    def categorical(self) -> Array:
        return self.argmax

    @cached_property
    def plan(self) -> Array:
        return np.concatenate([part.best_paths()[0] for part in self._parts])


def draws_of(chain: Chain, uniforms: Array) -> Draws:
    """The draws of a chain, in which each window is computed by itself."""
    return ChainDraws(chain, chain.split(), uniforms)


class EnsembleSampler:
    """Draws from every member and joins the samples."""

    def __init__(self, members: Sequence[Sampler]) -> None:
        self.members = members

    def draw(self, start: Array, goal: Array) -> Draws:
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
        return ChainDraws(joined, [joined], uniforms)
    if chains or any(part.plan is not None for part in parts):
        raise ConfigError(
            "--ensemble averages probabilities, so its planners must all be chains, or all be decoded by the default "
            "Viterbi. At least one of these chooses its plan in another way."
        )
    marginals = np.mean([part.marginals for part in parts], axis=0)
    return Draws(marginals, _in_turn([p.argmax for p in parts]), _in_turn([p.categorical for p in parts]), uniforms)


def join_chains(chains: Sequence[Chain]) -> Chain:
    """One chain whose emissions are the average of the softmaxes of several.

    If members rescore their likeliest plans, so does the joined chain, with the mean of their terms (0 for the others).
    """
    number = len(chains)
    shares = np.stack([c.log_emissions - log_sum(c.log_emissions)[..., None] for c in chains], axis=-1)  # (N, T, A, n)
    transitions = np.mean([chain.log_transitions for chain in chains], axis=0)
    joined = Chain(log_sum(shares) - math.log(number), transitions)
    rescored = [chain for chain in chains if isinstance(chain, RescoredChain)]
    if not rescored:
        return joined
    each, both = (np.sum([getattr(c, name) for c in rescored], axis=0) for name in ("log_each", "log_both"))
    return RescoredChain.over(joined, each / number, both / number)


def join_answers(answers: Sequence[AnswerT]) -> AnswerT:
    """The answer, or answers, of an ensemble: chains of every length joined, probabilities of lengths averaged."""
    chains = tuple(join_chains(parts) for parts in zip(*(answer.chains for answer in answers), strict=True))
    log_lengths = log_sum(np.stack([answer.log_lengths for answer in answers], axis=-1)) - math.log(len(answers))
    return type(answers[0])(chains, log_lengths)


def _in_turn(plans: Sequence[Array]) -> Array:
    """Plan k of member k modulo their number: (N, K, T) each."""
    chosen = np.arange(plans[0].shape[1])
    return np.stack(plans)[chosen % len(plans), :, chosen].transpose(1, 0, 2)
