"""Following videos: what was done, what is under way and what is left, from files, datasets and streams."""

from __future__ import annotations

import io
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import av
import numpy as np
import pytest
from PIL import Image

from conftest import MakeOnce
from p3iv import Conditions, Planner
from p3iv.data.folder import Dataset, open_dataset
from p3iv.data.following import measure_timing
from p3iv.data.seconds import TimedStep
from p3iv.errors import FeatureError, P3ivError, PlanError
from p3iv.export.planner import export_planner
from p3iv.features.video import VideoReader
from p3iv.following import follow_video
from p3iv.plans.following import FollowedMoment
from p3iv.training.loop import TrainRequest, train
from runs import quick


@pytest.fixture(scope="module")
def planner(query_run: Path) -> Planner:
    return Planner.from_pretrained(query_run, device="cpu")


@pytest.fixture(scope="module")
def seeing_run(make_once: MakeOnce, demo: Path) -> Path:
    """A run on features of the image encoder, which can follow files."""
    config = quick("p3iv-plus", data__horizon=3, data__min_horizon=1)
    return make_once("seeing_run", lambda run: train(TrainRequest(open_dataset(demo / "tabletop"), run, config)))


@pytest.fixture(scope="module")
def seeing(seeing_run: Path) -> Planner:
    return Planner.from_pretrained(seeing_run, device="cpu")


