from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from commands import RunP3iv
from p3iv.config import DataConfig
from p3iv.data import tensors
from p3iv.data.folder import Dataset, open_dataset
from p3iv.data.observations import observe_moments
from p3iv.data.tensors import load_planning_data
from p3iv.data.windows import cut_windows, split_by_video
from p3iv.encoders.identity import EncoderIdentity
from p3iv.errors import DatasetError
from p3iv.features.observation import rows_around
from p3iv.features.store import StoreWriter
from p3iv.features.store_index import KeptSeconds

RELEASE = DataConfig(split="release")


@pytest.fixture(scope="module")
def dataset(tabletop: Path) -> Dataset:
    return open_dataset(tabletop)


def test_observations_are_the_three_seconds_around_a_moment(dataset: Dataset) -> None:
    data = load_planning_data(dataset, RELEASE)
    side_by_side = load_planning_data(dataset, replace(RELEASE, observation="concat"))
    assert dataset.features is not None
    for number in (0, 7, len(data.train) - 1):
        window = data.train.windows[number]
        rows = dataset.features.rows(window.video).astype(np.float32)
        for observed, wide, moment in (
            (data.train.start, side_by_side.train.start, window.start_s),
            (data.train.goal, side_by_side.train.goal, window.goal_s),
        ):
            assert moment is not None
            near = [min(max(int(moment) + shift, 0), len(rows) - 1) for shift in (-1, 0, 1)]
            assert np.allclose(observed[number].numpy(), rows[near].mean(axis=0), atol=1e-6)
            assert np.array_equal(wide[number].numpy(), rows[near].reshape(-1))


def test_nearby_moments_are_those_seconds_before_and_after(dataset: Dataset) -> None:
    data = load_planning_data(dataset, RELEASE, nearby_s=2)
    assert data.train.nearby is not None
    assert data.val.nearby is None
    assert data.test.nearby is None
    for number in (0, 7, len(data.train) - 1):
        window = data.train.windows[number]
        for end, moment in enumerate((window.start_s, window.goal_s)):
            assert moment is not None
            last = dataset.features.num_rows(window.video) - 1  # type: ignore[union-attr]
            for place, shift in enumerate((-2, -1, 1, 2)):
                shifted = min(max(int(moment) + shift, 0), last)
                if 0 < int(moment) + shift < last:
                    wanted = torch.from_numpy(observe_moments(dataset, [(window.video, shifted)], "mean")[0])
                    assert torch.equal(data.train.nearby[place, end, number], wanted)


def test_missing_seconds_are_replaced_by_the_nearest_kept_ones(dataset: Dataset, tmp_path: Path) -> None:
    whole, kept = dataset.features, {}
    assert whole is not None
    with StoreWriter(tmp_path / "features", width=whole.width, dtype=whole.dtype) as writer:
        for video in dataset.videos:
            num_rows = whole.num_rows(video.id)
            moments = [moment for step in video.steps for moment in (step.start_s, step.end_s) if moment is not None]
            kept[video.id] = sorted({row for at in moments for row in rows_around(at, num_rows).tolist()})
            rows = whole.rows(video.id)[kept[video.id]]
            writer.add(video.id, rows, KeptSeconds(num_rows, tuple(kept[video.id])))
    card = replace(dataset.card, feature_fingerprint=writer.fingerprint)
    sparse = replace(dataset, folder=tmp_path, card=card)
    data, all_seconds = (load_planning_data(part, RELEASE, nearby_s=2) for part in (sparse, dataset))
    assert data.train.nearby is not None
    assert all_seconds.train.nearby is not None
    assert torch.equal(data.train.start, all_seconds.train.start)
    for number, window in enumerate(data.train.windows):
        num_rows = whole.num_rows(window.video)
        for place, shift in enumerate((-2, -1, 1, 2)):
            wanted = rows_around((window.start_s or 0.0) + shift, num_rows)
            there = np.array([row for row in wanted if row in kept[window.video]])
            near = [there[np.abs(there - row).argmin()] for row in wanted]
            seen = whole.rows_at(window.video, np.array(near)).astype(np.float32).mean(axis=0)
            assert np.allclose(data.train.nearby[place, 0, number].numpy(), seen, atol=1e-6)


