"""Checkpoints: one safetensors file each, with everything but the tensors as JSON in its header.

`checkpoints/best/model.safetensors` holds the planner; `checkpoints/last/state.safetensors` holds all modules and
optimisers of its learner (for P3IV also the critic), so that a run continues where it stopped. Because a checkpoint is
one file, saving ends with a single rename: if the process is killed at any moment, the previous checkpoint still loads.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, fields, replace
from pathlib import Path
from typing import Any

import torch
from pydantic import TypeAdapter, ValidationError
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import Tensor
from torch.overrides import TorchFunctionMode

from p3iv.config import Config, config_from
from p3iv.encoders.identity import EncoderIdentity, IdentityOrNone, find_difference
from p3iv.errors import CheckpointError, ConfigError
from p3iv.files import atomic_file
from p3iv.metrics.plans import PlanScores
from p3iv.planners.base import BasePlanner, Learner, PlannerShape, SelectionScore
from p3iv.planners.layers import check_precision, dtype_of
from p3iv.planners.registry import planner_class
from p3iv.plans.draws import EnsembleSampler, Sampler, SampleSettings
from p3iv.plans.transitions import Transitions
from p3iv.validation import Label, PlainText, cut, explain, parse_json, shown

BEST = Path("checkpoints/best/model.safetensors")
LAST = Path("checkpoints/last/state.safetensors")

FORMAT = 4
READABLE = (3, FORMAT)  # format 3 has only the name of the encoder

MAX_HEADER = 2**24  # characters; 5,000 actions need about 300,000

Shape = tuple[int, ...]

# Settings of optim that may differ when a run is resumed.
CHANGEABLE = ("epochs", "max_cpu_s", "patience", "learning_rate", "critic_learning_rate")


@dataclass(frozen=True)
class Progress:
    """How far a run has come."""

    epoch: int  # the number of finished epochs
    best_epoch: int
    best: PlanScores | None  # on validation windows
    selection_score: SelectionScore = ()  # of the best epoch


@dataclass(frozen=True)
class Header:
    """Everything in a checkpoint except the tensors."""

    config: Config
    shape: PlannerShape
    names: tuple[str, ...]  # the vocabulary
    encoder: EncoderIdentity | None  # of the features, to encode a user's pictures in the same way
    text_encoder: EncoderIdentity | None  # of the step embeddings
    feature_fingerprint: str | None  # of all rows of the dataset; None in format 3
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
    with _opened(path) as file:
        header = _header_of(file, path)
        if header.config.optim.precision != "mixed":  # mixed precision is for training only
            check_precision(header.config.optim, torch.device(device))
        planner = _build(header, max_numbers=2 * sum(map(math.prod, _shapes_in(file).values())) + 2**20)
        tensors = _read_tensors(file, _planner_shapes(planner), path)
        _load_module(planner, _part(tensors, "planner"), path)
        planner.check_loaded()
        matrices = _part(tensors, "transitions")
        if any(bool((matrix < 0).any()) for matrix in matrices.values()):
            raise ValueError("its transitions are negative")
    transitions = Transitions(matrices["row"], matrices["paper"], float(matrices["smoothing"]))
    return TrainedPlanner(planner.to(device).eval(), transitions, header)


def _build(header: Header, max_numbers: int) -> BasePlanner:
    """The planner of a header, which must not need many more numbers than its file holds."""
    with _BoundedSize(max_numbers):
        planner = planner_class(header.config.planner)(header.shape, header.config)
    return planner.to(dtype_of(header.config.optim))


class _BoundedSize(TorchFunctionMode):
    """Raises a ValueError before tensors of more numbers are made than allowed.

    The meta device would need no memory at all, but arithmetic on it imports 800 modules, which takes a second.
    """

    def __init__(self, max_numbers: int) -> None:
        super().__init__()
        self._left = max_numbers

    def __torch_function__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if function in (torch.empty, torch.zeros, torch.ones, torch.randn):
            self._left -= math.prod(args[0] if isinstance(args[0], Sequence) else args)
            if self._left < 0:
                raise ValueError("its settings describe a much larger planner than it holds")
        return function(*args, **(kwargs or {}))


def _planner_shapes(planner: BasePlanner) -> dict[str, Shape]:
    """The shapes of the tensors that the checkpoint of a planner holds."""
    size = planner.shape.num_actions
    transitions: dict[str, Shape] = {"row": (size, size), "paper": (size, size), "smoothing": ()}
    return {
        **{f"planner.{name}": tuple(tensor.shape) for name, tensor in planner.state_dict().items()},
        **{f"transitions.{kind}": shape for kind, shape in transitions.items()},
    }


def _shapes_in(file: Any) -> dict[str, Shape]:
    names = file.keys()
    return {name: tuple(file.get_slice(name).get_shape()) for name in names}


def _read_tensors(file: Any, expected: Mapping[str, Shape], path: Path) -> dict[str, Tensor]:
    """All tensors of an opened checkpoint, after their shapes were compared; a size of 0 stands for any.

    Raises:
        CheckpointError: if a tensor is missing, unknown, of another shape or not finite.
    """
    found = _shapes_in(file)
    for names, problem in (
        ([name for name in expected if name not in found], "has no tensor"),
        ([name for name in found if name not in expected], "has an unknown tensor"),
        ([name for name in found if not _fits(found[name], expected.get(name, ()))], "has another shape in its tensor"),
    ):
        if names:
            raise CheckpointError(
                f"{path} does not fit its own configuration: it {problem} {cut(names[0])}. Train it again."
            )
    tensors = {name: file.get_tensor(name) for name in found}
    for name, tensor in tensors.items():
        if tensor.is_complex() or not bool(tensor.isfinite().all()):
            raise CheckpointError(f"{path} is damaged: {cut(name)} holds values that are not finite. Train it again.")
    return tensors


def _fits(found: Shape, expected: Shape) -> bool:
    return len(found) == len(expected) and all(
        wanted in (0, size) for size, wanted in zip(found, expected, strict=True)
    )


def load_ensemble(paths: Sequence[Path], *, device: str = "cpu") -> TrainedPlanner:
    """The planners of one or several checkpoint files, as one.

    Raises:
        CheckpointError: if a member was made for other actions, horizons or features than the first, or was trained on
            other windows, which may include test windows of the first, or is given twice.
    """
    repeated = [
        path for number, path in enumerate(paths) if path.resolve() in [one.resolve() for one in paths[:number]]
    ]
    if repeated:
        raise CheckpointError(f"{repeated[0]} is given twice, but an ensemble has each planner once.")
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
    with _opened(path) as file:
        header = _header_of(file, path)
        check_fits(header, expected, path)
        tensors = _read_tensors(file, _learner_shapes(learner, file.keys()), path)
        for prefix, module in learner.modules.items():
            _load_module(module, _part(tensors, prefix), path)
        for prefix, optimizer in learner.optimizers.items():
            _load_optimizer(optimizer, _part(tensors, prefix))
    return header.progress


def _learner_shapes(learner: Learner, names: Iterable[str]) -> dict[str, Shape]:
    """The shapes of all modules and of the optimisers' states; a parameter that had no gradient has no state."""
    shapes: dict[str, Shape] = {
        f"{prefix}.{name}": tuple(tensor.shape)
        for prefix, module in learner.modules.items()
        for name, tensor in module.state_dict().items()
    }
    there = {name.rpartition(".")[0] for name in names}
    for prefix, optimizer in learner.optimizers.items():
        parameters = [parameter for group in optimizer.param_groups for parameter in group["params"]]
        for number, parameter in enumerate(parameters):
            if (state := f"{prefix}.{number}") in there:
                shape = tuple(parameter.shape)
                shapes |= {f"{state}.step": (), f"{state}.exp_avg": shape, f"{state}.exp_avg_sq": shape}
    return shapes


