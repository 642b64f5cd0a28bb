"""A moment to plan from: a second of a video file or of the dataset, a picture, or a file with features."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from commands import RunP3iv
from p3iv.errors import FeatureError, PlanError
from p3iv.features.video import VideoReader
from p3iv.moments import MomentReader
from p3iv.planners.checkpoint import load_planner
from p3iv.planners.header import BEST
from p3iv.plans.distribution import PlanDistribution

pytest.importorskip("transformers")


def test_a_video_file_and_its_features_in_the_dataset_give_the_same_plans(
    demo: Path, p3iv: RunP3iv, tmp_path: Path
) -> None:
    window = json.loads((demo / "run" / "predictions.jsonl").read_text().splitlines()[0])
    film = demo / "tabletop" / "videos" / f"{window['video']}.mp4"
    goal = ("--goal", f"{film}@{window['goal_s']}", "--samples", "60", "--json")
    drawn = p3iv("plan", demo / "run", "--start", f"{film}@{window['start_s']}", *goal, "--svg", "plan.svg")
    looked_up = p3iv("plan", demo / "run", "--start", f"{window['video']}@{window['start_s']}", *goal)
    assert (tmp_path / "plan.svg").read_text().startswith("<svg")
    first, second = (PlanDistribution.from_json(done.stdout) for done in (drawn, looked_up))
    assert first.num_samples == 60
    assert abs(first.plan_probability - second.plan_probability) < 0.01  # the dataset's features are float16


def test_pictures_and_feature_files_are_moments(demo: Path, tmp_path: Path) -> None:
    from PIL import Image

    header = load_planner(demo / "run" / BEST).header
    reader = MomentReader(header)
    clip = sorted((demo / "tabletop" / "videos").glob("*.mp4"))[0]
    with VideoReader(clip) as frames:
        (picture,) = frames.frames_at([2.5])
    Image.fromarray(picture.pixels).save(tmp_path / "start.png")
    seen = reader.read(str(tmp_path / "start.png"))
    assert seen.shape == (header.shape.feature_width,)
    np.save(tmp_path / "start.npy", seen)
    assert np.array_equal(reader.read(str(tmp_path / "start.npy")), seen)
    from_video = reader.read(f"{clip}@2.5")
    assert from_video @ seen > 0.9 * np.linalg.norm(from_video) * np.linalg.norm(seen)
    with pytest.raises(PlanError, match="does not say which moment"):
        reader.read(str(clip))
    with pytest.raises(FeatureError, match="s long"):
        reader.read(f"{clip}@5000")


def test_a_planner_of_features_without_an_encoder_refuses_pictures(
    p3iv_run: Path, tmp_path: Path, p3iv: RunP3iv
) -> None:
    (tmp_path / "picture.png").write_bytes(b"")
    done = p3iv("plan", p3iv_run, "--start", "picture.png", "--goal", "picture.png")
    assert done.returncode == 1
    assert "state features, which cannot be computed from pictures" in done.stderr
    assert "type: p3iv extract DIR --overwrite, then train again." in done.stderr
    assert "--encoder" not in done.stderr
