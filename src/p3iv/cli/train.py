"""`p3iv train` trains a planner on a dataset and writes a run folder."""

from __future__ import annotations

import os
import shlex
import time
from collections.abc import Mapping
from dataclasses import asdict, replace
from pathlib import Path
from typing import Annotated

import typer

from p3iv.catalogue import LOSS_TERMS, Metric, metrics_of
from p3iv.cli.console import err, interruptible, out, print_json, print_note, progress
from p3iv.cli.options import (
    AsJson,
    DatasetDir,
    Device,
    Protocol,
    Settings,
    Split,
    SplitSeed,
    Threads,
    Window,
    seed_option,
)
from p3iv.config import PRESETS, parse_settings
from p3iv.planners.registry import PLANNERS, planner_class
from p3iv.training.tracking import TRACKERS
from p3iv.types import OnProgress, Progress, counted

EXAMPLE = "Example: p3iv train demo/tabletop --out runs/first --preset tiny --horizon 3 --split release"


def train_command(
    folder: DatasetDir,
    run: Annotated[Path, typer.Option("--out", metavar="RUN", help="The run folder to write.")],
    planner: Annotated[str, typer.Option("--planner", metavar="NAME", help=f"{', '.join(PLANNERS)}.")] = "p3iv",
    preset: Annotated[
        str | None,
        typer.Option("--preset", metavar="NAME", help=f"{', '.join(PRESETS)}; without it, the planner's own."),
    ] = None,
    horizon: Annotated[int, typer.Option("--horizon", metavar="T", help="The number of actions to plan.")] = 3,
    window: Window = "inclusive",
    protocol: Protocol = 1,
    split: Split = "video",
    split_seed: SplitSeed = 0,
    seed: Annotated[int, seed_option("Seed of parameters, noise, order and dropout.")] = 0,
    settings: Settings = None,
    resume: Annotated[bool, typer.Option("--resume", help="Continue the interrupted run in RUN.")] = False,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace the run in RUN.")] = False,
    track: Annotated[
        list[str] | None,
        typer.Option("--track", metavar="NAME", help=f"{', '.join(TRACKERS)}: log the epochs there, too. Repeatable."),
    ] = None,
    device: Device = "auto",
    threads: Threads = 1,
    as_json: AsJson = False,
) -> None:
    """Train a planner on a dataset.

    --resume continues an interrupted run; the result is the same to the last bit as without the interruption.
    """
    from p3iv.api.runs import train  # torch takes a second to import

    with interruptible(f"the same command with --resume continues {run}"), progress() as show:
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
    if as_json:
        print_json(result)
        return
    if result.best:
        best = {f"val_{name}": value for name, value in asdict(result.best).items()}
        scores = ", ".join(f"{metric.title} {text}" for metric, text in _scores(best))
        trained = f"{counted(result.epochs, 'epoch')}, {result.cpu_s:.0f} CPU s. Best epoch {result.best_epoch} on"
        fitted = f"Fitted without training, {result.cpu_s:.0f} CPU s. On"
        how = trained if planner_class(planner).is_trained() else fitted
        out.print(f"{how} validation: {scores} -> {result.run}")
        out.print(f"next: p3iv evaluate {shlex.quote(str(result.run))}")


class EpochProgress:
    """Shows the number of epochs, the last validation scores and the current loss terms."""

    def __init__(self, show: OnProgress) -> None:
        self._show = show
        self._shown_at = 0.0
        self._scores = ""
        self._has_begun = self._has_legend = False

    def __call__(self, at: Progress) -> None:
        if not at.values:  # the first call is about the data
            if not self._has_begun:
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
        self._show(replace(at, about=f"{self._scores}{_short_terms(at.values)}"))

    def _show_epoch(self, at: Progress) -> None:
        if at.total > 1 and not self._has_legend:
            self._has_legend = True
            err.print(_legend(at.values))
        best = f" ({at.about})" if at.about else ""
        scores = (f"{metric.label} {text}" for metric, text in _scores(at.values)[:2])
        self._scores = f"val {', '.join(scores)}{best}; "
        self._show(replace(at, about=f"{self._scores}{_short_terms(at.values)}"))


def _scores(values: Mapping[str, float]) -> list[tuple[Metric, str]]:
    """The metrics of plans that validation has computed, with their values."""
    known = [metric for metric in metrics_of("plans") if f"val_{metric.name}" in values]
    return [(metric, f"{metric.text(values[f'val_{metric.name}'])} {metric.unit}") for metric in known]


def _legend(terms: Mapping[str, float]) -> str:
    """What the abbreviations of a progress line mean."""
    scores = [f"{metric.label} = {metric.title}" for metric in metrics_of("plans")[:2]]
    groups = {f"val = validation windows, {', '.join(scores)}; losses": "", "accuracy of the critic": "%"}
    parts = []
    for title, unit in groups.items():
        of_group = [term for name, term in LOSS_TERMS.items() if name in terms and term.short and term.unit == unit]
        names = [term.short if term.short == term.label else f"{term.short} = {term.label}" for term in of_group]
        parts += [f"{title}: {', '.join(names)}"] if names else []
    return f"progress: {'; '.join(parts)}"


def _short_terms(terms: Mapping[str, float]) -> str:
    """The loss terms that have a short label, in the order of the catalogue."""
    return " ".join(
        f"{term.short} {term.text(terms[name])}" for name, term in LOSS_TERMS.items() if term.short and name in terms
    )
