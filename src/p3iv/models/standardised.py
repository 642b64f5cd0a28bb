"""Observations on a common scale, by training statistics that travel in the checkpoint."""

from __future__ import annotations

import torch
from torch import Tensor, nn


class Standardised(nn.Module):
    """A network that knows the mean and the spread of the features that it was trained on."""

    feature_mean: Tensor
    feature_scale: Tensor

    def __init__(self, feature_width: int) -> None:
        super().__init__()
        self.register_buffer("feature_mean", torch.zeros(feature_width))
        self.register_buffer("feature_scale", torch.ones(feature_width))

    def standardise(self, features: Tensor) -> Tensor:
        """Zero mean and unit spread per dimension: (..., F)."""
        return (features - self.feature_mean) / self.feature_scale

    @torch.no_grad()
    def fit_scale(self, features: Tensor) -> None:
        """Take the statistics of the training observations, (N, F)."""
        mean, spread = features.double().mean(dim=0), features.double().std(dim=0)
        is_constant = spread <= 1e-6 * (1.0 + mean.abs())  # up to rounding; such a dimension is left as it is
        self.feature_mean.copy_(mean)
        self.feature_scale.copy_(torch.where(is_constant, torch.ones_like(spread), spread))
