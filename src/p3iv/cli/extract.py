"""`p3iv extract DIR` and `p3iv align DIR`."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from p3iv.cli.choices import Protocol
from p3iv.cli.console import err, out, print_json
from p3iv.cli.data import Dtype, describe_features, note_leftovers, print_problems

if TYPE_CHECKING:
    from p3iv.extraction.request import Advance, ExtractionReport

EXTRACT_EXAMPLE = "Example: p3iv extract my_kitchen --jobs 4, then p3iv train my_kitchen --out runs/kitchen"
ALIGN_EXAMPLE = "Example: p3iv align my_kitchen --split release"
_EVERY_S = 10.0


class EngineName(StrEnum):
    local = "local"
    ray = "ray"


DatasetDir = Annotated[Path, typer.Argument(metavar="DIR", help="A dataset folder with steps.csv and videos/.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print the result as JSON.")]


def extract_command(
    folder: DatasetDir,
    encoder: Annotated[
        str, typer.Option("--encoder", help="efficientnet-lite0, s3d, clip, or precomputed.")
    ] = "efficientnet-lite0",
    text_encoder: Annotated[
        str | None,
        typer.Option(
            "--text-encoder", help="minilm, s3d, clip, or keep. Default: the encoder's own, or minilm if it has none."
        ),
    ] = None,
    weights: Annotated[
        str | None,
        typer.Option(
            "--weights",
            help="s3d: s3d_howto100m.pth. clip: a name on the hub or a folder. precomputed: a folder of .npy.",
        ),
    ] = None,
    text_weights: Annotated[
        str | None, typer.Option("--text-weights", help="The same for --text-encoder, where it has weights of its own.")
    ] = None,
    max_words: Annotated[
        int, typer.Option("--max-words", min=1, help="s3d: words of a text that count; P3IV's release used 30.")
    ] = 16,
    only_needed: Annotated[
        bool, typer.Option("--only-needed", help="Only the seconds around the steps' starts and ends.")
    ] = False,
    dtype: Annotated[Dtype, typer.Option("--dtype", help="Store features so.")] = Dtype.float16,
    jobs: Annotated[
        int, typer.Option("--jobs", min=1, help="Processes; each decodes with one thread and encodes with another.")
    ] = max(1, (os.cpu_count() or 1) // 2),
    engine: Annotated[
        EngineName, typer.Option("--engine", help="local, or ray: over a cluster that sees DIR under the same path.")
    ] = EngineName.local,
    address: Annotated[
        str | None,
        typer.Option("--address", metavar="HOST:PORT", help="Of a Ray cluster; without it, one starts here."),
    ] = None,
    threads: Annotated[int, typer.Option("--threads", min=1, help="Threads that each process encodes with.")] = 1,
    strict: Annotated[bool, typer.Option("--strict", help="Fail if any video cannot be used.")] = False,
    overwrite: Annotated[
        bool, typer.Option("--overwrite", help="Replace the features and embeddings that are there.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Encode the videos of a dataset, one row per second, and the texts of its steps.

    Interrupted at any moment, the same command goes on where it was. A video that cannot be read is listed at the end
    and costs nothing else: the command succeeds as long as one video can be used, unless --strict.
    """
    import torch  # takes a second to import

    from p3iv.extraction.extract import extract_features
    from p3iv.extraction.request import ExtractionRequest

    torch.set_num_threads(threads)
    request = ExtractionRequest(
        folder=folder,
        encoder=encoder,
        text_encoder=text_encoder,
        weights=weights,
        text_weights=text_weights,
        max_words=max_words,
        only_needed=only_needed,
        dtype=dtype.value,
        engine=engine.value,
        address=address,
        jobs=jobs,
        threads=threads,
        strict=strict,
        overwrite=overwrite,
    )
    note_leftovers(folder / "features")
    try:
        with _showing_advance() as show:
            report = extract_features(request, on_advance=show)
    except KeyboardInterrupt:
        err.print(f"interrupted; the same command goes on from where it was in {folder}", markup=False)
        raise typer.Exit(130) from None
    if as_json:
        print_json(report)
        return
    print_problems(report.problems)
    if report.problems:
        err.print("Mended, the same command with --overwrite reads only those again.", markup=False)
    if report.num_resumed:
        out.print(f"{report.num_resumed} videos had been done by an earlier run", markup=False)
    out.print(f"{report.encoder} features of {describe_features(report.features)} -> {folder}", markup=False)
    out.print(f"step embeddings by {report.text_encoder or 'nobody'}; {_speed(report)}", markup=False)


