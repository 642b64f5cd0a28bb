"""Several processes, one global batch: every process takes its share of the windows and gradients are averaged.

torchrun starts the processes; with a single process nothing here has an effect. One flat all-reduce per step instead of
DistributedDataParallel, because the planner is small and a step runs the network more than once. A loss is a mean over
this process's windows, weighted by `Batch.loss_weight`, so that the average over processes is the mean over the batch.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import torch
from torch import Tensor, distributed, nn

from p3iv.errors import ConfigError


@dataclass(frozen=True)
class World:
    """The rank of this process and the number of processes."""

    rank: int = 0
    size: int = 1
    device: torch.device | None = None  # None: the CPU

    @property
    def is_first(self) -> bool:
        return self.rank == 0

    def share_of(self, indices: Tensor) -> Tensor:
        """This process's part of a global batch: every size-th window from its rank on."""
        return indices[self.rank :: self.size]

    def average_gradients(self, module: nn.Module) -> None:
        """Average the gradients of all processes, in place."""
        if self.size == 1:
            return
        gradients = [parameter.grad for parameter in module.parameters() if parameter.grad is not None]
        flat = torch.cat([gradient.flatten() for gradient in gradients])
        distributed.all_reduce(flat)
        flat /= self.size
        for gradient, averaged in zip(gradients, flat.split([g.numel() for g in gradients]), strict=True):
            gradient.copy_(averaged.view_as(gradient))

    def total(self, value: float) -> float:
        """The sum of a number over processes, the same in all of them."""
        if self.size == 1:
            return value
        return float(self.mean(torch.tensor([value], device=self.device))) * self.size

    def mean(self, values: Tensor) -> Tensor:
        """The mean of each value over processes."""
        if self.size > 1:
            distributed.all_reduce(values)
            values = values / self.size
        return values


@contextmanager
def join_world(device: torch.device) -> Iterator[World]:
    """Join the processes that torchrun started; without torchrun, a world of one process."""
    if int(os.environ.get("WORLD_SIZE", "1")) == 1:
        yield World()
        return
    if device.type == "mps":
        raise ConfigError("Several processes train on cuda or on the CPU, not on mps. Pass --device cpu.")
    distributed.init_process_group("nccl" if device.type == "cuda" else "gloo")
    try:
        yield World(distributed.get_rank(), distributed.get_world_size(), device)
        # A thread of gloo may release the last tensor only after the call that used it has returned, and aborts the
        # process if the interpreter is ending by then (pytorch #179291). A barrier comes last, and has no tensor.
        distributed.barrier()
    finally:
        distributed.destroy_process_group()
