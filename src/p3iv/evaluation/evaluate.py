"""`p3iv evaluate`: sample plans for every window of a side, decode them in every way, score them by every metric."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

import torch
from torch import Tensor

from p3iv.catalogue import DEFAULT_MODE, RANDOM, RETRIEVAL
from p3iv.data.folder import Dataset
from p3iv.data.tensors import PlanningData, WindowTensors, load_planning_data
from p3iv.errors import ConfigError, PlanError, one_of
from p3iv.evaluation.actions import ACTIONS_FILE, write_actions
from p3iv.evaluation.predictions import NamedLine, prediction_writer
from p3iv.evaluation.pretrained import write_run_card
from p3iv.evaluation.result import (
    EVALUATION_FILE,
    Evaluation,
    EvaluationFiles,
    PositionScore,
    Sampling,
    Scores,
    TaskScores,
    TruthScores,
    hash_file,
    noise_parts,
    read_evaluation,
    write_evaluation,
)
from p3iv.evaluation.tally import DecodedWindows, Tally, draw_all
from p3iv.files import exclusive, remove_leftovers
from p3iv.metrics.intervals import Clusters, difference_intervals, mean_intervals
from p3iv.metrics.plans import plan_values
from p3iv.metrics.references import ReferencePlans, known_references
from p3iv.metrics.released import score_released
from p3iv.planners.baselines.retrieval import nearest_plans
from p3iv.planners.checkpoint import TrainedPlanner, load_ensemble
from p3iv.planners.header import BEST, Header
from p3iv.planners.layers import choose_device
from p3iv.planners.matching import check_features, note_other_data
from p3iv.plans.draws import MODES, SampleSettings
from p3iv.training.run_folder import dataset_of
from p3iv.types import SIDES, OnProgress, Progress, Side, listed
from p3iv.validation import shown


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
    on_progress: OnProgress = lambda _: None
    on_note: Callable[[str], object] = lambda _: None

    def __post_init__(self) -> None:
        if self.side not in SIDES:
            raise ConfigError(f"side={shown(self.side)}, but it must be {one_of(self.side, SIDES)}")
        if self.mode not in MODES:
            raise ConfigError(f"--mode {self.mode}, but it must be {one_of(self.mode, MODES)}")


def evaluation_files(run: Path, side: Side, settings: SampleSettings, num_others: int = 0) -> EvaluationFiles:
    """The files of one evaluation.

    Another side than test, the naive alternatives to latents, and an ensemble with other runs have files of their own:
    `evaluation.json` is always about the planner itself, on test.
    """
    parts: list[str] = [side] if side != "test" else []
    parts += noise_parts(settings.input_noise, settings.dropout)
    parts += [f"ensemble{1 + num_others}"] if num_others else []
    suffix = "".join(f"_{part}" for part in parts)
    return EvaluationFiles(run / f"evaluation{suffix}.json", run / f"predictions{suffix}.jsonl", run / ACTIONS_FILE)


def evaluate(request: EvaluationRequest) -> Evaluation:
    """Evaluate the best planner of a run and write the result into the run folder.

    Raises:
        BusyError: another process is writing the same evaluation.
    """
    device = choose_device(request.device)
    trained = load_ensemble([run / BEST for run in (request.run, *request.ensemble)], device=str(device))
    dataset = dataset_of(request.run, request.data)
    header = trained.header
    unchecked = tuple(check_features(header, dataset))
    data = load_planning_data(dataset, header.config.data, names=header.names, trained_on=header.data_fingerprint)
    clusters = Clusters.of([window.video for window in data.side(request.side).windows])
    notes = (
        *data.notes,
        *unchecked,
        *note_other_data(header, data, dataset),
        *_request_notes(request),
        *clusters.notes,
    )
    for note in notes:
        request.on_note(note)
    files = evaluation_files(request.run, request.side, request.settings, len(request.ensemble))
    with files.replacing():
        replaced = _own_evaluation(files.evaluation, header) if data.fingerprint != header.data_fingerprint else None
        found = _evaluate(request, trained, dataset, data, files=files, notes=notes)
        if files.evaluation.name == EVALUATION_FILE:
            write_run_card(request.run, header)
    if replaced:
        request.on_note(
            f"{files.evaluation} had the scores on {replaced.data}, which the planner was trained on; they were "
            f"replaced. Without --data, the same command makes them again"
        )
    return found


def _own_evaluation(path: Path, header: Header) -> Evaluation | None:
    """The evaluation that a file holds, if it is on the data that the planner was trained on."""
    try:
        found = read_evaluation(path) if path.is_file() else None
    except PlanError:  # it is replaced, so it need not be readable
        return None
    return found if found and found.data == header.data_label else None


def _evaluate(
    request: EvaluationRequest,
    trained: TrainedPlanner,
    dataset: Dataset,
    data: PlanningData,
    *,
    files: EvaluationFiles,
    notes: tuple[str, ...],
) -> Evaluation:
    """Sample, score and write; evaluation.json comes last, because it decides which predictions count."""
    windows = data.side(request.side)
    tally = Tally(windows.action_ids, len(data.vocabulary), _truth_of(dataset, data, windows, trained))
    task_of = {video.id: video.task for video in dataset.videos}
    with prediction_writer(files.new_predictions) as write:
        for here, draws in draw_all(trained, windows, request.settings):
            decoded = tally.add(draws, trained.transitions)
            for line in _prediction_lines(
                windows, here, decoded, names=data.vocabulary.names, task_of=task_of, mode=request.mode
            ):
                write(line)
            request.on_progress(Progress("Evaluating windows", here.stop, len(windows)))
    digest = hash_file(files.new_predictions)
    found = _summarise(request, trained, data, tally, task_of=task_of, notes=notes, predictions_sha256=digest)
    with exclusive(files.actions, doing=f"is writing {files.actions}", wait=True):  # evaluations of all sides share it
        remove_leftovers(files.actions)
        write_actions(files.actions, data.vocabulary.names)
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


def _truth_of(
    dataset: Dataset, data: PlanningData, windows: WindowTensors, trained: TrainedPlanner
) -> ReferencePlans | None:
    """The known distributions of plans, where there is one for every window; only inclusive windows have them."""
    if not dataset.has_truth or trained.header.config.data.window != "inclusive":
        return None
    horizon = windows.action_ids.shape[1]
    known = {(t.video, t.first_step): t.plans for t in dataset.read_truth(data.vocabulary) if t.horizon == horizon}
    if any((w.video, w.first_step) not in known for w in windows.windows):
        return None
    return known_references([known[w.video, w.first_step] for w in windows.windows])


def _prediction_lines(
    windows: WindowTensors,
    here: slice,
    decoded: DecodedWindows,
    *,
    names: tuple[str, ...],
    task_of: dict[str, str],
    mode: str,
) -> Iterator[NamedLine]:
    def words(plan: Tensor) -> tuple[str, ...]:
        return tuple(names[action] for action in plan.tolist())

    scores = {name: values.double().tolist() for name, values in decoded.scores(mode).items()}
    for number, window in enumerate(windows.windows[here]):
        samples, counts = decoded.samples[mode].rows(number)
        yield NamedLine(
            window=f"{window.video}:{window.first_step}",
            video=window.video,
            task=task_of[window.video],
            first_step=window.first_step,
            start_s=window.start_s,
            goal_s=None if window.goal_s == math.inf else window.goal_s,
            plan=words(decoded.plans[decoded.decoder][number]),
            plan_probability=float(decoded.plan_probability[number]),
            reference=tuple(names[action] for action in window.action_ids),
            decoders={name: words(plans[number]) for name, plans in decoded.plans.items() if name != decoded.decoder},
            samples=tuple((words(plan), count) for plan, count in zip(samples, counts.tolist(), strict=True)),
            scores={name: None if math.isnan(values[number]) else values[number] for name, values in scores.items()},
        )


def _summarise(
    request: EvaluationRequest,
    trained: TrainedPlanner,
    data: PlanningData,
    tally: Tally,
    *,
    task_of: dict[str, str],
    notes: tuple[str, ...],
    predictions_sha256: str,
) -> Evaluation:
    """Means and intervals of the values of all windows."""
    windows, header, settings = data.side(request.side), trained.header, request.settings
    ids, videos = windows.action_ids, [window.video for window in windows.windows]
    clusters, plans = Clusters.of(videos), tally.plans()
    recommended = plans[tally.decoder]
    baselines = {
        RANDOM: _random_plans(ids, len(data.names)),
        RETRIEVAL: nearest_plans(data, windows, skip_own_video=request.side == "train"),
    }
    ours, others = plan_values(recommended, ids), {name: plan_values(each, ids) for name, each in baselines.items()}
    modes = {name: mean_intervals(tally.values(name), clusters) for name in MODES}
    exact = mean_intervals(tally.values("exact"), clusters)
    marginals = mean_intervals(tally.values(f"marginals {request.mode}"), clusters)
    return Evaluation(
        data=data.label,
        data_fingerprint=data.fingerprint,
        planner=header.config.planner,
        preset=header.config.preset,
        seed=header.config.seed,
        epoch=header.progress.best_epoch,
        side=request.side,
        horizon=ids.shape[1],
        num_windows=len(windows),
        num_videos=len(set(videos)),
        num_actions=len(data.vocabulary),
        decoder=tally.decoder,
        samples=Sampling(
            number=settings.num_samples,
            mode=request.mode,
            seed=settings.seed,
            input_noise=settings.input_noise,
            dropout=settings.dropout,
        ),
        decoders={name: _score(decoded, ids, clusters) for name, decoded in plans.items()},
        baselines={name: _score(theirs, ids, clusters) for name, theirs in baselines.items()},
        differences={name: difference_intervals(ours, theirs, clusters) for name, theirs in others.items()},
        equal={
            name: tuple(metric for metric in ours if ours[metric].equal(theirs[metric]))
            for name, theirs in others.items()
        },
        distribution=modes[request.mode] | exact,
        modes=modes,
        truth=None if tally.truth is None else _truth_scores(tally, tally.truth, ids, request.mode, clusters),
        released={name: score_released(decoded, ids, clusters) for name, decoded in plans.items()}
        | {"samples": marginals},
        tasks=_task_table(recommended, windows, task_of),
        positions=_position_table(recommended, ids, clusters),
        smoothing=trained.transitions.smoothing,
        notes=notes,
        predictions_sha256=predictions_sha256,
    )


def _score(plans: Tensor, references: Tensor, clusters: Clusters) -> Scores:
    return mean_intervals(plan_values(plans, references), clusters)


def _random_plans(action_ids: Tensor, num_actions: int) -> Tensor:
    return torch.randint(num_actions, action_ids.shape, generator=torch.Generator().manual_seed(0))


def _truth_scores(tally: Tally, truth: ReferencePlans, ids: Tensor, mode: str, clusters: Clusters) -> TruthScores:
    """KL and NLL against the known distribution, and the scores of its most probable plan."""
    modes = {
        name: mean_intervals({m: v for m, v in tally.values(f"truth {name}").items() if m in ("kl", "nll")}, clusters)
        for name in MODES
    }
    exact = mean_intervals(tally.values("truth exact"), clusters)
    return TruthScores(
        distribution=modes[mode] | exact, modes=modes, ceiling=_score(_most_probable(truth), ids, clusters)
    )


def _most_probable(truth: ReferencePlans) -> Tensor:
    """The most probable plan of every window, (N, T); ties to the first."""
    best = [
        int(first) + int(truth.probabilities[first:last].argmax())
        for first, last in zip(truth.first[:-1], truth.first[1:], strict=True)
    ]
    return truth.plans[torch.tensor(best)[truth.group]]


def _task_table(plans: Tensor, windows: WindowTensors, task_of: dict[str, str]) -> tuple[TaskScores, ...]:
    rows_of: dict[str, list[int]] = {}
    for row, window in enumerate(windows.windows):
        rows_of.setdefault(task_of[window.video], []).append(row)
    table = []
    for task, rows in sorted(rows_of.items()):
        clusters = Clusters.of([windows.windows[row].video for row in rows])
        scores = _score(plans[rows], windows.action_ids[rows], clusters)
        table.append(TaskScores(task=task, num_windows=len(rows), scores=scores))
    return tuple(table)


def _position_table(plans: Tensor, ids: Tensor, clusters: Clusters) -> tuple[PositionScore, ...]:
    return tuple(
        PositionScore(position=number, accuracy=mean_intervals({"mean_accuracy": hits}, clusters)["mean_accuracy"])
        for number, hits in enumerate((plans == ids).unbind(dim=1), start=1)
    )
