"""`p3iv export`: a trained planner as one self-describing ONNX file, compared with torch before it is kept."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np
import torch
from onnx import ModelProto
from torch import Tensor

from p3iv.environment import own_version
from p3iv.errors import CheckpointError, ConfigError
from p3iv.export.graph import Graph, sealed
from p3iv.export.networks import build_p3iv, build_plus
from p3iv.files import atomic_file
from p3iv.onnx_model import Port
from p3iv.planners.checkpoint import TrainedPlanner, load_planner
from p3iv.planners.header import metadata_of, planner_file
from p3iv.planners.layers import Standardised
from p3iv.planners.onnx_planner import EXPORTABLE, OnnxPlanner, load_exported
from p3iv.planners.p3iv.network import P3IVNetwork
from p3iv.planners.plus.network import P3IVPlusNetwork
from p3iv.types import Array

MAX_DIFFERENCE: Final = 1e-5  # of a score, relative to the largest score of its pair, and to 1

_NUM_PAIRS: Final = 8  # of each spread, that every file is compared with torch on
_SPREADS: Final = (0.0, 1.0, 10.0, 100.0)  # of these pairs, in standard deviations of the training features
_NUM_LATENTS: Final = 20

Pairs = dict[str, Array]


@dataclass(frozen=True)
class ExportReport:
    """What was written of a planner."""

    path: Path
    num_bytes: int
    planner: str
    num_actions: int
    horizon: int
    inputs: dict[str, Port]
    outputs: dict[str, Port]
    max_difference: float  # of scores by onnxruntime and by torch


def export_planner(source: Path, path: Path) -> ExportReport:
    """Write the planner of a run folder or a checkpoint as an ONNX file.

    Raises:
        ConfigError: a planner that cannot be exported.
        CheckpointError: there is no such planner, or the file would give other scores than torch.
    """
    trained = load_planner(planner_file(source))
    model = build_model(trained)
    with atomic_file(path) as temporary:
        temporary.write_bytes(sealed(model))
        exported = load_exported([temporary])
        difference = largest_difference(trained, exported)
        if not difference <= MAX_DIFFERENCE:
            raise CheckpointError(
                f"{path} was not written: its scores differ from those of torch by {difference:.1g}, and at most "
                f"{MAX_DIFFERENCE:g} is allowed."
            )
    header, ports = exported.header, exported.model
    sizes = (header.config.planner, header.shape.num_actions, header.shape.horizon)
    return ExportReport(path, path.stat().st_size, *sizes, dict(ports.inputs), dict(ports.outputs), difference)


@torch.inference_mode()
def build_model(trained: TrainedPlanner) -> ModelProto:
    """The model of a planner: its graph, its matrices and what it says about itself."""
    planner, transitions = trained.planner, trained.transitions
    precision = trained.header.config.optim.precision
    graph = Graph(np.float64 if precision == "float64" else np.float32)
    if isinstance(planner, P3IVPlusNetwork):
        build_plus(graph, planner)
    elif isinstance(planner, P3IVNetwork):
        build_p3iv(graph, planner)
    else:
        name = trained.header.config.planner
        raise ConfigError(f"planner={name} cannot be exported, only {' and '.join(EXPORTABLE)}.")
    matrices: dict[str, Any] = {"transitions_row": transitions.row, "transitions_paper": transitions.paper}
    if isinstance(planner, P3IVPlusNetwork):
        matrices["log_transitions"] = planner.beta * planner.log_transitions
        if weight := float(planner.effects.weight):
            matrices["log_both"] = weight * planner.effects.overlap.double()
    for name, matrix in matrices.items():
        dtype = np.float64 if name == "log_both" else None
        graph.output(graph.constant(matrix, dtype, name), *matrix.shape, dtype=dtype)
    return graph.model(_metadata(trained, _scaling(planner)))


def _metadata(trained: TrainedPlanner, network: Standardised) -> dict[str, str]:
    """The header as p3iv reads it, and plain entries for everyone else."""
    header, is_plus = trained.header, isinstance(trained.planner, P3IVPlusNetwork)
    meaning = {
        "transitions_row": "probability that an action (row) is followed by another (column), smoothed",
        "transitions_paper": "the same as the paper counts it",
    }
    if is_plus:
        meaning["log_transitions"] = "log weights between neighbouring actions, to add to log_emissions"
    plain: dict[str, Any] = {
        "actions": header.names,
        "horizon": header.shape.horizon,
        "encoder": asdict(header.encoder) if header.encoder else None,
        "scaling": {
            "applied": "inside the graph: inputs are features as the encoder gives them",
            "mean": network.feature_mean.tolist(),
            "scale": network.feature_scale.tolist(),
        },
        "transitions": {"outputs": meaning, "smoothing": trained.transitions.smoothing},
    }
    texts = {name: json.dumps(value) for name, value in plain.items()}
    return {**metadata_of(header), "planner": header.config.planner, "version": own_version(), **texts}


def _scaling(planner: Any) -> Standardised:
    network: Standardised = planner.base if isinstance(planner, P3IVPlusNetwork) else planner
    return network


@torch.inference_mode()
def largest_difference(trained: TrainedPlanner, exported: OnnxPlanner) -> float:
    """The largest difference of scores by onnxruntime and by torch, over usual and extreme pairs."""
    differences = []
    for pair in _example_pairs(trained):
        outputs = [name for name in exported.model.outputs if name in ("action_logits", "log_emissions", "log_each")]
        found = exported.scores(*outputs, **pair)
        wanted = _scores_of(trained.planner, pair)
        for one, other in zip(found, wanted, strict=True):
            size = max(1.0, float(np.abs(other).max()))
            differences.append(float(np.abs(one - other).max()) / size)
    return max(differences)


def _example_pairs(trained: TrainedPlanner) -> Iterator[Pairs]:
    """Pairs around the mean of the training features, from the mean itself to far outside of all of them."""
    network, width = _scaling(trained.planner), trained.header.config.model.noise_width
    mean, scale = (part.cpu().numpy() for part in (network.feature_mean, network.feature_scale))
    random = np.random.default_rng(0)
    for spread in _SPREADS:
        for _ in range(_NUM_PAIRS):
            start, goal = (mean + spread * scale * random.standard_normal(mean.shape) for _ in range(2))
            pair = {"start": start[None], "goal": goal[None]}
            if isinstance(trained.planner, P3IVNetwork) and width:
                pair["latents"] = random.standard_normal((_NUM_LATENTS, width))
            yield {name: array.astype(mean.dtype) for name, array in pair.items()}


def _scores_of(planner: Any, pair: Pairs) -> list[Array]:
    """The scores of a pair by torch."""
    given = {name: torch.from_numpy(array) for name, array in pair.items()}
    start, goal, latents = given["start"], given["goal"], given.get("latents")
    found: list[Tensor]
    if isinstance(planner, P3IVPlusNetwork):
        found = [planner(start, goal).emissions / planner.temperature]
        if weight := float(planner.effects.weight):
            found.append(weight * torch.from_numpy(planner.effects.each(start, goal)))
    else:
        hidden = planner.decode(planner.tokens(start, goal), None if latents is None else latents[None])[0]
        found = [planner.action_head(hidden)]
    return [scores.numpy() for scores in found]
