"""One plan out of many samples: Viterbi with one of several emissions and transitions, the mode, or the argmax.

Planners that choose a plan themselves, by their own chain, beam search or retrieval, give it as the decoder `own`.
"""

from __future__ import annotations

import torch
from torch import Tensor

from p3iv.catalogue import DEFAULT_DECODER, OWN_DECODER
from p3iv.plans.chain import Chain
from p3iv.plans.distribution import count_plans
from p3iv.plans.draws import Draws
from p3iv.plans.transitions import Transitions

# Emissions and transitions: our default, the paper's, and the two of the supplement's ablation with one matrix only.
VITERBI = {
    DEFAULT_DECODER: ("soft", "row"),
    "viterbi_paper": ("frequencies", "paper"),
    "viterbi_paper_uniform_emissions": ("uniform", "paper"),
    "viterbi_paper_uniform_transitions": ("frequencies", "uniform"),
}


def chain_of(draws: Draws, transitions: Transitions, emissions: str = "soft", kind: str = "row") -> Chain:
    """The chain of emissions (soft, frequencies or uniform) and a kind of transitions (row, paper or uniform)."""
    weights = {
        "soft": lambda: draws.marginals,
        "frequencies": lambda: draws.frequencies,
        "uniform": lambda: torch.full_like(draws.marginals, 1 / draws.marginals.shape[-1]),
    }
    return Chain.of(weights[emissions](), transitions.kind(kind))


def plan_chain(draws: Draws, transitions: Transitions) -> Chain:
    """The chain that gives plans their probabilities: the planner's own, or that of the default decoder."""
    return chain_of(draws, transitions) if draws.chain is None else draws.chain


def decoders_of(draws: Draws) -> tuple[str, ...]:
    """The names of the decoders that apply to these samples."""
    own = () if draws.plan is None else (OWN_DECODER,)
    return (*own, *VITERBI, "mode", "argmax")


def decode(draws: Draws, transitions: Transitions, decoder: str) -> Tensor:
    """The plans of one decoder: (N, T)."""
    if decoder == OWN_DECODER and draws.plan is not None:
        return draws.plan
    if decoder == "mode":
        return count_plans(draws.argmax).modes
    if decoder == "argmax":
        return draws.marginals.argmax(dim=-1)
    return chain_of(draws, transitions, *VITERBI[decoder]).best_paths()[0]


def decode_all(draws: Draws, transitions: Transitions) -> dict[str, Tensor]:
    """The plans of every decoder, (N, T) each."""
    return {decoder: decode(draws, transitions, decoder) for decoder in decoders_of(draws)}


def recommended_decoder(draws: Draws) -> str:
    """The decoder of the recommended plan."""
    return DEFAULT_DECODER if draws.plan is None else OWN_DECODER


def plan_probability(draws: Draws, plans: Tensor, chain: Chain) -> Tensor:
    """The probability of the recommended plans, (N,): under the chain that decoded them, or their share of the samples.

    The share is for planners that choose a plan themselves without a chain, such as most baselines.
    `p3iv.Planner.probability` always uses a chain, so for these planners the two can differ.
    """
    if draws.plan is None or draws.chain is not None:
        return chain.log_probability(plans, torch.arange(len(plans))).exp()
    return (draws.categorical == plans[:, None]).all(dim=2).double().mean(dim=1)
