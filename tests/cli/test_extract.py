"""`p3iv extract` and `p3iv align`, as a user runs them."""

from __future__ import annotations

import json
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from clips import write_clip
from commands import RunP3iv

STEPS = "video,task,step,start_s,end_s\n" + "".join(
    f"v{number},tea,boil,0,0.9\nv{number},tea,pour,1,1.9\n" for number in range(4)
)


@pytest.fixture
def kitchen(tmp_path: Path) -> Path:
    folder = tmp_path / "my kitchen é"
    (folder / "videos").mkdir(parents=True)
    (folder / "steps.csv").write_text(STEPS)
    write_clip(folder / "videos" / "v0.mp4", [200 * frame for frame in range(10)])
    for number in range(1, 4):
        shutil.copy(folder / "videos" / "v0.mp4", folder / "videos" / f"v{number}.mp4")
    return folder


def test_extract_prints_what_it_did_and_what_failed(p3iv: RunP3iv, kitchen: Path) -> None:
    (kitchen / "videos" / "v2.mp4").write_bytes(b"\0\0\0\x18ftypmp42\0\0\0\0mp42isom\xff\xff\xff\xffmoov")
    done = p3iv("extract", kitchen, "--jobs", "1")
    assert done.returncode == 0, done.stderr
    assert "efficientnet-lite0 features of 3 videos: 6 rows of 1280 float16 values" in done.stdout
    assert "step embeddings by minilm" in done.stdout
    assert f"problem: {kitchen / 'videos' / 'v2.mp4'}: no video stream; left without features" in done.stderr
    assert p3iv("data", "check", kitchen).returncode == 1  # the broken file is still there
    aligned = p3iv("align", kitchen, "--steps", "2", "--json")
    assert aligned.returncode == 0, aligned.stderr
    assert json.loads(aligned.stdout)["width"] == 1280


def test_extracting_again_has_nothing_to_do(p3iv: RunP3iv, kitchen: Path) -> None:
    assert p3iv("extract", kitchen, "--jobs", "1").returncode == 0
    done = p3iv("extract", kitchen)
    assert done.returncode == 0
    assert done.stdout.startswith("all 4 videos have efficientnet-lite0 features; nothing to do")
    (kitchen / "steps.csv").write_text(STEPS.replace("pour", "pour it"))
    assert f"no embedding for 1 step: pour it. Type: p3iv extract {kitchen}." in p3iv("data", "check", kitchen).stdout
    assert "1 step had no embedding" in p3iv("extract", kitchen).stdout
    assert p3iv("data", "check", kitchen).returncode == 0
    assert "there is no such encoder" in p3iv("extract", kitchen, "--encoder", "resnet").stderr


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--encoder", "resnet"], "It must be one of efficientnet-lite0, s3d, clip."),
        (["--engine", "ray", "--address", "127.0.0.1:9", "--text-encoder", "keep"], "no Ray cluster answers there"),
    ],
)
def test_a_mistake_gets_one_sentence_and_writes_nothing(
    p3iv: RunP3iv, kitchen: Path, arguments: list[str], message: str
) -> None:
    done = p3iv("extract", kitchen, *arguments)
    assert done.returncode == 1
    assert done.stderr.startswith("error: ")
    assert message in done.stderr
    assert {path.name for path in kitchen.iterdir()} == {"videos", "steps.csv"}


def test_the_error_for_a_folder_without_videos_says_where_to_put_them(p3iv: RunP3iv, kitchen: Path) -> None:
    shutil.rmtree(kitchen / "videos")
    done = p3iv("extract", kitchen)
    assert done.returncode == 1
    assert "put the videos there" in done.stderr


def receive_interrupts() -> None:
    """A background process may ignore interrupts, and its children inherit that."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)


def test_an_interrupted_extraction_says_how_to_continue(kitchen: Path) -> None:
    write_clip(kitchen / "videos" / "v3.mp4", [200 * frame for frame in range(1500)])  # the last one takes long
    command = [sys.executable, "-m", "p3iv", "extract", str(kitchen), "--text-encoder", "keep", "--jobs", "1"]
    with subprocess.Popen(
        command,
        stderr=subprocess.PIPE,
        text=True,
        preexec_fn=receive_interrupts,  # noqa: PLW1509 - no threads yet
    ) as extraction:
        deadline = time.monotonic() + 60
        while not list(kitchen.glob(".extraction/*.npz")) and time.monotonic() < deadline:
            time.sleep(0.02)
        extraction.send_signal(signal.SIGINT)
        _, printed = extraction.communicate(timeout=60)
    assert extraction.returncode == 130
    assert "run the same command again to continue" in printed
    assert "Traceback" not in printed
    assert list(kitchen.glob(".extraction/*.npz"))
    assert not (kitchen / "features").exists()
