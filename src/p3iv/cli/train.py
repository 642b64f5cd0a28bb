"""`p3iv train DIR --out RUN`."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from p3iv.cli.choices import Protocol, WindowKind, split_choice
from p3iv.cli.console import err, out, print_json
from p3iv.errors import ConfigError
from p3iv.types import counted, listed

if TYPE_CHECKING:
    from p3iv.config import Config
    from p3iv.training.loop import EpochReport, StepReport

EXAMPLE = "Example: p3iv train demo/tabletop --out runs/first --preset tiny --horizon 3 --split release"
DATA_OPTIONS = ("horizon", "window", "protocol", "split", "split_seed")


def train_command(
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="A dataset folder with features.")],
    run: Annotated[Path, typer.Option("--out", metavar="RUN", help="The run folder to write.")],
    planner: Annotated[str, typer.Option("--planner", help="Which planner; any other word lists them all.")] = "p3iv",
    preset: Annotated[
        str | None, typer.Option("--preset", help="p3iv (the paper's), p3iv-deterministic, p3iv-plus or tiny.")
    ] = None,
    horizon: Annotated[int, typer.Option("--horizon", help="T, the number of actions to plan.")] = 3,
    window: Annotated[
        WindowKind, typer.Option("--window", help="Show the first planned action, or the one before it.")
    ] = WindowKind.inclusive,
    protocol: Annotated[Protocol, typer.Option("--protocol", help="1: every window; 2: one per video.")] = Protocol.one,
    split: Annotated[
        str, typer.Option("--split", help="video, release (the dataset's own), window, or a split file.")
    ] = "video",
    split_seed: Annotated[int, typer.Option("--split-seed", min=0, help="The split depends on it alone.")] = 0,
    seed: Annotated[int, typer.Option("--seed", min=0, help="Of parameters, noise, order and dropout.")] = 0,
    settings: Annotated[
        list[str] | None, typer.Option("--set", metavar="KEY=VALUE", help="Any setting, e.g. optim.epochs=20.")
    ] = None,
    resume: Annotated[bool, typer.Option("--resume", help="Go on where the run in RUN stopped.")] = False,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace the run in RUN.")] = False,
    device: Annotated[str, typer.Option("--device", help="auto, cpu, cuda or mps.")] = "auto",
    threads: Annotated[int, typer.Option("--threads", min=1, help="Threads that torch computes with.")] = 1,
    as_json: Annotated[bool, typer.Option("--json", help="Print the result as JSON.")] = False,
) -> None:
    """Train a planner; `--resume` continues an interrupted run to the same last bit."""
    import torch  # takes a second to import

    from p3iv.data.folder import open_dataset
    from p3iv.training.loop import (
        TrainRequest,
        train,
    )

    torch.set_num_threads(threads)
    values = horizon, window.value, int(protocol), split_choice(split), split_seed
    chosen = dict(zip(DATA_OPTIONS, values, strict=True))
    config = _configure(planner, preset, seed, chosen, settings or [])
    speaks = os.environ.get("RANK", "0") == "0"  # of several processes, the first
    line = EpochLine()
    request = TrainRequest(
        dataset=open_dataset(folder),
        run=run,
        config=config,
        resume=resume,
        overwrite=overwrite,
        device=device,
    )
    if speaks:
        request = replace(
            request,
            on_step=line.show_step,
            on_epoch=line.show_epoch,
            on_note=lambda note: err.print(f"note: {note}", markup=False),
        )
    try:
        result = train(request)
    except KeyboardInterrupt:
        line.end()
        err.print(f"interrupted; the same command with --resume goes on from {run}", markup=False)
        raise typer.Exit(130) from None
    line.end()
    if not speaks:
        return
    if as_json:
        print_json(result)
        return
    if result.best:
        out.print(
            f"{counted(result.epochs, 'epoch')}, {result.cpu_s:.0f} CPU s. "
            f"Best epoch {result.best_epoch} on validation: success rate {100 * result.best.success_rate:.2f}, "
            f"mean accuracy {100 * result.best.mean_accuracy:.2f}, mean IoU {100 * result.best.mean_iou:.2f} "
            f"-> {result.run}",
            markup=False,
        )


def _configure(planner: str, preset: str | None, seed: int, data: Mapping[str, object], settings: list[str]) -> Config:
    from p3iv.config import (
        override,
        parse_settings,
        preset_config,
    )
    from p3iv.planners.registry import planner_class

    chosen, asked = planner_class(planner), parse_settings(settings)
    for name, option in (("planner", "--planner"), ("preset", "--preset")):
        if name in asked:
            raise ConfigError(
                f"--set {name}={asked[name]}, but {name} has its own option. Type: {option} {asked[name]}"
            )
    if unread := [name for name in asked if chosen.ignores(name)]:
        read = listed([f"{name}*" if name.endswith(".") else name for name in chosen.own_settings]) or "none"
        raise ConfigError(f"--set {unread[0]}, but planner {planner} does not read it; of that kind it reads {read}.")
    changes = {"planner": planner, "seed": seed, **{f"data.{name}": value for name, value in data.items()}}
    return override(preset_config(preset or chosen.preset), changes | asked)


class EpochLine:
    """One live line on a terminal: scores on validation (success/accuracy, * the best yet), time left, loss terms.

    Elsewhere a plain line per tenth of the run.
    """

    def __init__(self) -> None:
        self._shown_at = 0.0
        self._val = ""

    def show_step(self, report: StepReport) -> None:
        if not err.is_terminal or time.monotonic() - self._shown_at < 0.5:
            return
        terms = _short_terms({name: value.item() for name, value in report.terms.items()})
        self._write(f"epoch {report.epoch}/{report.epochs} {report.step / report.num_steps:4.0%}  {self._val}{terms}")

    def show_epoch(self, report: EpochReport) -> None:
        left = _clock((report.epochs - report.epoch) * report.seconds)
        best = "*" if report.is_best else " "
        self._val = f"val {100 * report.val.success_rate:.1f}/{100 * report.val.mean_accuracy:.1f}{best} {left} left  "
        line = f"epoch {report.epoch}/{report.epochs}  {self._val}{_short_terms(report.terms)}"
        if err.is_terminal:
            self._write(line)
        elif report.epoch == report.epochs or report.epoch % max(1, report.epochs // 10) == 0:
            err.print(line, markup=False)

    def show_windows(self, done: int, total: int) -> None:
        if done == total or time.monotonic() - self._shown_at >= 0.5:
            self._write(f"evaluating windows {done}/{total}")

    def end(self) -> None:
        if err.is_terminal and self._shown_at:
            sys.stderr.write("\n")
            self._shown_at = 0.0

    def _write(self, line: str) -> None:
        self._shown_at = time.monotonic()
        sys.stderr.write(f"\r\033[K{line[: err.width - 1]}")
        sys.stderr.flush()


def _short_terms(terms: Mapping[str, float]) -> str:
    """Loss terms, the critic's share of right verdicts on real and generated plans, and the diversity ratio."""
    labels = {
        "chain": "chain",
        "ends": "ends",
        "action": "La",
        "language": "Ll",
        "state": "Ls",
        "adversarial": "adv",
        "diversity": "reg",
    }
    parts = [f"{label} {terms[name]:.2f}" for name, label in labels.items() if name in terms]
    if "critic_real" in terms:
        parts.append(f"critic {100 * terms['critic_real']:.0f}/{100 * terms['critic_generated']:.0f}")
    if "diversity_ratio" in terms:
        parts.append(f"ratio {terms['diversity_ratio']:.2f}")
    return " ".join(parts)


def _clock(seconds: float) -> str:
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes}:{rest:02d}"
