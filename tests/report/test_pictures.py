from __future__ import annotations

import base64
import io
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from clips import number_of, write_clip
from p3iv.report.pictures import PictureShelf, read_picture


@pytest.fixture
def dataset(tmp_path: Path) -> Path:
    (tmp_path / "data" / "videos").mkdir(parents=True)
    write_clip(tmp_path / "data" / "videos" / "clip.mp4", range(0, 4000, 100))
    (tmp_path / "data" / "videos" / "broken.mp4").write_bytes(b"no video")
    (tmp_path / "secret.mp4").write_bytes((tmp_path / "data" / "videos" / "clip.mp4").read_bytes())
    return tmp_path / "data"


def test_the_picture_is_the_frame_of_its_moment(dataset: Path) -> None:
    address = PictureShelf(dataset).data_uri("clip", 2.35)
    assert address is not None
    image = Image.open(io.BytesIO(base64.b64decode(address.removeprefix("data:image/jpeg;base64,"))))
    assert number_of(np.asarray(image.convert("RGB"))) == 23


def test_pictures_stand_as_they_were_filmed(tmp_path: Path) -> None:
    write_clip(tmp_path / "turned.mp4", [0, 100], rotation=90)
    picture = read_picture(tmp_path / "turned.mp4", 0)
    assert picture is not None
    assert Image.open(io.BytesIO(picture)).size == (32, 128)


def test_a_broken_video_costs_its_picture_only(dataset: Path) -> None:
    shelf = PictureShelf(dataset)
    assert shelf.data_uri("broken", 1.0) is None
    assert shelf.data_uri("clip", 1.0) is not None
    assert shelf.data_uri("clip", None) is None
    assert (shelf.num_read, shelf.num_broken) == (1, 1)


@pytest.mark.parametrize("video", ["../../secret", "../secret", "/etc/hostname", ""])
def test_no_id_leads_out_of_the_folder(dataset: Path, video: str) -> None:
    shelf = PictureShelf(dataset)
    assert shelf.data_uri(video, 1.0) is None
    assert shelf.num_broken == 0


def test_without_videos_the_shelf_says_why(tmp_path: Path) -> None:
    assert "--data" in str(PictureShelf(None).why_empty)
    assert "--data" in str(PictureShelf(tmp_path / "gone").why_empty)
    assert PictureShelf(tmp_path).why_empty == "the dataset folder has no videos"