def test_a_moment_far_after_the_end_shows_the_last_row() -> None:
    assert rows_around(1e300, 5).tolist() == [4, 4, 4]


def test_too_many_windows_for_nearby_moments_do_without_and_it_is_said(
    dataset: Dataset, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tensors, "MAX_NEARBY_BYTES", 1000)
    data = load_planning_data(dataset, RELEASE, nearby_s=2)
    assert data.train.nearby is None
    assert any(note.startswith("nearby moments of") and note.endswith("not used") for note in data.notes)


def test_steps_are_seen_where_they_start(dataset: Dataset) -> None:
    data = load_planning_data(dataset, RELEASE, with_steps=True)
    assert data.train.steps is not None
    assert torch.equal(data.train.steps[:, 0], data.train.start)


def test_windows_of_videos_without_features_are_left_out_and_said(dataset: Dataset) -> None:
    blind = replace(dataset.videos[0], id="blind")
    assert dataset.split is not None
    split = replace(dataset.split, train=(*dataset.split.train, "blind"))
    data = load_planning_data(replace(dataset, videos=(*dataset.videos, blind), split=split), RELEASE)
    assert "blind" not in {window.video for window in data.train.windows}
    assert any("blind" in note for note in data.notes)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"horizon": 40}, r"no usable train, val, test window of horizon 40\. Its longest video has 12 steps\. .*"
         r"--horizon 12 or less\.$"),
        ({"horizon": 12, "window": "after-start"}, r"--horizon 11 or less\.$"),
        ({"horizon": 14, "protocol": 2}, r"--horizon 13 or less\.$"),
    ],
)  # fmt: skip
def test_a_horizon_that_is_too_long_says_which_one_is_not(
    dataset: Dataset, change: dict[str, Any], message: str
) -> None:
    with pytest.raises(DatasetError, match=message):
        load_planning_data(dataset, replace(RELEASE, **change))


def test_a_side_without_features_says_why(dataset: Dataset) -> None:
    assert dataset.split is not None
    blind = replace(dataset.videos[0], id="blind")
    split = replace(dataset.split, val=("blind",))
    found = r"no usable val window of horizon 3\. .* without features are left out: blind\."
    imported = replace(dataset, videos=(*dataset.videos, blind), split=split)
    extracted = replace(imported, card=replace(dataset.card, encoder=EncoderIdentity("x", fingerprint="0" * 64)))
    for blinded, advice in (
        (imported, "Import state features of blind"),
        (extracted, r"Repair or add videos/blind\.mp4 and type: p3iv extract \S+ --overwrite"),
    ):
        with pytest.raises(DatasetError, match=rf"{found} {advice}; or add videos\.$"):
            load_planning_data(blinded, RELEASE)


def test_a_split_whose_side_has_features_is_named(dataset: Dataset) -> None:
    videos = dataset.videos[:5]
    blind = split_by_video([video.id for video in videos], seed=0).val
    videos = tuple(replace(video, id=f"{video.id} ") if video.id in blind else video for video in videos)
    few, config = replace(dataset, videos=videos, split=None), DataConfig()
    with pytest.raises(DatasetError, match=r"; or type --split-seed (\d+)\.$") as raised:
        load_planning_data(few, config)
    seed = int(str(raised.value)[:-1].rpartition(" ")[2])
    assert len(load_planning_data(few, replace(config, split_seed=seed)).val)


def test_a_dataset_without_features_says_how_to_get_some(dataset: Dataset, tmp_path: Path) -> None:
    with pytest.raises(DatasetError, match="p3iv data simulate"):
        load_planning_data(replace(dataset, folder=tmp_path), RELEASE)


STEPS = ("boil", "pour", "stir", "serve")


