"""Simulated features: the same seed gives a video the same bytes beside any other videos, and steps differ."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from p3iv.data.folder import open_dataset
from p3iv.data.importing import ImportRequest, import_dataset
from p3iv.data.simulate import simulate_dataset, simulate_features, step_times
from p3iv.errors import ConfigError, DatasetError, FeatureError
from p3iv.features.store import FeatureStore, PackedFeatures
from p3iv.types import Action, Step, Video, Vocabulary

NAMES = [f"step {number}" for number in range(8)]
VOCABULARY = Vocabulary(tuple(Action(name, name) for name in NAMES))


def embedding(width: int = 24) -> np.ndarray[Any, Any]:
    return np.random.default_rng(3).normal(size=(len(NAMES), width)).astype(np.float32)


def make_videos(count: int, timed: bool = True) -> list[Video]:
    rng = np.random.default_rng(1)
    videos = []
    for number in range(count):
        starts = [float(start) for start in np.cumsum(rng.uniform(4, 9, size=5))]
        actions = [NAMES[action] for action in rng.integers(len(NAMES), size=5)]
        steps = tuple(Step(a, s, s + 3.5) if timed else Step(a) for a, s in zip(actions, starts, strict=True))
        videos.append(Video(f"video{number}", f"task{number % 3}", steps))
    return videos


def simulate(folder: Path, videos: list[Video], **options: Any) -> tuple[PackedFeatures, dict[str, bytes]]:
    packed = simulate_features(videos, VOCABULARY, options.pop("embedding", embedding()), folder, **options)
    store = FeatureStore.open(folder)
    store.verify()
    return packed, {video: store.rows(video).tobytes() for video in store.videos}


@settings(deadline=None, max_examples=15, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(order=st.permutations(range(6)), size=st.integers(1, 6), timed=st.booleans())
def test_neither_order_nor_company_changes_a_video(tmp_path: Path, order: list[int], size: int, timed: bool) -> None:
    videos = make_videos(6, timed)
    _, everyone = simulate(tmp_path / "all", videos)
    _, some = simulate(tmp_path / "some", [videos[number] for number in order[:size]])
    assert some == {name: everyone[name] for name in some}
    assert list(some) == [f"video{number}" for number in order[:size]]


def test_seed_noise_and_fingerprint(tmp_path: Path) -> None:
    videos = make_videos(3)
    packed, rows = simulate(tmp_path / "a", videos)
    again, _ = simulate(tmp_path / "b", videos)
    assert (packed.num_videos, packed.width, packed.dtype) == (3, 24, "float16")
    assert packed.num_rows == sum(int(np.ceil(video.steps[-1].end_s or 0)) + 4 for video in videos)
    assert again == packed
    for options in ({"seed": 1}, {"noise": 4.0}):
        other, changed = simulate(tmp_path / "c", videos, **options)
        assert other.fingerprint != packed.fingerprint
        assert all(changed[name] != rows[name] for name in rows)


def test_steps_without_times_take_four_seconds_after_a_gap_of_one() -> None:
    video = make_videos(1, timed=False)[0]
    assert step_times(video).tolist() == [[1, 5], [6, 10], [11, 15], [16, 20], [21, 25]]


@pytest.mark.parametrize("width", [6, 24, 100])
@pytest.mark.parametrize("timed", [True, False])
def test_a_step_looks_similar_in_every_video(tmp_path: Path, width: int, timed: bool) -> None:
    """A nearest mean of the rows amid the steps, learnt on half of the videos, names the steps of the rest."""
    videos = make_videos(60, timed)
    simulate(tmp_path / "features", videos, embedding=embedding(width), noise=0.5)
    store = FeatureStore.open(tmp_path / "features")
    middles = [step_times(video).mean(axis=1).astype(int) for video in videos]
    rows = np.concatenate([store.rows(video.id)[at] for video, at in zip(videos, middles, strict=True)]).astype(
        np.float64
    )
    labels = np.array([VOCABULARY.id_of[step.action] for video in videos for step in video.steps])
    train, test = slice(0, 150), slice(150, 300)
    means = np.stack([rows[train][labels[train] == label].mean(axis=0) for label in range(len(NAMES))])
    guessed = ((rows[test][:, None] - means) ** 2).sum(axis=2).argmin(axis=1)
    assert (guessed == labels[test]).mean() > 0.35  # chance is 0.125


def test_the_noise_of_a_direction_does_not_depend_on_the_width(tmp_path: Path) -> None:
    spread = {}
    for width in (64, 256):
        simulate(tmp_path / "features", make_videos(4), embedding=embedding(width), noise=50.0)
        spread[width] = float(FeatureStore.open(tmp_path / "features").rows("video0").astype(np.float64).std())
    assert spread[64] == pytest.approx(spread[256], rel=0.05)


def test_what_cannot_be_simulated_is_named(tmp_path: Path) -> None:
    strange = Video("strange", "task", (Step("unheard of", 0, 1),))
    endless = Video("endless", "task", (Step(NAMES[0], 0, 1e9),))
    early = Video("early", "task", (Step(NAMES[0], -9.0, -2.0),))
    empty = Video("empty", "task", ())
    packed, rows = simulate(tmp_path / "features", [strange, *make_videos(1), endless, early, empty])
    assert list(rows) == ["video0"]
    assert [problem.where for problem in packed.problems] == ["strange", "endless", "early", "empty"]
    assert "unheard of" in packed.problems[0].what
    with pytest.raises(FeatureError, match="none of the 1 videos can be simulated"):
        simulate(tmp_path / "none", [strange])
    with pytest.raises(FeatureError, match=r"shape \(3, 24\) for 8 actions"):
        simulate(tmp_path / "none", make_videos(1), embedding=embedding()[:3])
    assert not (tmp_path / "none").exists()


def contents(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()}


@pytest.fixture
def folder(source: Path, tmp_path: Path) -> Path:
    import_dataset(ImportRequest("folder", source, tmp_path / "dataset"))
    return tmp_path / "dataset"


def test_simulation_replaces_real_features_only_when_asked_and_is_marked(folder: Path) -> None:
    with pytest.raises(DatasetError, match="--overwrite"):
        simulate_dataset(folder)
    packed = simulate_dataset(folder, seed=3, overwrite=True)
    dataset = open_dataset(folder)
    assert dataset.card.simulated
    assert "SIMULATED" in dataset.card.label
    assert dataset.card.feature_fingerprint == packed.fingerprint
    assert simulate_dataset(folder, seed=3).fingerprint == packed.fingerprint
    assert simulate_dataset(folder, seed=4).fingerprint != packed.fingerprint
    assert sorted(path.name for path in folder.iterdir()) == [
        "dataset.yaml",
        "features",
        "language.npz",
        "split.json",
        "steps.csv",
        "videos",
    ]


def test_files_that_p3iv_did_not_pack_are_never_replaced(source: Path) -> None:
    before = contents(source)
    for overwrite in (False, True):
        with pytest.raises(DatasetError, match="p3iv data import folder"):
            simulate_dataset(source, overwrite=overwrite)
    assert contents(source) == before


def test_features_without_a_card_or_an_encoder_are_real(folder: Path) -> None:
    card = yaml.safe_load((folder / "dataset.yaml").read_text())
    (folder / "dataset.yaml").write_text(yaml.safe_dump(card | {"encoder": None}))
    with pytest.raises(DatasetError, match="unnamed features"):
        simulate_dataset(folder)
    (folder / "dataset.yaml").unlink()
    with pytest.raises(DatasetError, match="unnamed features"):
        simulate_dataset(folder)


@pytest.mark.parametrize("noise", [math.inf, math.nan, -1.0, 1e9, 1e300])
def test_a_simulation_that_fails_changes_nothing(folder: Path, noise: float) -> None:
    before = contents(folder)
    with pytest.raises((ConfigError, FeatureError)):
        simulate_dataset(folder, noise=noise, overwrite=True)
    assert contents(folder) == before


def test_linked_features_elsewhere_are_left_alone(folder: Path, tmp_path: Path) -> None:
    (folder / "features").rename(tmp_path / "elsewhere")
    (folder / "features").symlink_to(tmp_path / "elsewhere")
    before = contents(tmp_path / "elsewhere")
    simulate_dataset(folder, overwrite=True)
    assert contents(tmp_path / "elsewhere") == before
    assert not (folder / "features").is_symlink()
