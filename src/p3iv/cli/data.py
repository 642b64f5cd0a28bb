"""`p3iv data ...`: commands that write, check and describe dataset folders."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from p3iv.catalogue import DTYPES
from p3iv.cli.annotations import (
    EXPORT_EXAMPLE,
    AnnotationOptions,
    CuesAreSteps,
    DryRun,
    FileFormat,
    ImportFps,
    Level,
    Task,
    Tier,
    export_command,
    import_sources,
    print_dry_run,
)
from p3iv.cli.check import check_command, print_next_of
from p3iv.cli.completion import complete_names
from p3iv.cli.console import (
    describe_features,
    out,
    print_json,
    print_next,
    print_next_training,
    print_note,
    print_problems,
    print_table,
    progress,
)
from p3iv.cli.few_videos import enough_command
from p3iv.cli.help import App
from p3iv.cli.options import (
    AllowDownload,
    AsJson,
    DatasetDir,
    MaxWords,
    NewDatasetDir,
    Overwrite,
    Protocol,
    Split,
    SplitSeed,
    Strict,
    TextWeights,
    Window,
    choice,
    encoder_option,
    file_option,
    folder_option,
    horizons_option,
    jobs_option,
    number_option,
    parse_numbers,
    seed_option,
    text_encoder_option,
)
from p3iv.encoders.registry import DEFAULT_TEXT_ENCODER, TEXT_ENCODERS
from p3iv.readers.registry import READERS, SOURCE_HELP
from p3iv.readers.tools.registry import ANNOTATION_FILES
from p3iv.types import SIDES, counted

if TYPE_CHECKING:
    from p3iv.data.stats import DatasetStats, HorizonStats

app = App(help="Make, import, check and describe datasets.", epilog="Example: p3iv data make tabletop demo/tabletop")
make_app = App(
    help="Make a dataset that needs no download.",
    epilog="Example: p3iv data make tabletop demo/tabletop --videos 160",
)
app.add_typer(make_app, name="make")


@make_app.command("tabletop", epilog="Example: p3iv data make tabletop demo/tabletop --videos 160 --seed 0")
def make_tabletop_command(
    folder: NewDatasetDir,
    videos: Annotated[int, number_option("--videos", "Number of videos to make.")] = 160,
    seed: Annotated[int, seed_option("the videos")] = 0,
    skip_features: Annotated[
        bool, typer.Option("--skip-features", help="Write no features; `p3iv extract` computes them from the videos.")
    ] = False,
    skip_rendering: Annotated[
        bool, typer.Option("--skip-rendering", help="Write everything except the .mp4 files.")
    ] = False,
    shift_test: Annotated[
        bool,
        typer.Option(
            "--shift-test",
            help="Another camera in another room films the test videos (of --split release), so that validation is "
            "easier than test; for planners that should work where test videos look different.",
        ),
    ] = False,
    jobs: Annotated[int, jobs_option(" that render", show_default="all processors")] = os.cpu_count() or 1,
    sheet: Annotated[
        Path | None, file_option("--sheet", "Also draw an overview of the tasks, as a .png or .jpg file.")
    ] = None,
    overwrite: Overwrite = False,
) -> None:
    """Generate the tabletop dataset: videos of household tasks.

    The probability of every plan between two moments is known exactly, and is written to truth.jsonl. The features are
    the state of the world with noise.
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
            skip_features=skip_features,
            skip_rendering=skip_rendering,
            shift_test=shift_test,
            jobs=jobs,
            overwrite=overwrite,
            progress=show,
        )
    if sheet is not None:
        write_sheet(sheet, seed=seed)
    out.print(f"{videos} tabletop videos -> {folder}")
    if not skip_features and not skip_rendering:
        out.print("features: state (of the world, with noise); to plan from video files, extract features of them")
        print_next("extract", folder, "--overwrite")
    print_next(*(("extract", folder) if skip_features else ("data", "stats", folder, "--split", "release")))


