"""`p3iv train` trains a planner on a dataset and writes a run folder."""

from __future__ import annotations

import os
import time
from collections.abc import Mapping
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from p3iv.catalogue import LOSS_TERMS, TRACKER_NAMES, LossTerm, Metric, metrics_of
from p3iv.cli.console import err, interruptible, out, print_json, print_next, print_note, progress
from p3iv.cli.options import (
    AsJson,
    DatasetDir,
    Device,
    Overwrite,
    PlannerName,
    Protocol,
    Settings,
    Split,
    SplitSeed,
    Threads,
    Window,
    name_option,
    number_option,
    preset_option,
    seed_option,
)
from p3iv.planners.registry import planner_class
from p3iv.types import TRAINING, OnProgress, Progress, counted

if TYPE_CHECKING:
    from p3iv.experiments.cross_validate import CrossValidationResult

EXAMPLE = "Example: p3iv train demo/tabletop --out runs/first --preset tiny --horizon 3 --split release"


def _list_settings(wanted: bool) -> None:
    """Print every setting with its default, what is allowed and what it means, and stop."""
    if not wanted:
        return
    from p3iv.config import describe_settings

    for info in describe_settings():
        out.print(f"{info.name}={'null' if info.default is None else str(info.default)}", style="bold")
        out.print(f"    {info.about}: {info.allowed}")
    raise typer.Exit


HORIZON_HELP = "The number of steps to plan, or a range such as 1-6: one planner for all these lengths."


def train_command(
    folder: DatasetDir,
    run: Annotated[Path, typer.Option("--out", metavar="RUN", help="The folder to write, for this run.")],
    planner: PlannerName = "p3iv",
    preset: Annotated[str | None, preset_option("of the settings")] = None,
    horizon: Annotated[str, typer.Option("--horizon", metavar="T", help=HORIZON_HELP)] = "3",
    window: Window = "inclusive",
    protocol: Protocol = 1,
    split: Split = "video",
    split_seed: SplitSeed = 0,
    folds: Annotated[
        int | None,
        number_option("--folds", "Number of folds of a cross-validation, in place of --split; for few videos.", min=2),
    ] = None,
    fit_all: Annotated[
        bool,
        typer.Option("--fit-all", help="Fit a planner to all videos; folds (5 if not given) choose its settings."),
    ] = False,
    seed: Annotated[int, seed_option("parameters, noise, order and dropout")] = 0,
    settings: Settings = None,
    resume: Annotated[bool, typer.Option("--resume", help="Continue the interrupted run in RUN.")] = False,
    overwrite: Overwrite = False,
    track: Annotated[
        list[str] | None,
        name_option(
            "--track", TRACKER_NAMES, f"{', '.join(TRACKER_NAMES)}: log the epochs there, too; may be repeated."
        ),
    ] = None,
    device: Device = "auto",
    threads: Threads = 1,
    as_json: AsJson = False,
    list_settings: Annotated[  # noqa: ARG001 - its callback does it
        bool,
        typer.Option(
            "--list-settings", callback=_list_settings, is_eager=True, help="List what --set can change, and stop."
        ),
    ] = False,
) -> None:
    """Train a planner on a dataset.

    --resume continues an interrupted run; the result is the same to the last bit as without the interruption.

    With 5 to 30 videos, --folds 5 --fit-all: every video is planned by a planner that has not seen it, the windows of
    all videos together give the scores, and RUN gets the planner that is fitted to all videos.
    """
    from p3iv.api.runs import train  # torch takes a second to import
    from p3iv.config import parse_settings
    from p3iv.experiments.cross_validate import CrossValidationResult

    with interruptible(f"the same command with --resume continues {run}"), progress(_explain) as show:
        result = train(
            folder,
            run,
            planner=planner,
            preset=preset,
            horizon=horizon,
            window=window,
            protocol=protocol,
            split=split,
            split_seed=split_seed,
            folds=folds,
            fit_all=fit_all,
            seed=seed,
            settings=parse_settings(settings or []),
            resume=resume,
            overwrite=overwrite,
            device=device,
            threads=threads,
            track=tuple(track or ()),
            progress=EpochProgress(show),
            on_note=print_note,
        )
    if os.environ.get("RANK", "0") != "0":  # of several processes, only the first prints
        return
    if isinstance(result, CrossValidationResult):
        _show_cross_validation(result, as_json=as_json)
        return
    if as_json:
        print_json(result)
        return
    if result.best:
        best = {f"val_{name}": value for name, value in asdict(result.best).items()}
        scores = ", ".join(f"{metric.title} {text}" for metric, text in _scores(best))
        trained = f"{counted(result.epochs, 'epoch')}, {result.cpu_s:.0f} CPU s. Best epoch {result.best_epoch} on"
        fitted = f"Fitted without training, {result.cpu_s:.0f} CPU s. On"
        how = trained if planner_class(planner).is_trained() or "-" in horizon else fitted
        out.print(f"{how} validation: {scores} -> {result.run}")
        print_next("evaluate", result.run)