def check_fits(found: Header, expected: Header, path: Path) -> None:
    """Refuse a checkpoint of another configuration, vocabulary, feature width or dataset, and say which."""
    may_change = {name: getattr(expected.config.optim, name) for name in CHANGEABLE}
    asked = replace(found.config, optim=replace(found.config.optim, **may_change))
    for name in (field.name for field in fields(Config) if field.name != "preset"):
        have, want = getattr(asked, name), getattr(expected.config, name)
        if have != want:
            option = "planner" if name == "planner" else "preset"
            is_other = getattr(found.config, option) != getattr(expected.config, option)
            add = f"Add --{option} {getattr(found.config, option)}, or use" if is_other else "Use"
            raise CheckpointError(f"{path} was made with {name} {_difference(have, want)}. {add} another --out.")
    if found.shape != expected.shape:
        raise CheckpointError(f"{path} was made for {_difference(found.shape, expected.shape)}.")
    if found.names != expected.names:
        raise CheckpointError(
            f"{path} was made for another vocabulary ({len(found.names)} actions) than that of this dataset."
        )
    if found.data_fingerprint != expected.data_fingerprint:
        if difference := find_difference(expected.encoder, found.encoder):
            raise CheckpointError(
                f"{path} was trained on {found.encoder} features, this dataset has {expected.encoder} ones: "
                f"{difference}. Train a new run with another --out."
            )
        raise CheckpointError(
            f"{path} was trained on other features, step embeddings, windows or another split than this dataset has. "
            f"Train a new run with another --out."
        )


