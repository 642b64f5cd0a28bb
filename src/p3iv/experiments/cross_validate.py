"""Cross-validation over videos, and the planner that is fitted to all of them: `p3iv train --folds 5 --fit-all`.

Every fold is a run of its own in RUN/folds, trained and evaluated as any other; its split is `fold-2-of-5`, so it can
be cut again from the dataset alone. The same request with `resume` continues where it was interrupted: what is finished
is read, and the rest is made, with the same result.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from p3iv.catalogue import ALL_VIDEOS
from p3iv.config import Config
from p3iv.data.windows import check_folds, fold_name, refit_name
from p3iv.errors import ConfigError, PlanError
from p3iv.evaluation.cross_validated import (
    CROSS_VALIDATION_FILE,
    FOLDS_FOLDER,
    CrossValidation,
    TestedFold,
    pool_folds,
    write_cross_validation,
)
from p3iv.evaluation.evaluate import EvaluationRequest, evaluate, evaluation_files
from p3iv.evaluation.pretrained import write_run_card
from p3iv.evaluation.result import Evaluation, EvaluationFiles, read_evaluation
from p3iv.files import exclusive, remove_leftovers
from p3iv.planners.checkpoint import load_planner
from p3iv.planners.header import BEST, read_header
from p3iv.planners.layers import choose_device
from p3iv.plans.draws import SampleSettings
from p3iv.training.fixed import FixedChoices, can_fix, check_can_fix, choices_of, median_choices
from p3iv.training.loop import TrainRequest, TrainResult, train, train_unlocked
from p3iv.training.run_folder import RUN_FILES, check_run, describe_run, open_run
from p3iv.types import OnProgress, counted

DEFAULT_FOLDS = 5
REFIT_FOLDER = "refit"  # of a fold: the run with its validation videos among the training videos
NUM_SAMPLES = 100  # per window: the scores of a cross-validation are those of the recommended plans


@dataclass(frozen=True)
class CrossValidationRequest:
    """What to train and how: `training` is about the whole run, the folds follow from it."""

    training: TrainRequest
    num_folds: int = DEFAULT_FOLDS
    fit_all: bool = False

    def __post_init__(self) -> None:
        split = self.training.config.data.split
        if self.num_folds < 2:
            raise ConfigError(f"--folds {self.num_folds}, but it must be at least 2.")
        if split not in ("video", "stratified", ALL_VIDEOS):
            raise ConfigError(f"--split {split}, but --folds and --fit-all divide the videos themselves: leave it out.")
        check_folds(len(self.training.dataset.videos), self.num_folds)
        if self.fit_all:
            check_can_fix(self.training.config)


@dataclass(frozen=True)
class MadeFold:
    """A fold that was made, and what it chose on its validation videos."""

    tested: TestedFold
    choices: FixedChoices
    feature_fingerprint: str


@dataclass(frozen=True, kw_only=True)
class CrossValidationResult(TrainResult):
    """The scores of all folds, and how the training of the planner of all videos ended, if there is one."""

    scores: CrossValidation
    is_fitted: bool  # whether there is a planner of all videos; if not, it has no epochs


def cross_validate(request: CrossValidationRequest) -> CrossValidationResult:
    """Train and score every fold, write cross_validation.json and, if asked for, fit a planner to all videos.

    Raises:
        BusyError: another process is training into the run.
    """
    training = request.training
    whole = replace(training, config=_with_split(training.config, ALL_VIDEOS))
    run = training.run
    with exclusive(run, doing=f"is training in {run}"):
        remove_leftovers(run)
        check_run(run, resume=training.resume, overwrite=training.overwrite)
        for file in (*RUN_FILES, Path(CROSS_VALIDATION_FILE), Path(FOLDS_FOLDER)):
            remove_leftovers(run / file)
        _open(whole, request.num_folds)
        parts = Parts(training.on_progress, num_parts(training.config, request.num_folds) + request.fit_all)
        folds, cpu_s = make_folds(training, run, request.num_folds, parts)
        scores = pool_folds(
            [fold.tested for fold in folds],
            feature_fingerprint=folds[0].feature_fingerprint,
            notes=_notes(training),
        )
        write_cross_validation(run / CROSS_VALIDATION_FILE, scores)
        fitted = _fit_all(whole, folds, parts) if request.fit_all else None
    return CrossValidationResult(
        run=run,
        epochs=fitted.epochs if fitted else 0,
        best_epoch=fitted.best_epoch if fitted else 0,
        best=None,
        cpu_s=cpu_s + (fitted.cpu_s if fitted else 0.0),
        scheduled_epochs=fitted.scheduled_epochs if fitted else 0,
        scores=scores,
        is_fitted=fitted is not None,
    )


class Parts:
    """Shows the progress of several trainings as that of one."""

    def __init__(self, show: OnProgress, total: int) -> None:
        self._show, self._total, self._begun = show, total, 0

    def begin(self, about: str) -> OnProgress:
        """The progress of the next training."""
        number, self._begun = self._begun, self._begun + 1
        return lambda at: self._show(replace(at, what=about, done=number + at.share, total=self._total))


def num_parts(config: Config, num_folds: int) -> int:
    """The number of trainings of a cross-validation."""
    return num_folds * (2 if can_fix(config) else 1)


def make_folds(
    training: TrainRequest, folder: Path, num_folds: int, parts: Parts, *, num_halvings: int = 0
) -> tuple[list[MadeFold], float]:
    """Make all folds in FOLDER/folds; returns them and their CPU seconds."""
    made = [
        _make_fold(training, folder / FOLDS_FOLDER / str(number), (number, num_folds), num_halvings, parts)
        for number in range(1, num_folds + 1)
    ]
    return [fold for fold, _ in made], sum(cpu_s for _, cpu_s in made)


def _open(whole: TrainRequest, num_folds: int) -> None:
    """Write config.yaml and environment.json of the whole run, which say what it is while it has no planner yet."""
    if (whole.run / "config.yaml").exists() and not whole.overwrite:
        return
    videos = counted(len(whole.dataset.videos), "video")
    environment = describe_run(
        dataset=whole.dataset.folder,
        device=str(choose_device(whole.device)),
        data=whole.dataset.card.label,
        amounts=f"{videos} in {num_folds} folds",
    )
    open_run(whole.run, whole.config, environment, overwrite=whole.overwrite)


def _make_fold(
    training: TrainRequest, run: Path, fold: tuple[int, int], num_halvings: int, parts: Parts
) -> tuple[MadeFold, float]:
    """Train and evaluate one fold, as far as that is not done; returns it and its CPU seconds.

    The planner is trained as usual, with a fifth of its videos for validation. Then it is fitted again to all of them,
    with what it has chosen on those, because that is what a planner for use is, too: fitted to all videos that there
    are. A planner that cannot be fitted without validation videos is scored as it is.
    """
    split, about = fold_name(*fold, num_halvings=num_halvings), f"Training fold {fold[0]} of {fold[1]}"
    chosen = _train_part(training, run, split, parts.begin(about))
    trained, scored, cpu_s = load_planner(run / BEST), run, chosen.cpu_s
    choices = choices_of(trained, chosen.scheduled_epochs)
    if can_fix(training.config):
        scored = run / REFIT_FOLDER
        cpu_s += _train_part(training, scored, refit_name(split), parts.begin(about), fixed=choices).cpu_s
    files = evaluation_files(scored, "test", SampleSettings())
    found = _evaluated(scored, files) or evaluate(
        EvaluationRequest(
            run=scored,
            data=training.dataset.folder,
            settings=SampleSettings(num_samples=NUM_SAMPLES),
            device=training.device,
        )
    )
    predictions = files.find_predictions(found)
    if predictions is None:
        raise PlanError(f"{files.predictions} is missing. Delete {files.evaluation}, then continue with --resume.")
    tested = TestedFold(fold[0], found, predictions, chosen.best_epoch, chosen.scheduled_epochs)
    return MadeFold(tested, choices, trained.header.feature_fingerprint or ""), cpu_s


def _train_part(
    training: TrainRequest, run: Path, split: str, show: OnProgress, fixed: FixedChoices | None = None
) -> TrainResult:
    """Train one part of a cross-validation, or read that it is trained; its notes are in its environment.json."""
    return train(
        replace(
            training,
            run=run,
            config=_with_split(training.config, split),
            fixed=fixed,
            resume=run.exists(),
            overwrite=False,
            track=(),
            on_progress=show,
            on_note=_ignore,
        )
    )


def _evaluated(run: Path, files: EvaluationFiles) -> Evaluation | None:
    """The evaluation of the planner that a fold keeps, if it is complete."""
    if not files.exist():
        return None
    try:
        found, header = read_evaluation(files.evaluation), read_header(run / BEST)
        is_own = found.epoch == header.progress.best_epoch and found.data_fingerprint == header.data_fingerprint
        return found if is_own and files.find_predictions(found) else None
    except PlanError:  # it is made again
        return None


def _fit_all(whole: TrainRequest, folds: Sequence[MadeFold], parts: Parts) -> TrainResult:
    """Train on all videos, with the median of what the folds chose on their validation videos."""
    result = train_unlocked(
        replace(
            whole,
            fixed=median_choices([fold.choices for fold in folds]),
            resume=True,
            overwrite=False,
            on_progress=parts.begin("Fitting to all videos"),
            on_note=_without_start(whole.on_note),
        )
    )
    write_run_card(whole.run, read_header(whole.run / BEST))
    return result


def _with_split(config: Config, split: str) -> Config:
    return replace(config, data=replace(config.data, split=split))


def _notes(training: TrainRequest) -> list[str]:
    """What a reader of the scores should know."""
    videos = training.dataset.videos
    by_task: dict[str, int] = {}
    for video in videos:
        by_task[video.task] = by_task.get(video.task, 0) + 1
    single = sum(number == 1 for number in by_task.values())
    if not single:
        return []
    have, whose = ("has", "its only video is") if single == 1 else ("have", "their only videos are")
    return [
        f"{single} of {counted(len(by_task), 'procedure')} {have} one video: {whose} planned by planners that have "
        f"never seen the procedure"
    ]


def _without_start(note: Callable[[str], object]) -> Callable[[str], object]:
    """Notes, except that a run without a checkpoint starts at epoch 1: the user did not ask to resume this part."""
    return lambda text: None if "has no checkpoint yet" in text else note(text)


def _ignore(_: str) -> None:
    pass
