"""`p3iv train` trains a planner on a dataset and writes a run folder."""

from __future__ import annotations

import os
import time
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from p3iv.catalogue import LOSS_TERMS, LossTerm, Metric, metrics_of
from p3iv.cli.console import ShowProgress, err, interruptible, out, print_json, print_next, print_note, progress
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
    preset_option,
    resolve_split,
    seed_option,
)
from p3iv.errors import ConfigError
from p3iv.planners.registry import planner_class
from p3iv.types import counted, listed

if TYPE_CHECKING:
    from p3iv.config import Config
    from p3iv.metrics.plans import PlanScores
    from p3iv.training.loop import EpochReport, StepReport

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


def train_command(
    folder: DatasetDir,
    run: Annotated[Path, typer.Option("--out", metavar="RUN", help="The folder to write, for this run.")],
    planner: PlannerName = "p3iv",
    preset: Annotated[str | None, preset_option("of the settings")] = None,
    horizon: Annotated[int, typer.Option("--horizon", metavar="T", help="The number of actions to plan.")] = 3,
    window: Window = "inclusive",
    protocol: Protocol = 1,
    split: Split = "video",
    split_seed: SplitSeed = 0,
    seed: Annotated[int, seed_option("parameters, noise, order and dropout")] = 0,
    settings: Settings = None,
    resume: Annotated[bool, typer.Option("--resume", help="Continue the interrupted run in RUN.")] = False,
    overwrite: Overwrite = False,
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
        print_next("evaluate", result.run)


def _configure(planner: str, preset: str | None, changes: Mapping[str, object], settings: list[str]) -> Config:
    """The preset with the command's options and `--set` applied."""
    from p3iv.config import override, parse_settings, preset_config  # keeps `p3iv --help` quick

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

    def show_step(self, report: StepReport) -> None:
        """Update a terminal twice per second: reading the terms from a GPU takes time."""
        if not err.is_terminal or time.monotonic() - self._shown_at < 0.5:
            return
        self._shown_at = time.monotonic()
        terms = {name: value.item() for name, value in report.terms.items()}
        self._show_line(report.epoch - 1 + report.step / report.num_steps, report.epochs, terms)

    def show_epoch(self, report: EpochReport) -> None:
        best = " (best so far)" if report.is_best else ""
        scores = ", ".join(f"{metric.title} {text}" for metric, text in _scores(report.val)[:2])
        self._scores = f"validation: {scores}{best}; "
        self._show_line(report.epoch, report.epochs, report.terms)

    def _show_line(self, done: float, epochs: int, terms: Mapping[str, float]) -> None:
        legend = legend_of(terms) if epochs > 1 else ""
        self._show(done, epochs, f"{self._scores}{_describe(terms)}", legend)


def _scores(scores: PlanScores) -> list[tuple[Metric, str]]:
    """The metrics that validation computes, which are some of those of plans, with their values."""
    known = [metric for metric in metrics_of("plans") if hasattr(scores, metric.name)]
    return [(metric, f"{metric.text(getattr(scores, metric.name))} {metric.unit}") for metric in known]


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


def legend_of(terms: Mapping[str, float]) -> str:
    """What a progress line of these terms shows, one per line."""
    scores = [(metric.title, metric.about) for metric in metrics_of("plans")[:2]]
    rows = [*scores, *((term.label, term.about) for term in _shown_terms(terms))]
    width = max(len(label) for label, _ in rows) + 2
    lines = [f"  {label:<{width}}{about}" for label, about in rows]
    how = "scores on validation windows, which are not trained on, should rise; losses should fall"
    return "\n".join([f"legend: {how}", *lines])
