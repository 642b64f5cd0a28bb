"""`p3iv data ...`: commands that write, check and describe dataset folders."""

from __future__ import annotations

import os
import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from p3iv.cli.console import (
    describe_features,
    note_leftovers,
    out,
    print_json,
    print_note,
    print_problems,
    print_table,
    progress,
)
from p3iv.cli.options import (
    AsJson,
    DatasetDir,
    NewDatasetDir,
    Overwrite,
    Protocol,
    Split,
    SplitSeed,
    Window,
    choice,
    file_option,
    folder_option,
    list_option,
    number_option,
    parse_numbers,
    seed_option,
)
from p3iv.features.store_index import DTYPES
from p3iv.readers.registry import READERS, SOURCE_HELP
from p3iv.types import SIDES, counted

if TYPE_CHECKING:
    from p3iv.data.stats import DatasetStats, HorizonStats

app = typer.Typer(
    help="Make, import, check and describe datasets.",
    no_args_is_help=True,
    rich_markup_mode=None,
)
make_app = typer.Typer(help="Make a dataset that needs no download.", no_args_is_help=True, rich_markup_mode=None)
app.add_typer(make_app, name="make")


@make_app.command("tabletop", epilog="Example: p3iv data make tabletop demo/tabletop --videos 160 --seed 0")
def make_tabletop_command(
    folder: NewDatasetDir,
    videos: Annotated[int, typer.Option("--videos", metavar="N", help="Number of videos.")] = 160,
    seed: Annotated[int, seed_option("The same seed gives the same videos.")] = 0,
    encoder: Annotated[
        Literal["state", "none"],
        typer.Option("--encoder", help="Features to write: the world's state with noise, or none."),
    ] = "state",
    skip_rendering: Annotated[
        bool, typer.Option("--skip-rendering", help="Write everything except the .mp4 files.")
    ] = False,
    jobs: Annotated[
        int, number_option("--jobs", "Number of processes that render.", show_default="all processors")
    ] = os.cpu_count() or 1,
    sheet: Annotated[
        Path | None, file_option("--sheet", "Also draw an overview of the tasks, as a .png or .jpg file.")
    ] = None,
    overwrite: Overwrite = False,
) -> None:
    """Generate the tabletop dataset: videos of household tasks.

    The probability of every plan between two moments is known exactly, and is written to truth.jsonl.
    """
    from p3iv.api.datasets import make_tabletop  # keeps `p3iv --help` quick
    from p3iv.tabletop.make import check_sheet, write_sheet

    if sheet is not None:
        check_sheet(sheet)
    with progress() as show:
        make_tabletop(
            folder,
            videos=videos,
            seed=seed,
            encoder=encoder,
            skip_rendering=skip_rendering,
            jobs=jobs,
            overwrite=overwrite,
            progress=show,
        )
    if sheet is not None:
        write_sheet(sheet, seed=seed)
    out.print(f"{videos} tabletop videos -> {folder}")
    if encoder == "state" and not skip_rendering:
        extract = f"p3iv extract {shlex.quote(str(folder))} --overwrite"
        out.print(f"features: state (of the world, with noise); to plan from video files, type first: {extract}")
    out.print(f"next: p3iv data stats {folder}")


