"""Options that several commands take: one name, one help text and one type each."""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path
from typing import Annotated, Any

import typer

from p3iv.catalogue import SAMPLING_MODES
from p3iv.config import WINDOW_KINDS
from p3iv.errors import ConfigError
from p3iv.parallel import ENGINES


def choice(option: str, names: Collection[str], *, help: str) -> Any:
    """An option that takes one of these names."""

    def check(text: str) -> str:
        if text not in names:
            raise typer.BadParameter(f"{text} is not one of {', '.join(names)}.")
        return text

    return typer.Option(option, parser=check, metavar="|".join(names), help=help)


def file_option(option: str, help: str) -> Any:
    return typer.Option(option, metavar="FILE", help=help)


def folder_option(option: str, help: str) -> Any:
    return typer.Option(option, metavar="DIR", help=help)


def number_option(option: str, help: str, *, min: int = 1, **more: Any) -> Any:
    return typer.Option(option, metavar="N", min=min, help=help, **more)


def list_option(option: str, item: str, help: str) -> Any:
    return typer.Option(option, metavar=f"{item},...", help=help)


def seed_option(help: str) -> Any:
    return number_option("--seed", help, min=0)


def mode_option(more: str = "") -> Any:
    modes = " ".join(f"{mode.name}: {mode.about}." for mode in SAMPLING_MODES.values())
    chains = "A planner that is a chain, such as p3iv-plus, gives the same plans in all modes."
    return choice("--mode", SAMPLING_MODES, help=f"How plans are sampled. {modes} {chains}{more}")


DatasetDir = Annotated[Path, typer.Argument(metavar="DIR", help="The dataset folder.")]
NewDatasetDir = Annotated[Path, typer.Argument(metavar="DIR", help="The dataset folder to write.")]
RunDir = Annotated[Path, typer.Argument(metavar="RUN", help="A run folder written by `p3iv train`.")]
MovedDataset = Annotated[Path | None, folder_option("--data", "The dataset folder, if it has moved since training.")]

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
    number_option("--protocol", "1: every window. 2: one random window of T-1 actions per video.", max=2),
]
Split = Annotated[
    str,
    typer.Option(
        "--split",
        metavar="KIND|FILE",
        help="How to divide the data: video (whole videos, at random), release (the dataset's own split), "
        "window (windows at random; videos are shared between the sides), or a JSON file of video ids.",
    ),
]
SplitSeed = Annotated[int, number_option("--split-seed", "Seed of the random split.", min=0)]

Samples = Annotated[
    int, typer.Option("--samples", metavar="N", help="Number of plans to sample for each start and goal.")
]
Ensemble = Annotated[
    list[Path] | None,
    typer.Option("--ensemble", metavar="RUN", help="Another run to average with; may be repeated."),
]
Settings = Annotated[
    list[str] | None,
    typer.Option("--set", metavar="KEY=VALUE", help="Change a setting, e.g. optim.epochs=20; may be repeated."),
]

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
Device = Annotated[str, typer.Option("--device", metavar="NAME", help="auto, cpu, cuda or mps.")]
Threads = Annotated[int, number_option("--threads", "CPU threads of torch.")]
Overwrite = Annotated[bool, typer.Option("--overwrite", help="Replace the files that are already there.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print the result as JSON.")]


def split_at_commas(text: str) -> list[str]:
    """The words of a comma-separated list."""
    return [part.strip() for part in text.split(",") if part.strip()]


def parse_numbers(option: str, text: str) -> tuple[int, ...]:
    """The whole numbers of a comma-separated list."""
    parts = split_at_commas(text)
    if not parts or not all(part.isdecimal() for part in parts):
        raise ConfigError(f"{option} {text}, but it must be whole numbers separated by commas, such as 3,4.")
    return tuple(map(int, parts))
