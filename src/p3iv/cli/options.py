"""Options that several commands take: one name, one metavar, one help text and one type each."""

from __future__ import annotations

import os
import sys
from collections.abc import Collection
from pathlib import Path
from typing import Annotated, Any

import typer

from p3iv.catalogue import BACKENDS, DEVICES, ENGINES, PRESETS, SAMPLING_MODES, SPLIT_KINDS, WINDOW_KINDS
from p3iv.cli.completion import Complete, complete_list, complete_names, complete_setting
from p3iv.encoders.registry import TEXT_ENCODERS, VIDEO_ENCODERS, WEIGHTS_HELP
from p3iv.errors import ConfigError, one_of
from p3iv.planners.registry import PLANNERS


def choice(option: str, names: Collection[str], *, help: str) -> Any:
    """An option that takes one of these names."""

    def check(text: str) -> str:
        if text not in names:
            raise typer.BadParameter(f"{text}, but it must be {one_of(text, names)}")
        return text

    return typer.Option(option, parser=check, metavar="|".join(names), help=help, autocompletion=complete_names(names))


def name_option(option: str, names: Collection[str], help: str, *, metavar: str = "NAME") -> Any:
    """An option whose names are checked later, where they are used: there may be more than the shell offers."""
    return typer.Option(option, metavar=metavar, help=help, autocompletion=complete_names(names))


def file_option(option: str, help: str) -> Any:
    return typer.Option(option, metavar="FILE", help=help)


def folder_option(option: str, help: str) -> Any:
    return typer.Option(option, metavar="DIR", help=help)


def number_option(option: str, help: str, *, min: int = 1, max: int | None = None, **more: Any) -> Any:
    text = f"{help} At most {max}." if max is not None else help
    return typer.Option(option, metavar="N", min=min, max=max, help=text, **more)


def list_option(option: str, item: str, help: str, *, names: Collection[str] = ()) -> Any:
    complete: Complete | None = complete_list(names) if names else None
    return typer.Option(option, metavar=f"{item},...", help=help, autocompletion=complete)


def step_option(option: str, help: str) -> Any:
    return typer.Option(option, metavar="STEP", help=f"{help}; may be repeated.")


def seed_option(of: str) -> Any:
    return number_option("--seed", f"Seed of {of}.", min=0)


def jobs_option(what: str, **more: Any) -> Any:
    return number_option("--jobs", f"Number of processes{what}.", **more)


def samples_option(more: str = "") -> Any:
    return number_option("--samples", f"Number of plans to sample for each start and goal{more}.")


def mode_option(more: str = "") -> Any:
    modes = " ".join(f"{mode.name}: {mode.about}." for mode in SAMPLING_MODES.values())
    chains = "A planner that is a chain, such as p3iv-plus, gives the same plans in all modes."
    return choice("--mode", SAMPLING_MODES, help=f"How plans are sampled. {modes} {chains}{more}")


def preset_option(of: str) -> Any:
    return name_option("--preset", PRESETS, f"The preset {of}: {', '.join(PRESETS)}; without it, the planner's own.")


def horizons_option(what: str) -> Any:
    return list_option("--horizons", "T", f"Horizons {what}, separated by commas.")


def seeds_option(more: str = "") -> Any:
    return list_option("--seeds", "N", f"Seeds, separated by commas{more}.")


def encoder_option(help: str, *more: str) -> Any:
    return name_option("--encoder", (*VIDEO_ENCODERS, *more), f"The encoder {help}")


def text_encoder_option(help: str, *more: str) -> Any:
    return name_option("--text-encoder", (*TEXT_ENCODERS, *more), f"The encoder {help}")


def weights_option(help: str) -> Any:
    return typer.Option("--weights", metavar="PATH", help=f"Weights of the encoder{help}")


DatasetDir = Annotated[Path, typer.Argument(metavar="DIR", help="The dataset folder.")]
NewDatasetDir = Annotated[Path, typer.Argument(metavar="DIR", help="The dataset folder to write.")]
AnyPlanner = Annotated[
    Path,
    typer.Argument(
        metavar="PLANNER",
        help="A run folder, a checkpoint, a .onnx file of `p3iv export`, tabletop-demo, or OWNER/NAME on the hub.",
    ),
]
RunDir = Annotated[Path, typer.Argument(metavar="RUN", help="A run folder written by `p3iv train`.")]
PlannerEncoder = Annotated[
    str | None, encoder_option(f"of the planner's features, if it is not known: {', '.join(VIDEO_ENCODERS)}.")
]
PlannerWeights = Annotated[str | None, weights_option(f", as in `extract`. {WEIGHTS_HELP}.")]
PlannerBackend = Annotated[
    str | None,
    choice(
        "--backend",
        BACKENDS,
        help="What computes the plans: torch, or onnx, which needs the planner.onnx of `p3iv export`. Without it, "
        "as the file is.",
    ),
]
MovedDataset = Annotated[Path | None, folder_option("--data", "The dataset folder, if it has moved since training.")]
OutDir = Annotated[Path, typer.Option("--out", metavar="OUT", help="The folder to write, for runs and tables.")]

