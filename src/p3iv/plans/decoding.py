"""One plan out of many samples: Viterbi with one of several emissions and transitions, the mode, or the argmax.

Planners that choose a plan themselves, by their own chain, beam search or retrieval, give it as the decoder `own`.
"""

from __future__ import annotations

import numpy as np

from p3iv.catalogue import DEFAULT_DECODER, OWN_DECODER
from p3iv.plans.chain import Chain
from p3iv.plans.draws import Draws
from p3iv.plans.transitions import Transitions
from p3iv.types import Array

# Emissions and transitions: our default, the paper's, and the two of the supplement's ablation with one matrix only.
VITERBI = {
    DEFAULT_DECODER: ("soft", "row"),
    "viterbi_paper": ("frequencies", "paper"),
    "viterbi_paper_uniform_emissions": ("uniform", "paper"),
    "viterbi_paper_uniform_transitions": ("frequencies", "uniform"),
}


def chain_of(draws: Draws, transitions: Transitions, emissions: str = "soft", kind: str = "row") -> Chain:
    """The chain of emissions (soft or frequencies) and a kind of transitions (row, paper or uniform)."""
    return Chain.of(draws.marginals if emissions == "soft" else draws.frequencies, transitions.kind(kind))


def plan_chain(draws: Draws, transitions: Transitions) -> Chain:
    """The chain that gives plans their probabilities: the planner's own, or that of the default decoder."""
    return chain_of(draws, transitions) if draws.chain is None else draws.chain


def decoders_of(draws: Draws) -> tuple[str, ...]:
    """The names of the decoders that apply to these samples."""
    own = () if draws.plan is None else (OWN_DECODER,)
    return (*own, *VITERBI, "mode", "argmax")


def decode(draws: Draws, transitions: Transitions, decoder: str) -> Array:
    """The plans of one decoder: (N, T)."""
    if decoder == OWN_DECODER and draws.plan is not None:
        return draws.plan
    if decoder == "mode":
        return np.stack([distinct_plans(samples)[0][0] for samples in draws.argmax])
    if decoder == "argmax":
        return draws.marginals.argmax(axis=-1)
    emissions, kind = VITERBI[decoder]
    if emissions == "uniform":  # the same plan for every window
        one = np.full_like(draws.marginals[:1], 1 / draws.marginals.shape[-1])
        return Chain.of(one, transitions.kind(kind)).best_paths()[0].repeat(len(draws), axis=0)
    return chain_of(draws, transitions, emissions, kind).best_paths()[0]


def decode_all(draws: Draws, transitions: Transitions) -> dict[str, Array]:
    """The plans of every decoder, (N, T) each."""
    return {decoder: decode(draws, transitions, decoder) for decoder in decoders_of(draws)}


def recommended_decoder(draws: Draws) -> str:
    """The decoder of the recommended plan."""
    return DEFAULT_DECODER if draws.plan is None else OWN_DECODER


def has_chain(draws: Draws) -> bool:
    """Whether plans are chosen by a chain, the planner's own or that of the default decoder.

    Most baselines choose a plan in another way, such as search or retrieval.
    """
    return draws.plan is None or draws.chain is not None


def plan_probability(draws: Draws, plans: Array, chain: Chain) -> Array:
    """The probability of one plan per pair, (N,): under `plan_chain`, or its share of the samples without a chain."""
    if has_chain(draws):
        return np.exp(chain.log_probability(plans, np.arange(len(plans))))
    return (draws.categorical == plans[:, None]).all(axis=2).mean(axis=1)


def rank_plans(draws: Draws, transitions: Transitions, number: int) -> tuple[Array, Array]:
    """Of a single pair, the recommended plan and then the most probable others (n, T), and their probabilities (n,).

    There are fewer than `number` if fewer are possible or, without a chain, sampled.
    """
    chain, plan = plan_chain(draws, transitions), decode(draws, transitions, recommended_decoder(draws))  # (1, T)
    if has_chain(draws):
        plans, logs = (part[0] for part in chain.best_plans(number))
        shares = np.exp(logs)
    else:
        plans, counts = distinct_plans(draws.categorical[0])
        shares = counts / counts.sum()
    is_other = (plans != plan).any(axis=1) & (shares > 0)
    own = plan_probability(draws, plan, chain)
    ranked = np.concatenate((plan, plans[is_other])), np.concatenate((own, shares[is_other]))
    return ranked[0][:number], ranked[1][:number].clip(max=1.0)


def distinct_plans(samples: Array) -> tuple[Array, Array]:
    """The distinct plans among samples (K, T) and how often each occurs, most frequent first; ties by action ids."""
    _, first, counts = np.unique(_plan_keys(samples), return_index=True, return_counts=True)
    order = np.argsort(-counts, kind="stable")
    return samples[first[order]], counts[order]


def _plan_keys(plans: Array) -> Array:
    """A number for every plan (K, T), in the order of their action ids: (K,)."""
    size = int(plans.max()) + 1
    keys = plans[:, 0].astype(np.int64)
    for position in range(1, plans.shape[1]):
        if int(keys.max()) >= 2**62 // size:  # too large for one more action: ranks keep the order and are small
            keys = np.unique(keys, return_inverse=True)[1]
        keys = keys * size + plans[:, position]
    return keys
