"""A moment to plan from: a time of a video file or of the dataset, a picture, or features, each in several forms."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image

from commands import RunP3iv
from p3iv.data.tensors import PlanningData
from p3iv.errors import FeatureError, PlanError
from p3iv.features.video import VideoReader
from p3iv.moments import MomentReader, split_moment
from p3iv.planner import Planner
from p3iv.planners.checkpoint import load_planner
from p3iv.planners.header import BEST
from p3iv.plans.distribution import PlanDistribution
from p3iv.shipped import shipped_clips

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


CLIP = shipped_clips("tabletop-demo")[0]


@pytest.fixture(scope="module")
def reader() -> MomentReader:
    """Of the planner that comes with p3iv, which has its encoder."""
    return MomentReader(Planner.from_pretrained("tabletop-demo").header)


def test_a_time_of_a_video_is_the_same_moment_in_every_form(reader: MomentReader) -> None:
    expected = reader.read(f"{CLIP.path}@4.5")
    forms: list[Any] = [
        f"{CLIP.path}@0:04.5",
        f"{CLIP.path}@0:00:04.5",
        f"{CLIP.path}@4.50",
        Path(f"{CLIP.path}@4.5"),
        (CLIP.path, 4.5),
        (str(CLIP.path), np.float32(4.5)),
        f"tabletop-demo/{CLIP.file}@4.5",
        (f"tabletop-demo/{CLIP.file}", 4.5),
        expected,
        expected.tolist(),
        tuple(expected.tolist()),
        expected.astype(np.float64),
        torch.from_numpy(expected),
    ]
    assert expected.shape == (len(expected),)
    assert expected.dtype == np.float32
    for form in forms:
        assert np.array_equal(reader.read(form), expected), form
    assert not np.array_equal(reader.read((CLIP.path, 9)), expected)


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        ("clip.mp4@12.5", ("clip.mp4", 12.5)),
        ("clip.mp4@1:02.5", ("clip.mp4", 62.5)),
        ("clip.mp4@01:02", ("clip.mp4", 62.0)),
        ("clip.mp4@1:00:05.5", ("clip.mp4", 3605.5)),
        ("clip.mp4@90:00", ("clip.mp4", 5400.0)),
        ("a@b@7", ("a@b", 7.0)),
        ("clip.mp4@", None),
        ("clip.mp4@1:2:3:4", None),
        ("clip.mp4@1:", None),
        ("clip.mp4@.5", None),
        ("clip.mp4@5s", None),
        ("clip.mp4@-1", None),
        ("@5", None),
        ("clip.mp4", None),
    ],
)
def test_a_time_is_in_seconds_or_as_on_a_clock(text: str, parts: tuple[str, float] | None) -> None:
    assert split_moment(text) == parts


def test_a_time_on_a_clock_is_the_same_second_of_the_dataset(p3iv_run: Path, data: PlanningData) -> None:
    window = data.test.windows[0]
    assert window.start_s is not None
    planner = Planner.from_pretrained(p3iv_run)
    reader = MomentReader(planner.header, run=p3iv_run)
    seconds = f"{window.video}@{window.start_s}"
    clock = f"{window.video}@{int(window.start_s) // 60}:{window.start_s % 60:05.2f}"
    assert np.array_equal(reader.read(seconds), data.test.start[0])
    assert np.array_equal(reader.read(clock), reader.read(seconds))
    assert np.array_equal(reader.read((window.video, window.start_s)), reader.read(seconds))


def test_a_picture_is_the_same_moment_as_a_file_an_array_and_an_image(reader: MomentReader, tmp_path: Path) -> None:
    with VideoReader(CLIP.path) as frames:
        (frame,) = frames.frames_at([4.5])
    pixels = frame.pixels[:, 10:]  # not square
    image = Image.fromarray(pixels)
    image.save(tmp_path / "plate.PNG")
    expected = reader.read(str(tmp_path / "plate.PNG"))
    turned = Image.fromarray(np.rot90(pixels))
    turned.getexif()[0x0112] = 6  # to be shown rotated clockwise by a quarter
    grey = Image.fromarray(pixels).convert("L")
    for form in (tmp_path / "plate.PNG", pixels, np.ascontiguousarray(pixels), image, image.convert("RGBA"), turned):
        assert np.array_equal(reader.read(form), expected)
    assert np.array_equal(reader.read(grey), reader.read(np.repeat(np.asarray(grey)[..., None], 3, axis=2)))
    around = reader.read((CLIP.path, 4.5))
    assert around @ expected > 0.9 * np.linalg.norm(around) * np.linalg.norm(expected)


@pytest.mark.parametrize(
    ("moment", "message"),
    [
        (
            None,
            r"The goal is NoneType, which is not a moment\. A moment is FILE@TIME .* or an array of features of the ",
        ),
        (object(), "The goal is object, which is not a moment"),
        ({"video": 3}, "The goal is dict, which is not a moment"),
        ([0.5, "x"], "The goal is list, which is not a moment"),
        ([[0.5], [0.5, 1.0]], "The goal is list, which is not a moment"),
        (4.5, "The goal is float, which is not a moment"),
        ([0.5, 1.0], r"The goal has the shape \(2,\), but"),
        (("clip.mp4", -1), r"The goal: -1 is not a number of seconds from 0"),
        (("clip.mp4", "1:30"), r"The goal: '1:30' is not a number of seconds"),
        (("clip.mp4", float("nan")), "The goal: nan is not a number"),
        (("clip.mp4", float("inf")), "The goal: inf is not a number"),
        (("none.mp4", 3), r"There is no file 'none\.mp4'\. A moment is"),
        ("none.png", r"There is no file 'none\.png'\. A moment is"),
        (Path("none.npy"), r"There is no file 'none\.npy'\. A moment is"),
        ("none.mp4@1.5s", r"'1\.5s' is not a time in seconds or as mm:ss; type @1\.5\."),
        (
            np.zeros((4, 4, 3)),
            r"A picture of float64 and the shape \(4, 4, 3\), but it must be uint8 .* red, green, blue",
        ),
        (np.zeros((3, 4, 4), np.uint8), r"A picture of uint8 and the shape \(3, 4, 4\), but"),
        (np.zeros((0, 4, 3), np.uint8), r"A picture of uint8 and the shape \(0, 4, 3\), but"),
        (np.zeros((4, 4), np.uint8), r"The goal has the shape \(4, 4\), but"),
    ],
)
def test_what_is_not_a_moment_gets_a_sentence(reader: MomentReader, moment: Any, message: str) -> None:
    with pytest.raises(PlanError, match=message):
        reader.read(moment, "goal")


def test_features_that_are_not_finite_are_refused(reader: MomentReader) -> None:
    features = reader.read((CLIP.path, 4.5))
    features[3] = np.inf
    with pytest.raises(PlanError, match="The start has values that are not finite"):
        reader.read(features, "start")


def test_a_planner_of_features_without_an_encoder_refuses_pictures(
    p3iv_run: Path, tmp_path: Path, p3iv: RunP3iv
) -> None:
    (tmp_path / "picture.png").write_bytes(b"")
    done = p3iv("plan", p3iv_run, "--start", "picture.png", "--goal", "picture.png")
    assert done.returncode == 1
    assert "state features, which cannot be computed from pictures" in done.stderr
    assert "type: p3iv extract DIR --overwrite, then train again." in done.stderr
    assert "--encoder" not in done.stderr
