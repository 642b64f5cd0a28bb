"""Checkpoints: one safetensors file each, with everything but the tensors as JSON in its header.

`checkpoints/best/model.safetensors` holds the planner; `checkpoints/last/state.safetensors` holds all modules and
optimisers of its learner (for P3IV also the critic), so that a run continues where it stopped. Because a checkpoint is
one file, saving ends with a single rename: if the process is killed at any moment, the previous checkpoint still loads.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, ClassVar

import torch
from safetensors import SafetensorError
from safetensors.torch import save_file
from torch import Tensor
from torch.overrides import TorchFunctionMode

from p3iv.errors import CheckpointError
from p3iv.files import atomic_file
from p3iv.planners.base import BasePlanner, Learner
from p3iv.planners.header import (
    BEST,
    LAST,
    Header,
    TrainingProgress,
    check_ensemble,
    check_fits,
    header_of,
    metadata_of,
    open_checkpoint,
)
from p3iv.planners.layers import check_precision, choose_device, dtype_of
from p3iv.planners.registry import class_of
from p3iv.plans.draws import EnsembleSampler, Sampler, SampleSettings, join_answers
from p3iv.plans.evidence import Answer, Answers, Evidence
from p3iv.plans.step_filter import FollowNumbers
from p3iv.plans.transitions import Transitions
from p3iv.types import Array
from p3iv.validation import cut

Shape = tuple[int, ...]


@dataclass(frozen=True)
class TrainedPlanner:
    """A planner with everything that planning needs, without a dataset."""

    planner: BasePlanner
    transitions: Transitions
    header: Header
    others: tuple[TrainedPlanner, ...] = ()  # the rest of an ensemble

    name: ClassVar[str] = "torch"  # as a backend of `p3iv.Planner`

    @property
    def device(self) -> str:
        """Where it computes, such as cpu."""
        return str(next(iter(self.planner.state_dict().values())).device)

    def to(self, device: str) -> TrainedPlanner:
        """The same planner, or ensemble, on another device."""
        chosen = choose_device(device)
        check_precision(self.header.config.optim, chosen)
        return replace(self, planner=self.planner.to(chosen), others=tuple(one.to(device) for one in self.others))

    def sampler(self, settings: SampleSettings) -> Sampler:
        """The sampler of this planner, or of the ensemble."""
        own = self.planner.sampler(settings)
        return EnsembleSampler([own, *(other.sampler(settings) for other in self.others)]) if self.others else own

    def answer(self, evidence: Evidence) -> Answer:
        """The chains of one query, averaged over the ensemble."""
        own = self.planner.answer(evidence)
        return join_answers([own, *(other.answer(evidence) for other in self.others)]) if self.others else own

    def answers(self, evidence: Evidence) -> Iterator[Answers]:
        """The chains of many queries, some at a time, in their order, averaged over the ensemble."""
        members = (self.planner, *(other.planner for other in self.others))
        for parts in zip(*(member.answers(evidence) for member in members), strict=True):
            yield join_answers(parts) if self.others else parts[0]

    @property
    def follow_numbers(self) -> FollowNumbers | None:
        """The numbers with which the planner, or the first of an ensemble, follows a video; None if it cannot."""
        numbers = self.planner.follow_numbers
        return numbers if numbers is not None and numbers.is_fitted else None

    def score_under_way(self, evidence: Evidence) -> Array:
        """Scores of the step under way at moments, by the first planner of an ensemble: (N, A + 1)."""
        return self.planner.score_under_way(evidence)


def save_best(run: Path, trained: TrainedPlanner) -> None:
    """Write the planner and the transitions that its plans are decoded with."""
    tensors = {f"planner.{name}": tensor for name, tensor in trained.planner.state_dict().items()}
    transitions = trained.transitions
    tensors |= {f"transitions.{kind}": torch.from_numpy(transitions.kind(kind)) for kind in ("row", "paper")}
    tensors["transitions.smoothing"] = torch.tensor(transitions.smoothing, dtype=torch.float64)
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
    with open_checkpoint(path, "pt") as file:
        header = header_of(file.metadata(), path)
        if header.config.optim.precision != "mixed":  # mixed precision is for training only
            check_precision(header.config.optim, torch.device(device))
        planner = _build(header, max_numbers=2 * sum(map(math.prod, _shapes_in(file).values())) + 2**20)
        tensors = _read_tensors(file, _planner_shapes(planner), path)
        _load_module(planner, _part(tensors, "planner"), path)
        planner.check_loaded()
        matrices = _part(tensors, "transitions")
        if any(bool((matrix < 0).any()) for matrix in matrices.values()):
            raise ValueError("its transitions are negative")
    row, paper = (matrices[kind].numpy() for kind in ("row", "paper"))
    transitions = Transitions(row, paper, float(matrices["smoothing"]))
    return TrainedPlanner(planner.to(device).eval(), transitions, header)


def _build(header: Header, max_numbers: int) -> BasePlanner:
    """The planner of a header, which must not need many more numbers than its file holds."""
    with _BoundedSize(max_numbers):
        planner = class_of(header.config)(header.shape, header.config)
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
    first, *others = loaded = [load_planner(path, device=device) for path in paths]
    check_ensemble(paths, [one.header for one in loaded])
    return replace(first, others=tuple(others))


def load_last(run: Path, learner: Learner, expected: Header) -> TrainingProgress:
    """Restore the learner, after checking that the checkpoint matches the requested configuration."""
    path = run / LAST
    with open_checkpoint(path, "pt") as file:
        header = header_of(file.metadata(), path)
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


def _save(path: Path, tensors: dict[str, Tensor], header: Header) -> None:
    whole = {name: tensor.contiguous() for name, tensor in tensors.items()}
    with atomic_file(path) as temporary:
        try:
            save_file(whole, temporary, metadata=metadata_of(header))
        except SafetensorError as error:  # a full disk, too: it is not an OSError
            raise CheckpointError(
                f"{path} cannot be written: {error}. Make room and continue with --resume."
            ) from error


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
