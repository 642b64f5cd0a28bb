"""Where a planner computes, and with which numbers."""

from __future__ import annotations

import os

import torch

from p3iv.config import OptimConfig
from p3iv.errors import ConfigError


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
    """What parameters are kept in; mixed precision casts inside."""
    return torch.float64 if optim.precision == "float64" else torch.float32


def check_precision(optim: OptimConfig, device: torch.device) -> None:
    """Refuse what a device cannot do."""
    if optim.precision == "mixed" and device.type != "cuda":
        raise ConfigError(f"optim.precision=mixed runs on cuda only, and the device is {device}. Use float32.")
    if optim.precision == "float64" and device.type == "mps":
        raise ConfigError("optim.precision=float64 does not run on mps. Use --device cpu, or float32.")
