"""Planners with random numbers, and exported files that are changed on purpose."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import onnx
import torch
from onnx import TensorProto

from p3iv.config import override
from p3iv.planners.checkpoint import TrainedPlanner, load_planner
from p3iv.planners.header import BEST
from p3iv.planners.onnx_planner import OnnxPlanner, load_exported
from p3iv.planners.registry import class_of


def random_planner(run: Path, settings: dict[str, Any]) -> TrainedPlanner:
    """A planner of these settings with random parameters and buffers, of the same actions as a run."""
    trained = load_planner(run / BEST)
    config = override(trained.header.config, settings)
    shape = replace(trained.header.shape, horizon=config.data.num_actions)
    torch.manual_seed(0)
    planner = class_of(config)(shape, config)
    for name, tensor in planner.state_dict().items():
        if not tensor.any() or name.endswith("scale"):  # what is fitted, and what a network begins with as zeros
            tensor.copy_(torch.rand(tensor.shape) + 0.5)
    dtype = torch.float64 if config.optim.precision == "float64" else torch.float32
    header = replace(trained.header, config=config, shape=shape)
    return TrainedPlanner(planner.to(dtype).eval(), trained.transitions, header)


def load(folder: Path, content: bytes) -> OnnxPlanner:
    path = folder / "x.onnx"
    path.write_bytes(content)
    return load_exported([path])


def header_with(model: onnx.ModelProto, **changes: Any) -> None:
    entry = next(entry for entry in model.metadata_props if entry.key == "p3iv")
    entry.value = json.dumps({**json.loads(entry.value), **changes})


def constant(model: onnx.ModelProto, name: str) -> TensorProto:
    found: TensorProto = next(tensor for tensor in model.graph.initializer if tensor.name == name)
    return found
