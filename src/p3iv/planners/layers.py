"""What planners are built and trained with: layers, optimiser, modes of a module, device and precision."""

from __future__ import annotations

import math
import os
from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch import Tensor, nn
from torch.optim import Optimizer

from p3iv.config import Config, OptimConfig
from p3iv.errors import ConfigError


class Standardised(nn.Module):
    """A network that standardises features with the mean and the spread of the training observations."""

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
        """Take mean and spread of the training observations, (N, F)."""
        mean, spread = features.double().mean(dim=0), features.double().std(dim=0)
        is_constant = spread <= 1e-6 * (1.0 + mean.abs())  # up to rounding; the scale of these dimensions stays 1
        self.feature_mean.copy_(mean)
        self.feature_scale.copy_(torch.where(is_constant, torch.ones_like(spread), spread))


def mlp(width_in: int, hidden: int, width_out: int) -> nn.Sequential:
    """One hidden layer with a ReLU."""
    return nn.Sequential(nn.Linear(width_in, hidden), nn.ReLU(), nn.Linear(hidden, width_out))


def at_position(scores: Tensor, position: int, horizon: int) -> Tensor:
    """Scores (B, A) as those of one position, zero at the others: (B, T, A)."""
    return nn.functional.pad(scores[:, None], (0, 0, position, horizon - 1 - position))


def cosine_positions(num_tokens: int, width: int) -> Tensor:
    """The fixed sine and cosine positions of Vaswani et al., (num_tokens, width)."""
    rate = torch.exp(torch.arange(0, width, 2) * (-math.log(10_000.0) / width))
    angle = torch.arange(num_tokens)[:, None] * rate  # (L, width / 2)
    return torch.stack((angle.sin(), angle.cos()), dim=-1).flatten(1)


def adam(module: nn.Module, config: Config, rate: float, *, weight_decay: float = 0.0) -> Optimizer:
    """The optimiser of the paper's planner, its critic, the baselines and the successors; AdamW with weight decay."""
    fused = next(module.parameters()).device.type in ("cpu", "cuda")
    if weight_decay:
        parameters, epsilon = module.parameters(), config.optim.epsilon
        return torch.optim.AdamW(parameters, lr=rate, eps=epsilon, weight_decay=weight_decay, fused=fused)
    return torch.optim.Adam(module.parameters(), lr=rate, eps=config.optim.epsilon, fused=fused)


def mixed_precision(module: nn.Module, config: Config) -> torch.autocast:
    """The context in which forward passes run: bfloat16 for `optim.precision=mixed`, otherwise no change."""
    device = next(module.parameters()).device.type
    return torch.autocast(device, torch.bfloat16, enabled=config.optim.precision == "mixed")


@contextmanager
def frozen(module: nn.Module) -> Iterator[None]:
    """Gradients pass through the module but do not reach its parameters."""
    module.requires_grad_(False)
    try:
        yield
    finally:
        module.requires_grad_(True)


@contextmanager
def evaluating(module: nn.Module) -> Iterator[None]:
    """The module without dropout; its mode is restored afterwards."""
    was_training = module.training
    module.eval()
    try:
        yield
    finally:
        module.train(was_training)


def choose_device(name: str) -> torch.device:
    """`auto` takes cuda, then mps, then the CPU; in several processes, each its own cuda device."""
    there = {"cuda": torch.cuda.is_available(), "mps": torch.backends.mps.is_available(), "cpu": True}
    kind, _, number = name.partition(":")
    kind = next(kind for kind in there if there[kind]) if name == "auto" else kind
    if not there.get(kind) or (number and not number.isdigit()):
        available = ", ".join(kind for kind in there if there[kind])
        raise ConfigError(f"--device {name}, but this machine has: {available}. Use one of them, or auto.")
    if kind != "cuda":
        return torch.device(kind)
    index = int(number or os.environ.get("LOCAL_RANK", "0"))
    if index >= torch.cuda.device_count():
        raise ConfigError(f"cuda device {index}, but this machine has {torch.cuda.device_count()}, from 0 on.")
    return torch.device("cuda", index)


def dtype_of(optim: OptimConfig) -> torch.dtype:
    """The type of the parameters; mixed precision casts only inside the forward pass."""
    return torch.float64 if optim.precision == "float64" else torch.float32


def check_precision(optim: OptimConfig, device: torch.device) -> None:
    """Refuse a precision that the device does not support."""
    if optim.precision == "mixed" and device.type != "cuda":
        raise ConfigError(f"optim.precision=mixed runs on cuda only, and the device is {device}. Use float32.")
    if optim.precision == "float64" and device.type == "mps":
        raise ConfigError("optim.precision=float64 does not run on mps. Use --device cpu, or float32.")