def _show_cross_validation(result: CrossValidationResult, *, as_json: bool) -> None:
    from p3iv.cli.few_videos import show_cross_validation

    scores = result.scores
    if as_json:
        print_json(vars(result) | {"scores": scores.to_dict()})
        return
    show_cross_validation(scores)
    if not result.is_fitted:
        out.print(f"{result.cpu_s:.0f} CPU s -> {result.run / 'cross_validation.json'}")
        err.print(
            "The planners of the folds are for scoring. To get the one that is fitted to all videos, add --fit-all."
        )
        return
    out.print(
        f"fitted to all {counted(scores.num_videos, 'video')}: {counted(result.epochs, 'epoch')}; "
        f"{result.cpu_s:.0f} CPU s in all -> {result.run}"
    )
    print_next("report", result.run)


class EpochProgress:
    """Shows the number of epochs, the last validation scores and the current loss terms."""

    def __init__(self, show: OnProgress) -> None:
        self._show = show
        self._shown_at = 0.0
        self._scores = ""
        self._has_begun = False

    def __call__(self, at: Progress) -> None:
        if not at.values:  # the first call is about the data
            if not self._has_begun and at.what == TRAINING:  # in a cross-validation, every part has other data
                err.print(f"data: {at.about}")
            self._has_begun = True
            self._show(replace(at, about=self._scores))
        elif _scores(at.values):
            self._show_epoch(at)
        else:
            self._show_step(at)

    def _show_step(self, at: Progress) -> None:
        """Update a terminal twice per second: reading the terms from a GPU takes time."""
        if not err.is_terminal or time.monotonic() - self._shown_at < 0.5:
            return
        self._shown_at = time.monotonic()
        self._show(replace(at, about=f"{self._scores}{_describe(at.values)}"))

    def _show_epoch(self, at: Progress) -> None:
        best = f" ({at.about})" if at.about else ""
        scores = ", ".join(f"{metric.title} {text}" for metric, text in _scores(at.values)[:2])
        self._scores = f"validation: {scores}{best}; "
        self._show(replace(at, about=f"{self._scores}{_describe(at.values)}"))


def _scores(values: Mapping[str, float]) -> list[tuple[Metric, str]]:
    """The metrics of plans that validation has computed, with their values."""
    known = [metric for metric in metrics_of("plans") if f"val_{metric.name}" in values]
    return [(metric, f"{metric.text(values[f'val_{metric.name}'])} {metric.unit}") for metric in known]


def _shown_terms(terms: Mapping[str, float]) -> list[LossTerm]:
    """The terms of the progress line, in the order of the catalogue."""
    return [term for name, term in LOSS_TERMS.items() if term.about and name in terms]


def _describe(terms: Mapping[str, float]) -> str:
    """The terms as the progress line shows them: `loss: action 2.31, language 2.02; critic: real 93%`."""
    groups = {"loss": "", "critic": "%"}
    parts = []
    for title, unit in groups.items():
        texts = [f"{term.label} {term.text(terms[term.name])}" for term in _shown_terms(terms) if term.unit == unit]
        parts += [f"{title}: {', '.join(texts)}"] if texts else []
    return "; ".join(parts)


def _explain(at: Progress) -> str:
    """The legend of the first epoch, if there will be several."""
    return legend_of(at.values) if _scores(at.values) and at.total > 1 else ""


def legend_of(terms: Mapping[str, float]) -> str:
    """What a progress line of these terms shows, one per line."""
    scores = [(metric.title, metric.about) for metric in metrics_of("plans")[:2]]
    rows = [*scores, *((term.label, term.about) for term in _shown_terms(terms))]
    width = max(len(label) for label, _ in rows) + 2
    lines = [f"  {label:<{width}}{about}" for label, about in rows]
    how = "scores on validation windows, which are not trained on, should rise; losses should fall"
    return "\n".join([f"legend: {how}", *lines])