@app.command(
    "import",
    epilog="Example: p3iv data import crosstask crosstask_release.zip data/crosstask --language step_embeddings.npz",
)
def import_command(
    kind: Annotated[
        str,
        typer.Argument(
            metavar="KIND",
            help=f"{', '.join(READERS)} (your own steps.csv), {ANNOTATION_FILES} (files of annotation tools).",
            autocompletion=complete_names((*READERS, ANNOTATION_FILES)),
        ),
    ],
    sources: Annotated[
        list[Path],
        typer.Argument(
            metavar="SOURCE",
            help=f"{SOURCE_HELP} {ANNOTATION_FILES}: one or more files, or folders of them.",
        ),
    ],
    folder: NewDatasetDir,
    features: Annotated[
        Path | None, folder_option("--features", "Features: one .npy or .npz per video, with a row per second.")
    ] = None,
    language: Annotated[
        Path | None,
        file_option(
            "--language",
            "Step embeddings: an .npz with arrays step, embedding[, step_id]. Without it, minilm makes them.",
        ),
    ] = None,
    rename: Annotated[
        Path | None, file_option("--rename", "JSON or CSV: step name in the --language file -> name in the dataset.")
    ] = None,
    release_split: Annotated[
        Path | None,
        file_option(
            "--release-split",
            "The split of --split release: JSON of the video ids of train, val and test, or a released training list.",
        ),
    ] = None,
    videos: Annotated[Path | None, folder_option("--videos", "Videos to link, one file per video.")] = None,
    encoder: Annotated[str | None, encoder_option("that made the features; any name.")] = None,
    text_encoder: Annotated[str | None, text_encoder_option("that made the step embeddings; any name.")] = None,
    simulated: Annotated[
        bool, typer.Option("--simulated", help="The features are simulated; every printed result will say so.")
    ] = False,
    dtype: Annotated[
        str | None, choice("--dtype", DTYPES, help="Type of the stored features; without it, that of the source.")
    ] = None,
    keep_tasks_apart: Annotated[
        bool,
        typer.Option(
            "--keep-tasks-apart",
            help="crosstask: treat the same step text in two tasks as two actions (133 instead of 105).",
        ),
    ] = False,
    fps: ImportFps = None,
    task: Task = None,
    tier: Tier = None,
    level: Level = None,
    cues_are_steps: CuesAreSteps = False,
    form: FileFormat = None,
    dry_run: DryRun = False,
    strict: Strict = False,
    overwrite: Overwrite = False,
    as_json: AsJson = False,
) -> None:
    """Import CrossTask, COIN, NIV, your own annotations, or files of annotation tools.

    Writes a dataset folder. Rows and files that cannot be used are listed and left out; with --strict, nothing is
    written then. `annotations` recognises the format of every file by its content: Label Studio, VIA, ELAN, CVAT,
    Vidat, subtitles, chapters and others.
    """
    only = AnnotationOptions(fps, task, tier, level, cues_are_steps, form, dry_run)
    with progress() as show:
        report = import_sources(
            kind,
            sources,
            folder,
            only,
            features=features,
            language=language,
            rename=rename,
            release_split=release_split,
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
    print_problems(report.problems, advice="" if dry_run else "; with --strict nothing would have been written")
    for note in report.notes:
        print_note(note)
    counts = {
        "video": report.num_videos,
        "task": report.num_tasks,
        "action": report.num_actions,
        "step": report.num_steps,
    }
    written = "" if dry_run else f" -> {report.folder}"
    out.print(f"{', '.join(counted(n, what) for what, n in counts.items())}{written}")
    if report.features:
        out.print(f"features of {describe_features(report.features)}")
    if dry_run:
        print_dry_run(report)
    else:
        print_next("data", "check", report.folder)


app.command("export", epilog=EXPORT_EXAMPLE)(export_command)


@app.command("embed", epilog="Example: p3iv data embed data/crosstask")
def embed_command(
    folder: DatasetDir,
    text_encoder: Annotated[
        str, text_encoder_option(f"of the step texts: {', '.join(TEXT_ENCODERS)}.")
    ] = DEFAULT_TEXT_ENCODER,
    text_weights: TextWeights = None,
    max_words: MaxWords = 16,
    allow_download: AllowDownload = False,
    overwrite: Overwrite = False,
    as_json: AsJson = False,
) -> None:
    """Make step embeddings (language.npz) from the step texts.

    No video is needed. `p3iv extract` does it, too, and `p3iv data import` where the text encoder is installed.
    """
    from p3iv.api.features import embed  # torch takes a second to import

    report = embed(
        folder,
        text_encoder=text_encoder,
        text_weights=text_weights,
        max_words=max_words,
        allow_download=allow_download,
        overwrite=overwrite,
    )
    if as_json:
        print_json(report)
        return
    for note in report.notes:
        print_note(note)
    made = f"embeddings of {counted(report.num_steps, 'step')} by {report.text_encoder}, {report.width} values each"
    done = "" if report.num_new_steps else "; nothing to do (--overwrite makes them again)"
    out.print(f"{made} -> {report.folder / 'language.npz'}{done}")
    print_next("data", "check", report.folder)


@app.command("simulate", epilog="Example: p3iv data simulate data/crosstask --seed 0")
def simulate_command(
    folder: DatasetDir,
    seed: Annotated[int, seed_option("the features")] = 0,
    noise: Annotated[
        float, typer.Option("--noise", metavar="X", help="Noise in the features, from 0: more makes planning harder.")
    ] = 4.5,
    overwrite: Overwrite = False,
) -> None:
    """Simulate features for a dataset that has none.

    The features are computed from the annotations and step embeddings, so that everything can run at full size without
    the real videos. Scores on them test the code; they say nothing about real videos. Features that are not simulated
    are replaced only with --overwrite.
    """
    from p3iv.api.datasets import simulate  # keeps `p3iv --help` quick

    with progress() as show:
        packed = simulate(folder, seed=seed, noise=noise, overwrite=overwrite, progress=show)
    print_problems(packed.problems)
    out.print(
        f"SIMULATED features of {describe_features(packed)} -> {folder}. "
        f"Scores on them test the code; they say nothing about real videos.",
    )
    print_next("data", "stats", folder)


app.command("check", epilog="Example: p3iv data check my_kitchen --fix")(check_command)
app.command("enough", epilog="Example: p3iv data enough my_kitchen")(enough_command)


@app.command("stats", epilog="Example: p3iv data stats data/crosstask --json")
def stats_command(
    folder: DatasetDir,
    window: Window = "inclusive",
    protocol: Protocol = 1,
    split: Split = "video",
    split_seed: SplitSeed = 0,
    horizons: Annotated[str, horizons_option("to count")] = "3,4,5,6",
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
        return
    _print_stats(found)
    if found.features:
        cut = {"--horizon": (wanted[0], 3), "--window": (window, "inclusive"), "--protocol": (protocol, 1)}
        print_next_training(folder, {**cut, "--split": (split, "video"), "--split-seed": (split_seed, 0)})
    else:
        print_next_of(folder)


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