Window = Annotated[
    str,
    choice(
        "--window",
        WINDOW_KINDS,
        help="What the start observation shows: the first action of the plan (inclusive), "
        "or the action before it (after-start).",
    ),
]
Protocol = Annotated[
    int,
    typer.Option(
        "--protocol",
        metavar="1|2",
        min=1,
        max=2,
        help="1: every window. 2: one random window of T-1 actions per video.",
        autocompletion=complete_names(("1", "2")),
    ),
]
Split = Annotated[
    str,
    name_option(
        "--split",
        SPLIT_KINDS,
        "How to divide the data: video (whole videos, at random), stratified (the same, with a share of the videos of "
        "every task on each side), release (the dataset's own split), "
        "window (windows at random; videos are shared between the sides), or a JSON file of video ids.",
        metavar="KIND|FILE",
    ),
]
SplitSeed = Annotated[int, number_option("--split-seed", "Seed of the random split.", min=0)]

PlannerName = Annotated[str, name_option("--planner", PLANNERS, f"The planner: {', '.join(PLANNERS)}.")]
PlannerNames = Annotated[
    str,
    list_option(
        "--planners",
        "NAME",
        f"Planners, separated by commas, or all: {', '.join(PLANNERS)}.",
        names=("all", *PLANNERS),
    ),
]
Samples = Annotated[int, samples_option()]
Ensemble = Annotated[
    list[Path] | None,
    typer.Option("--ensemble", metavar="RUN", help="Another run to average with; may be repeated."),
]
Settings = Annotated[
    list[str] | None,
    typer.Option(
        "--set",
        metavar="KEY=VALUE",
        help="Change a setting, such as optim.epochs=20; may be repeated. `p3iv train --list-settings` lists all.",
        autocompletion=complete_setting,
    ),
]

Goal = Annotated[
    str | None,
    typer.Option("--goal", metavar="MOMENT", help="Where you want to be: a moment, as for `p3iv plan --start`."),
]
GoalText = Annotated[
    str | None,
    typer.Option("--goal-text", metavar="TEXT", help="The goal in words: a step that comes last, or a procedure."),
]
Procedure = Annotated[
    str | None, typer.Option("--procedure", metavar="NAME", help="The procedure that is followed, by its name.")
]
History = Annotated[
    str, choice("--history", ("on", "off"), help="on: the video before the start counts. off: only the start itself.")
]

TextWeights = Annotated[
    str | None, typer.Option("--text-weights", metavar="PATH", help="Weights of --text-encoder, if they differ.")
]
MaxWords = Annotated[int, number_option("--max-words", "s3d: read at most this many words of a text (P3IV used 30).")]
AllowDownload = Annotated[
    bool,
    typer.Option("--allow-download", help="Fetch a model from the Hugging Face hub if it is not on this machine."),
]
Engine = Annotated[
    str,
    choice("--engine", ENGINES, help="local: processes on this machine. ray: a cluster that sees the same folders."),
]
Address = Annotated[
    str | None,
    typer.Option("--address", metavar="HOST:PORT", help="The Ray cluster; without it, Ray starts on this machine."),
]
Device = Annotated[str, name_option("--device", DEVICES, "auto (cuda, else mps, else cpu), cpu, cuda, cuda:N or mps.")]
Threads = Annotated[int, number_option("--threads", "CPU threads of torch in each process.")]
Strict = Annotated[bool, typer.Option("--strict", help="Fail if any part of the input cannot be used.")]
Overwrite = Annotated[bool, typer.Option("--overwrite", help="Replace what is already there.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print the result as JSON, and nothing else.")]


def split_at_commas(text: str) -> list[str]:
    """The words of a comma-separated list."""
    return [part.strip() for part in text.split(",") if part.strip()]


def parse_numbers(option: str, text: str) -> tuple[int, ...]:
    """The whole numbers of a comma-separated list."""
    parts = split_at_commas(text)
    if not parts or not all(part.isdecimal() for part in parts):
        raise ConfigError(f"{option} {text}, but it must be whole numbers separated by commas, such as 3,4.")
    return tuple(map(int, parts))


def use_threads(number: int) -> None:
    """Limit the threads of torch, whether or not it is imported later: an exported planner does without."""
    os.environ["OMP_NUM_THREADS"] = str(number)
    if (torch := sys.modules.get("torch")) is not None:
        torch.set_num_threads(number)