@app.command(
    "import",
    epilog="Example: p3iv data import crosstask crosstask_release.zip data/crosstask --language step_embeddings.npz",
)
def import_command(
    kind: Annotated[str, typer.Argument(metavar="KIND", help=f"{', '.join(READERS)} (your own steps.csv).")],
    source: Annotated[
        Path,
        typer.Argument(
            metavar="SOURCE",
            help=SOURCE_HELP,
        ),
    ],
    folder: NewDatasetDir,
    features: Annotated[
        Path | None, folder_option("--features", "Features: one .npy or .npz per video, with a row per second.")
    ] = None,
    language: Annotated[
        Path | None, file_option("--language", "Step embeddings: an .npz with arrays step, embedding[, step_id].")
    ] = None,
    rename: Annotated[
        Path | None, file_option("--rename", "JSON or CSV: step name in the --language file -> name in the dataset.")
    ] = None,
    split: Annotated[
        Path | None, file_option("--split", 'JSON {"train": [...], "val": [...], "test": [...]} of video ids.')
    ] = None,
    videos: Annotated[Path | None, folder_option("--videos", "Videos to link, one file per video.")] = None,
    encoder: Annotated[
        str | None, typer.Option("--encoder", metavar="NAME", help="Name of the encoder that made the features.")
    ] = None,
    text_encoder: Annotated[
        str | None,
        typer.Option("--text-encoder", metavar="NAME", help="Name of the encoder that made the step embeddings."),
    ] = None,
    simulated: Annotated[
        bool, typer.Option("--simulated", help="The features are simulated; every printed result will say so.")
    ] = False,
    dtype: Annotated[
        str | None, choice("--dtype", DTYPES, help="Type of the stored features; default: that of the source.")
    ] = None,
    keep_tasks_apart: Annotated[
        bool,
        typer.Option(
            "--keep-tasks-apart",
            help="crosstask: treat the same step text in two tasks as two actions (133 instead of 105).",
        ),
    ] = False,
    strict: Annotated[
        bool, typer.Option("--strict", help="Write nothing if any part of the source cannot be used.")
    ] = False,
    overwrite: Overwrite = False,
    as_json: AsJson = False,
) -> None:
    """Import CrossTask, COIN, NIV or your own annotations.

    Writes a dataset folder. Rows and files that cannot be used are listed and left out.
    """
    from p3iv.api.datasets import import_dataset  # keeps `p3iv --help` quick

    with progress() as show:
        report = import_dataset(
            kind,
            source,
            folder,
            features=features,
            language=language,
            rename=rename,
            split=split,
            videos=videos,
            encoder=encoder,
            text_encoder=text_encoder,
            dtype=dtype,
            simulated=simulated,
            keep_tasks_apart=keep_tasks_apart,
            strict=strict,
            overwrite=overwrite,
            progress=show,
        )
    if as_json:
        print_json(report)
        return
    print_problems(report.problems, advice="; with --strict nothing would have been written")
    for note in report.notes:
        print_note(note)
    counts = {
        "video": report.num_videos,
        "task": report.num_tasks,
        "action": report.num_actions,
        "step": report.num_steps,
    }
    out.print(f"{', '.join(counted(n, what) for what, n in counts.items())} -> {report.folder}")
    if report.features:
        out.print(f"features of {describe_features(report.features)}")


@app.command("simulate", epilog="Example: p3iv data simulate data/crosstask --seed 0")
def simulate_command(
    folder: DatasetDir,
    seed: Annotated[int, seed_option("The same seed gives the same features.")] = 0,
    noise: Annotated[
        float, typer.Option("--noise", metavar="X", help="Noise in the features, from 0: more makes planning harder.")
    ] = 4.5,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace features that are not simulated.")] = False,
) -> None:
    """Simulate features for a dataset that has none.

    The features are computed from the annotations and step embeddings, so that everything can run at full size without
    the real videos. Scores on them test the code; they say nothing about real videos.
    """
    from p3iv.api.datasets import simulate  # keeps `p3iv --help` quick

    with progress() as show:
        packed = simulate(folder, seed=seed, noise=noise, overwrite=overwrite, progress=show)
    print_problems(packed.problems)
    out.print(
        f"SIMULATED features of {describe_features(packed)} -> {folder}. "
        f"Scores on them test the code; they say nothing about real videos.",
    )


