"""One plan out of many draws: Viterbi with one emission and one transition matrix or another, the mode, the argmax.

Planners that choose a plan themselves, by beam search or by retrieval, say which: it is decoded as `own`.
"""

from __future__ import annotations

import torch
from torch import Tensor

from p3iv.plans.chain import Chain
from p3iv.plans.distribution import count_plans
from p3iv.plans.draws import Draws
from p3iv.plans.transitions import Transitions

# The default of this project, the paper's, and the two of the supplement's ablation that know one matrix only.
VITERBI = {
    "viterbi": ("soft", "row"),
    "viterbi_paper": ("frequencies", "paper"),
    "viterbi_paper_uniform_emissions": ("uniform", "paper"),
    "viterbi_paper_uniform_transitions": ("frequencies", "uniform"),
}

DEFAULT = "viterbi"

OWN = "own"


def chain_of(draws: Draws, transitions: Transitions, emissions: str = "soft", kind: str = "row") -> Chain:
    """The chain of emissions (soft, frequencies or uniform) and a kind of transitions (row, paper or uniform)."""
    weights = {
        "soft": lambda: draws.marginals,
        "frequencies": lambda: draws.frequencies,
        "uniform": lambda: torch.full_like(draws.marginals, 1 / draws.marginals.shape[-1]),
    }
    return Chain.of(weights[emissions](), transitions.kind(kind))


def deciding_chain(draws: Draws, transitions: Transitions) -> Chain:
    """The chain that says how probable a plan is: the planner's own, or the default of this project."""
    return chain_of(draws, transitions) if draws.chain is None else draws.chain


def decode(draws: Draws, transitions: Transitions) -> dict[str, Tensor]:
    """Every decoder's plans, (N, T) each; the one to follow is that of `followed`."""
    plans = {name: chain_of(draws, transitions, *kinds).best_paths()[0] for name, kinds in VITERBI.items()}
    own = {} if draws.best is None else {OWN: draws.best}
    return own | plans | {"mode": count_plans(draws.argmax).modes, "argmax": draws.marginals.argmax(dim=-1)}


def followed(draws: Draws) -> str:
    """Which decoder's plan is the one to follow."""
    return DEFAULT if draws.best is None else OWN


def followed_probability(draws: Draws, plans: Tensor, chain: Chain) -> Tensor:
    """The probability of the plans to follow, (N,): under the chain that decoded them, or their share of the draws.

    A planner that chooses its plan itself, and not by a chain, knows no probabilities, so the share of its samples
    that are that plan is what it says of it.
    """
    if draws.best is None or draws.chain is not None:
        return chain.log_probability(plans, torch.arange(len(plans))).exp()
    return (draws.categorical == plans[:, None]).all(dim=2).double().mean(dim=1)
