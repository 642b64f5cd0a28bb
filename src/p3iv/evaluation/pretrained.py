"""The folder of a planner that is shared: what planning needs, its scores and its card, and no path of its machine.

Optimisers, metrics, predictions and reports stay in the run.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from p3iv.catalogue import ALL_VIDEOS
from p3iv.encoders.identity import find_difference
from p3iv.encoders.onnx_encoder import OnnxEncoder
from p3iv.errors import CheckpointError, ConfigError, FeatureError, MissingExtraError
from p3iv.evaluation.cross_validated import (
    CROSS_VALIDATION_FILE,
    CrossValidation,
    find_cross_validation,
    write_cross_validation,
)
from p3iv.evaluation.result import EVALUATION_FILE, Evaluation, read_evaluation, write_evaluation
from p3iv.files import atomic_folder, write_text
from p3iv.planners.header import (
    BEST,
    PRETRAINED,
    PRETRAINED_TEXTS,
    Header,
    header_of,
    metadata_of,
    open_checkpoint,
    planner_file,
)
from p3iv.planners.onnx_planner import EXPORTED_FILES, load_exported
from p3iv.training.card import Card, ScoresOnTest, render_card, without_paths, write_card
from p3iv.training.run_folder import CARD_FILE, CONFIG_FILE, ENVIRONMENT_FILE, RunEnvironment, read_training
from p3iv.validation import make_plain


@dataclass(frozen=True)
class Shared:
    """A planner and what is known about it."""

    file: Path  # the checkpoint
    header: Header  # without paths of this machine
    training: RunEnvironment | None
    evaluation: Evaluation | None  # on test windows of the data that it was trained on
    exported: tuple[Path, ...]  # the same planner as ONNX, and its encoder
    cross_validation: CrossValidation | None = None  # of a planner that was fitted to all videos

    def card(self, name: str, licence: str | None) -> str:
        """Its model card, for a user who types this name."""
        scores = scores_for_card(self.evaluation, self.cross_validation)
        return render_card(Card(name, self.header, self.training, scores, licence))


def save_pretrained(
    source: str | Path, folder: str | Path, *, name: str | None = None, licence: str | None = None
) -> Path:
    """Write a planner with its scores and its model card into a folder that can be shared.

    Args:
        source: a run folder, a checkpoint file, or a folder that this function wrote.
        folder: a new folder, or one that this function wrote, which is replaced.
        name: what users will type for this planner, for the card; by default the name of the folder.
        licence: of the planner, for the card.

    Raises:
        CheckpointError: there is no planner at `source`.
        ConfigError: `folder` holds other files.
    """
    folder = Path(folder)
    if others := sorted(set(_names_in(folder)) - {str(PRETRAINED), *EXPORTED_FILES, *PRETRAINED_TEXTS}):
        raise ConfigError(f"{folder} holds other files, such as {others[0]}. Name a new folder.")
    shared = read_shared(Path(source))
    with atomic_folder(folder.resolve()) as temporary:
        _write_planner(shared, temporary / PRETRAINED)
        for file in shared.exported:
            shutil.copyfile(file, temporary / file.name)
        write_text(temporary / CONFIG_FILE, shared.header.config.to_yaml())
        if shared.training is not None:
            write_text(temporary / ENVIRONMENT_FILE, shared.training.model_dump_json(indent=2) + "\n")
        if shared.evaluation is not None:
            write_evaluation(temporary / EVALUATION_FILE, shared.evaluation)
        if shared.cross_validation is not None:
            write_cross_validation(temporary / CROSS_VALIDATION_FILE, shared.cross_validation)
        write_text(temporary / CARD_FILE, shared.card(name or make_plain(folder.resolve().name), licence))
    return folder


def read_shared(source: Path) -> Shared:
    """The planner of a run folder, a checkpoint file or a folder of `save_pretrained`, and what is known about it."""
    file = planner_file(source)
    with open_checkpoint(file, "np") as opened:
        header = without_paths(header_of(opened.metadata(), file))
        if "transitions.row" not in opened.keys():  # noqa: SIM118 - it is not a dict
            raise CheckpointError(f"{file} is the state of a training, not a planner. Pass the run folder.")
    beside = file.parents[len(BEST.parts) - 1] if file.parts[-len(BEST.parts) :] == BEST.parts else file.parent
    training = read_training(beside)
    if training is not None:
        training = training.model_copy(update={"dataset": None})
    validated = _own_cross_validation(beside, header)
    return Shared(file, header, training, _own_evaluation(beside, header), _own_export(beside, header), validated)


def write_run_card(run: Path, header: Header) -> None:
    """Write the card of a run again, with the scores of its evaluation."""
    write_card(run, header, scores_for_card(_own_evaluation(run, header), _own_cross_validation(run, header)))


def scores_for_card(evaluation: Evaluation | None, validated: CrossValidation | None = None) -> ScoresOnTest | None:
    """The scores that a card shows."""
    if validated is not None:
        return ScoresOnTest(
            num_windows=validated.num_windows,
            num_videos=validated.num_videos,
            plans=validated.plans,
            baselines=validated.baselines,
            notes=validated.notes,
            num_folds=validated.num_folds,
        )
    if evaluation is None:
        return None
    return ScoresOnTest(
        num_windows=evaluation.num_windows,
        num_videos=evaluation.num_videos,
        plans=evaluation.plan_scores,
        baselines=evaluation.baselines,
        notes=evaluation.notes,
    )


def _own_evaluation(folder: Path, header: Header) -> Evaluation | None:
    """The evaluation in a folder, if it is of this planner on test windows of the data that it was trained on."""
    path = folder / EVALUATION_FILE
    found = read_evaluation(path) if path.is_file() else None
    if found is None:
        return None
    config, progress = header.config, header.progress
    is_same = (found.planner, found.seed, found.epoch) == (config.planner, config.seed, progress.best_epoch)
    return found if is_same and found.side == "test" and found.data_fingerprint == header.data_fingerprint else None


def _own_cross_validation(folder: Path, header: Header) -> CrossValidation | None:
    """The cross-validation in a folder, if its planner was fitted to all videos."""
    return find_cross_validation(folder) if header.config.data.split == ALL_VIDEOS else None


def _own_export(folder: Path, header: Header) -> tuple[Path, ...]:
    """The ONNX files in a folder: the planner, if it is of the same epoch and without a path, and its encoder."""
    path, beside = (folder / name for name in EXPORTED_FILES)
    try:
        if not path.is_file() or load_exported([path]).header != header:
            return ()
        is_own = beside.is_file() and find_difference(OnnxEncoder(beside).identity, header.encoder) is None
    except (CheckpointError, FeatureError, MissingExtraError):  # damaged, or onnxruntime is not installed
        return ()
    return (path, beside) if is_own else (path,)


def _names_in(folder: Path) -> Iterator[str]:
    if folder.exists() and not folder.is_dir():
        raise ConfigError(f"{folder} is a file, but it must be a folder.")
    if folder.is_dir():
        yield from (path.name for path in folder.iterdir())


def _write_planner(shared: Shared, target: Path) -> None:
    """Copy a checkpoint; only a path in its header is replaced, so that the tensors stay the same bytes."""
    with shared.file.open("rb") as source, target.open("wb") as copy:
        length = int.from_bytes(source.read(8), "little")
        content = json.loads(source.read(length))
        metadata = metadata_of(shared.header)
        if content["__metadata__"] == metadata:
            source.seek(0)
        else:
            text = json.dumps(content | {"__metadata__": metadata}, separators=(",", ":")).encode()
            text += b" " * (-len(text) % 8)  # tensors begin at a multiple of 8
            copy.write(len(text).to_bytes(8, "little") + text)
        shutil.copyfileobj(source, copy)
