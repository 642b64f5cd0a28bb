"""Simulate features for a dataset that has none, from its annotations and step embeddings."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

import numpy as np

from p3iv.data.folder import Dataset, exclusive_dataset, open_dataset, refuse_foreign_features
from p3iv.encoders.identity import EncoderIdentity
from p3iv.errors import ConfigError, DatasetError, FeatureError
from p3iv.features.store import FeatureStore, PackedFeatures, StoreWriter
from p3iv.files import atomic_folder
from p3iv.types import LEFT_WITHOUT_FEATURES, Array, OnProgress, Progress, Video, Vocabulary, listed
from p3iv.validation import ProblemLog

DEFAULT_NOISE: Final = 4.5

STEP_S, GAP_S = 4.0, 1.0  # duration of a step in a video without times, and of the gap before it

# Lengths of the parts. On CrossTask with its MIL-NCE text embeddings and the default noise, a ridge regression on
# centred features (means of three seconds, T=3 windows, 70/30 by video) then predicts the first action from the start
# in 57 % of the windows (61 % with the goal) and the task from both in 93 %.
_STEP, _TASK, _STYLE, _DRIFT = 0.8, 0.25, 1.0, 0.5

_STYLE_RANK: Final = 48

_DRIFT_ROWS: Final = 8  # seconds that share one drift

_FADE_S: Final = 1.5  # how long before and after a step its weight is 1/e

_TAIL_ROWS: Final = 4  # seconds after the last step

_MAX_ROWS: Final = 24 * 3600

# The noise is defined per dimension, not by its length, because only the few directions that distinguish steps matter
# to a probe. So one figure is equally hard in any width (the probe above: 55 to 57 % and 91 to 93 % for 256 to 1,024).
_REFERENCE_WIDTH: Final = 512


@dataclass(frozen=True)
class _World:
    """What all simulated videos of one seed have in common."""

    seed: int
    noise: float
    looks: Array  # (A, F) float32, of length _STEP
    style_basis: Array  # (rank, F) float32, orthonormal

    @property
    def width(self) -> int:
        return int(self.looks.shape[1])


def simulate_features(
    videos: Sequence[Video],
    vocabulary: Vocabulary,
    embedding: Array,
    destination: Path,
    *,
    seed: int = 0,
    noise: float = DEFAULT_NOISE,
    on_progress: OnProgress | None = None,
) -> PackedFeatures:
    """Write simulated features of `videos`, float16 and as wide as `embedding` (A, F), in a store at `destination`.

    The rows of a video depend on the seed, the noise, the embedding, its id, task and steps, but not on other videos.
    In a video without times, each step takes 4 seconds, after a gap of 1 second.

    Raises:
        FeatureError: the embedding does not match the vocabulary, or no video can be simulated.
    """
    world = _make_world(vocabulary, embedding, seed, noise)
    log = ProblemLog()
    with StoreWriter(destination, width=world.width, dtype="float16") as writer:
        for done, video in enumerate(videos, start=1):
            try:
                writer.add(video.id, _rows(world, video, vocabulary))
            except FeatureError as error:
                log.add(video.id, str(error), LEFT_WITHOUT_FEATURES)
            if on_progress is not None:
                on_progress(Progress("Simulating features", done, len(videos)))
        if not writer.num_rows:
            raise FeatureError(
                f"none of the {len(videos)} videos can be simulated: {log.problems[0] if videos else 'none'}"
            )
    return writer.packed(log.problems)


def step_times(video: Video) -> Array:
    """Start and end of each step, (steps, 2) seconds; simulated for a video without times."""
    if video.is_timed:
        return np.array([(step.start_s, step.end_s) for step in video.steps], np.float64).reshape(-1, 2)
    starts = GAP_S + (STEP_S + GAP_S) * np.arange(len(video.steps))
    return np.stack([starts, starts + STEP_S], axis=1)


def _make_world(vocabulary: Vocabulary, embedding: Array, seed: int, noise: float) -> _World:
    if embedding.ndim != 2 or len(embedding) != len(vocabulary) or not embedding.size:
        raise FeatureError(
            f"an embedding of shape {embedding.shape} for {len(vocabulary)} actions; one row each is needed"
        )
    width = embedding.shape[1]
    rng = _generator(seed, "world", str(width))
    text = _unit(embedding - embedding.mean(axis=0, dtype=np.float64))
    turn = np.linalg.qr(rng.normal(size=(width, width)))[0]
    basis = np.linalg.qr(rng.normal(size=(width, min(_STYLE_RANK, width))))[0].T
    looks = _STEP * _unit(0.6 * text + 0.4 * text @ turn)
    return _World(seed, noise, looks.astype(np.float32), np.ascontiguousarray(basis, np.float32))


def _rows(world: _World, video: Video, vocabulary: Vocabulary) -> Array:
    """The rows of one video, (N, F) float32."""
    unknown = [step.action for step in video.steps if step.action not in vocabulary.id_of]
    if unknown:
        raise FeatureError(f"steps that are not in the vocabulary: {listed(unknown)}")
    times = step_times(video)
    num_rows = _num_rows(times)
    looks = world.looks[[vocabulary.id_of[step.action] for step in video.steps]]  # (steps, F)
    task = _unit(_generator(world.seed, "task", video.task).normal(size=world.width)).astype(np.float32)
    rng = _generator(world.seed, "video", video.id)
    rows = rng.standard_normal((num_rows, world.width), dtype=np.float32)
    with np.errstate(over="ignore", invalid="ignore"):  # the store reports values that do not fit
        rows *= world.noise / math.sqrt(_REFERENCE_WIDTH)
    rows += _shown(times, num_rows) @ looks
    rows += _TASK * task + _wander(world, rng, num_rows)
    return rows


def _num_rows(times: Array) -> int:
    if not len(times):
        raise FeatureError("no steps to simulate")
    last_s = float(times.max())
    if not (np.isfinite(times).all() and 0 <= last_s <= _MAX_ROWS - _TAIL_ROWS):
        raise FeatureError(f"steps that end at {last_s} s; a video of at most {_MAX_ROWS // 3600} hours is simulated")
    return math.ceil(last_s) + _TAIL_ROWS


def _shown(times: Array, num_rows: int) -> Array:
    """The weight of each step in every second, (N, steps) float32; at most 1 in sum."""
    seconds = np.arange(num_rows)[:, None] + 0.5
    outside_s = np.maximum(np.maximum(times[:, 0] - seconds, seconds - times[:, 1]), 0.0)
    weight = np.exp(-outside_s / _FADE_S)
    shown: Array = weight / np.maximum(weight.sum(axis=1, keepdims=True), 1.0)
    return shown.astype(np.float32)


def _wander(world: _World, rng: np.random.Generator, num_rows: int) -> Array:
    """The style of a video and its slow drift, (N, F) float32."""
    rank = len(world.style_basis)
    style = _STYLE * rng.standard_normal(rank, dtype=np.float32)
    drift = _DRIFT * rng.standard_normal((num_rows // _DRIFT_ROWS + 1, rank), dtype=np.float32)
    parts = (style + drift) @ world.style_basis / np.float32(math.sqrt(rank))
    return np.repeat(parts, _DRIFT_ROWS, axis=0)[:num_rows]


def _generator(seed: int, *about: str) -> np.random.Generator:
    """A random generator per purpose, so that results do not depend on the order or number of videos."""
    digest = hashlib.sha256("\0".join((str(seed), *about)).encode()).digest()
    return np.random.Generator(np.random.PCG64(int.from_bytes(digest, "little")))


def _unit(vectors: Array) -> Array:
    length = np.linalg.norm(vectors, axis=-1, keepdims=True)
    return vectors / np.where(length > 0, length, 1.0)


def simulate_dataset(
    folder: Path,
    *,
    seed: int = 0,
    noise: float = DEFAULT_NOISE,
    overwrite: bool = False,
    on_progress: OnProgress | None = None,
) -> PackedFeatures:
    """Give a dataset simulated features, made from its annotations and step embeddings, and mark it as simulated."""
    if not 0 <= noise < math.inf:
        raise ConfigError(f"--noise {noise}, but it must be a finite number of at least 0, such as {DEFAULT_NOISE}.")
    with exclusive_dataset(folder):
        dataset = open_dataset(folder)
        _refuse_to_replace_features(dataset, overwrite=overwrite)
        return _simulate(dataset, seed=seed, noise=noise, on_progress=on_progress)


def _simulate(dataset: Dataset, *, seed: int, noise: float, on_progress: OnProgress | None) -> PackedFeatures:
    folder = dataset.folder
    if dataset.language is None:
        raise DatasetError(
            f"{folder} has no language.npz, which the simulation needs. Make it with `p3iv data embed {folder}`, or "
            f"import it with --language FILE."
        )
    with atomic_folder(folder / "features") as temporary:
        packed = simulate_features(
            dataset.videos,
            dataset.vocabulary,
            dataset.language,
            temporary,
            seed=seed,
            noise=noise,
            on_progress=on_progress,
        )
        # After the rows are complete and before they replace others: an interruption may mark real rows as simulated,
        # but never simulated rows as real.
        _mark_simulated(dataset, f"stand-in seed {seed} noise {noise:g}", packed)
    return packed


def _refuse_to_replace_features(dataset: Dataset, *, overwrite: bool) -> None:
    refuse_foreign_features(dataset.folder)
    if FeatureStore.is_at(dataset.folder / "features") and not dataset.card.simulated and not overwrite:
        raise DatasetError(
            f"{dataset.folder} has {dataset.card.encoder or 'unnamed'} features. "
            f"Pass --overwrite to replace them by simulated ones."
        )


def _mark_simulated(dataset: Dataset, encoder: str, packed: PackedFeatures) -> None:
    card = replace(dataset.card, encoder=EncoderIdentity(encoder), simulated=True, features_per_second=1.0)
    replace(card, feature_fingerprint=packed.fingerprint).write(dataset.folder)
