"""The planner and the clips that come with p3iv."""

from __future__ import annotations

import re
import shutil
import zipfile
from contextlib import chdir
from pathlib import Path

import numpy as np
import pytest
from hatchling.builders.wheel import WheelBuilder
from PIL import Image

from commands import RunP3iv
from p3iv import Planner
from p3iv.errors import PlanError
from p3iv.features.video import VideoReader
from p3iv.planners.header import BEST, read_header
from p3iv.shipped import (
    FOLDER,
    SHIPPED,
    ShippedClip,
    shipped_clip,
    shipped_clips,
    shipped_planner,
    shipped_step_picture,
)
from p3iv.tabletop.make import annotations_of
from p3iv.tabletop.world import write_script
from tools import make_tabletop_demo as script

ROOT = Path(__file__).parents[1]
CLIPS = shipped_clips("tabletop-demo")


@pytest.fixture(scope="module")
def planner() -> Planner:
    return Planner.from_pretrained("tabletop-demo", device="cpu")


@pytest.mark.parametrize("clip", CLIPS, ids=lambda clip: clip.file)
def test_it_plans_the_steps_of_its_clips_from_the_video_file(planner: Planner, clip: ShippedClip) -> None:
    plans = planner.plan(clip.start, clip.goal)
    assert plans.plan == clip.steps
    assert plans.plan_probability < 0.9  # of an example with several likely plans
    assert planner.plan(f"{clip.path}@{clip.start_s}", (clip.path, clip.goal_s)).plans == plans.plans


def test_the_tutorial_shows_what_the_command_prints(p3iv: RunP3iv) -> None:
    done = p3iv("plan", "tabletop-demo")  # without moments: the example
    assert done.returncode == 0, done.stderr
    assert CLIPS[0].command in done.stderr
    page = (ROOT / "docs" / "tutorials" / "first_plan.md").read_text(encoding="utf-8")
    assert f"$ {CLIPS[0].command}\n" in page
    shown = re.search(r"```text\n(plan \(.*?)```", page, re.DOTALL)
    assert shown is not None
    percent = r"[\d.]+(?= %)"
    assert re.sub(percent, "", shown[1]) == re.sub(percent, "", done.stdout)
    values = [[float(value) for value in re.findall(percent, text)] for text in (shown[1], done.stdout)]
    assert values[0] == pytest.approx(values[1], abs=1.0)  # encoders round differently on other processors


def test_readme_and_tutorial_have_the_success_rate_of_the_model_card() -> None:
    pages = [ROOT / "README.md", ROOT / "docs" / "tutorials" / "first_plan.md", FOLDER / "tabletop-demo" / "README.md"]
    words = [" ".join(page.read_text(encoding="utf-8").split()) for page in pages]
    (rate,) = re.findall(r"success rate ([\d.]+ % \[[\d., ]+\])", words[2])
    (ceiling,) = re.findall(r"would give a success rate of ([\d.]+ %)", words[2])
    assert [page for page, text in zip(pages, words, strict=True) if rate not in text or ceiling not in text] == []


def test_info_lists_the_clips_with_commands(p3iv: RunP3iv) -> None:
    printed = p3iv("info", "tabletop-demo").stdout
    for clip in CLIPS:
        assert clip.command in printed
        assert " -> ".join(clip.steps) in printed
    assert '"clips"' in p3iv("info", "tabletop-demo", "--json").stdout


def test_the_clips_are_of_test_videos_and_described_as_they_are() -> None:
    split = script.split_videos()
    assert len({*split.train, *split.val, *split.test}) == script.NUM_VIDEOS
    assert [script.describe_clip(*clip) for clip in script.CLIPS] == list(CLIPS)
    assert all(script.video_id(number) in split.test for _, number, _ in script.CLIPS)
    for clip in CLIPS:
        with VideoReader(clip.path) as reader:
            assert reader.length_s == pytest.approx(clip.length_s)


