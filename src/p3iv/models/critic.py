"""The critic C of the adversarial loss: does a sequence of states look like the descriptions of a real plan?"""

from __future__ import annotations

from itertools import pairwise

from torch import Tensor, nn

HIDDEN = (256, 64, 32)  # supplement C


class Critic(nn.Module):
    """An MLP on the states of a plan, concatenated over time."""

    def __init__(self, horizon: int, width: int) -> None:
        super().__init__()
        sizes = (horizon * width, *HIDDEN)
        layers: list[nn.Module] = []
        for width_in, width_out in pairwise(sizes):
            layers += [nn.Linear(width_in, width_out), nn.ReLU()]
        self.layers = nn.Sequential(*layers, nn.Linear(HIDDEN[-1], 1))

    def forward(self, states: Tensor) -> Tensor:
        """(B, T, D) -> logits (B,); above 0 means that it takes the sequence for real."""
        return self.layers(states.flatten(1)).squeeze(-1)  # type: ignore[no-any-return]
