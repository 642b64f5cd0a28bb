"""`p3iv evaluate`: score the best planner of a run on the windows of a side, and write the result."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path

import torch

from p3iv.catalogue import DEFAULT_MODE, DEFAULT_NUM_SAMPLES, PICTURES, UNKNOWN_LENGTH_SAMPLES
from p3iv.data.tensors import PlanningData, load_planning_data
from p3iv.data.windows import is_fold, sides_of
from p3iv.errors import ConfigError, DatasetError, PlanError, one_of
from p3iv.evaluation import any_length, one_length
from p3iv.evaluation.actions import ACTIONS_FILE, write_actions
from p3iv.evaluation.asking import check_evidence, in_order
from p3iv.evaluation.cross_validated import CROSS_VALIDATION_FILE
from p3iv.evaluation.predictions import prediction_writer
from p3iv.evaluation.pretrained import write_run_card
from p3iv.evaluation.result import (
    EVALUATION_FILE,
    Evaluation,
    EvaluationFiles,
    hash_file,
    noise_parts,
    read_evaluation,
    write_evaluation,
)
from p3iv.evaluation.subject import Subject
from p3iv.files import exclusive, remove_leftovers
from p3iv.planners.checkpoint import TrainedPlanner, load_ensemble
from p3iv.planners.header import BEST, Header, read_header
from p3iv.planners.layers import choose_device
from p3iv.planners.matching import check_features, note_other_data
from p3iv.plans.draws import MODES, SampleSettings
from p3iv.training.amounts import advise_small_test
from p3iv.training.run_folder import dataset_of
from p3iv.types import SIDES, OnProgress, Side, counted, counted_range, listed
from p3iv.validation import shown


class NoTestSideError(PlanError):
    """A planner was fitted to all videos."""


@dataclass(frozen=True)
class EvaluationRequest:
    """Which run, on which side, with how many samples."""

    run: Path
    data: Path | None = None  # the dataset folder, if it has moved since the training
    side: Side = "test"
    settings: SampleSettings = field(default_factory=SampleSettings)
    mode: str = DEFAULT_MODE
    device: str = "auto"
    ensemble: tuple[Path, ...] = ()  # further runs, whose probabilities are averaged with those of `run`
    horizon: int | None = None  # of planners for several lengths: only these windows, with the length known
    evidence: tuple[str, ...] = PICTURES  # what the planner is told, of `plans.evidence.EVIDENCE`
    on_progress: OnProgress = lambda _: None
    on_note: Callable[[str], object] = lambda _: None

    def __post_init__(self) -> None:
        if self.side not in SIDES:
            raise ConfigError(f"side={shown(self.side)}, but it must be {one_of(self.side, SIDES)}")
        if self.mode not in MODES:
            raise ConfigError(f"--mode {self.mode}, but it must be {one_of(self.mode, MODES)}")


def default_samples(run: Path, horizon: int | None = None) -> int:
    """How many plans are sampled per window unless told otherwise; fewer where the number of steps is unknown."""
    is_unknown = horizon is None and read_header(run / BEST).config.data.has_lengths
    return UNKNOWN_LENGTH_SAMPLES if is_unknown else DEFAULT_NUM_SAMPLES


def evaluation_files(
    run: Path,
    side: Side,
    settings: SampleSettings,
    num_others: int = 0,
    *,
    horizon: int | None = None,
    evidence: Collection[str] = PICTURES,
) -> EvaluationFiles:
    """The files of one evaluation.

    Another side than test, one of several lengths, other evidence than two pictures, the naive alternatives to latents,
    and an ensemble with other runs have files of their own: `evaluation.json` is always about the planner itself, on
    test.
    """
    parts: list[str] = [side] if side != "test" else []
    parts += [] if horizon is None else [f"T{horizon}"]
    parts += [] if set(evidence) == set(PICTURES) else ["-".join(in_order(evidence))]
    parts += noise_parts(settings.input_noise, settings.dropout)
    parts += [f"ensemble{1 + num_others}"] if num_others else []
    suffix = "".join(f"_{part}" for part in parts)
    return EvaluationFiles(run / f"evaluation{suffix}.json", run / f"predictions{suffix}.jsonl", run / ACTIONS_FILE)


def evaluate(request: EvaluationRequest) -> Evaluation:
    """Evaluate the best planner of a run and write the result into the run folder.

    Raises:
        BusyError: another process is writing the same evaluation.
        ConfigError: the planner does not plan for this length, or cannot use this evidence.
    """
    device = choose_device(request.device)
    trained = load_ensemble([run / BEST for run in (request.run, *request.ensemble)], device=str(device))
    horizon, header = _check_horizon(request, trained.header), trained.header
    check_evidence(request.evidence, trained.planner.sees, header.config.planner)
    subject = _read_subject(request, trained, horizon)
    for note in subject.notes:
        request.on_note(note)
    files = evaluation_files(
        request.run,
        request.side,
        request.settings,
        len(request.ensemble),
        horizon=horizon,
        evidence=request.evidence,
    )
    with files.replacing():
        is_own = subject.data.fingerprint == header.data_fingerprint
        replaced = None if is_own else _own_evaluation(files.evaluation, header)
        found = _evaluate(subject, files, has_one_length=horizon is not None or not header.config.data.has_lengths)
        if files.evaluation.name == EVALUATION_FILE:
            write_run_card(request.run, header)
    if replaced:
        request.on_note(
            f"{files.evaluation} had the scores on {replaced.data}, which the planner was trained on; they were "
            f"replaced. Without --data, the same command makes them again"
        )
    return found


def _check_horizon(request: EvaluationRequest, header: Header) -> int | None:
    """The length that is asked for, of a planner for several; None: its number of steps is unknown, or the only one."""
    data = header.config.data
    if request.horizon is not None and request.horizon not in data.horizons:
        raise ConfigError(
            f"--horizon {request.horizon}, but this planner plans {counted_range(data.horizons, 'step')}."
        )
    return request.horizon if data.has_lengths else None


def _read_subject(request: EvaluationRequest, trained: TrainedPlanner, horizon: int | None) -> Subject:
    """The planner, its windows and what must be said about them."""
    dataset, header = dataset_of(request.run, request.data), trained.header
    unchecked = tuple(check_features(header, dataset))
    data = load_planning_data(
        dataset,
        header.config.data,
        with_history="history" in trained.planner.sees,
        names=header.names,
        trained_on=header.data_fingerprint,
    )
    other_data = tuple(note_other_data(header, data, dataset))
    if "test" not in sides_of(header.config.data.split):
        data = _test_on_all(request, data, is_own=data.fingerprint == header.data_fingerprint)
    data = _of_length(data, horizon) if horizon is not None else data
    subject = Subject(
        trained=trained,
        dataset=dataset,
        data=data,
        side=request.side,
        windows=data.side(request.side),
        evidence=in_order(request.evidence),
        settings=replace(request.settings, horizon=horizon),
        mode=request.mode,
        notes=(*data.notes, *unchecked, *other_data, *_request_notes(request)),
        on_progress=request.on_progress,
    )
    if horizon is not None:
        subject = replace(subject, windows=subject.windows.take(one_length.order_windows(subject)))
    few = _advise(request, data, subject, is_own=data.fingerprint == header.data_fingerprint)
    return replace(subject, notes=(*subject.notes, *subject.clusters.notes, *few))


def _advise(request: EvaluationRequest, data: PlanningData, subject: Subject, *, is_own: bool) -> Iterator[str]:
    """What to do about a small test side of the planner's own data; a fold has one on purpose."""
    if is_own and request.side == "test" and not is_fold(subject.trained.header.config.data.split):
        yield from advise_small_test(data.test)


