"""The walk-through for one's own videos: a folder of videos and a step list -> features -> a planner -> plans."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch

from commands import RunP3iv
from p3iv.errors import FeatureError, PlanError
from p3iv.features.video import VideoReader
from p3iv.planner import MomentReader
from p3iv.planners.checkpoint import BEST, load_planner
from p3iv.plans.distribution import PlanDistribution
from p3iv.tabletop.make import make_tabletop

pytest.importorskip("transformers")


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with `my videos`, and what the commands of the walk-through made of them: `data` and `run`."""
    home = tmp_path_factory.mktemp("own")
    make_tabletop(home / "tabletop", num_videos=7, seed=3)
    shutil.copytree(home / "tabletop" / "videos", home / "my videos")
    shutil.copy(home / "tabletop" / "steps.csv", home / "my videos" / "steps.csv")
    run_p3iv(home, "data", "import", "folder", "my videos", "data", "--videos", "my videos")
    run_p3iv(home, "extract", "data", "--only-needed")
    run_p3iv(home, "train", "data", "--out", "run", "--preset", "tiny", "--set", "optim.epochs=3")
    return home


def run_p3iv(home: Path, *words: str) -> str:
    command = [sys.executable, "-m", "p3iv", *words]
    done = subprocess.run(command, cwd=home, capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"{words}\n{done.stderr}"
    return done.stdout


def test_from_a_folder_of_videos_to_a_plan(home: Path) -> None:
    row = (home / "my videos" / "steps.csv").read_text().splitlines()[1].split(",")
    video, start_s = row[0], float(row[3])
    clip = f"my videos/{video}.mp4"
    goal = ("--goal", f"{clip}@{start_s + 12}", "--samples", "60", "--json")
    drawn = run_p3iv(home, "plan", "run", "--start", f"{clip}@{start_s}", *goal, "--svg", "plan.svg")
    assert (home / "plan.svg").read_text().startswith("<svg")
    # The same moment, looked up in the dataset, shows the same (rows are kept as float16).
    looked_up = run_p3iv(home, "plan", "run", "--start", f"{video}@{start_s}", *goal)
    first, second = map(PlanDistribution.from_json, (drawn, looked_up))
    assert first.num_samples == 60
    assert abs(first.decoded_probability - second.decoded_probability) < 0.01


def test_pictures_and_feature_files_are_moments_too(home: Path) -> None:
    from PIL import Image

    header = load_planner(home / "run" / BEST).header
    reader = MomentReader(header.encoder, header.config.data.observation, None)
    clip = sorted((home / "my videos").glob("*.mp4"))[0]
    with VideoReader(clip) as frames:
        (picture,) = frames.frames_at([2.5])
    Image.fromarray(picture.pixels).save(home / "start.png")
    seen = reader.read(str(home / "start.png"))
    assert seen.shape == (header.shape.feature_width,)
    np.save(home / "start.npy", seen.numpy())
    assert torch.equal(reader.read(str(home / "start.npy")), seen)
    assert torch.nn.functional.cosine_similarity(reader.read(f"{clip}@2.5"), seen, dim=0) > 0.9
    with pytest.raises(PlanError, match="which moment of it"):
        reader.read(str(clip))
    with pytest.raises(FeatureError, match="s long"):
        reader.read(f"{clip}@5000")


def test_features_that_no_encoder_here_makes_are_said_to_be_such(tabletop: Path, tmp_path: Path, p3iv: RunP3iv) -> None:
    settings = ("--preset", "tiny", "--split", "release", "--set", "optim.epochs=1")
    assert p3iv("train", tabletop, "--out", "run", *settings).returncode == 0
    (tmp_path / "picture.png").write_bytes(b"")
    done = p3iv("plan", "run", "--start", "picture.png", "--goal", "picture.png")
    assert done.returncode == 1
    assert "state features, which are not computed from pictures" in done.stderr
