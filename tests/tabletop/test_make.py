from __future__ import annotations

import json
import subprocess
import sys
from functools import partial
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest

from p3iv.data.folder import open_dataset
from p3iv.data.truth import TrueWindow, condition_truth
from p3iv.errors import ConfigError
from p3iv.features.store import FeatureStore
from p3iv.tabletop.make import FACTS, embed_text, encode_states, make_tabletop
from p3iv.tabletop.tasks import RULES
from p3iv.tabletop.world import Script, write_script


def contents(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()}


def test_the_same_seed_gives_the_same_bytes_with_any_number_of_jobs(tmp_path: Path) -> None:
    make_tabletop(tmp_path / "one", num_videos=3, seed=5, jobs=1)
    make_tabletop(tmp_path / "two", num_videos=3, seed=5, jobs=2)
    one, two = contents(tmp_path / "one"), contents(tmp_path / "two")
    assert len([name for name in one if name.endswith(".mp4")]) == 3
    assert one == two


def test_a_shifted_test_side_changes_the_test_videos_alone(tmp_path: Path) -> None:
    """Annotations, split and true plans are the same, and so are the videos of train and val to the last byte."""
    for name, shift_test in (("usual", False), ("shifted", True)):
        make_tabletop(tmp_path / name, num_videos=4, seed=5, shift_test=shift_test)
    usual, shifted = open_dataset(tmp_path / "usual"), open_dataset(tmp_path / "shifted")
    assert shifted.card.label == "tabletop-shifted (state features)"
    before, after = contents(usual.folder), contents(shifted.folder)
    for name in ("steps.csv", "split.json", "language.npz", "truth.jsonl"):
        assert before[name] == after[name]
    assert usual.features and shifted.features and usual.split
    for video in usual.videos:
        is_same = video.id not in usual.split.test
        video_file = f"videos/{video.id}.mp4"
        assert (before[video_file] == after[video_file]) == is_same
        assert np.array_equal(usual.features.rows(video.id), shifted.features.rows(video.id)) == is_same


def test_the_other_camera_shows_the_facts_in_another_way() -> None:
    """A read-out of the facts that is learned from the usual camera is worse on rows of the other one."""
    scripts = [write_script(0, index) for index in range(60)]
    clean = [_facts_per_second(script) for script in scripts]

    def rows(script: Script, *, other_camera: bool) -> np.ndarray:
        rng = np.random.default_rng(script.seed)
        found = encode_states(script.execution, script.times, script.length_s, rng, other_camera=other_camera)
        return np.hstack([found.astype(np.float64), np.ones((len(found), 1))])

    learned = np.concatenate([rows(script, other_camera=False) for script in scripts[:40]])
    weights = np.linalg.lstsq(learned, np.concatenate(clean[:40]), rcond=None)[0]
    right = {
        other: np.mean(
            [
                ((rows(script, other_camera=other) @ weights > 0.5) == (facts > 0.5)).mean()
                for script, facts in zip(scripts[40:], clean[40:], strict=True)
            ]
        )
        for other in (False, True)
    }
    assert right[False] > 0.96
    assert 0.75 < right[True] < right[False] - 0.03


def test_annotations_and_features_need_neither_pillow_nor_pyav() -> None:
    code = "import sys, p3iv.tabletop.make; assert not {'PIL', 'av'} & set(sys.modules)"
    subprocess.run([sys.executable, "-c", code], check=True)


def test_other_seeds_give_other_videos(tabletop: Path, tmp_path: Path) -> None:
    make_tabletop(tmp_path / "other", num_videos=40, seed=1, render=False)
    assert (tmp_path / "other" / "steps.csv").read_bytes() != (tabletop / "steps.csv").read_bytes()


def test_steps_take_2_to_5_seconds_with_pauses_between(tabletop: Path) -> None:
    for video in open_dataset(tabletop).videos:
        times = [(step.start_s or 0.0, step.end_s or 0.0) for step in video.steps]
        assert all(1.9 <= end - start <= 5.1 for start, end in times)
        assert all(after[0] - before[1] >= 0.3 for before, after in pairwise(times))