@pytest.fixture(scope="module")
def clip(demo: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The first ten seconds of a video of the demo."""
    path = tmp_path_factory.mktemp("clips") / "clip.mkv"
    write_video(path, list(pictures_of(demo, [second + 0.5 for second in range(10)])), "matroska")
    return path


def pictures_of(demo: Path, moments: list[float]) -> Iterator[np.ndarray]:
    file = sorted((demo / "tabletop" / "videos").glob("*.mp4"))[0]
    with VideoReader(file) as reader:
        yield from (picture.pixels for picture in reader.frames_at(moments))


def write_video(path: Path, pictures: list[np.ndarray], kind: str) -> None:
    """A video that shows each picture for a second, without loss."""
    with av.open(str(path), "w", format=kind) as container:
        stream = container.add_stream("libx264rgb", rate=4, options={"crf": "0", "preset": "ultrafast"})
        stream.pix_fmt = "rgb24"
        stream.height, stream.width = pictures[0].shape[:2]
        for pixels in (each for picture in pictures for each in [picture] * 4):
            container.mux(stream.encode(av.VideoFrame.from_ndarray(pixels, format="rgb24")))
        container.mux(stream.encode())


def jpegs(pictures: list[np.ndarray]) -> bytes:
    content = io.BytesIO()
    for pixels in pictures:
        Image.fromarray(pixels).save(content, "JPEG", quality=95)
    return content.getvalue()


def follow_unweighted(planner: Planner, video: str | Path, **options: Any) -> Iterator[FollowedMoment]:
    """Follow a video, but plan what is left from each moment alone."""
    follower = planner.follower(**options)
    follower._filter.numbers.settings[4:] = 0.0
    return follow_video(follower, planner.moments, video)


def test_every_second_has_probabilities(planner: Planner, dataset: Dataset) -> None:
    video = dataset.videos[0]
    moments = list(planner.follow(video.id))
    assert [moment.second for moment in moments] == list(range(len(moments)))
    assert len(moments) >= (video.steps[-1].end_s or 0) - 1
    known = set(planner.names)
    for moment in moments:
        assert {step for step, _ in moment.now} <= known | {None}
        assert sum(share for _, share in moment.now) <= 1 + 1e-9
        assert all(0.5 < done.probability <= 1 for done in moment.done)
        assert len({done.step for done in moment.done}) == len(moment.done)
        assert {len(steps) for steps in moment.left.plans} == {3}
    assert len(moments[-1].done) > len(moments[2].done)


def test_following_knows_more_than_chance(planner: Planner, dataset: Dataset) -> None:
    right, seconds = 0, 0
    for video in dataset.videos[:6]:
        for moment in planner.follow(video.id):
            true = [step.action for step in video.steps if (step.start_s or 0) <= moment.second < (step.end_s or 0)]
            if true:
                right, seconds = right + (moment.now[0][0] in true), seconds + 1
    assert right / seconds > 10 / len(planner.names)


def test_what_is_left_is_the_plan_of_the_moment_with_what_was_seen_before(planner: Planner, dataset: Dataset) -> None:
    """Without weights of what was seen, what is left is what `plan` says at that moment."""
    video = dataset.videos[1].id
    for moment in list(follow_unweighted(planner, video, procedure=planner.procedures[0]))[::7]:
        alone = planner.plan((video, moment.second), procedure=planner.procedures[0], horizon=3, number=5)
        assert moment.left.plans == alone.plans
        assert moment.left.probabilities == pytest.approx(alone.probabilities)


def test_rows_and_observations_are_the_same(planner: Planner, dataset: Dataset) -> None:
    store, video = dataset.features, dataset.videos[2].id
    assert store is not None
    follower = planner.follower(goal_text=planner.names[3])
    by_rows = [moment for row in store.rows(video) if (moment := follower.add(row)) is not None]
    last = follower.finish()
    assert last is not None
    assert [*by_rows, last] == list(planner.follow(video, goal_text=planner.names[3]))


def test_a_missing_row_hides_the_seconds_around_it(planner: Planner, dataset: Dataset) -> None:
    store, video = dataset.features, dataset.videos[2].id
    assert store is not None
    follower = planner.follower()
    moments = [follower.add(None if second == 6 else row) for second, row in enumerate(store.rows(video)[:12])]
    assert [second for second, moment in enumerate(moments) if moment is None] == [0, 6, 7, 8]
    assert [moment.second for moment in moments if moment is not None] == [0, 1, 2, 3, 4, 8, 9, 10]


@pytest.mark.parametrize("number", [1, 2, 3])
def test_short_videos(planner: Planner, dataset: Dataset, number: int) -> None:
    store, video = dataset.features, dataset.videos[2].id
    assert store is not None
    follower = planner.follower()
    moments = [moment for row in store.rows(video)[:number] if (moment := follower.add(row)) is not None]
    last = follower.finish()
    assert last is not None
    assert [moment.second for moment in [*moments, last]] == list(range(number))


def test_a_video_without_rows_has_no_moments(planner: Planner) -> None:
    assert planner.follower().finish() is None


def test_goals_and_conditions_count(planner: Planner, dataset: Dataset) -> None:
    video = dataset.videos[0]
    end = f"{video.id}@{video.steps[-1].end_s}"
    open_ended = next(iter(planner.follow(video.id, end)))
    assert {len(steps) for steps in open_ended.left.plans} - {3} or open_ended.left.lengths
    step = open_ended.left.plan[0]
    without = next(iter(planner.follow(video.id, end, conditions=Conditions(without=[step]))))
    assert all(step not in steps for steps in without.left.plans)
    words = planner.follower(goal_text=planner.procedures[0])
    assert words.understood
    with pytest.raises(PlanError, match="number=0"):
        planner.follower(number=0)
    with pytest.raises(P3ivError, match=r"There is no file 'nothing.mp4'.*no features of such a video"):
        list(planner.follow("nothing.mp4"))


def test_an_exported_planner_follows_in_the_same_way(planner: Planner, query_run: Path, tmp_path: Path) -> None:
    export_planner(query_run, tmp_path / "planner.onnx")
    exported = Planner.from_pretrained(tmp_path / "planner.onnx")
    assert exported.can_follow
    random = np.random.default_rng(0)
    rows = random.standard_normal((25, planner.header.shape.feature_width)).astype(np.float32)
    first, second = (one.follower(procedure=planner.procedures[1]) for one in (planner, exported))
    for row in rows:
        one, other = first.add(row), second.add(row)
        if one is not None and other is not None:
            assert_close(one, other)


def assert_close(one: FollowedMoment, other: FollowedMoment) -> None:
    assert [done.step for done in one.done] == [done.step for done in other.done]
    assert [step for step, _ in one.now] == [step for step, _ in other.now]
    assert one.left.plans == other.left.plans
    np.testing.assert_allclose([share for _, share in one.now], [share for _, share in other.now], atol=1e-5)
    np.testing.assert_allclose(one.left.probabilities, other.left.probabilities, atol=1e-5)


def test_a_planner_that_cannot_follow_says_which_can(plus_run: Path) -> None:
    planner = Planner.from_pretrained(plus_run, device="cpu")
    assert not planner.can_follow
    with pytest.raises(PlanError, match="--horizon 1-6"):
        planner.follow("kitchen.mp4")


def test_files_pipes_and_pictures_show_the_same(seeing: Planner, clip: Path, demo: Path) -> None:
    of_file = list(seeing.follow(clip))
    assert [moment.second for moment in of_file] == list(range(10))
    with clip.open("rb") as source:
        assert list(seeing.follow(source)) == of_file
    pictures = list(pictures_of(demo, [second + 0.5 for second in range(10)]))
    of_pictures = list(seeing.follow(io.BytesIO(jpegs(pictures))))
    assert [moment.second for moment in of_pictures] == list(range(10))
    # JPEG changes pixels a little, so the steps under way are nearly as probable.
    shares = [(dict(one.now), dict(other.now)) for one, other in zip(of_file, of_pictures, strict=True)]
    assert all(abs(one[step] - other.get(step, 0)) < 0.25 for one, other in shares for step in list(one)[:1])


def test_moments_of_a_file_are_those_of_plan(seeing: Planner, clip: Path) -> None:
    for moment in follow_unweighted(seeing, clip):
        alone = seeing.plan((clip, moment.second), horizon=3, number=5)
        assert moment.left.plans == alone.plans
        assert moment.left.probabilities == pytest.approx(alone.probabilities, rel=1e-4)


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"", "nothing arrived"),
        (b"\xff\xd8\xff\xe0\x00\x10", "ends in the middle"),
        (b"\xff\xd8\xff\xe0\x00\x01", "negative length"),
        (b"\xff\xd8\x00\x00", "a marker begins with ff"),
        (b"GIF89a" * 400, "Matroska"),
        (b"ffconcat version 1.0\nfile /etc/passwd\n", "Matroska"),
    ],
)
def test_what_is_not_a_video_is_refused(seeing: Planner, content: bytes, said: str) -> None:
    with pytest.raises(FeatureError, match=said):
        list(seeing.follow(io.BytesIO(content)))


def test_pictures_that_break_off_are_followed_up_to_there(seeing: Planner, demo: Path) -> None:
    content = jpegs(list(pictures_of(demo, [0.5, 1.5, 2.5])))
    seconds = []
    with pytest.raises(P3ivError, match="middle of a JPEG"):
        for moment in seeing.follow(io.BytesIO(content[:-200])):
            seconds.append(moment.second)
    assert seconds == [0]


def test_a_pipe_is_read_as_it_comes(seeing_run: Path, clip: Path) -> None:
    code = (
        "import sys; from p3iv import Planner; "
        f"planner = Planner.from_pretrained({str(seeing_run)!r}); "
        "print(sum(1 for _ in planner.follow(sys.stdin.buffer)))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], input=clip.read_bytes(), capture_output=True, check=True, timeout=120
    )
    assert done.stdout.split()[-1] == b"10"


def test_timing_counts_what_happens() -> None:
    videos = [
        (TimedStep(0, 0.0, 4.0), TimedStep(1, 4.0, 6.0), TimedStep(0, 16.0, 20.0)),
        (TimedStep(1, 1.0, 3.0), TimedStep(2, 3.0, 9.0)),
    ]
    timing = measure_timing(videos, 3)
    mean = (4 + 2 + 4 + 2 + 6) / 5
    np.testing.assert_allclose(
        timing.goes_on[:3], 1 - 1 / ((np.array([8, 4, 6]) + 2 * mean) / (np.array([2, 2, 1]) + 2))
    )
    assert timing.goes_on[3] == pytest.approx(1 - 1 / 10)  # the one pause
    assert timing.pause_share == pytest.approx((1 + 1) / (3 + 2))
    assert timing.repeats[0] > timing.repeats[1] == pytest.approx(2 * 0.2 / 4)
    assert timing.first.sum() == pytest.approx(1)
    assert timing.first[2] < timing.first[0]
