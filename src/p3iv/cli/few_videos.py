"""Few videos: `p3iv data enough`, and the scores of a cross-validation as `train` and `evaluate` print them."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from p3iv.catalogue import BASELINES, METRICS
from p3iv.cli.console import interruptible, out, print_json, print_next_training, print_table, progress
from p3iv.cli.options import (
    AsJson,
    DatasetDir,
    Device,
    PlannerName,
    Settings,
    Threads,
    number_option,
    preset_option,
    seed_option,
)

if TYPE_CHECKING:
    from p3iv.evaluation.cross_validated import CrossValidation
    from p3iv.metrics.intervals import Interval


FEW_VIDEOS = range(5, 31)  # where a test side takes too many videos away, and a cross-validation is affordable


def print_next_training_on(folder: Path, num_videos: int) -> None:
    """Print how to train on a dataset: with a cross-validation, if it has few videos."""
    if num_videos in FEW_VIDEOS:
        print_next_training(folder, {"--folds": (5, None)}, flags=("--fit-all",))
    else:
        print_next_training(folder)


def show_cross_validation(found: CrossValidation) -> None:
    """Print the scores of a cross-validation as tables."""
    from p3iv.evaluation.cross_validated import WHAT_INTERVALS_COVER, describe_amounts

    out.print(f"{found.planner} on {found.data}, cross-validated: {describe_amounts(found)}\n")
    metrics = [METRICS[name] for name in found.plans]
    named = {BASELINES.get(name, name): scores for name, scores in found.baselines.items()}
    rows = [
        [label, *(_text(name, scores[name]) if name in scores else "" for name in found.plans)]
        for label, scores in {"planner": found.plans, **named}.items()
    ]
    print_table(["", *(f"{metric.label}, {metric.unit}" for metric in metrics)], rows)
    out.print()
    print_table(
        ["procedure", "videos", "windows", METRICS["success_rate"].heading],
        [
            [
                each.task,
                str(sum(video.task == each.task for video in found.videos)),
                str(each.num_windows),
                METRICS["success_rate"].text(each.scores["success_rate"].value),
            ]
            for each in found.tasks
        ],
    )
    out.print()
    out.print(WHAT_INTERVALS_COVER)
    for note in found.notes:
        out.print(f"note: {note}")


def _text(name: str, score: Interval) -> str:
    metric = METRICS[name]
    return metric.interval_text(score.value, score.low, score.high) if score.has_ends else metric.text(score.value)


def enough_command(
    folder: DatasetDir,
    out_dir: Annotated[
        Path | None,
        typer.Option("--out", metavar="FOLDER", help="Where trainings and results go; by default DIR/enough."),
    ] = None,
    planner: PlannerName = "p3iv-plus",
    preset: Annotated[str | None, preset_option("of the settings")] = None,
    horizon: Annotated[int, typer.Option("--horizon", metavar="T", min=1, help="The number of steps to plan.")] = 3,
    folds: Annotated[int, number_option("--folds", "Number of folds of the cross-validations.", min=2)] = 5,
    split_seed: Annotated[int, number_option("--split-seed", "Seed of the folds.", min=0)] = 0,
    seed: Annotated[int, seed_option("parameters, noise, order and dropout")] = 0,
    settings: Settings = None,
    device: Device = "auto",
    threads: Threads = 1,
    as_json: AsJson = False,
) -> None:
    """Say whether a dataset has enough videos.

    Planners are cross-validated that learn from a quarter, a half and all of the videos, and a curve through their
    scores says what twice as many would probably bring. Writes enough.json and learning_curve.svg, which `p3iv report`
    shows. The same command continues after an interruption.
    """
    from p3iv.api.datasets import data_enough  # torch takes a second to import
    from p3iv.config import parse_settings
    from p3iv.evaluation.learning_curve import explain

    with interruptible("the same command continues"), progress() as show:
        result = data_enough(
            folder,
            out=out_dir,
            planner=planner,
            preset=preset,
            horizon=horizon,
            folds=folds,
            split_seed=split_seed,
            seed=seed,
            settings=parse_settings(settings or []),
            device=device,
            threads=threads,
            progress=show,
        )
    if as_json:
        curve = result.curve.to_dict() if result.curve else None
        print_json({"curve": curve, "too_few": result.too_few, "cpu_s": result.cpu_s})
        return
    if result.curve is None:
        out.print(f"Too few to say: {result.too_few}.")
        return
    success = METRICS["success_rate"]
    rows = [[f"{point.num_videos:g}", _text(success.name, point.success_rate)] for point in result.curve.points]
    double = result.curve.double
    if double is not None:
        rows.append([f"{2 * result.curve.points[-1].num_videos:g} (expected)", _text(success.name, double)])
    print_table(["videos that a planner learns from", success.heading], rows)
    out.print()
    out.print(explain(result.curve))
    out.print(f"{result.cpu_s:.0f} CPU s -> {(out_dir or folder / 'enough') / 'learning_curve.svg'}")
    print_next_training(folder, {"--folds": (folds, None), "--horizon": (horizon, 3)}, flags=("--fit-all",))