@app.command("check", epilog="Example: p3iv data check data/crosstask")
def check_command(folder: DatasetDir, as_json: AsJson = False) -> None:
    """Check a dataset folder and list every error and warning.

    The exit code is 1 if there is any error.
    """
    from p3iv.api.datasets import check  # keeps `p3iv --help` quick

    for path in (folder, folder / "features"):
        note_leftovers(path)
    findings = check(folder)
    errors = sum(finding.severity == "error" for finding in findings)
    if as_json:
        print_json([vars(finding) for finding in findings])
    else:
        for finding in findings:
            out.print(f"{finding.severity}: {finding.message}")
        verdict = counted(errors, "error") if errors else "no errors"
        out.print(f"{folder}: {verdict}, {counted(len(findings) - errors, 'warning')}")
    if errors:
        raise typer.Exit(1)


@app.command("stats", epilog="Example: p3iv data stats data/crosstask --json")
def stats_command(
    folder: DatasetDir,
    window: Window = "inclusive",
    protocol: Protocol = 1,
    split: Split = "video",
    split_seed: SplitSeed = 0,
    horizons: Annotated[str, list_option("--horizons", "T", "Horizons to count, separated by commas.")] = "3,4,5,6",
    as_json: AsJson = False,
) -> None:
    """Count videos, actions and windows.

    Per horizon: the windows on each side of the split, and how many different plans share their first and last action.
    """
    from p3iv.api.datasets import stats  # keeps `p3iv --help` quick

    wanted = parse_numbers("--horizons", horizons)
    found = stats(folder, window=window, protocol=protocol, split=split, split_seed=split_seed, horizons=wanted)
    if as_json:
        print_json(found)
    else:
        _print_stats(found)


def _print_stats(stats: DatasetStats) -> None:
    """Print counts, the split, a table with a row per horizon, and notes."""
    out.print(stats.label, style="bold")
    per_video = stats.steps_per_video
    out.print(
        f"{counted(stats.videos, 'video')}, {counted(stats.tasks, 'task')}, {counted(stats.actions, 'action')} "
        f"({stats.actions_seen} occur), {counted(stats.steps, 'step')}: {per_video['mean']:.1f} per video "
        f"({per_video['min']:.0f} to {per_video['max']:.0f}), "
        f"{100 * stats.repeated_next_share:.1f} % repeat the step before them",
    )
    if stats.untimed:
        by_length = ", ".join(f"{number} of {counted(length, 'step')}" for length, number in stats.untimed.items())
        out.print(f"without times: {by_length}; each gives one window, at the horizon of its length")
    if stats.features:
        shown = stats.features
        out.print(
            f"features: {counted(shown['videos'], 'video')}, {counted(shown['rows'], 'row')} of {shown['width']} "
            f"{shown['dtype']} values"
        )
    sides = ", ".join(f"{side} {count}" for side, count in stats.videos_by_side.items())
    out.print(f"split: {stats.split}" + (f" (videos: {sides})" if sides else ""))
    out.print()
    headers = ("horizon", "windows", *SIDES, "repeats", "plans/pair", "plans/window")
    print_table(headers, [_stats_row(horizon, of) for horizon, of in stats.horizons.items()])
    if any(of.num_actions != horizon for horizon, of in stats.horizons.items()):
        fewer = ", ".join(f"{of.num_actions} at T={horizon}" for horizon, of in stats.horizons.items())
        out.print(f"actions to predict: {fewer}", style="dim")
    out.print("repeats: windows in which an action occurs twice", style="dim")
    out.print(
        "plans: how many different plans share their first and last action; mean over such pairs, and over windows",
        style="dim",
    )
    for note in stats.notes:
        out.print(f"note: {note}")


def _stats_row(horizon: int, of: HorizonStats) -> tuple[str, ...]:
    return (
        f"T={horizon}",
        f"{of.windows:,}",
        *(f"{of.by_side[side]:,}" if of.by_side else "-" for side in SIDES),
        f"{100 * of.repeated_action_share:.1f} %",
        f"{of.plans_per_pair:.2f}",
        f"{of.plans_per_window:.2f}",
    )
