"""One plan out of many draws: Viterbi with one emission and one transition matrix or another, the mode, the argmax."""

from __future__ import annotations

import torch
from torch import Tensor

from p3iv.chain import Chain
from p3iv.plans import count_plans
from p3iv.sampling import Draws
from p3iv.transitions import Transitions

EMISSIONS = ("soft", "frequencies", "uniform")

# The default of this project, the paper's, and the two of the supplement's ablation that know one matrix only.
VITERBI = {
    "viterbi": ("soft", "row"),
    "viterbi_paper": ("frequencies", "paper"),
    "viterbi_paper_uniform_emissions": ("uniform", "paper"),
    "viterbi_paper_uniform_transitions": ("frequencies", "uniform"),
}
DEFAULT = "viterbi"


def chain_of(draws: Draws, transitions: Transitions, emissions: str = "soft", kind: str = "row") -> Chain:
    """The chain of one of EMISSIONS and one of transitions.KINDS."""
    weights = {
        "soft": lambda: draws.marginals,
        "frequencies": lambda: draws.frequencies,
        "uniform": lambda: torch.full_like(draws.marginals, 1 / draws.marginals.shape[-1]),
    }
    return Chain.of(weights[emissions](), transitions.kind(kind))


def decode(draws: Draws, transitions: Transitions) -> dict[str, Tensor]:
    """Every decoder's plans, (N, T) each."""
    plans = {name: chain_of(draws, transitions, *kinds).best_paths()[0] for name, kinds in VITERBI.items()}
    return plans | {"mode": count_plans(draws.argmax).modes, "argmax": draws.marginals.argmax(dim=-1)}
