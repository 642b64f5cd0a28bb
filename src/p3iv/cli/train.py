"""`p3iv train` trains a planner on a dataset and writes a run folder."""

from __future__ import annotations

import os
import shlex
import time
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from p3iv.catalogue import LOSS_TERMS, Metric, metrics_of
from p3iv.cli.console import ShowProgress, err, interruptible, out, print_json, print_note, progress
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
    resolve_split,
    seed_option,
)
from p3iv.config import PRESETS, Config, override, parse_settings, preset_config
from p3iv.errors import ConfigError
from p3iv.planners.registry import PLANNERS, planner_class
from p3iv.training.tracking import TRACKERS
from p3iv.types import PlanScores, counted, listed

if TYPE_CHECKING:
    from p3iv.training.loop import EpochReport, StepReport

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
    import torch  # takes a second to import

    from p3iv.data.folder import open_dataset
    from p3iv.training.loop import TrainRequest, train

    torch.set_num_threads(threads)
    data = {
        "data.horizon": horizon,
        "data.window": window,
        "data.protocol": protocol,
        "data.split": resolve_split(split),
        "data.split_seed": split_seed,
    }
    config = _configure(planner, preset, {"planner": planner, "seed": seed, **data}, settings or [])
    is_first = os.environ.get("RANK", "0") == "0"  # of several processes, only the first prints
    request = TrainRequest(
        dataset=open_dataset(folder),
        run=run,
        config=config,
        resume=resume,
        overwrite=overwrite,
        device=device,
        track=tuple(track or ()),
    )
    if not is_first:
        train(request)
        return
    with interruptible(f"the same command with --resume continues {run}"), progress("Training epochs") as show:
        epochs = EpochProgress(show)
        request = replace(request, on_data=_show_amounts, on_note=print_note)
        result = train(replace(request, on_step=epochs.show_step, on_epoch=epochs.show_epoch))
    if as_json:
        print_json(result)
        return
    if result.best:
        scores = ", ".join(f"{metric.title} {text}" for metric, text in _scores(result.best))
        trained = f"{counted(result.epochs, 'epoch')}, {result.cpu_s:.0f} CPU s. Best epoch {result.best_epoch} on"
        fitted = f"Fitted without training, {result.cpu_s:.0f} CPU s. On"
        how = trained if planner_class(planner).is_trained() else fitted
        out.print(f"{how} validation: {scores} -> {result.run}")
        out.print(f"next: p3iv evaluate {shlex.quote(str(result.run))}")


def _configure(planner: str, preset: str | None, changes: Mapping[str, object], settings: list[str]) -> Config:
    """The preset with the command's options and `--set` applied."""
    chosen, asked = planner_class(planner), parse_settings(settings)
    for name in ("planner", "preset"):
        if name in asked:
            raise ConfigError(f"--set {name}={asked[name]}, but {name} has its own option: --{name} {asked[name]}.")
    if unread := [name for name in asked if chosen.ignores(name)]:
        read = listed([f"{name}*" if name.endswith(".") else name for name in chosen.own_settings]) or "none"
        raise ConfigError(f"Planner {planner} does not use {unread[0]}. Settings of its own: {read}.")
    return override(preset_config(preset or chosen.preset), {**changes, **asked})


def _show_amounts(line: str) -> None:
    err.print(f"data: {line}")


class EpochProgress:
    """Shows the number of epochs, the last validation scores and the current loss terms."""

    def __init__(self, show: ShowProgress) -> None:
        self._show = show
        self._shown_at = 0.0
        self._scores = ""
        self._has_legend = False

    def show_step(self, report: StepReport) -> None:
        """Update a terminal twice per second: reading the terms from a GPU takes time."""
        if not err.is_terminal or time.monotonic() - self._shown_at < 0.5:
            return
        self._shown_at = time.monotonic()
        terms = _short_terms({name: value.item() for name, value in report.terms.items()})
        self._show(report.epoch - 1 + report.step / report.num_steps, report.epochs, f"{self._scores}{terms}")

    def show_epoch(self, report: EpochReport) -> None:
        if report.epochs > 1 and not self._has_legend:
            self._has_legend = True
            err.print(_legend(report.terms))
        best = " (best so far)" if report.is_best else ""
        scores = (f"{metric.label} {text}" for metric, text in _scores(report.val)[:2])
        self._scores = f"val {', '.join(scores)}{best}; "
        self._show(report.epoch, report.epochs, f"{self._scores}{_short_terms(report.terms)}")


def _scores(scores: PlanScores) -> list[tuple[Metric, str]]:
    """The metrics that validation computes, which are some of those of plans, with their values."""
    known = [metric for metric in metrics_of("plans") if hasattr(scores, metric.name)]
    return [(metric, f"{metric.text(getattr(scores, metric.name))} {metric.unit}") for metric in known]


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
