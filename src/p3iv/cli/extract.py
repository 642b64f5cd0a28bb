"""`p3iv extract` computes features of videos; `p3iv align` adapts step embeddings to them."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Annotated

import typer

from p3iv.catalogue import DTYPES
from p3iv.cli.console import (
    describe_features,
    err,
    interruptible,
    out,
    print_json,
    print_next_training,
    print_note,
    print_problems,
    progress,
)
from p3iv.cli.few_videos import print_next_training_on
from p3iv.cli.options import (
    Address,
    AllowDownload,
    AsJson,
    DatasetDir,
    Engine,
    MaxWords,
    Overwrite,
    Protocol,
    Split,
    SplitSeed,
    Strict,
    TextWeights,
    Threads,
    choice,
    encoder_option,
    jobs_option,
    number_option,
    seed_option,
    text_encoder_option,
    weights_option,
)
from p3iv.encoders.registry import (
    DEFAULT_ENCODER,
    DEFAULT_TEXT_ENCODER,
    TEXT_ENCODERS,
    VIDEO_ENCODERS,
    WEIGHTS_HELP,
)
from p3iv.types import counted

if TYPE_CHECKING:
    from p3iv.extraction.align import AlignmentReport
    from p3iv.extraction.request import ExtractionReport

EXTRACT_EXAMPLE = "Example: p3iv extract my_kitchen --only-needed --jobs 4"
ALIGN_EXAMPLE = "Example: p3iv align my_kitchen --split release"


def extract_command(
    folder: DatasetDir,
    encoder: Annotated[
        str,
        encoder_option(
            f"of the videos: {', '.join(VIDEO_ENCODERS)}, or precomputed (features in files).", "precomputed"
        ),
    ] = DEFAULT_ENCODER,
    text_encoder: Annotated[
        str | None,
        text_encoder_option(
            f"of the step texts: {', '.join(TEXT_ENCODERS)}, or keep (leave language.npz as it is). "
            f"Without it, that of --encoder if it encodes text, else {DEFAULT_TEXT_ENCODER}.",
            "keep",
        ),
    ] = None,
    weights: Annotated[str | None, weights_option(f". {WEIGHTS_HELP}. precomputed: a folder of .npy files.")] = None,
    text_weights: TextWeights = None,
    max_words: MaxWords = 16,
    allow_download: AllowDownload = False,
    only_needed: Annotated[
        bool, typer.Option("--only-needed", help="Encode only the seconds around the start and end of each step.")
    ] = False,
    dtype: Annotated[str, choice("--dtype", DTYPES, help="Type of the stored features.")] = "float16",
    jobs: Annotated[
        int, jobs_option("; each also uses one thread to decode video", show_default="half of the processors")
    ] = max(1, (os.cpu_count() or 1) // 2),
    engine: Engine = "local",
    address: Address = None,
    threads: Threads = 1,
    strict: Strict = False,
    overwrite: Overwrite = False,
    as_json: AsJson = False,
) -> None:
    """Compute features of a dataset's videos and step texts.

    DIR holds steps.csv and videos/. Every second of a video becomes one row. If the command is interrupted, run it
    again: it continues where it stopped. Videos that cannot be read are listed at the end; the command succeeds as
    long as one video can be used, unless --strict is given.
    """
    from p3iv.api.features import extract  # torch takes a second to import

    with interruptible(f"run the same command again to continue in {folder}"), progress() as show:
        report = extract(
            folder,
            encoder=encoder,
            text_encoder=text_encoder,
            weights=weights,
            text_weights=text_weights,
            max_words=max_words,
            allow_download=allow_download,
            only_needed=only_needed,
            dtype=dtype,
            engine=engine,
            address=address,
            jobs=jobs,
            threads=threads,
            strict=strict,
            overwrite=overwrite,
            progress=show,
        )
    if as_json:
        print_json(report)
    else:
        _print_extraction(report)


def _print_extraction(report: ExtractionReport) -> None:
    for note in report.notes:
        print_note(note)
    if report.is_kept:
        _print_kept(report)
        return
    print_problems(report.problems)
    if report.problems:
        err.print("After fixing them, rerun with --overwrite; only these videos are read again.")
    if report.num_resumed:
        done = counted(report.num_resumed, "video")
        out.print(f"{done} finished by an earlier, interrupted run")
    out.print(f"{report.encoder} features of {describe_features(report.features)} -> {report.folder}")
    texts = f"step embeddings by {report.text_encoder}" if report.text_encoder else "no step embeddings"
    out.print(f"{texts}; {report.num_frames} frames decoded in {report.seconds:.1f} s, {report.speed} per second")
    print_next_training_on(report.folder, report.features.num_videos)


def _print_kept(report: ExtractionReport) -> None:
    has = f"all {counted(report.features.num_videos, 'video')} have {report.encoder} features"
    if not report.num_new_steps:
        out.print(f"{has}; nothing to do (--overwrite makes features and step embeddings again)")
    else:
        new = counted(report.num_new_steps, "step")
        out.print(f"{has}; {new} had no embedding, so all step embeddings were made by {report.text_encoder}")
    print_next_training_on(report.folder, report.features.num_videos)


def align_command(
    folder: DatasetDir,
    split: Split = "video",
    split_seed: SplitSeed = 0,
    protocol: Protocol = 1,
    seed: Annotated[int, seed_option("the initial parameters and the batches")] = 0,
    steps: Annotated[int, number_option("--steps", "Number of optimiser steps.")] = 400,
    threads: Threads = 1,
    as_json: AsJson = False,
) -> None:
    """Adapt step embeddings to how the steps look in the videos.

    Trains a small network on the training videos, as the "native" features of the paper's supplement, and replaces
    language.npz; language_text.npz keeps the embeddings of the texts alone. Train with the same --split,
    --split-seed and --protocol: otherwise the embeddings have seen test videos.
    """
    from p3iv.api.features import align  # torch takes a second to import

    report = align(
        folder, split=split, split_seed=split_seed, protocol=protocol, seed=seed, steps=steps, threads=threads
    )
    if as_json:
        print_json(report)
        return
    _print_alignment(report, f"--split {split} --split-seed {split_seed}")
    sides = {"--split": (split, "video"), "--split-seed": (split_seed, 0), "--protocol": (protocol, 1)}
    print_next_training(folder, sides)


def _print_alignment(report: AlignmentReport, split: str) -> None:
    out.print(
        f"trained on {counted(report.num_steps, 'step')} of {counted(report.num_actions, 'action')} in "
        f"{counted(report.num_videos, 'training video')} ({split}; train with the same)",
    )
    out.print(
        f"how often a text retrieves a step of its action, among {report.num_val_steps} validation steps: "
        f"first {100 * report.before.first:.1f} % before, {100 * report.after.first:.1f} % after; "
        f"in the first five {100 * report.before.five:.1f} % before, {100 * report.after.five:.1f} % after",
    )
    out.print(f"{report.folder / 'language.npz'}: {report.width} values per step")
