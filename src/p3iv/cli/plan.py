"""`p3iv plan` plans between two moments and prints the plans."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Annotated

import typer

from p3iv.catalogue import DEFAULT_NUM_SAMPLES, MAX_PLANS, MOMENT_FORMS
from p3iv.cli.console import out, print_json, print_note
from p3iv.cli.options import (
    AllowDownload,
    AsJson,
    Device,
    Ensemble,
    MovedDataset,
    RunDir,
    Threads,
    file_option,
    mode_option,
    number_option,
    seed_option,
)
from p3iv.encoders.registry import VIDEO_ENCODERS, WEIGHTS_HELP
from p3iv.errors import ConfigError
from p3iv.files import write_text
from p3iv.shipped import shipped_clips, shipped_planner

EXAMPLE = "Example: p3iv plan runs/mine --start kitchen.mp4@12.5 --goal kitchen.mp4@71 --svg plan.svg"
MOMENT_HELP = f"{MOMENT_FORMS}."
SAMPLES_HELP = (
    "Also sample N plans. The plans and probabilities of all planners but P3IV+ are then computed from N latents or "
    f"samples instead of {DEFAULT_NUM_SAMPLES}."
)


def plan_command(
    run: RunDir,
    start: Annotated[str | None, typer.Option("--start", metavar="MOMENT", help=MOMENT_HELP)] = None,
    goal: Annotated[str | None, typer.Option("--goal", metavar="MOMENT", help=MOMENT_HELP)] = None,
    data: MovedDataset = None,
    top: Annotated[int, number_option("--top", "Number of plans to print.", max=MAX_PLANS)] = 5,
    samples: Annotated[int | None, number_option("--samples", SAMPLES_HELP)] = None,
    mode: Annotated[str | None, mode_option(" Default: chain; categorical if it has none.")] = None,
    seed: Annotated[int, seed_option("Seed of samples, and of P3IV's latents.")] = 0,
    ensemble: Ensemble = None,
    encoder: Annotated[
        str | None,
        typer.Option(
            "--encoder",
            metavar="NAME",
            help=f"{', '.join(VIDEO_ENCODERS)}: the encoder of the planner's features, if it is not known.",
        ),
    ] = None,
    weights: Annotated[
        str | None,
        typer.Option("--weights", metavar="PATH", help=f"Weights of the encoder, as in `extract`. {WEIGHTS_HELP}."),
    ] = None,
    allow_download: AllowDownload = False,
    device: Device = "auto",
    threads: Threads = 1,
    svg: Annotated[Path | None, file_option("--svg", "Draw the plans as one graph.")] = None,
    as_json: AsJson = False,
) -> None:
    """Plan the steps between two moments.

    Prints the recommended plan and the most probable alternatives. Their probabilities are exact under the chain that
    chooses the plan; for planners without a chain (most baselines) they are shares of samples.
    """
    from p3iv.moments import EncoderChoice, needs_encoder
    from p3iv.planner import NUM_PLANS, Planner

    if start is None or goal is None:
        start, goal = _example_of(run, start, goal)
    if mode is not None and samples is None:
        raise ConfigError(f"--mode {mode} says how plans are sampled: pass --samples N, too.")
    if (encoder or weights or allow_download) and not (needs_encoder(start) or needs_encoder(goal)):
        raise ConfigError(
            "--encoder, --weights and --allow-download are for moments of video files and pictures, but these are "
            "features already: leave the option out."
        )
    if data is not None and not data.is_dir():
        raise ConfigError(f"--data {data}, but there is no such folder.")
    if svg is not None and svg.suffix.lower() != ".svg":
        raise ConfigError(f"--svg {svg}, but it must end in .svg.")
    _use_threads(threads)
    planner = Planner.from_pretrained(
        run,
        device=device,
        ensemble=ensemble or (),
        data=data,
        encoder=EncoderChoice(encoder, weights, allow_download),
        on_note=print_note,
    )
    plans = planner.plan(start, goal, number=max(top, NUM_PLANS), num_samples=samples, seed=seed, mode=mode)
    if svg is not None:
        write_text(svg, plans.to_svg())
    if as_json:
        print_json(plans.to_dict())
    else:
        out.print(plans.to_text(top))
        if svg is not None:
            out.print(f"\n-> {svg}")


def _example_of(run: Path, start: str | None, goal: str | None) -> tuple[str, str]:
    """The moments of the example of a planner that comes with p3iv, if the user gave none."""
    if start or goal or not shipped_planner(run):
        raise ConfigError(f"A plan leads from one moment to another: pass --start and --goal. {EXAMPLE}")
    example = shipped_clips(str(run))[0]
    print_note(f"an example: {example.command}")
    return example.start, example.goal


def _use_threads(number: int) -> None:
    """Limit the threads of torch, whether or not it is imported later: an exported planner does without."""
    os.environ["OMP_NUM_THREADS"] = str(number)
    if (torch := sys.modules.get("torch")) is not None:
        torch.set_num_threads(number)
