"""Write the tabletop world as a dataset folder: the same seed gives the same annotations and the same pixels."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from importlib.util import find_spec
from multiprocessing import get_context
from pathlib import Path

import numpy as np

from p3iv.annotations import write_split, write_steps
from p3iv.atomic import whole_file, whole_folder
from p3iv.dataset import DatasetCard
from p3iv.dataset.card import MADE_TABLETOP
from p3iv.errors import ConfigError, MissingExtraError
from p3iv.features import StoreWriter, write_language
from p3iv.processes import follow_parent
from p3iv.splits import split_by_video
from p3iv.tabletop.script import FRAMES_PER_SECOND, Script, write_script
from p3iv.tabletop.state_encoder import FEATURE_WIDTH, embed_text, encode_states
from p3iv.tabletop.tasks import RULES
from p3iv.tabletop.world import tabletop_world
from p3iv.types import Action, Annotations, Step, Video, Vocabulary

TRUTH_HORIZONS = (2, 3, 4, 5, 6)  # 2: protocol 2 at T = 3 predicts two actions
_NOISE = 2  # what the random generator is for, beside those of the script


def make_tabletop(
    folder: Path,
    *,
    num_videos: int = 160,
    seed: int = 0,
    encoder: str = "state",
    render: bool = True,
    jobs: int = 1,
    progress: Callable[[int, int], None] | None = None,
) -> None:
    """Write the dataset folder, all of it or nothing; `encoder` is `state` or `none`."""
    if num_videos < 3:
        raise ConfigError(f"--videos {num_videos}, but train, val and test need one each: at least 3.")
    if encoder not in ("state", "none"):
        raise ConfigError(f"--encoder {encoder}, but the tabletop writes `state` features or `none`.")
    videos = [write_script(seed, index) for index in range(num_videos)]
    with whole_folder(folder.resolve()) as beside:  # a link keeps leading where it leads
        _write_annotations(beside, videos, seed)
        fingerprint = _write_features(beside, videos) if encoder == "state" else None
        if render:
            _require_drawing()
            _render_all(beside / "videos", videos, jobs, progress)
        DatasetCard(  # last: a folder without it is known to be unfinished
            name="tabletop",
            source=f"{MADE_TABLETOP} --videos {num_videos} --seed {seed}",
            encoder="state" if encoder == "state" else None,
            text_encoder="hashed words",
            feature_fingerprint=fingerprint,
        ).write(beside)


def true_plans(videos: Sequence[Script]) -> Iterator[dict[str, object]]:
    """The lines of truth.jsonl: for every window, every valid plan with its exact probability."""
    world = tabletop_world()
    for video in videos:
        states = video.execution.states
        for horizon in TRUTH_HORIZONS:
            for first in range(len(states) - horizon):
                plans = world.plans_between(states[first], states[first + horizon], horizon)
                yield {
                    "video": video.id,
                    "first_step": first,
                    "horizon": horizon,
                    "plans": [[list(plan), probability] for plan, probability in plans.items()],
                }


def annotations_of(videos: Sequence[Script], seed: int) -> Annotations:
    """The videos as any reader would give them, with a split of their own."""
    return Annotations(
        name="tabletop",
        videos=tuple(
            Video(
                video.id,
                video.execution.procedure,
                tuple(
                    Step(step, start_s, end_s)
                    for step, (start_s, end_s) in zip(video.execution.steps, video.times, strict=True)
                ),
            )
            for video in videos
        ),
        vocabulary=Vocabulary(tuple(Action(name, name) for name in RULES)),
        split=split_by_video([video.id for video in videos], seed=seed),
    )


def _write_annotations(folder: Path, videos: Sequence[Script], seed: int) -> None:
    annotations = annotations_of(videos, seed)
    write_steps(folder / "steps.csv", annotations)
    if annotations.split:
        write_split(folder / "split.json", annotations.split)
    embedding = np.stack([embed_text(action.text) for action in annotations.vocabulary.actions])
    write_language(folder / "language.npz", annotations.vocabulary.names, embedding)
    with whole_file(folder / "truth.jsonl") as beside, beside.open("w", encoding="utf-8") as lines:
        lines.writelines(json.dumps(line) + "\n" for line in true_plans(videos))


def _write_features(folder: Path, videos: Sequence[Script]) -> str:
    """Write the features and return their fingerprint."""
    with StoreWriter(folder / "features", width=FEATURE_WIDTH, dtype="float16") as store:
        for video in videos:
            rng = np.random.default_rng([*video.seed, _NOISE])
            store.add(video.id, encode_states(video.execution, video.times, video.length_s, rng))
    return store.fingerprint


def _require_drawing() -> None:
    if find_spec("PIL") is None or find_spec("av") is None:
        raise MissingExtraError("Pillow and PyAV", "video", "Drawing the tabletop")


def _render_all(folder: Path, videos: Sequence[Script], jobs: int, progress: Callable[[int, int], None] | None) -> None:
    folder.mkdir()
    context = get_context("spawn")
    with ProcessPoolExecutor(jobs, context, initializer=follow_parent, initargs=(os.getpid(),)) as pool:
        under_way = [pool.submit(render_video, video, folder / f"{video.id}.mp4") for video in videos]
        try:
            for done, future in enumerate(as_completed(under_way), start=1):
                future.result()
                if progress:
                    progress(done, len(videos))
        except BaseException:
            pool.shutdown(wait=True, cancel_futures=True)
            raise


def render_video(video: Script, path: Path) -> None:
    """Draw one video into an .mp4 file."""
    from p3iv.features.video import write_video  # noqa: PLC0415 - only pictures need PyAV and Pillow
    from p3iv.tabletop.render import render_frames  # noqa: PLC0415

    frames = render_frames(video.execution, video.times, video.length_s, seed=video.seed)
    write_video(path, frames, fps=FRAMES_PER_SECOND)
