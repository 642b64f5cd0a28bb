"""Write the tabletop dataset: annotations, true plan probabilities, features of the world's state, videos."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from p3iv.data.folder import MADE_TABLETOP, DatasetCard, replacing_dataset
from p3iv.data.windows import split_by_video
from p3iv.encoders.identity import EncoderIdentity
from p3iv.errors import ConfigError, DatasetError, require_modules
from p3iv.features.language import write_language
from p3iv.features.store import StoreWriter
from p3iv.files import atomic_file
from p3iv.parallel import WorkerLost, run
from p3iv.readers.folder import write_split
from p3iv.readers.steps import write_steps
from p3iv.tabletop.tasks import PROCEDURES, RULES, Facts
from p3iv.tabletop.world import FRAMES_PER_SECOND, Execution, Plan, RandomStream, Script, tabletop_world, write_script
from p3iv.types import Action, Annotations, OnProgress, Progress, Split, Step, Video, Vocabulary

FEATURE_WIDTH, LANGUAGE_WIDTH = 128, 128
TRUTH_HORIZONS = (1, 2, 3, 4, 5, 6)

# One fact changes a row of features by about 1 (Euclidean norm). The look of a video (light, view, table) shifts all of
# its rows along a few directions by more than that, as in real features, so a planner has to learn what to ignore.
LOOK_NOISE, SECOND_NOISE = 4.0, 0.5
LOOK_RANK = 3  # number of these directions

# The camera of --shift-test: this share of the dimensions mixes facts and looks in another way, all rows are moved by
# one offset of about this norm, and the seconds are noisier. The other dimensions are those of the usual camera.
OTHER_SHARE, OTHER_OFFSET, OTHER_SECOND_NOISE = 0.5, 2.0, 0.8

SHEET_FORMATS = {".png": "PNG", ".jpg": "JPEG", ".jpeg": "JPEG"}

_STOP_WORDS = {"a", "an", "the", "of", "its"}
FACTS: tuple[str, ...] = tuple(
    sorted(
        {fact for rule in RULES.values() for fact in rule.adds | rule.needs}
        | {fact for procedure in PROCEDURES for start in procedure.starts for fact in start}
    )
)


def make_tabletop(
    folder: Path,
    *,
    num_videos: int = 160,
    seed: int = 0,
    encoder: str = "state",
    render: bool = True,
    shift_test: bool = False,
    jobs: int = 1,
    overwrite: bool = False,
    on_progress: OnProgress | None = None,
) -> None:
    """Write the whole dataset folder or nothing; `encoder` is `state` or `none`.

    With `shift_test`, the other camera films the test videos of the release split; everything else stays as it is.
    """
    if num_videos < 3:
        raise ConfigError(f"--videos {num_videos}, but it must be at least 3: train, val and test need one each.")
    if encoder not in ("state", "none"):
        raise ConfigError(f"--encoder {encoder}, but it must be `state` or `none`.")
    if render:
        _require_drawing("or add --skip-rendering, which writes everything except the videos")
    videos = write_scripts(num_videos, seed=seed, shift_test=shift_test)
    with replacing_dataset(folder, overwrite=overwrite) as temporary:
        _write_annotations(temporary, videos, seed)
        fingerprint = _write_features(temporary, videos) if encoder == "state" else None
        if render:
            _render_all(temporary / "videos", videos, jobs, on_progress)
        DatasetCard(  # written last: a folder without it is unfinished
            name="tabletop-shifted" if shift_test else "tabletop",
            source=f"{MADE_TABLETOP} --videos {num_videos} --seed {seed}{' --shift-test' if shift_test else ''}",
            encoder=EncoderIdentity("state") if encoder == "state" else None,
            text_encoder=EncoderIdentity("hashed words"),
            feature_fingerprint=fingerprint,
        ).write(temporary)


def write_scripts(num_videos: int, *, seed: int, shift_test: bool = False) -> list[Script]:
    """The videos of a dataset; with `shift_test`, the other camera films those of the test side."""
    videos = [write_script(seed, index) for index in range(num_videos)]
    tested = set(_split_of(videos, seed).test if shift_test else ())
    return [replace(video, other_camera=video.id in tested) for video in videos]


def _split_of(videos: Sequence[Script], seed: int) -> Split:
    return split_by_video([video.id for video in videos], seed=seed)


def true_plans(videos: Sequence[Script]) -> Iterator[dict[str, object]]:
    """The lines of truth.jsonl: every possible plan of every window, with its exact probability.

    A window has one line where its start and goal tell the number of steps; else one for plans of its own length, and
    one for plans of all lengths.
    """
    for video in videos:
        states = video.execution.states
        for horizon in TRUTH_HORIZONS:
            for first in range(len(states) - horizon):
                window = {"video": video.id, "first_step": first}
                yield from _lines_of_window(window, states[first], states[first + horizon], horizon)


def _lines_of_window(window: dict[str, object], start: Facts, goal: Facts, horizon: int) -> Iterator[dict[str, object]]:
    world, allowed = tabletop_world(), {"horizons": [TRUTH_HORIZONS[0], TRUTH_HORIZONS[-1]]}
    plans = world.plans_from(start, goal=goal, horizons=TRUTH_HORIZONS)
    if all(len(plan) == horizon for plan in plans):
        yield window | {"horizon": horizon} | allowed | _listed_plans(plans)
        return
    yield window | {"horizon": horizon} | _listed_plans(world.plans_between(start, goal, horizon))
    yield window | {"num_steps": horizon} | allowed | _listed_plans(plans)


def _listed_plans(plans: Mapping[Plan, float]) -> dict[str, object]:
    return {"plans": [[list(plan), probability] for plan, probability in plans.items()]}


def annotations_of(videos: Sequence[Script], seed: int) -> Annotations:
    """The same annotations that a reader would return, with a split."""
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
        split=_split_of(videos, seed),
    )


def _write_annotations(folder: Path, videos: Sequence[Script], seed: int) -> None:
    annotations = annotations_of(videos, seed)
    write_steps(folder / "steps.csv", annotations)
    if annotations.split:
        write_split(folder / "split.json", annotations.split)
    embedding = np.stack([embed_text(action.text) for action in annotations.vocabulary.actions])
    write_language(folder / "language.npz", annotations.vocabulary.names, embedding)
    with atomic_file(folder / "truth.jsonl") as temporary, temporary.open("w", encoding="utf-8") as lines:
        lines.writelines(json.dumps(line) + "\n" for line in true_plans(videos))


def _write_features(folder: Path, videos: Sequence[Script]) -> str:
    """Write the features and return their fingerprint."""
    with StoreWriter(folder / "features", width=FEATURE_WIDTH, dtype="float16") as store:
        for video in videos:
            rng = np.random.default_rng([*video.seed, RandomStream.FEATURES])
            rows = encode_states(video.execution, video.times, video.length_s, rng, other_camera=video.other_camera)
            store.add(video.id, rows)
    return store.fingerprint


def _require_drawing(otherwise: str = "") -> None:
    require_modules(["av", "PIL"], "video", "Drawing the tabletop", otherwise)


def _render_all(folder: Path, videos: Sequence[Script], jobs: int, on_progress: OnProgress | None) -> None:
    folder.mkdir()
    drawn = run(partial(_render_into, folder), videos, jobs=jobs, finish_started=True)
    for number, (video, result) in enumerate(drawn, start=1):
        if isinstance(result, WorkerLost):
            raise DatasetError(f"{video.id}.mp4 cannot be drawn: {result.reason}. Type the same command again.")
        if on_progress is not None:
            on_progress(Progress("Rendering videos", number, len(videos)))


def _render_into(folder: Path, video: Script) -> None:
    render_video(video, folder / f"{video.id}.mp4")


def render_video(video: Script, path: Path) -> None:
    """Render one video as an .mp4 file."""
    from p3iv.features.video_file import write_video  # only pictures need PyAV and Pillow
    from p3iv.tabletop.render import render_frames

    frames = render_frames(
        video.execution, video.times, video.length_s, seed=video.seed, other_camera=video.other_camera
    )
    write_video(path, frames, fps=FRAMES_PER_SECOND)


def check_sheet(path: Path) -> None:
    """Refuse a contact sheet that cannot be drawn, before minutes of rendering."""
    if path.suffix.lower() not in SHEET_FORMATS:
        raise ConfigError(f"--sheet {path}, but it must end in {', '.join(SHEET_FORMATS)}.")
    _require_drawing("or leave --sheet out")


def write_sheet(path: Path, *, seed: int = 0) -> None:
    """Write the contact sheet as a .png or .jpg file."""
    check_sheet(path)
    from p3iv.tabletop.render import contact_sheet

    page = contact_sheet(seed=seed)
    with atomic_file(path) as temporary:
        page.save(temporary, format=SHEET_FORMATS[path.suffix.lower()], quality=88, optimize=True)


def encode_states(
    execution: Execution,
    times: Sequence[tuple[float, float]],
    length_s: float,
    rng: np.random.Generator,
    *,
    other_camera: bool = False,
) -> NDArray[np.float16]:
    """One row per second: the facts at the middle of that second; a step in progress counts in part."""
    facts = np.array([[fact in state for fact in FACTS] for state in execution.states], dtype=np.float64)  # (N+1, X)
    seconds = np.arange(int(np.ceil(length_s))) + 0.5
    shown = np.repeat(facts[:1], len(seconds), axis=0)
    for step, (start_s, end_s) in enumerate(times):
        progress = np.clip((seconds - start_s) / (end_s - start_s), 0.0, 1.0)[:, None]
        shown += progress * (facts[step + 1] - facts[step])
    camera = _other_camera() if other_camera else _usual_camera()
    look = LOOK_NOISE / np.sqrt(LOOK_RANK) * rng.normal(size=LOOK_RANK) @ camera.looks
    noise = camera.second_noise / np.sqrt(FEATURE_WIDTH) * rng.normal(size=(len(seconds), FEATURE_WIDTH))
    return np.asarray(shown @ camera.facts + look + camera.offset + noise, dtype=np.float16)  # (seconds, F)


def embed_text(text: str) -> NDArray[np.float32]:
    """A hashed bag of words of unit length: every word adds +1 or -1 at four places that its hash chooses."""
    embedding = np.zeros(LANGUAGE_WIDTH)
    for word in text.lower().split():
        if word not in _STOP_WORDS:
            digest = hashlib.sha256(word.encode()).digest()
            for place, sign in zip(digest[0:4], digest[4:8], strict=True):
                embedding[place % LANGUAGE_WIDTH] += 1.0 if sign % 2 else -1.0
    length = max(float(np.linalg.norm(embedding)), 1e-9)
    return np.asarray(embedding / length, dtype=np.float32)


@dataclass(frozen=True)
class _StateCamera:
    """How `state` features show facts and looks; the same for every dataset."""

    facts: NDArray[np.float64]  # (X, F), rows of about unit length
    looks: NDArray[np.float64]  # (LOOK_RANK, F)
    offset: NDArray[np.float64]  # (F,)
    second_noise: float


def _usual_camera() -> _StateCamera:
    mixed = _draw_directions(np.random.default_rng(2022), len(FACTS) + LOOK_RANK)
    return _StateCamera(mixed[: len(FACTS)], mixed[len(FACTS) :], np.zeros(FEATURE_WIDTH), SECOND_NOISE)


def _other_camera() -> _StateCamera:
    rng, usual = np.random.default_rng(2023), _usual_camera()
    facts, looks, (offset,) = np.split(_draw_directions(rng, len(FACTS) + LOOK_RANK + 1), [len(FACTS), -1])
    is_other = rng.permutation(FEATURE_WIDTH) < round(OTHER_SHARE * FEATURE_WIDTH)
    return _StateCamera(
        np.where(is_other, facts, usual.facts),
        np.where(is_other, looks, usual.looks),
        OTHER_OFFSET * offset,
        OTHER_SECOND_NOISE,
    )


def _draw_directions(rng: np.random.Generator, number: int) -> NDArray[np.float64]:
    """Directions in feature space, of about unit length."""
    directions: NDArray[np.float64] = rng.normal(size=(number, FEATURE_WIDTH)) / np.sqrt(FEATURE_WIDTH)
    return directions