def read_header(path: Path) -> Header:
    """The header of a checkpoint file, without its tensors.

    Raises:
        CheckpointError: if there is no such file, or it is not a checkpoint of this format.
    """
    with _opened(path) as file:
        return _header_of(file, path)


@contextmanager
def _opened(path: Path) -> Iterator[Any]:
    if not path.exists():
        raise CheckpointError(f"{_explain_missing(path)} Train first: p3iv train DIR --out RUN.")
    try:
        with safe_open(path, framework="pt") as file:
            yield file
    except (SafetensorError, OSError, RuntimeError, ValueError, TypeError, KeyError, ConfigError) as error:
        raise CheckpointError(f"{path} is not a p3iv checkpoint: {cut(str(error))}") from error


def _explain_missing(path: Path) -> str:
    run = path.parents[2] if len(path.parts) > len(BEST.parts) else path.parent
    if not run.exists():
        return f"There is no run {run}."
    is_dataset = (run / "steps.csv").is_file() and not (run / "checkpoints").exists()
    return f"{run} is a dataset folder, not a run." if is_dataset else f"{path} does not exist."


def _header_of(file: Any, path: Path) -> Header:
    text = (file.metadata() or {}).get("p3iv", "null")
    if len(text) > MAX_HEADER:
        raise ValueError(f"a header of {len(text)} characters, at most {MAX_HEADER} are allowed")
    content = parse_json(text, parse_constant=float)
    if not isinstance(content, dict) or "format" not in content:
        raise ValueError("it has no header that p3iv wrote")
    if content["format"] not in READABLE:
        raise CheckpointError(
            f"{path} has checkpoint format {shown(content['format'])}, but this version of p3iv reads formats "
            f"{' and '.join(map(str, READABLE))}. Train it again: p3iv train DIR --out RUN."
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
    config, shape = config_from(content.get("config")), _checked(content, "shape", PlannerShape)
    names: tuple[str, ...] = _checked(content, "names", tuple[PlainText, ...])
    if shape.num_actions != len(names):
        raise ValueError(f"{len(names)} names for {shape.num_actions} actions")
    if shape.horizon != config.data.num_actions:
        raise ValueError(f"{config.data.num_actions} positions in its settings and {shape.horizon} in its shape")
    return Header(
        config=config,
        shape=shape,
        names=names,
        encoder=_checked(content, "encoder", IdentityOrNone),
        text_encoder=_checked(content, "text_encoder", IdentityOrNone),
        feature_fingerprint=_checked(content, "feature_fingerprint", PlainText | None),
        data_label=_checked(content, "data_label", Label),
        data_fingerprint=_checked(content, "data_fingerprint", PlainText),
        progress=_checked(content, "progress", Progress),
    )


def _checked(content: dict[str, Any], key: str, kind: Any) -> Any:
    """An entry of the header as the type that it must have.

    Raises:
        ValueError: naming the value that is of another type.
    """
    try:
        return TypeAdapter(kind).validate_python(content.get(key))
    except ValidationError as error:
        raise ValueError(f"{key}: {explain(error)}") from error


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
        return f"{shown(have)}, not {shown(want)}"
    have, want = asdict(have), asdict(want)
    changed = [name for name in have if have[name] != want[name]]
    return ", ".join(f"{name}={shown(have[name])}, not {shown(want[name])}" for name in changed)
