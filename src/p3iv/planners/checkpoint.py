"""Checkpoints: one safetensors file each, with everything but the tensors as JSON in its header.

`checkpoints/best/model.safetensors` holds the planner; `checkpoints/last/state.safetensors` holds all modules and
optimisers of its learner (for P3IV also the critic), so that a run continues where it stopped. Because a checkpoint is
one file, saving ends with a single rename: if the process is killed at any moment, the previous checkpoint still loads.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, fields, replace
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import Tensor

from p3iv.config import Config, config_from
from p3iv.errors import CheckpointError, ConfigError
from p3iv.files import atomic_file
from p3iv.metrics.plans import PlanScores
from p3iv.planners.base import BasePlanner, Learner, PlannerShape, SelectionScore
from p3iv.planners.layers import check_precision, dtype_of
from p3iv.planners.registry import planner_class
from p3iv.plans.draws import EnsembleSampler, Sampler, SampleSettings
from p3iv.plans.transitions import Transitions

BEST = Path("checkpoints/best/model.safetensors")

LAST = Path("checkpoints/last/state.safetensors")

FORMAT = 3

# Settings of optim that may differ when a run is resumed.
CHANGEABLE = ("epochs", "max_cpu_s", "patience", "learning_rate", "critic_learning_rate")


@dataclass(frozen=True)
class Progress:
    """How far a run has come."""

    epoch: int  # the number of finished epochs
    cpu_s: float
    best_epoch: int
    best: PlanScores | None  # on validation windows
    selection_score: SelectionScore = ()  # of the best epoch


@dataclass(frozen=True)
class Header:
    """Everything in a checkpoint except the tensors."""

    config: Config
    shape: PlannerShape
    names: tuple[str, ...]  # the vocabulary
    encoder: str | None  # of the features, to encode a user's pictures in the same way
    data_label: str
    data_fingerprint: str  # of features, language and the windows of train, val and test
    progress: Progress


@dataclass(frozen=True)
class TrainedPlanner:
    """A planner with everything that planning needs, without a dataset."""

    planner: BasePlanner
    transitions: Transitions
    header: Header
    others: tuple[TrainedPlanner, ...] = ()  # the rest of an ensemble

    def sampler(self, settings: SampleSettings) -> Sampler:
        """The sampler of this planner, or of the ensemble."""
        own = self.planner.sampler(settings)
        return EnsembleSampler([own, *(other.sampler(settings) for other in self.others)]) if self.others else own


def save_best(run: Path, trained: TrainedPlanner) -> None:
    """Write the planner and the transitions that its plans are decoded with."""
    tensors = {f"planner.{name}": tensor for name, tensor in trained.planner.state_dict().items()}
    transitions = asdict(trained.transitions)
    smoothing = torch.tensor(transitions.pop("smoothing"), dtype=torch.float64)
    tensors |= {"transitions.smoothing": smoothing} | {f"transitions.{kind}": t for kind, t in transitions.items()}
    _save(run / BEST, tensors, trained.header)


def save_last(run: Path, learner: Learner, header: Header) -> None:
    """Write what a resumed run needs. No random state: every draw is seeded by its purpose, epoch and window."""
    tensors = {
        f"{prefix}.{name}": tensor
        for prefix, module in learner.modules.items()
        for name, tensor in module.state_dict().items()
    }
    for prefix, optimizer in learner.optimizers.items():
        for number, state in optimizer.state_dict()["state"].items():
            tensors |= {f"{prefix}.{number}.{key}": value for key, value in state.items()}
    _save(run / LAST, tensors, header)


def load_planner(path: Path, *, device: str = "cpu") -> TrainedPlanner:
    """The planner of a checkpoint file, in evaluation mode."""
    tensors, header = read_checkpoint(path)
    if header.config.optim.precision != "mixed":  # mixed precision is for training only
        check_precision(header.config.optim, torch.device(device))
    planner = planner_class(header.config.planner)(header.shape, header.config).to(dtype_of(header.config.optim))
    _load_module(planner, _part(tensors, "planner"), path)
    matrices = _part(tensors, "transitions")
    size = (header.shape.num_actions,) * 2
    if any(kind not in matrices or matrices[kind].shape != size for kind in ("row", "paper")):
        raise CheckpointError(f"{path} has no transitions for its {size[0]} actions, so it is not a planner.")
    transitions = Transitions(matrices["row"], matrices["paper"], float(matrices["smoothing"]))
    return TrainedPlanner(planner.to(device).eval(), transitions, header)


def load_ensemble(paths: Sequence[Path], *, device: str = "cpu") -> TrainedPlanner:
    """The planners of one or several checkpoint files, as one.

    Raises:
        CheckpointError: if a member was made for other actions, horizons or features than the first, or was trained on
            other windows, which may include test windows of the first.
    """
    first, *others = (load_planner(path, device=device) for path in paths)
    for path, other in zip(paths[1:], others, strict=True):
        if other.header.names != first.header.names:
            raise CheckpointError(f"{path} has another vocabulary than {paths[0]}, so they cannot form an ensemble.")
        if other.header.shape != first.header.shape:
            difference = _difference(other.header.shape, first.header.shape)
            raise CheckpointError(f"{path} has {difference} as in {paths[0]}, so they cannot form an ensemble.")
        if other.header.data_fingerprint != first.header.data_fingerprint:
            raise CheckpointError(
                f"{path} was trained on other features, windows or another split than {paths[0]} and may have seen "
                f"its test windows, so they cannot form an ensemble. Train both on the same data and --split."
            )
    return replace(first, others=tuple(others))


def load_last(run: Path, learner: Learner, expected: Header) -> Progress:
    """Restore the learner, after checking that the checkpoint matches the requested configuration."""
    path = run / LAST
    tensors, header = read_checkpoint(path)
    check_fits(header, expected, path)
    for prefix, module in learner.modules.items():
        _load_module(module, _part(tensors, prefix), path)
    for prefix, optimizer in learner.optimizers.items():
        _load_optimizer(optimizer, _part(tensors, prefix))
    return header.progress


def check_fits(found: Header, expected: Header, path: Path) -> None:
    """Refuse a checkpoint of another configuration, vocabulary, feature width or dataset, and say which."""
    may_change = {name: getattr(expected.config.optim, name) for name in CHANGEABLE}
    asked = replace(found.config, optim=replace(found.config.optim, **may_change))
    for name in (field.name for field in fields(Config) if field.name != "preset"):
        have, want = getattr(asked, name), getattr(expected.config, name)
        if have != want:
            raise CheckpointError(f"{path} was made with {name} {_difference(have, want)}. Use another --out.")
    if found.shape != expected.shape:
        raise CheckpointError(f"{path} was made for {_difference(found.shape, expected.shape)}.")
    if found.names != expected.names:
        raise CheckpointError(
            f"{path} was made for another vocabulary ({len(found.names)} actions) than that of this dataset."
        )
    if found.data_fingerprint != expected.data_fingerprint:
        raise CheckpointError(
            f"{path} was trained on other features, step embeddings, windows or another split than this dataset has. "
            f"Train a new run with another --out."
        )


def read_checkpoint(path: Path) -> tuple[dict[str, Tensor], Header]:
    """The tensors and the header of a checkpoint file.

    Raises:
        CheckpointError: if there is no such file, or it is not a checkpoint of this format.
    """
    with _opened(path) as file:
        header, names = _header_of(file, path), file.keys()
        return {name: file.get_tensor(name) for name in names}, header


def read_header(path: Path) -> Header:
    """The header of a checkpoint file, without its tensors; errors as in `read_checkpoint`."""
    with _opened(path) as file:
        return _header_of(file, path)


@contextmanager
def _opened(path: Path) -> Iterator[Any]:
    if not path.exists():
        raise CheckpointError(f"{path} does not exist. Train first: p3iv train DIR --out RUN.")
    try:
        with safe_open(path, framework="pt") as file:
            yield file
    except (SafetensorError, OSError, ValueError, TypeError, KeyError, ConfigError) as error:
        raise CheckpointError(f"{path} is not a p3iv checkpoint: {error}") from error


def _header_of(file: Any, path: Path) -> Header:
    content = json.loads((file.metadata() or {}).get("p3iv", "null"))
    if content["format"] != FORMAT:
        raise CheckpointError(
            f"{path} has checkpoint format {content['format']!r}, but this version of p3iv reads format {FORMAT}. "
            f"Train it again: p3iv train DIR --out RUN."
        )
    return _header_from(content)


def _save(path: Path, tensors: dict[str, Tensor], header: Header) -> None:
    content = json.dumps({"format": FORMAT, **asdict(header)})
    whole = {name: tensor.contiguous() for name, tensor in tensors.items()}
    with atomic_file(path) as temporary:
        try:
            save_file(whole, temporary, metadata={"p3iv": content})
        except SafetensorError as error:  # a full disk, too: it is not an OSError
            raise CheckpointError(
                f"{path} cannot be written: {error}. Make room and continue with --resume."
            ) from error


def _header_from(content: dict[str, Any]) -> Header:
    progress = dict(content["progress"])
    progress["best"] = PlanScores(**progress["best"]) if progress["best"] else None
    progress["selection_score"] = tuple(progress["selection_score"])
    return Header(
        config=config_from(content["config"]),
        shape=PlannerShape(**content["shape"]),
        names=tuple(content["names"]),
        encoder=content["encoder"],
        data_label=str(content["data_label"]),
        data_fingerprint=str(content["data_fingerprint"]),
        progress=Progress(**progress),
    )


def _part(tensors: dict[str, Tensor], prefix: str) -> dict[str, Tensor]:
    start = f"{prefix}."
    return {name.removeprefix(start): tensor for name, tensor in tensors.items() if name.startswith(start)}


def _load_module(module: torch.nn.Module, state: dict[str, Tensor], path: Path) -> None:
    try:
        module.load_state_dict(state)
    except RuntimeError as error:
        raise CheckpointError(f"{path} does not fit its own configuration: {error}") from error


def _load_optimizer(optimizer: torch.optim.Optimizer, state: dict[str, Tensor]) -> None:
    per_parameter: dict[int, dict[str, Tensor]] = {}
    for name, tensor in state.items():
        number, key = name.split(".", 1)
        per_parameter.setdefault(int(number), {})[key] = tensor
    optimizer.load_state_dict({**optimizer.state_dict(), "state": per_parameter})


def _difference(have: Any, want: Any) -> str:
    """The settings in which two configurations differ."""
    if not hasattr(have, "__dataclass_fields__"):
        return f"{have!r}, not {want!r}"
    have, want = asdict(have), asdict(want)
    return ", ".join(f"{name}={have[name]!r}, not {want[name]!r}" for name in have if have[name] != want[name])