def test_truth_has_every_window_and_its_executed_plan(tabletop: Path) -> None:
    """With its length known, and with it unknown."""
    dataset = open_dataset(tabletop)
    lines = list(dataset.read_truth())
    known = {_window(line): dict(line.plans) for line in lines if line.horizon is not None}
    unknown = {_window(line): dict(line.plans) for line in lines if line.horizons == (1, 6)}
    windows = {}
    for video in dataset.videos:
        ids = [dataset.vocabulary.id_of[step.action] for step in video.steps]
        for horizon in (1, 2, 3, 4, 5, 6):
            for first in range(len(ids) - horizon + 1):
                windows[video.id, first, horizon] = tuple(ids[first : first + horizon])
    assert known.keys() == unknown.keys() == windows.keys()
    for window, plan in windows.items():
        assert known[window][plan] > 0
        assert unknown[window][plan] > 0


def _window(line: TrueWindow) -> tuple[str, int, int]:
    return line.video, line.first_step, line.num_steps


def _has_length(length: int, plan: tuple[int, ...]) -> bool:
    return len(plan) == length


def test_the_truth_of_a_known_length_is_that_of_an_unknown_one_given_the_length(tabletop: Path) -> None:
    lines = list(open_dataset(tabletop).read_truth())
    unknown = {_window(line): line.plans for line in lines if line.horizon is None}
    known = {_window(line): line.plans for line in lines if line.horizons is None}
    assert known.keys() == unknown.keys()
    for window, plans in known.items():
        given_length = condition_truth(unknown[window], partial(_has_length, window[2]))
        assert 0 < given_length.share < 1
        assert dict(given_length.plans) == pytest.approx(dict(plans))
    assert 0 < len(unknown) < 0.1 * len(lines)  # elsewhere start and goal tell the length, and one line is enough


def test_state_features_show_the_table_of_every_second(tabletop: Path) -> None:
    """With the noise averaged out, a least-squares read-out recovers the facts at rest before the first step."""
    store = FeatureStore.open(tabletop / "features")
    scripts = [write_script(0, index) for index in range(40)]
    rows = np.concatenate([store.rows(script.id).astype(np.float64) for script in scripts])
    clean = np.concatenate([_facts_per_second(script) for script in scripts])
    assert rows.shape[0] == clean.shape[0]
    weights = np.linalg.lstsq(np.c_[rows, np.ones(len(rows))], clean, rcond=None)[0]
    named = (np.c_[rows, np.ones(len(rows))] @ weights > 0.5) == (clean > 0.5)
    assert named.mean() > 0.97


def _facts_per_second(script: Script) -> np.ndarray:
    seconds = np.arange(int(np.ceil(script.length_s))) + 0.5
    done = [sum((start + end) / 2 <= second for start, end in script.times) for second in seconds]
    return np.array([[fact in script.execution.states[n] for fact in FACTS] for n in done], dtype=np.float64)


def test_feature_noise_depends_on_the_seed() -> None:
    script = write_script(0, 0)
    first, second = (
        encode_states(script.execution, script.times, script.length_s, np.random.default_rng(seed)) for seed in (0, 1)
    )
    assert first.shape == second.shape
    assert not np.array_equal(first, second)


def test_step_embeddings_are_distinct_and_similar_for_similar_steps() -> None:
    embeddings = {step: embed_text(step) for step in RULES}
    table = np.stack(list(embeddings.values()))
    assert len({row.tobytes() for row in table}) == len(RULES)
    assert np.allclose(np.linalg.norm(table, axis=1), 1.0, atol=1e-6)
    alike = embeddings["slice the tomato"] @ embeddings["slice the cucumber"]
    assert alike > embeddings["slice the tomato"] @ embeddings["seal the envelope"] + 0.2


def test_the_card_names_the_encoder(tabletop: Path) -> None:
    assert open_dataset(tabletop).card.label == "tabletop (state features)"


def test_the_card_names_the_fingerprint_of_the_features(tabletop: Path) -> None:
    assert open_dataset(tabletop).card.feature_fingerprint == FeatureStore.open(tabletop / "features").fingerprint


def test_truth_lines_are_plain_json(tabletop: Path) -> None:
    with (tabletop / "truth.jsonl").open() as lines:
        keys = {frozenset(json.loads(line)) for line in lines}
    shared = frozenset({"video", "first_step", "plans"})
    assert keys == {shared | {"horizon", "horizons"}, shared | {"horizon"}, shared | {"num_steps", "horizons"}}


@pytest.mark.parametrize("options", [{"num_videos": 2}, {"encoder": "clip"}])
def test_invalid_options_are_refused(tmp_path: Path, options: dict[str, object]) -> None:
    with pytest.raises(ConfigError):
        make_tabletop(tmp_path / "t", **options)  # type: ignore[arg-type]
    assert list(tmp_path.iterdir()) == []