def _test_on_all(request: EvaluationRequest, data: PlanningData, *, is_own: bool) -> PlanningData:
    """Of a planner that was fitted to all videos: every window of another dataset is a test window.

    Raises:
        NoTestSideError: it is the planner's own dataset.
    """
    if not is_own:
        return replace(data, test=data.train, val=data.train.take(torch.zeros(0, dtype=torch.int64)))
    if request.side == "train":
        return data
    raise NoTestSideError(
        f"{request.run} was fitted to all videos, so there is no {request.side} side. Its cross-validated scores are "
        f"in {request.run / CROSS_VALIDATION_FILE}; to score it on other videos, pass their dataset folder: --data DIR."
    )


def _of_length(data: PlanningData, horizon: int) -> PlanningData:
    """The windows of one length.

    Raises:
        DatasetError: a side has none.
    """
    sides = {side: data.side(side).of_length(horizon)[0] for side in SIDES}
    if empty := [side for side, windows in sides.items() if not len(windows)]:
        raise DatasetError(f"{data.label} has no {listed(empty)} window of {counted(horizon, 'step')}.")
    return replace(data, train=sides["train"], val=sides["val"], test=sides["test"])


def _own_evaluation(path: Path, header: Header) -> Evaluation | None:
    """The evaluation that a file holds, if it is on the data that the planner was trained on."""
    try:
        found = read_evaluation(path) if path.is_file() else None
    except PlanError:  # it is replaced, so it need not be readable
        return None
    return found if found and found.data == header.data_label else None


def _evaluate(subject: Subject, files: EvaluationFiles, *, has_one_length: bool) -> Evaluation:
    """Sample, score and write; evaluation.json comes last, because it decides which predictions count."""
    summarise: Callable[[str], Evaluation]
    with prediction_writer(files.new_predictions) as write:
        if has_one_length:
            summarise = partial(one_length.summarise, subject, one_length.collect(subject, write))
        else:
            summarise = partial(any_length.summarise, subject, any_length.collect(subject, write))
    found = summarise(hash_file(files.new_predictions))
    with exclusive(files.actions, doing=f"is writing {files.actions}", wait=True):  # evaluations of all sides share it
        remove_leftovers(files.actions)
        write_actions(files.actions, subject.data.vocabulary.names)
    write_evaluation(files.evaluation, found)
    return found


def _request_notes(request: EvaluationRequest) -> Iterator[str]:
    side = request.side
    if request.ensemble:
        yield f"an ensemble: probabilities are averaged with those of {listed([str(run) for run in request.ensemble])}"
    if side == "train":
        yield "these are the windows that the planner was trained on; retrieval leaves out a window's own video"
    if side == "val":
        yield "the epoch and the smoothing of the transitions were chosen on these windows"
