"""`p3iv data ...`: make, import, simulate, check, stats."""

from __future__ import annotations

import os
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from p3iv.cli.choices import Protocol, WindowKind
from p3iv.cli.console import err, out, print_json, progress
from p3iv.cli.stats_table import print_stats
from p3iv.errors import ConfigError
from p3iv.files import leftovers_of
from p3iv.types import Problem, counted

if TYPE_CHECKING:
    from p3iv.features.store import PackedFeatures

app = typer.Typer(
    help="Make, import, check and describe datasets.",
    no_args_is_help=True,
    rich_markup_mode=None,
)
make_app = typer.Typer(help="Make an embedded dataset.", no_args_is_help=True, rich_markup_mode=None)
app.add_typer(make_app, name="make")


class ReleaseKind(StrEnum):
    crosstask = "crosstask"
    coin = "coin"
    niv = "niv"
    folder = "folder"


class Dtype(StrEnum):
    float16 = "float16"
    float32 = "float32"


class TabletopEncoder(StrEnum):
    state = "state"
    none = "none"


DatasetDir = Annotated[Path, typer.Argument(metavar="DIR", help="A dataset folder.")]
Overwrite = Annotated[bool, typer.Option("--overwrite", help="Replace what is there.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON.")]


@make_app.command("tabletop", epilog="Example: p3iv data make tabletop demo/tabletop --videos 160 --seed 0")
def make_tabletop_command(
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="Where to write the dataset folder.")],
    videos: Annotated[int, typer.Option("--videos", help="How many videos.")] = 160,
    seed: Annotated[int, typer.Option("--seed", min=0, help="The same seed gives the same videos.")] = 0,
    encoder: Annotated[
        TabletopEncoder, typer.Option("--encoder", help="Features to write: the noisy symbolic state, or none.")
    ] = TabletopEncoder.state,
    skip_rendering: Annotated[
        bool, typer.Option("--skip-rendering", help="Write everything but the .mp4 files.")
    ] = False,
    jobs: Annotated[int, typer.Option("--jobs", min=1, help="Processes that render.")] = os.cpu_count() or 1,
    sheet: Annotated[
        Path | None, typer.Option("--sheet", help="Also draw a contact sheet into this .png or .jpg file.")
    ] = None,
    overwrite: Overwrite = False,
) -> None:
    """Make the tabletop world: household procedures on video, with the true distribution of plans."""
    from p3iv.data.folder import refuse_to_overwrite  # keeps `p3iv --help` quick
    from p3iv.tabletop.make import make_tabletop

    refuse_to_overwrite(folder, overwrite=overwrite)
    note_leftovers(folder)
    with progress("Rendering videos") as show:
        make_tabletop(
            folder,
            num_videos=videos,
            seed=seed,
            encoder=encoder.value,
            render=not skip_rendering,
            jobs=jobs,
            progress=show,
        )
    if sheet is not None:
        from p3iv.tabletop.make import write_sheet  # needs Pillow

        write_sheet(sheet, seed=seed)
    out.print(f"{videos} tabletop videos -> {folder}", markup=False)
    out.print(f"next: p3iv data stats {folder}", markup=False)


@app.command(
    "import",
    epilog="Example: p3iv data import crosstask crosstask_release.zip data/crosstask --language step_embeddings.npz",
)
def import_command(
    kind: Annotated[ReleaseKind, typer.Argument(metavar="crosstask|coin|niv|folder", help="What SOURCE is.")],
    source: Annotated[
        Path,
        typer.Argument(
            metavar="SOURCE",
            help="CrossTask: the release folder or its zip. COIN: the JSON. NIV: the csv folder. "
            "folder: a folder with steps.csv (video,task,step,start_s,end_s[,text]).",
        ),
    ],
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="Where to write the dataset folder.")],
    features: Annotated[
        Path | None, typer.Option("--features", help="Folder with one .npy or .npz per video, a row per second.")
    ] = None,
    language: Annotated[
        Path | None, typer.Option("--language", help="Step embeddings: .npz with step, embedding[, step_id].")
    ] = None,
    rename: Annotated[
        Path | None, typer.Option("--rename", help="JSON or CSV: name in the language file -> name of the step.")
    ] = None,
    split: Annotated[
        Path | None, typer.Option("--split", help='JSON {"train": [...], "val": [...], "test": [...]} of video ids.')
    ] = None,
    videos: Annotated[
        Path | None, typer.Option("--videos", help="Folder with one video file per video; linked where possible.")
    ] = None,
    encoder: Annotated[str | None, typer.Option("--encoder", help="Who made the features, for the record.")] = None,
    text_encoder: Annotated[
        str | None, typer.Option("--text-encoder", help="Who made the step embeddings, for the record.")
    ] = None,
    simulated: Annotated[
        bool, typer.Option("--simulated", help="The features are stand-ins: say so wherever a figure is printed.")
    ] = False,
    dtype: Annotated[
        Dtype | None, typer.Option("--dtype", help="Store features so; as they come if not given.")
    ] = None,
    keep_tasks_apart: Annotated[
        bool, typer.Option("--keep-tasks-apart", help="CrossTask: 133 task-steps rather than 105 texts.")
    ] = False,
    strict: Annotated[bool, typer.Option("--strict", help="Refuse the import if anything cannot be used.")] = False,
    overwrite: Overwrite = False,
    as_json: AsJson = False,
) -> None:
    """Turn a release, or a folder of your own, into a dataset folder."""
    from p3iv.data.importing import (
        ImportRequest,
        import_dataset,
    )

    request = ImportRequest(
        kind=kind.value,
        source=source,
        destination=folder,
        features=features,
        language=language,
        rename=rename,
        split=split,
        videos=videos,
        encoder=encoder,
        text_encoder=text_encoder,
        dtype=dtype.value if dtype else None,
        simulated=simulated,
        keep_tasks_apart=keep_tasks_apart,
        strict=strict,
        overwrite=overwrite,
    )
    note_leftovers(folder)
    with progress("Packing features") as show:
        report = import_dataset(request, progress=show)
    if as_json:
        print_json(report)
        return
    print_problems(report.problems, advice="; --strict refuses an import with any")
    for note in report.notes:
        err.print(f"note: {note}", markup=False)
    counts = {
        "video": report.num_videos,
        "task": report.num_tasks,
        "action": report.num_actions,
        "step": report.num_steps,
    }
    out.print(f"{', '.join(counted(n, what) for what, n in counts.items())} -> {report.folder}", markup=False)
    if report.features:
        out.print(f"features of {describe_features(report.features)}", markup=False)


