"""Encoding videos, moments and pictures, in one process or several."""

from __future__ import annotations

import os
import time
from pathlib import Path

import numpy as np
import pytest

from extraction.conftest import LENGTHS_S, extract
from p3iv.encoders.base import Clips, EncoderOptions, Rows
from p3iv.encoders.identity import EncoderIdentity
from p3iv.encoders.registry import build_encoder
from p3iv.errors import FeatureError
from p3iv.extraction.moment import encode_moment, encode_picture
from p3iv.extraction.request import (
    EncodedVideo,
    EncodingSpec,
    VideoTask,
)
from p3iv.extraction.worker import (
    encode_groups,
    encode_videos,
)
from p3iv.features.pictures import Framing, read_picture
from p3iv.features.store import FeatureStore
from p3iv.features.video import VideoReader


class Deadly:
    """A task on which its process dies, as on a file that crashes the decoder."""

    video = "deadly"
    path = Path("deadly.mp4")
    moments_s = None

    def __reduce__(self) -> tuple[object, tuple[str]]:
        return _die, ("in the worker",)


def _die(_: str) -> None:
    os._exit(1)


@pytest.mark.slow
def test_a_process_that_dies_loses_one_video(kitchen: Path) -> None:
    tasks = [VideoTask(video, kitchen / "videos" / f"{video}.mp4") for video in LENGTHS_S]
    groups = [(tasks[0],), (Deadly(),), (tasks[1], tasks[2]), (tasks[3],)]
    fingerprint = build_encoder("efficientnet-lite0").identity.fingerprint
    spec = EncodingSpec("efficientnet-lite0", EncoderOptions(), fingerprint, "float16", 1)
    done = {encoded.video: encoded for encoded in encode_groups(groups, spec, engine="local", jobs=2)}  # type: ignore[arg-type]
    assert set(done) == {*LENGTHS_S, "deadly"}
    assert done.pop("deadly").fault == "deadly.mp4: cannot be encoded: the process died twice"
    assert all(encoded.fault is None for encoded in done.values())


def test_decoding_ends_with_its_consumer(kitchen: Path) -> None:
    import threading

    tasks = [VideoTask(video, kitchen / "videos" / f"{video}.mp4") for video in LENGTHS_S] * 5
    before = threading.active_count()
    stream = encode_videos(tasks, build_encoder("efficientnet-lite0"), "float16")
    assert isinstance(next(iter(stream)), EncodedVideo)
    stream.close()  # type: ignore[attr-defined]
    deadline = time.monotonic() + 5
    while threading.active_count() > before and time.monotonic() < deadline:
        time.sleep(0.05)
    assert threading.active_count() == before


class FrameMeans:
    """Encodes a clip of two frames as their mean values."""

    identity, width = EncoderIdentity("means"), 2
    frames_per_second = frames_per_clip = 2
    framing = Framing()

    def encode(self, clips: Clips) -> Rows:
        return np.asarray(clips.mean(axis=(2, 3, 4)), np.float32)


def test_a_second_that_is_read_twice_gives_the_same_row_twice(kitchen: Path) -> None:
    rows = encode_moment(kitchen / "videos" / "v3.mp4", 0.3, FrameMeans())  # seconds 0, 0 and 1
    assert rows[0].tolist() == rows[1].tolist()
    assert rows[0, 0] != rows[0, 1]


def test_moments_and_pictures_are_encoded_as_the_rows_are(kitchen: Path, tmp_path: Path) -> None:
    from PIL import Image

    encoder = build_encoder("efficientnet-lite0")
    path = kitchen / "videos" / "v3.mp4"
    extract(kitchen, dtype="float32")
    rows = FeatureStore.open(kitchen / "features").rows("v3")
    assert np.array_equal(encode_moment(path, 2.5, encoder), rows[1:4])
    assert np.array_equal(encode_moment(path, 5.7, encoder), rows[[4, 5, 5]])
    with pytest.raises(FeatureError, match=r"v3\.mp4: is 6\.0 s long, asked for 71 s: give a time from 0 to 6"):
        encode_moment(path, 71, encoder)
    with VideoReader(path) as reader:
        (picture,) = reader.frames_at([2.5])
    Image.fromarray(picture.pixels).save(tmp_path / "still.png")
    still = read_picture(tmp_path / "still.png")
    assert np.allclose(encode_picture(still, encoder, "still.png")[0], rows[2], atol=1e-6)
