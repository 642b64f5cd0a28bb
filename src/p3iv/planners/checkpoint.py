"""Checkpoints: one safetensors file each, replaced as a whole, with all else as JSON in its header.

`checkpoints/best/model.safetensors` holds the planner; `checkpoints/last/state.safetensors` all modules and optimisers
of its learner (for P3IV also the critic), so that a run goes on where it stopped. One file, because a rename is then
all that a save has to do: killed at any moment, the previous checkpoint still loads.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
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
from p3iv.planners.base import Learner, Merit, PlannerKind, PlannerShape
from p3iv.planners.device import check_precision, dtype_of
from p3iv.planners.registry import kind_of
from p3iv.plans.draws import EnsembleSampler, Sampler, SampleSettings
from p3iv.plans.transitions import Transitions

BEST = Path("checkpoints/best/model.safetensors")

LAST = Path("checkpoints/last/state.safetensors")

FORMAT = 2

# Of optim, when a run is resumed.
CHANGEABLE = ("epochs", "max_cpu_s", "patience", "learning_rate", "critic_learning_rate")


@dataclass(frozen=True)
class Progress:
    """How far a run is."""

    epoch: int  # finished ones
    cpu_s: float
    best_epoch: int
    best: PlanScores | None  # on validation
    merit: Merit = ()  # that made it the best


@dataclass(frozen=True)
class Header:
    """What a checkpoint says of itself."""

    config: Config
    shape: PlannerShape
    names: tuple[str, ...]  # the vocabulary
    encoder: str | None  # of the features, so that a user's pictures can be encoded the same way
    data_label: str
    data_fingerprint: str  # of features, language and the windows of all sides
    progress: Progress


@dataclass(frozen=True)
class TrainedPlanner:
    """A planner as a checkpoint holds it: with all that planning needs and no dataset."""

    planner: Any  # the module that its kind builds
    transitions: Transitions
    header: Header
    others: tuple[TrainedPlanner, ...] = ()  # the rest of an ensemble

    @property
    def kind(self) -> PlannerKind[Any]:
        return kind_of(self.header.config.planner)

    def sampler(self, settings: SampleSettings) -> Sampler:
        """What draws plans from it, or from the ensemble that it leads."""
        own = self.kind.sampler(self.planner, settings)
        return EnsembleSampler([own, *(other.sampler(settings) for other in self.others)]) if self.others else own


def save_best(run: Path, trained: TrainedPlanner) -> None:
    """Write the planner and the transitions that its plans are decoded with."""
    tensors = {f"planner.{name}": tensor for name, tensor in trained.planner.state_dict().items()}
    transitions = asdict(trained.transitions)
    smoothing = torch.tensor(transitions.pop("smoothing"), dtype=torch.float64)
    tensors |= {"transitions.smoothing": smoothing} | {f"transitions.{kind}": t for kind, t in transitions.items()}
    _save(run / BEST, tensors, trained.header)


def save_last(run: Path, learner: Learner, header: Header) -> None:
    """Write all that a resumed run needs; random state is none of it, since every draw is named by seed and place."""
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
    """The planner of a checkpoint file, in evaluation mode, and what the checkpoint says of itself."""
    tensors, header = read_checkpoint(path)
    if header.config.optim.precision != "mixed":  # which concerns training alone
        check_precision(header.config.optim, torch.device(device))
    planner = kind_of(header.config.planner).build(header.shape, header.config).to(dtype_of(header.config.optim))
    _load_module(planner, _part(tensors, "planner"), path)
    matrices = _part(tensors, "transitions")
    size = (header.shape.num_actions,) * 2
    if any(kind not in matrices or matrices[kind].shape != size for kind in ("row", "paper")):
        raise CheckpointError(f"{path} holds no transitions for its {size[0]} actions: it is no planner.")
    transitions = Transitions(matrices["row"], matrices["paper"], float(matrices["smoothing"]))
    return TrainedPlanner(planner.to(device).eval(), transitions, header)


def load_ensemble(paths: Sequence[Path], *, device: str = "cpu") -> TrainedPlanner:
    """The planners of one or several checkpoint files, as one.

    Raises:
        CheckpointError: where a member was not made for the same actions, horizon and features as the first, or not
            from the same windows: what one of them is tested on, another may have learned.
    """
    first, *others = (load_planner(path, device=device) for path in paths)
    for path, other in zip(paths[1:], others, strict=True):
        if other.header.names != first.header.names:
            raise CheckpointError(f"{path} was made for another vocabulary than {paths[0]}: they are no ensemble.")
        if other.header.shape != first.header.shape:
            difference = _difference(other.header.shape, first.header.shape)
            raise CheckpointError(f"{path} was made for {difference}, as {paths[0]} was: they are no ensemble.")
        if other.header.data_fingerprint != first.header.data_fingerprint:
            raise CheckpointError(
                f"{path} learned from other features, windows or another split than {paths[0]}, so it may know what "
                f"that one is tested on: they are no ensemble. Train both on the same data with the same --split."
            )
    return replace(first, others=tuple(others))


def load_last(run: Path, learner: Learner, expected: Header) -> Progress:
    """Put a learner where the run stopped, after the checkpoint and what is asked for have been held together."""
    path = run / LAST
    tensors, header = read_checkpoint(path)
    check_fits(header, expected, path)
    for prefix, module in learner.modules.items():
        _load_module(module, _part(tensors, prefix), path)
    for prefix, optimizer in learner.optimizers.items():
        _load_optimizer(optimizer, _part(tensors, prefix))
    return header.progress


def check_fits(found: Header, expected: Header, path: Path) -> None:
    """Refuse a checkpoint of another configuration, vocabulary or feature width, saying which."""
    may_change = {name: getattr(expected.config.optim, name) for name in CHANGEABLE}
    asked = replace(found.config, optim=replace(found.config.optim, **may_change))
    for name in ("planner", "seed", "data", "model", "loss", "baseline", "plus", "optim"):
        have, want = getattr(asked, name), getattr(expected.config, name)
        if have != want:
            raise CheckpointError(f"{path} was made with {name} {_difference(have, want)}. Use another --out.")
    if found.shape != expected.shape:
        raise CheckpointError(f"{path} was made for {_difference(found.shape, expected.shape)}.")
    if found.names != expected.names:
        raise CheckpointError(
            f"{path} was made for another vocabulary of {len(found.names)} actions than this dataset's."
        )
    if found.data_fingerprint != expected.data_fingerprint:
        raise CheckpointError(
            f"{path} was trained on other features, step embeddings, windows or another split than this dataset has. "
            f"Train anew with another --out."
        )


def read_checkpoint(path: Path) -> tuple[dict[str, Tensor], Header]:
    """Tensors and header of a checkpoint file."""
    if not path.exists():
        raise CheckpointError(f"{path} does not exist. Train first: p3iv train DIR --out RUN.")
    try:
        with safe_open(path, framework="pt") as file:
            metadata = file.metadata() or {}
            tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118 - not a mapping
        header = _header_from(json.loads(metadata.get("p3iv", "null")))
    except (SafetensorError, OSError, ValueError, TypeError, KeyError, ConfigError) as error:
        raise CheckpointError(f"{path} is not a checkpoint of this program: {error}") from error
    return tensors, header


def _save(path: Path, tensors: dict[str, Tensor], header: Header) -> None:
    content = json.dumps({"format": FORMAT, **asdict(header)})
    with atomic_file(path) as beside:
        save_file({name: tensor.contiguous() for name, tensor in tensors.items()}, beside, metadata={"p3iv": content})


def _header_from(content: dict[str, Any]) -> Header:
    if content["format"] != FORMAT:
        raise ValueError(f"format {content['format']}, this program reads {FORMAT}")
    progress = dict(content["progress"])
    progress["best"] = best = PlanScores(**progress["best"]) if progress["best"] else None
    # Older checkpoints name no merit: theirs was that of the plans to follow.
    progress["merit"] = tuple(progress.get("merit", (best.success_rate, best.mean_accuracy) if best else ()))
    return Header(
        config=config_from(content["config"]),
        shape=PlannerShape(**content["shape"]),
        names=tuple(content["names"]),
        encoder=content.get("encoder"),
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
