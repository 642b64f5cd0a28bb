"""The critic of the paper, and its losses as pure functions; sums over the T positions, means over the windows."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

import torch
from torch import Tensor, nn
from torch.nn import functional

CRITIC_WIDTHS = (256, 64, 32)  # of the hidden layers (supplement C)


class Critic(nn.Module):
    """An MLP on the states of a plan, concatenated over time."""

    def __init__(self, horizon: int, width: int) -> None:
        super().__init__()
        sizes = (horizon * width, *CRITIC_WIDTHS)
        layers: list[nn.Module] = []
        for width_in, width_out in pairwise(sizes):
            layers += [nn.Linear(width_in, width_out), nn.ReLU()]
        self.layers = nn.Sequential(*layers, nn.Linear(CRITIC_WIDTHS[-1], 1))

    def forward(self, states: Tensor) -> Tensor:
        """(B, T, D) -> logits (B,); above 0 means that the critic considers the sequence real."""
        return self.layers(states.flatten(1)).squeeze(-1)  # type: ignore[no-any-return]


EPSILON = 1e-5


@dataclass(frozen=True)
class DiversePair:
    """Per window, the two latents whose plans differ least, relative to the distance of the latents."""

    first: Tensor  # (B,) index into the S latents
    second: Tensor  # (B,)


def action_loss(action_logits: Tensor, action_ids: Tensor) -> Tensor:
    """L_a (eq. 7): cross-entropy of the actions; (B, T, A) and (B, T)."""
    return functional.cross_entropy(action_logits.flatten(0, 1), action_ids.flatten(), reduction="sum") / len(
        action_ids
    )


def language_loss(states: Tensor, descriptions: Tensor, action_ids: Tensor, temperature: float = 1.0) -> Tensor:
    """L_l (eq. 6): each state against the descriptions of the whole vocabulary, (B, T, D), (A, D) and (B, T)."""
    return action_loss(states @ descriptions.T / temperature, action_ids)


def visual_loss(states: Tensor, targets: Tensor, temperature: float = 1.0) -> Tensor:
    """L_l under strong supervision: states against the visual steps of the batch, both (B, T, D)."""
    flat = targets.flatten(0, 1)
    own = torch.arange(len(flat), device=flat.device).view(targets.shape[:2])
    return language_loss(states, flat, own, temperature)


def critic_loss(real_logits: Tensor, generated_logits: Tensor) -> Tensor:
    """L_adv for the critic (eq. 8): -log C(real) - log(1 - C(generated)), both (B,)."""
    return functional.softplus(-real_logits).mean() + functional.softplus(generated_logits).mean()


def generator_loss(generated_logits: Tensor) -> Tensor:
    """L_adv for the planner, non-saturating: -log C(generated)."""
    return functional.softplus(-generated_logits).mean()


def least_diverse_pair(states: Tensor, noise: Tensor) -> DiversePair:
    """The pair of latents with the smallest ratio, which has the largest L_reg: (B, S, T, D) and (B or 1, S, Z)."""
    flat, num_latents = states.flatten(2), states.shape[1]
    ratios = []
    for first in range(num_latents - 1):  # against all later ones at once: half of cdist's pairs and of its time
        moved = (flat[:, first : first + 1] - flat[:, first + 1 :]).abs_().sum(dim=-1)  # (B, S - 1 - first)
        ratios.append(moved / (noise[:, first : first + 1] - noise[:, first + 1 :]).abs().sum(dim=-1))
    place = torch.cat(ratios, dim=1).argmin(dim=1)
    pairs = torch.triu_indices(num_latents, num_latents, offset=1).to(states.device)
    return DiversePair(first=pairs[0, place], second=pairs[1, place])


def diversity_ratio(states: Tensor, noise: Tensor) -> Tensor:
    """The distance of two latents' plans divided by that of the latents: (B, 2, T, D) and (B, 2, Z) -> (B,)."""
    moved = (states[:, 0] - states[:, 1]).abs().sum(dim=(1, 2))
    return moved / (noise[:, 0] - noise[:, 1]).abs().sum(dim=1)


def diversity_loss(ratio: Tensor, form: str = "inverse") -> Tensor:
    """L_reg (supplement, eq. 9) of the chosen pairs, (B,).

    The paper's minus ratio has no bound and destroyed accuracy in a trial (ratio 26 -> 179, success 17 -> 4.5), so the
    default is 1 / (ratio + epsilon), as in the released code.
    """
    return (-ratio if form == "paper" else 1.0 / (ratio + EPSILON)).mean()
