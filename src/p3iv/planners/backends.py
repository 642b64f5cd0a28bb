"""Which library computes the plans of a planner, and how its file is loaded with it."""

from __future__ import annotations

from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path

from p3iv.errors import ConfigError
from p3iv.onnx_model import SUFFIX
from p3iv.planners.header import Backend, planner_file
from p3iv.planners.onnx_planner import EXPORTED, load_exported
from p3iv.types import listed


def file_of(place: Path, backend: str | None) -> Path:
    """The file of a planner, for a backend; by default that of torch, where there is one and torch is installed."""
    if place.is_file():
        return place
    checkpoint, exported = planner_file(place), place / EXPORTED
    is_needed = exported.is_file() and not (checkpoint.is_file() and find_spec("torch"))
    return exported if backend == "onnx" or (backend is None and is_needed) else checkpoint


def load_backend(files: Sequence[Path], device: str, backend: str | None) -> Backend:
    """The planner of one file, or the ensemble of several.

    Raises:
        CheckpointError: a file is missing, damaged, or does not fit the first.
        ConfigError: files, backend and what is installed do not fit each other.
    """
    kinds = {"onnx" if file.suffix.lower() == SUFFIX else "torch" for file in files}
    if len(kinds) > 1:
        raise ConfigError(
            f"{listed(list(map(str, files)))}: the planners of an ensemble are all .onnx files, or none is."
        )
    if backend == "torch" and kinds == {"onnx"}:
        raise ConfigError(
            f"{files[0]} is an exported planner, which torch cannot load. Leave backend out, or use its run."
        )
    if backend == "onnx" and kinds == {"torch"}:
        raise ConfigError(f"{files[0]} is a checkpoint, but backend=onnx needs a file of `p3iv export`.")
    if kinds == {"onnx"}:
        return load_exported(files).to(device)
    if find_spec("torch") is None:
        raise ConfigError(
            f"{files[0]} is a checkpoint, which needs torch, and torch is not installed. Type: pip install torch; or "
            f"export the planner where torch is installed, `p3iv export RUN`, and load the .onnx file."
        )
    from p3iv.planners.checkpoint import load_ensemble
    from p3iv.planners.layers import choose_device

    return load_ensemble(files, device=str(choose_device(device)))