def _speed(report: ExtractionReport) -> str:
    rate = report.num_frames / max(report.seconds, 1e-9)
    return f"{report.num_frames} frames decoded in {report.seconds:.1f} s, {rate:.0f} per second"


@contextmanager
def _showing_advance() -> Iterator[Callable[[Advance], None]]:
    """Videos and frames per second: a bar on a terminal, a line every few seconds elsewhere."""
    if not err.is_terminal:
        yield _plain_lines()
        return
    columns = (
        TextColumn("Extracting"),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn("videos"),
        TextColumn("{task.fields[speed]}"),
        TimeRemainingColumn(),
    )
    with Progress(*columns, console=err, transient=True) as bar:
        task = bar.add_task("", total=None, speed="")
        yield lambda at: bar.update(task, completed=at.num_done, total=at.num_videos, speed=_frames_per_second(at))


def _plain_lines() -> Callable[[Advance], None]:
    last = time.monotonic()

    def show(at: Advance) -> None:
        nonlocal last
        if time.monotonic() - last >= _EVERY_S and at.num_done < at.num_videos:
            last = time.monotonic()
            err.print(f"Extracting: {at.num_done} of {at.num_videos} videos, {_frames_per_second(at)}", markup=False)

    return show


def _frames_per_second(at: Advance) -> str:
    return f"{at.num_frames / max(at.seconds, 1e-9):.0f} frames/s"


def align_command(
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="A dataset folder with features and language.npz.")],
    split: Annotated[
        str, typer.Option("--split", help="video, release (the dataset's own) or a split file: as in `p3iv train`.")
    ] = "video",
    split_seed: Annotated[int, typer.Option("--split-seed", min=0, help="The split depends on it alone.")] = 0,
    protocol: Annotated[Protocol, typer.Option("--protocol", help="1 or 2: as in `p3iv train`.")] = Protocol.one,
    seed: Annotated[int, typer.Option("--seed", min=0, help="Of the tower's parameters and batches.")] = 0,
    steps: Annotated[int, typer.Option("--steps", min=1, help="Steps of the optimiser.")] = 400,
    threads: Annotated[int, typer.Option("--threads", min=1, help="Threads that torch computes with.")] = 1,
    as_json: AsJson = False,
) -> None:
    """Fit step embeddings to the looks of the training videos' steps (the supplement's native features).

    language.npz is replaced; the embeddings of the texts alone stay in language_text.npz. Train with the same split:
    under another one, the embeddings would have seen videos that are tested.
    """
    import torch  # takes a second to import

    from p3iv.extraction.align import (
        AlignmentRequest,
        align_dataset,
    )

    torch.set_num_threads(threads)
    report = align_dataset(AlignmentRequest(folder, split, split_seed, int(protocol), seed, steps))
    if as_json:
        print_json(report)
        return
    out.print(
        f"fitted on {report.num_steps} steps of {report.num_actions} actions in the {report.num_videos} training "
        f"videos (--split {split} --split-seed {split_seed}; train with the same)",
        markup=False,
    )
    out.print(
        f"text finds a step of its action among {report.num_val_steps} validation steps: first "
        f"{100 * report.before.first:.1f} % before, {100 * report.after.first:.1f} % after; among five "
        f"{100 * report.before.five:.1f} % before, {100 * report.after.five:.1f} % after",
        markup=False,
    )
    out.print(f"{folder / 'language.npz'}: {report.width} values per step", markup=False)