@app.command("simulate", epilog="Example: p3iv data simulate data/crosstask --seed 0")
def simulate_command(
    folder: DatasetDir,
    seed: Annotated[int, typer.Option("--seed", min=0, help="The same seed gives the same features.")] = 0,
    noise: Annotated[float, typer.Option("--noise", help="How hard it is to see what a second shows, from 0.")] = 4.5,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace features that are not simulated.")] = False,
) -> None:
    """Make stand-in features from the annotations and step embeddings, to run at full size without the real ones."""
    from p3iv.data.simulate import simulate_dataset  # keeps `p3iv --help` quick

    note_leftovers(folder / "features")
    with progress("Simulating features") as show:
        packed = simulate_dataset(folder, seed=seed, noise=noise, overwrite=overwrite, progress=show)
    print_problems(packed.problems)
    out.print(
        f"SIMULATED features of {describe_features(packed)} -> {folder}. "
        f"Figures on them are about code, not about the world.",
        markup=False,
    )


@app.command("check", epilog="Example: p3iv data check data/crosstask")
def check_command(folder: DatasetDir, as_json: AsJson = False) -> None:
    """Validate a dataset folder completely; exits with 1 if anything in it is wrong."""
    from p3iv.data.check import check_dataset  # keeps `p3iv --help` quick

    findings = check_dataset(folder)
    errors = sum(finding.severity == "error" for finding in findings)
    if as_json:
        print_json([vars(finding) for finding in findings])
    else:
        for finding in findings:
            out.print(f"{finding.severity}: {finding.message}", markup=False)
        verdict = counted(errors, "error") if errors else "sound"
        out.print(f"{folder}: {verdict}, {counted(len(findings) - errors, 'warning')}", markup=False)
    if errors:
        raise typer.Exit(1)


@app.command("stats", epilog="Example: p3iv data stats data/crosstask --json")
def stats_command(
    folder: DatasetDir,
    window: Annotated[
        WindowKind, typer.Option("--window", help="Whether the start is shown at the first action or before it.")
    ] = WindowKind.inclusive,
    protocol: Annotated[
        Protocol, typer.Option("--protocol", help="1: every window. 2: one of T-1 actions per video.")
    ] = Protocol.one,
    split: Annotated[
        str, typer.Option("--split", help="video, release (the dataset's own), window, or a split file.")
    ] = "video",
    split_seed: Annotated[int, typer.Option("--split-seed", min=0, help="The split depends on it alone.")] = 0,
    horizons: Annotated[str, typer.Option("--horizons", help="Which horizons, with commas.")] = "3,4,5,6",
    as_json: AsJson = False,
) -> None:
    """Print videos, tasks, actions, windows per horizon and side, and how ambiguous they are."""
    from p3iv.config import CurationSettings  # keeps `p3iv --help` quick
    from p3iv.data.folder import open_dataset
    from p3iv.data.stats import describe_dataset

    wanted = _parse_horizons(horizons)
    settings = CurationSettings(wanted[0], window.value, int(protocol), split, split_seed)
    stats = describe_dataset(open_dataset(folder), settings, horizons=wanted)
    if as_json:
        print_json(stats)
        return
    print_stats(stats)


def note_leftovers(folder: Path) -> None:
    """Name what killed runs left of the same destination; it may be wanted, so the user deletes it."""
    for path in leftovers_of(folder):
        holds = "; what it was to replace is in its folder was" if (path / "was").exists() else ""
        err.print(f"note: {path} is left of an interrupted run{holds}. Delete it if none is under way.", markup=False)


def print_problems(problems: tuple[Problem, ...], *, advice: str = "") -> None:
    """Every single one, on standard error, so that a log keeps them apart from the result."""
    for problem in problems:
        err.print(f"problem: {problem}", markup=False)
    if problems:
        err.print(f"{counted(len(problems), 'problem')}, listed above{advice}.", markup=False)


def describe_features(packed: PackedFeatures) -> str:
    return (
        f"{counted(packed.num_videos, 'video')}: {counted(packed.num_rows, 'row')} of {packed.width} as "
        f"{packed.dtype}, fingerprint {packed.fingerprint[:12]}"
    )


def _parse_horizons(text: str) -> list[int]:
    try:
        return [int(part) for part in text.split(",")]
    except ValueError as error:
        raise ConfigError(f"--horizons {text!r}, but it is numbers with commas, such as 3,4,5,6.") from error