def test_the_planner_was_trained_on_the_training_videos_alone() -> None:
    header = read_header(FOLDER / "tabletop-demo" / BEST)
    assert header.config == script.config_of_demo()
    split = script.split_videos()
    videos = [write_script(script.SEED, number) for number in range(script.NUM_VIDEOS)]
    seen = {step.action for v in annotations_of(videos, 0).videos if v.id in split.train for step in v.steps}
    assert seen <= set(header.names)


def test_every_step_has_a_small_picture_of_its_own() -> None:
    names = read_header(FOLDER / "tabletop-demo" / BEST).names
    paths = [shipped_step_picture("tabletop-demo", index) for index in range(len(names))]
    found = [path for path in paths if path is not None]
    assert len(found) == len(names)
    assert len({path.read_bytes() for path in found}) == len(names)
    for path in found:
        assert path.stat().st_size < 5000
        with Image.open(path) as image:
            assert (image.format, image.size) == ("JPEG", (160, 160))
            assert not image.getexif()
            assert "comment" not in image.info
    for planner, index in (("tabletop-demo", len(names)), ("tabletop-demo", -1), ("elsewhere", 0), ("../shipped", 0)):
        assert shipped_step_picture(planner, index) is None


@pytest.mark.parametrize("index", [0, 42, 89])
def test_the_picture_of_a_step_shows_it(index: int) -> None:
    path = shipped_step_picture("tabletop-demo", index)
    assert path is not None
    name = read_header(FOLDER / "tabletop-demo" / BEST).names[index]
    execution, place = script.find_step(name)
    assert execution.steps[place] == name
    with Image.open(path) as image:
        shown = np.asarray(image).astype(int)
    assert np.abs(shown - script.draw_step(name)).mean() < 5  # of 255; JPEG changes pixels a little
    assert np.abs(shown - script.draw_step("swirl the mug by hand")).mean() > 10


def test_all_of_it_is_small_and_in_the_wheel(tmp_path: Path) -> None:
    files = {path for name in SHIPPED for path in (FOLDER / name).rglob("*") if path.is_file()}
    assert sum(path.stat().st_size for path in files) <= script.MAX_BYTES
    (wheel,) = WheelBuilder(str(ROOT)).build(directory=str(tmp_path), versions=["standard"])
    with zipfile.ZipFile(wheel) as content:
        inside = {info.filename: info.file_size for info in content.infolist()}
    assert {f"p3iv/shipped/{path.relative_to(FOLDER)}": path.stat().st_size for path in files}.items() <= inside.items()


def test_a_file_of_the_user_comes_first(tmp_path: Path, planner: Planner) -> None:
    assert shipped_planner("tabletop-demo") is not None
    assert shipped_clip(f"tabletop-demo/{CLIPS[0].file}") == CLIPS[0].path
    assert shipped_clip("elsewhere/clip.mp4") is shipped_planner("elsewhere") is None
    own = tmp_path / "tabletop-demo"
    own.mkdir()
    shutil.copy(CLIPS[1].path, own / CLIPS[0].file)
    with chdir(tmp_path):
        assert shipped_planner("tabletop-demo") is shipped_clip(f"tabletop-demo/{CLIPS[0].file}") is None
        moments = [f"tabletop-demo/{CLIPS[0].file}@{second}" for second in (CLIPS[1].start_s, CLIPS[1].goal_s)]
        assert planner.plan(*moments).plan == CLIPS[1].steps


def test_a_wrong_clip_or_one_moment_alone_gets_a_sentence(planner: Planner, p3iv: RunP3iv) -> None:
    with pytest.raises(PlanError, match=f"tabletop-demo has no clip none.mp4; its clips are {CLIPS[0].file} and "):
        planner.plan("tabletop-demo/none.mp4@2", CLIPS[0].goal)
    alone = p3iv("plan", "tabletop-demo", "--start", CLIPS[0].start)
    assert alone.returncode == 1
    assert "There is no goal, and this planner needs a picture of one" in alone.stderr
    assert "Pass --start MOMENT and --goal MOMENT" in p3iv("plan", "no-run").stderr
