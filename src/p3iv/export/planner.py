"""`p3iv export`: a trained planner as one self-describing ONNX file, compared with torch before it is kept."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np
import torch
from onnx import ModelProto

from p3iv.environment import own_version
from p3iv.errors import CheckpointError, ConfigError
from p3iv.export.comparison import constants_of, largest_difference, scaling_of
from p3iv.export.graph import Graph, sealed
from p3iv.export.networks import build_p3iv, build_plus
from p3iv.export.queries import build_queries
from p3iv.files import atomic_file
from p3iv.onnx_model import Port
from p3iv.planners.checkpoint import TrainedPlanner, load_planner
from p3iv.planners.header import metadata_of, planner_file
from p3iv.planners.onnx_planner import EXPORTABLE, load_exported
from p3iv.planners.p3iv.network import P3IVNetwork
from p3iv.planners.plus.network import ChainNetwork, P3IVPlusNetwork
from p3iv.planners.queries.planner import QueryPlanner
from p3iv.plans.evidence import EVIDENCE

MAX_DIFFERENCE: Final = 1e-5  # of a score, relative to the largest score of its pair or query, and to 1


@dataclass(frozen=True)
class ExportReport:
    """What was written of a planner."""

    path: Path
    num_bytes: int
    planner: str
    num_actions: int
    horizon: int  # the largest
    horizons: tuple[int, ...]  # all lengths of plans
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
    sizes = (header.config.planner, header.shape.num_actions, header.shape.horizon, header.config.data.horizons)
    return ExportReport(path, path.stat().st_size, *sizes, dict(ports.inputs), dict(ports.outputs), difference)


@torch.inference_mode()
def build_model(trained: TrainedPlanner) -> ModelProto:
    """The model of a planner: its graph, its matrices and what it says about itself."""
    planner, precision = trained.planner, trained.header.config.optim.precision
    graph = Graph(np.float64 if precision == "float64" else np.float32)
    if isinstance(planner, QueryPlanner):
        build_queries(graph, planner)
    elif isinstance(planner, P3IVPlusNetwork):
        build_plus(graph, planner)
    elif isinstance(planner, P3IVNetwork):
        build_p3iv(graph, planner)
    else:
        name = trained.header.config.planner
        raise ConfigError(f"planner={name} cannot be exported, only {' and '.join(EXPORTABLE)}.")
    for name, constant in constants_of(trained).items():
        dtype = np.float64 if name == "log_both" else None
        graph.output(graph.constant(constant, dtype, name), *constant.shape, dtype=dtype)
    return graph.model(_metadata(trained))


def _metadata(trained: TrainedPlanner) -> dict[str, str]:
    """The header as p3iv reads it, and plain entries for everyone else."""
    header, is_plus, network = trained.header, isinstance(trained.planner, ChainNetwork), scaling_of(trained.planner)
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
    if header.config.data.has_lengths:
        plain |= {"horizons": header.config.data.horizons, "procedures": header.procedures, "evidence": EVIDENCE}
    texts = {name: json.dumps(value) for name, value in plain.items()}
    return {**metadata_of(header), "planner": header.config.planner, "version": own_version(), **texts}
