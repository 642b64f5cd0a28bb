"""Train, evaluate, report, compare and score, as functions: `p3iv.train(...)` does what `p3iv train` does.

Arguments are named like the options of the commands, and their defaults are the same. Nothing is printed; what a user
should know goes to `on_note`, and how far the work is to `progress`. Heavy libraries are imported when a function runs.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from p3iv.api.threads import torch_unchanged
from p3iv.catalogue import DEFAULT_MODE, DEFAULT_NUM_SAMPLES, PICTURES
from p3iv.errors import warn_caller

if TYPE_CHECKING:
    from p3iv.config import Config
    from p3iv.evaluation.result import Evaluation
    from p3iv.evaluation.scores import PredictionScores
    from p3iv.experiments.compare import Comparison
    from p3iv.moments import OnNote
    from p3iv.report.run_files import RunRecord
    from p3iv.report.tables import Published
    from p3iv.report.write import ReportResult
    from p3iv.training.loop import TrainResult
    from p3iv.types import OnProgress, Side

_NOT_COMPARED = {"planner": "--planners", "preset": "--preset", "seed": "--seeds", "data.horizon": "--horizons"}


def train(
    data: str | Path,
    out: str | Path,
    *,
    planner: str = "p3iv",
    preset: str | None = None,
    horizon: int | str = "3",
    window: str = "inclusive",
    protocol: int = 1,
    split: str | Path = "video",
    split_seed: int = 0,
    folds: int | None = None,
    fit_all: bool = False,
    seed: int = 0,
    settings: Mapping[str, object] | None = None,
    resume: bool = False,
    overwrite: bool = False,
    device: str = "auto",
    threads: int | None = None,
    track: Sequence[str] = (),
    progress: OnProgress | None = None,
    on_note: OnNote = warn_caller,
) -> TrainResult:
    """Train a planner on a dataset and write a run folder.

    With `folds` or `fit_all` the result also has `scores`, those of all videos, each planned by a planner that has not
    seen it; `fit_all` then fits the planner in `out` to all of them.

    Args:
        data: the dataset folder.
        out: the run folder to write.
        planner: p3iv, p3iv-plus or the name of a baseline.
        preset: a set of settings; without it, the planner's own.
        horizon: the number of actions to plan, or a range such as "1-6": one planner for all these lengths
            (p3iv-plus and graph).
        window: what the start observation shows: the first action of the plan (inclusive), or the action before it
            (after-start).
        protocol: 1: every window. 2: one random window of T-1 actions per video.
        split: video (whole videos, at random), stratified (the same, with a share of the videos of every task on each
            side), release (the dataset's own split), window, or a JSON file of video ids.
        split_seed: seed of the random split, and of the folds.
        folds: cross-validate with this number of folds, in place of a split; for 5 to 30 videos.
        fit_all: fit a planner to all videos; the folds (5 if not given) choose what validation videos would.
        seed: seed of parameters, noise, order and dropout.
        settings: further settings by their names, such as {"optim.epochs": 20}.
        resume: continue the interrupted run in `out`; the result is the same to the last bit as without interruption.
        overwrite: replace the run in `out`.
        device: auto, cpu, cuda or mps.
        threads: CPU threads of torch during the training; None leaves them as they are.
        track: log the epochs to tensorboard, mlflow or wandb, too; metrics.csv is always written.
        progress: is called after every step and every epoch. `values` has the losses and, after an epoch, the
            validation scores.
        on_note: is called with what the user should know about data and training.

    Raises:
        ConfigError: a setting does not exist, has a value that is not allowed, or belongs to another planner.
        DatasetError: the dataset has no features, or the run folder has a run already.
        TrainingError: a loss or a parameter stopped being finite.

    Example:
        >>> result = p3iv.train(
        ...     "demo/tabletop", "runs/kitchen", planner="p3iv-plus", split="release", settings={"optim.epochs": 2}
        ... )
        >>> result.epochs
        2
        >>> planner = p3iv.Planner.from_pretrained(result.run)
    """
    from p3iv.config import parse_horizon
    from p3iv.data.folder import open_dataset
    from p3iv.experiments.cross_validate import DEFAULT_FOLDS, CrossValidationRequest, cross_validate
    from p3iv.training.loop import TrainRequest
    from p3iv.training.loop import train as run_training

    is_first = os.environ.get("RANK", "0") == "0"  # of several processes, only the first reports
    shortest, longest = parse_horizon(horizon)
    lengths = {"data.horizon": longest, "data.min_horizon": shortest}
    windows = {**lengths, "data.window": window, "data.protocol": protocol}
    changes = {"planner": planner, "seed": seed, **windows, **_split(split), "data.split_seed": split_seed}
    config = configure(planner, preset, changes, settings or {})
    dataset = open_dataset(Path(data))
    for note in dataset.notes if is_first else ():
        on_note(note)
    request = TrainRequest(
        dataset=dataset,
        run=Path(out),
        config=config,
        resume=resume,
        overwrite=overwrite,
        device=device,
        track=_names(track),
        on_progress=progress if progress and is_first else _ignore,
        on_note=on_note if is_first else _ignore,
    )
    with torch_unchanged(threads):
        if folds is None and not fit_all:
            return run_training(request)
        return cross_validate(CrossValidationRequest(request, folds or DEFAULT_FOLDS, fit_all))


def configure(
    planner: str, preset: str | None, changes: Mapping[str, object], settings: Mapping[str, object]
) -> Config:
    """The preset with the arguments of `train` and further settings applied."""
    from p3iv.config import Config, override, preset_config
    from p3iv.errors import ConfigError
    from p3iv.planners.registry import class_of, planner_class
    from p3iv.types import listed

    if not isinstance(settings, Mapping):
        raise ConfigError('Settings have names and values, such as settings={"optim.epochs": 20}.')
    planner_class(planner)  # its name comes first: other settings depend on it
    chosen = class_of(override(Config(planner=planner), {**changes, "planner": planner}))
    for name in ("planner", "preset"):
        if name in settings:
            value = settings[name]
            raise ConfigError(f"--set {name}={value}, but {name} has its own option: --{name} {value}.")
    if unread := [name for name in settings if chosen.ignores(name)]:
        read = listed([f"{name}*" if name.endswith(".") else name for name in chosen.own_settings]) or "none"
        raise ConfigError(f"Planner {planner} does not use {unread[0]}. Settings of its own: {read}.")
    return override(preset_config(preset or chosen.preset), {**changes, **settings})


def evaluate(
    run: str | Path,
    *,
    data: str | Path | None = None,
    side: Side = "test",
    horizon: int | None = None,
    evidence: Sequence[str] = PICTURES,
    samples: int | None = None,
    seed: int = 0,
    mode: str = DEFAULT_MODE,
    input_noise: float = 0.0,
    dropout: float = 0.0,
    ensemble: Sequence[str | Path] = (),
    device: str = "auto",
    threads: int | None = None,
    progress: OnProgress | None = None,
    on_note: OnNote = warn_caller,
) -> Evaluation:
    """Score a trained planner with every decoder and metric, and write evaluation.json and predictions.jsonl.

    Scores have 95 % intervals for other videos, not for other seeds of the training. A planner for several lengths is
    scored with the number of steps unknown, and for every length with the number known, in `lengths` also by what else
    it is told.

    Args:
        run: a run folder of `train`.
        data: the dataset folder, if it has moved since training.
        side: which part of the split to score: train, val or test.
        horizon: of a planner for several lengths: score windows of this length as those of a planner for one length.
        evidence: what a planner for several lengths is told: start, goal, history, words (the name of the last step),
            procedure.
        samples: number of plans to sample for each start and goal; by default 1500, or 100 where the number of steps is
            unknown.
        seed: seed of the samples.
        mode: how the plans in predictions.jsonl are sampled.
        input_noise: noise on the observations in place of latents.
        dropout: dropout at inference in place of latents.
        ensemble: more runs, whose probabilities are averaged with those of `run`.
        device: auto, cpu, cuda or mps.
        threads: CPU threads of torch during the evaluation; None leaves them as they are.
        progress: is called after every batch of windows.
        on_note: is called with what the user should know about the data.

    Raises:
        CheckpointError: the run has no checkpoint, or one that cannot be read.
        DatasetError: the dataset has moved, or has features of another encoder.

    Example:
        >>> found = p3iv.evaluate("runs/first", samples=100)
        >>> rate = found.decoders[found.decoder]["success_rate"]
        >>> rate.low <= rate.value <= rate.high
        True
    """
    from p3iv.evaluation.evaluate import EvaluationRequest, default_samples
    from p3iv.evaluation.evaluate import evaluate as run_evaluation
    from p3iv.plans.draws import SampleSettings

    number = default_samples(Path(run), horizon) if samples is None else samples
    request = EvaluationRequest(
        run=Path(run),
        data=_path(data),
        side=side,
        settings=SampleSettings(num_samples=number, seed=seed, input_noise=input_noise, dropout=dropout),
        mode=mode,
        device=device,
        ensemble=tuple(map(Path, ensemble)),
        horizon=horizon,
        evidence=_names(evidence),
        on_progress=progress or _ignore,
        on_note=on_note,
    )
    with torch_unchanged(threads):
        return run_evaluation(request)


def write_report(run: str | Path, *, data: str | Path | None = None, cases: int = 8) -> ReportResult:
    """Write the results of a run as one HTML page, RUN/report.html; the command is `p3iv report`.

    Args:
        run: a run folder that `evaluate` has scored.
        data: the dataset folder, if it has moved since training; pictures are taken from its videos.
        cases: number of windows in the gallery, right and wrong ones.

    Raises:
        PlanError: the run has not been evaluated.

    Example:
        >>> p3iv.write_report("runs/first", cases=4).path.name
        'report.html'
    """
    from p3iv.report.write import write_report as write

    return write(Path(run), data=_path(data), num_cases=cases, find_published=published_for)


def published_for(run: RunRecord) -> Published | None:
    """The paper's numbers for the dataset, horizon and protocol of a run; None where it has none, or several lengths.

    The samples of a run without noise are compared with those of the paper's deterministic planner.
    """
    from p3iv.catalogue import METRICS
    from p3iv.experiments.declarations import published_figures
    from p3iv.report.tables import Published

    name, data = run.dataset_name, run.config.data
    if data.has_lengths:
        return None
    found = published_figures(name, data.horizon, protocol=data.protocol)
    if run.config.model.noise_width == 0:
        without_noise = published_figures(name, data.horizon, protocol=data.protocol, method="deterministic")
        found = {metric: each for metric, each in found.items() if METRICS[metric].group != "samples"} | without_noise
    scores = {metric: each.value for metric, each in found.items()}
    places = {metric: each.place for metric, each in found.items()}
    return Published(name, data.horizon, data.protocol, scores, places) if found else None


def score(
    file: str | Path,
    actions: int | str | Path,
    *,
    references: str | Path | None = None,
    batch_size: int = 32,
    threads: int | None = None,
) -> PredictionScores:
    """Score a file of predictions, made by any method, by every metric in use.

    Args:
        file: predictions, as JSON lines or CSV.
        actions: the number of actions, or a file of their names.
        references: a file with columns `window` and `reference`, if `file` has no references.
        batch_size: windows per batch of the batch IoU.
        threads: CPU threads of torch during the call; None leaves them as they are.

    Raises:
        PlanError: a line cannot be read, or has an action that is not in the list.

    Example:
        >>> scores = p3iv.score("runs/first/predictions.jsonl", "runs/first/actions.json")
        >>> 0 <= scores.plans["success_rate"].value <= 1
        True
    """
    from p3iv.evaluation.actions import read_actions
    from p3iv.evaluation.predictions import read_predictions
    from p3iv.evaluation.scores import score as score_predictions

    with torch_unchanged(threads):
        known = read_actions(str(actions))
        return score_predictions(
            read_predictions(Path(file), known, _path(references)), known.number, batch_size=batch_size
        )


def compare(
    data: str | Path,
    out: str | Path,
    *,
    planners: Literal["all"] | Sequence[str] = "all",
    horizons: Sequence[int] = (3, 4),
    seeds: Sequence[int] = (0, 1, 2),
    preset: str | None = None,
    split: str | Path = "video",
    samples: int = DEFAULT_NUM_SAMPLES,
    settings: Mapping[str, object] | None = None,
    jobs: int = 1,
    engine: str = "local",
    address: str | None = None,
    device: str = "auto",
    threads: int = 1,
    command: str = "",
    progress: OnProgress | None = None,
    on_note: OnNote = warn_caller,
) -> Comparison:
    """Train several planners on one dataset and compare them in one table.

    Writes OUT/comparison.csv, OUT/tables and OUT/index.html. The same call continues after an interruption and makes
    only the missing runs. A run that fails is in `failures`; the others continue.

    Args:
        data: the dataset folder.
        out: the folder to write runs and tables to.
        planners: their names, or all.
        horizons: the horizons, a table each.
        seeds: the seeds of the trainings; intervals contain the variation between them.
        preset: the preset of all planners; without it, each planner's own.
        split: video, release, window, or a JSON file of video ids.
        samples: number of plans to sample for each start and goal.
        settings: further settings by their names, such as {"optim.max_cpu_s": 600}.
        jobs: number of runs at a time; each is a process of its own if there are several.
        engine: local (processes on this machine) or ray (a cluster that sees the same folders).
        address: HOST:PORT of a Ray cluster.
        device: auto, cpu, cuda or mps.
        threads: CPU threads of torch in each run.
        command: how the comparison was started, which is written beside the tables.
        progress: is called after every run.
        on_note: is called with what the user should know about data and training.

    Raises:
        ConfigError: a planner or a setting does not exist, or a setting has an argument of its own here.

    Example:
        >>> planners = ["retrieval", "graph"]
        >>> compared = p3iv.compare("demo/tabletop", "compared", planners=planners, horizons=[3], seeds=[0])
        >>> [row["planner"] for row in compared.rows]
        ['retrieval', 'graph']
    """
    from p3iv.errors import ConfigError
    from p3iv.experiments.compare import CompareRequest, Comparison
    from p3iv.experiments.compare import compare as run_comparison
    from p3iv.experiments.engine import Execution
    from p3iv.planners.registry import PLANNERS

    changes = {**_split(split), **(settings or {})}
    for name, option in _NOT_COMPARED.items():
        if name in changes:
            raise ConfigError(f"--set {name}={changes[name]}, but in a comparison it is {option} {changes[name]}.")
    request = CompareRequest(
        folder=Path(data),
        out=Path(out),
        planners=tuple(PLANNERS) if planners == "all" else _names(planners),
        horizons=tuple(horizons),
        seeds=tuple(seeds),
        preset=preset,
        settings=changes,
        samples=samples,
        execution=Execution(
            jobs=jobs,
            engine=engine,
            address=address,
            device=device,
            threads=threads,
            command=command,
            on_progress=progress or _ignore,
            on_note=on_note,
        ),
    )
    with torch_unchanged():
        return Comparison.of(request.out, run_comparison(request))


def _split(split: str | Path) -> dict[str, object]:
    """A kind of split, or the absolute path of a split file: later commands may run in another folder."""
    from p3iv.data.windows import is_split_kind

    return {"data.split": split if is_split_kind(str(split)) else str(Path(split).resolve())}


def _path(path: str | Path | None) -> Path | None:
    return None if path is None else Path(path)


def _ignore(_: object) -> None:
    pass


def _names(names: str | Sequence[str]) -> tuple[str, ...]:
    """One name or several, as several."""
    return (names,) if isinstance(names, str) else tuple(names)