def make_source(folder: Path) -> None:
    """Nine videos of three steps and three of four, none with times, and features that name their row."""
    folder.mkdir()
    lines = ["video,task,step,start_s,end_s"]
    for number in range(12):
        lines += [f"v{number},tea,{step},," for step in STEPS[: 4 if number >= 9 else 3]]
    (folder / "steps.csv").write_text("\n".join(lines) + "\n")
    (folder / "rows").mkdir()
    for number in range(12):
        rows = np.arange(20 + number, dtype=np.float32)[:, None] + np.zeros(4, np.float32)
        np.save(folder / "rows" / f"v{number}.npy", rows)


def test_a_list_without_times_is_one_window_at_its_own_length(tmp_path: Path, p3iv: RunP3iv) -> None:
    make_source(tmp_path / "source")
    done = p3iv("data", "import", "folder", "source", "data", "--features", "source/rows", "--encoder", "rows")
    assert done.returncode == 0, done.stderr
    dataset = open_dataset(tmp_path / "data")
    for horizon, number in ((2, 0), (3, 9), (4, 3), (5, 0)):
        windows = cut_windows(dataset.videos, dataset.vocabulary, DataConfig(horizon=horizon))
        assert len(windows) == number
        assert all((w.first_step, w.start_s, w.goal_s) == (0, 0.0, math.inf) for w in windows)
    assert len(cut_windows(dataset.videos, dataset.vocabulary, DataConfig(horizon=3, window="after-start"))) == 3
    data = load_planning_data(dataset, DataConfig(horizon=3))
    for side in (data.train, data.val, data.test):
        last = torch.tensor([19.0 + int(w.video[1:]) for w in side.windows])
        torch.testing.assert_close(side.start[:, 0], torch.full_like(last, 1 / 3))  # rows 0, 0 and 1
        torch.testing.assert_close(side.goal[:, 0], last - 1 / 3)
    assert any("3 videos whose steps have no times cannot be used" in note for note in data.notes)


def test_statistics_and_training_note_videos_without_times(tmp_path: Path, p3iv: RunP3iv) -> None:
    make_source(tmp_path / "source")
    p3iv("data", "import", "folder", "source", "data", "--features", "source/rows", "--encoder", "rows")
    done = p3iv("data", "stats", "data")
    assert "without times: 9 of 3 steps, 3 of 4 steps" in done.stdout
    settings = ("--preset", "tiny", "--set", "optim.epochs=2", "--set", "loss.language=0.0")
    done = p3iv("train", "data", "--out", "run", *settings, "--set", "loss.adversarial=0.0")
    assert done.returncode == 0, done.stderr
    assert "3 videos whose steps have no times cannot be used" in done.stderr
    done = p3iv("evaluate", "run", "--samples", "20")
    assert done.returncode == 0, done.stderr
    assert "Infinity" not in (tmp_path / "run" / "predictions.jsonl").read_text()
    assert p3iv("report", "run").returncode == 0


def test_every_planner_is_tested_on_the_same_windows(tmp_path: Path) -> None:
    """Videos without times give no training windows to a planner that learns from steps, but its tests use them."""
    lines = ["video,task,step,start_s,end_s"]
    for number in range(30):
        times = [f"{second},{second + 2}" if number % 2 else "," for second in (0, 3, 6)]
        lines += [f"v{number},tea,{step},{time}" for step, time in zip(STEPS, times, strict=False)]
    (tmp_path / "steps.csv").write_text("\n".join(lines) + "\n")
    with StoreWriter(tmp_path / "features", width=2, dtype="float32") as writer:
        for number in range(30):
            writer.add(f"v{number}", np.full((9, 2), number, np.float32))
    dataset = open_dataset(tmp_path)
    plain = load_planning_data(dataset, DataConfig(horizon=3))
    with_steps = load_planning_data(dataset, DataConfig(horizon=3), with_steps=True)
    assert with_steps.fingerprint == plain.fingerprint
    for side in ("val", "test"):
        assert with_steps.side(side).windows == plain.side(side).windows
    timed = [window for window in plain.train.windows if int(window.video[1:]) % 2]
    assert with_steps.train.windows == tuple(timed)
    assert 0 < len(timed) < len(plain.train)
    assert any("without times of their steps are left out" in note for note in with_steps.notes)
