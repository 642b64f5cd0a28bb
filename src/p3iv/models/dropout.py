"""Dropout for tensors with an axis of latents, of which only the first few may be touched."""

from __future__ import annotations

import torch
from torch import Tensor

_CHUNK = 1 << 17  # decisions drawn at a time


class Dropout:
    """The masks of one forward pass, drawn in chunks from torch's default generator.

    On the CPU a decision takes 16 random bits, which makes dropout about four times as fast as torch's own.
    """

    def __init__(self, probability: float, num_latents: int | None = None) -> None:
        self.probability = probability
        self.num_latents = num_latents  # touched, from the first on; None: all of them
        self._masks = torch.empty(0)

    @property
    def is_off(self) -> bool:
        return self.probability == 0.0

    def __call__(self, x: Tensor, *, latent_axis: int = 1) -> Tensor:
        """Drop elements and scale up the rest."""
        return x if self.is_off else x * self._mask(x, latent_axis)

    def add(self, x: Tensor, update: Tensor) -> Tensor:
        """X + dropout(update), both (B, S, ...)."""
        return x + update if self.is_off else torch.addcmul(x, update, self._mask(update, 1))

    def _mask(self, like: Tensor, latent_axis: int) -> Tensor:
        touched = like.shape[latent_axis] if self.num_latents is None else self.num_latents
        shape = [*like.shape]
        shape[latent_axis] = touched
        drawn = self._take(shape, like)
        if touched == like.shape[latent_axis]:
            return drawn
        shape[latent_axis] = like.shape[latent_axis] - touched
        return torch.cat((drawn, drawn.new_ones(shape)), dim=latent_axis)

    def _take(self, shape: list[int], like: Tensor) -> Tensor:
        wanted = torch.Size(shape).numel()
        if len(self._masks) < wanted:
            self._masks = self._draw(max(wanted, _CHUNK), like)
        taken, self._masks = self._masks[:wanted], self._masks[wanted:]
        return taken.view(shape)

    def _draw(self, number: int, like: Tensor) -> Tensor:
        if like.device.type != "cpu":
            kept = torch.rand(number, device=like.device) >= self.probability
        else:
            bits = torch.empty((number + 3) // 4, dtype=torch.int64).random_(-(2**63), None)
            kept = bits.view(torch.int16) >= round(self.probability * 2**16) - 2**15
        return kept.to(like.dtype).mul_(1.0 / (1.0 - self.probability))
