"""The header of a checkpoint or an exported planner: everything but its tensors, as JSON; and what planning needs.

A backend is a loaded planner, with torch or without it. Nothing here imports torch.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Protocol

from pydantic import NonNegativeInt, PositiveInt, TypeAdapter, ValidationError

from p3iv.config import Config, config_from
from p3iv.encoders.identity import EncoderIdentity, IdentityOrNone, find_difference
from p3iv.errors import CheckpointError, ConfigError
from p3iv.onnx_model import SUFFIX, check_content, read_bounded
from p3iv.plans.draws import Sampler, SampleSettings
from p3iv.plans.evidence import Answer, Evidence
from p3iv.plans.step_filter import FollowNumbers
from p3iv.plans.transitions import Transitions
from p3iv.types import Array, PlanScores
from p3iv.validation import Label, PlainText, cut, explain, parse_json, shown

if TYPE_CHECKING:  # it imports torch
    from p3iv.data.tensors import PlanningData

BEST = Path("checkpoints/best/model.safetensors")
LAST = Path("checkpoints/last/state.safetensors")
PRETRAINED = Path("model.safetensors")  # in a folder of `save_pretrained`, and on the hub
PRETRAINED_TEXTS = (  # beside it; one of the last two
    "README.md",
    "config.yaml",
    "environment.json",
    "evaluation.json",
    "cross_validation.json",
)

FORMAT = 4
READABLE = (3, FORMAT)  # format 3 has only the name of the encoder

MAX_HEADER = 2**24  # characters; 5,000 actions need about 300,000

SelectionScore = tuple[float, ...]  # of two epochs, the one with the larger score is kept


@dataclass(frozen=True)
class PlannerShape:
    """Sizes that come with the data."""

    horizon: PositiveInt  # T, positions that are predicted
    num_actions: PositiveInt  # A
    feature_width: PositiveInt  # F, of one observation
    target_width: PositiveInt  # F_l, of a step description (or of a visual feature under strong supervision)
    num_procedures: NonNegativeInt = 0  # P, of planners that know them

    @classmethod
    def of(cls, data: PlanningData, config: Config) -> PlannerShape:
        """The sizes of a planner that is trained on these data."""
        feature_width = data.train.start.shape[1]
        language_width = data.language.shape[1] if data.language is not None else 1
        return cls(
            horizon=data.train.action_ids.shape[1],
            num_actions=len(data.names),
            feature_width=feature_width,
            target_width=feature_width if config.loss.supervision == "visual" else language_width,
            num_procedures=len(data.procedures) if config.data.has_lengths else 0,
        )

    @property
    def evidence_widths(self) -> dict[str, int]:
        """The sizes of the pieces of evidence, by the names that `Evidence` gives them."""
        features = dict.fromkeys(("start", "goal", "history"), self.feature_width)
        return {**features, "last_step": self.num_actions, "procedure": self.num_procedures}


# Settings of optim that may differ when a run is resumed.
CHANGEABLE = ("epochs", "max_cpu_s", "patience", "learning_rate", "critic_learning_rate")


@dataclass(frozen=True)
class TrainingProgress:
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
    procedures: tuple[str, ...]  # the tasks that the planner knows by name; none if it plans for one length
    encoder: EncoderIdentity | None  # of the features, to encode a user's pictures in the same way
    text_encoder: EncoderIdentity | None  # of the step embeddings
    feature_fingerprint: str | None  # of all rows of the dataset; None in format 3
    data_label: str
    data_fingerprint: str  # of features, language and the windows of train, val and test
    progress: TrainingProgress


class Backend(Protocol):
    """A loaded planner with everything that planning needs, without a dataset."""

    @property
    def header(self) -> Header:
        """What the planner was trained on, and for what."""

    @property
    def transitions(self) -> Transitions:
        """The matrices that its plans are decoded with."""

    @property
    def name(self) -> str:
        """The library that computes: torch or onnx."""

    @property
    def device(self) -> str:
        """Where it computes."""

    def sampler(self, settings: SampleSettings) -> Sampler:
        """What draws its plans."""

    def answer(self, evidence: Evidence) -> Answer:
        """The chains of one query; only of a planner for several lengths."""

    @property
    def follow_numbers(self) -> FollowNumbers | None:
        """The numbers with which it follows a video; None if it cannot."""

    def score_under_way(self, evidence: Evidence) -> Array:
        """Scores of the step under way at moments, the last one for no step: (N, A + 1)."""

    def to(self, device: str) -> Backend:
        """The same planner on another device.

        Raises:
            ConfigError: it cannot compute there.
        """


def planner_file(path: Path) -> Path:
    """The file of a planner: the path itself, or the one in a run folder or in a folder of `save_pretrained`."""
    if path.is_file():
        return path
    places = [path / place for place in (BEST, PRETRAINED)]
    return next((place for place in places if place.is_file()), places[0])


def read_header(path: Path) -> Header:
    """The header of a checkpoint or an exported planner, without its tensors.

    Raises:
        CheckpointError: if there is no such file, or it is not a checkpoint of this format.
    """
    if path.suffix.lower() == SUFFIX and path.exists():
        try:
            return header_of(check_content(read_bounded(path)), path)
        except (OSError, ValueError) as error:
            raise CheckpointError(f"{path} is not a planner that `p3iv export` wrote: {cut(str(error))}.") from error
    with open_checkpoint(path, "np") as file:
        return header_of(file.metadata(), path)


@contextmanager
def open_checkpoint(path: Path, framework: Literal["pt", "np"]) -> Iterator[Any]:
    """A checkpoint file whose tensors are read with torch (`pt`) or numpy; every fault in it is a CheckpointError."""
    from safetensors import SafetensorError, safe_open

    if not path.exists():
        raise CheckpointError(f"{_explain_missing(path)} Train first: p3iv train DIR --out RUN.")
    try:
        with safe_open(path, framework=framework) as file:
            yield file
    except (SafetensorError, OSError, RuntimeError, ValueError, TypeError, KeyError, ConfigError) as error:
        raise CheckpointError(f"{path} is not a p3iv checkpoint: {cut(str(error))}") from error


def _explain_missing(path: Path) -> str:
    run = path.parents[2] if len(path.parts) > len(BEST.parts) else path.parent
    if not run.exists():
        return f"There is no run {run}."
    is_dataset = (run / "steps.csv").is_file() and not (run / "checkpoints").exists()
    return f"{run} is a dataset folder, not a run." if is_dataset else f"{path} does not exist."


def metadata_of(header: Header) -> dict[str, str]:
    """A header as the metadata of a file; `header_of` reads it."""
    return {"p3iv": json.dumps({"format": FORMAT, **asdict(header)})}


def header_of(metadata: Mapping[str, str] | None, path: Path) -> Header:
    """The header in the metadata of a file.

    Raises:
        CheckpointError: it has a format that this version cannot read.
        ValueError: it is not a header.
    """
    text = (metadata or {}).get("p3iv", "null")
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
            raise CheckpointError(f"{path} was made with {name} {difference_between(have, want)}. {add} another --out.")
    if found.shape != expected.shape:
        raise CheckpointError(f"{path} was made for {difference_between(found.shape, expected.shape)}.")
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


def check_ensemble(paths: Sequence[Path], headers: Sequence[Header]) -> None:
    """Refuse planners that cannot be averaged.

    Raises:
        CheckpointError: if a member was made for other actions, horizons or features than the first, or was trained on
            other windows, which may include test windows of the first, or is given twice.
    """
    repeated = [
        path for number, path in enumerate(paths) if path.resolve() in [one.resolve() for one in paths[:number]]
    ]
    if repeated:
        raise CheckpointError(f"{repeated[0]} is given twice, but an ensemble has each planner once.")
    first = headers[0]
    for path, other in zip(paths[1:], headers[1:], strict=True):
        if other.names != first.names:
            raise CheckpointError(f"{path} has another vocabulary than {paths[0]}, so they cannot form an ensemble.")
        if other.shape != first.shape:
            difference = difference_between(other.shape, first.shape)
            raise CheckpointError(f"{path} has {difference} as in {paths[0]}, so they cannot form an ensemble.")
        if other.data_fingerprint != first.data_fingerprint:
            raise CheckpointError(
                f"{path} was trained on other features, windows or another split than {paths[0]} and may have seen "
                f"its test windows, so they cannot form an ensemble. Train both on the same data and --split."
            )


def _header_from(content: dict[str, Any]) -> Header:
    config, shape = _config_in(content), _checked(content, "shape", PlannerShape)
    names: tuple[str, ...] = _checked(content, "names", tuple[PlainText, ...])
    if shape.num_actions != len(names):
        raise ValueError(f"{len(names)} names for {shape.num_actions} actions")
    procedures: tuple[str, ...] = (
        _checked(content, "procedures", tuple[PlainText, ...]) if "procedures" in content else ()
    )
    if shape.num_procedures != len(procedures):
        raise ValueError(f"{len(procedures)} names for {shape.num_procedures} procedures")
    if shape.horizon != config.data.num_actions:
        raise ValueError(f"{config.data.num_actions} positions in its settings and {shape.horizon} in its shape")
    return Header(
        config=config,
        shape=shape,
        names=names,
        procedures=procedures,
        encoder=_checked(content, "encoder", IdentityOrNone),
        text_encoder=_checked(content, "text_encoder", IdentityOrNone),
        feature_fingerprint=_checked(content, "feature_fingerprint", PlainText | None),
        data_label=_checked(content, "data_label", Label),
        data_fingerprint=_checked(content, "data_fingerprint", PlainText),
        progress=_checked(content, "progress", TrainingProgress),
    )


def _config_in(content: dict[str, Any]) -> Config:
    """The settings in a header; planners from before there was a second network do without it."""
    config = config_from(content.get("config"))
    if "second" in content["config"].get("plus", {}):
        return config
    return replace(config, plus=replace(config.plus, second=False))


def _checked(content: dict[str, Any], key: str, kind: Any) -> Any:
    """An entry of the header as the type that it must have.

    Raises:
        ValueError: naming the value that is of another type.
    """
    try:
        return TypeAdapter(kind).validate_python(content.get(key))
    except ValidationError as error:
        raise ValueError(f"{key}: {explain(error)}") from error


def difference_between(have: Any, want: Any) -> str:
    """The settings in which two configurations differ."""
    if not hasattr(have, "__dataclass_fields__"):
        return f"{shown(have)}, not {shown(want)}"
    have, want = asdict(have), asdict(want)
    changed = [name for name in have if have[name] != want[name]]
    return ", ".join(f"{name}={shown(have[name])}, not {shown(want[name])}" for name in changed)
