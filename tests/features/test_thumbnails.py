"""Small JPEGs: their sizes, what they show, and that nothing else is in them."""

from __future__ import annotations

import io
import random
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from PIL import Image

from clips import number_of, numbered, write_clip
from p3iv.errors import FeatureError
from p3iv.features.pictures import Picture
from p3iv.features.thumbnails import (
    MAX_STRETCH,
    as_jpeg,
    displayed_size,
    draw_thumbnail,
    fit,
    frame_thumbnail,
    picture_thumbnail,
    strip_thumbnail,
)
from p3iv.features.video import VideoReader

EVEN_MS = [40 * number for number in range(200)]


def pixels_of(jpeg: bytes) -> NDArray[np.uint8]:
    """The pixels of a JPEG, which has nothing in it but a picture."""
    with Image.open(io.BytesIO(jpeg)) as image:
        assert image.format == "JPEG"
        assert image.info.keys() <= {"jfif", "jfif_version", "jfif_unit", "jfif_density"}
        assert not image.getexif()
        return np.array(image)


def corners() -> NDArray[np.uint8]:
    """A picture of 60 x 40 whose corners are red, green (right), blue (below) and white."""
    pixels = np.zeros((40, 60, 3), np.uint8)
    pixels[:20, :30], pixels[:20, 30:], pixels[20:, :30], pixels[20:, 30:] = (
        (255, 0, 0),
        (0, 255, 0),
        (0, 0, 255),
        (255, 255, 255),
    )
    return pixels


@settings(max_examples=200)
@given(
    height=st.integers(1, 400),
    width=st.integers(1, 400),
    aspect=st.sampled_from([1.0, 1e-6, 0.3, 16 / 11, 1e6]),
    turns=st.integers(0, 3),
    wanted=st.integers(1, 640),
)
def test_a_thumbnail_fits_is_not_enlarged_and_keeps_its_shape(
    height: int, width: int, aspect: float, turns: int, wanted: int
) -> None:
    picture = Picture(np.full((height, width, 3), 77, np.uint8), aspect, turns)
    size = fit(picture, wanted)
    assert 1 <= size[0] <= wanted
    assert 1 <= size[1] <= MAX_STRETCH * wanted
    own = displayed_size(picture)
    assert size[0] <= own[0]
    assert size[1] <= own[1]
    assert size[0] == wanted or size[1] == MAX_STRETCH * wanted or size == own
    if min(size) > 10:
        assert size[0] / size[1] == pytest.approx(own[0] / own[1], rel=0.2)
    assert max(fit(picture, wanted, wanted)) == min(wanted, max(own))
    image = draw_thumbnail(picture, size)
    assert image.size == size
    assert image.getextrema() == ((77, 77),) * 3


@pytest.mark.parametrize("turns", range(4))
def test_a_thumbnail_is_upright(turns: int) -> None:
    picture = Picture(corners(), quarter_turns=turns)
    shown = np.asarray(draw_thumbnail(picture, fit(picture, 20))).astype(int)
    expected = np.rot90(corners(), turns)
    height, width = expected.shape[:2]
    assert shown.shape[1] == 20
    assert shown.shape[0] == round(20 * height / width)
    for row in (0, -1):
        for column in (0, -1):
            assert np.abs(shown[row, column] - expected[row, column]).max() < 30


def test_the_frame_of_a_moment_has_square_pixels(tmp_path: Path) -> None:
    write_clip(tmp_path / "x.mp4", EVEN_MS, size=(128, 128), aspect=Fraction(2))
    for second, number in ((0.0, 0), (1.02, 25), (7.9, 197), (-3.0, 0), (100.0, 199)):
        with VideoReader(tmp_path / "x.mp4", 8.0) as reader:
            pixels = pixels_of(frame_thumbnail(reader, second, 128))
        assert pixels.shape == (64, 128, 3)
        assert number_of(pixels) == number
    with VideoReader(tmp_path / "x.mp4") as reader:
        assert pixels_of(frame_thumbnail(reader, 1.0, 640)).shape == (128, 256, 3)  # its own size


def test_a_video_that_was_filmed_upright_is_shown_upright(tmp_path: Path) -> None:
    write_clip(tmp_path / "x.mp4", EVEN_MS[:5], rotation=90)
    with VideoReader(tmp_path / "x.mp4") as reader:
        pixels = pixels_of(frame_thumbnail(reader, 0.1, 640))
    assert pixels.shape == (128, 32, 3)
    assert number_of(np.rot90(pixels, -1)) == 2


@pytest.mark.parametrize("number", [1, 2, 7, 20, 60])
def test_a_strip_shows_one_frame_of_every_part(tmp_path: Path, number: int) -> None:
    write_clip(tmp_path / "x.mp4", EVEN_MS, options={"g": "10"})
    with VideoReader(tmp_path / "x.mp4") as reader:
        pixels = pixels_of(strip_thumbnail(reader, number, 320))
    assert pixels.shape == (32, 128 * number, 3)
    shown = [number_of(cell) for cell in np.split(pixels, number, axis=1)]
    for part, frame in enumerate(shown):
        assert 200 * part / number - 1 <= frame <= 200 * (part + 0.5) / number


def test_a_strip_of_few_pictures_decodes_few_frames(tmp_path: Path) -> None:
    write_clip(tmp_path / "x.mp4", [40 * number for number in range(1000)], options={"g": "25"})
    with VideoReader(tmp_path / "x.mp4") as reader:
        strip_thumbnail(reader, 10, 64)
        assert reader.num_decoded == 10


def test_the_end_of_a_strip_is_repeated_where_it_cannot_be_decoded(tmp_path: Path) -> None:
    path = tmp_path / "x.mp4"
    write_clip(path, EVEN_MS, options={"g": "10", "threads": "1"})
    content = bytearray(path.read_bytes())
    start, end = content.index(b"mdat") + 4, content.index(b"moov") - 4
    half = (start + end) // 2
    content[half:end] = random.Random(0).randbytes(end - half)
    path.write_bytes(content)
    with VideoReader(path) as reader, pytest.raises(FeatureError):
        list(reader.frames_at([7.5]))
    with VideoReader(path) as reader:
        cells = np.split(pixels_of(strip_thumbnail(reader, 8, 128)), 8, axis=1)
    shown = [number_of(cell) for cell in cells]
    assert shown[:3] == [10, 30, 60]
    assert shown[-1] == shown[-2] == shown[-3]
    content[start:end] = random.Random(0).randbytes(end - start)
    path.write_bytes(content)
    with VideoReader(path) as reader, pytest.raises(FeatureError, match=r"x\.mp4: "):
        strip_thumbnail(reader, 8, 128)


def test_a_strip_has_cells_of_one_size_where_the_size_of_the_video_changes(tmp_path: Path) -> None:
    for name, size in (("a.h264", (128, 32)), ("b.h264", (256, 128))):
        write_clip(tmp_path / name, EVEN_MS[:50], size=size)
    (tmp_path / "x.h264").write_bytes((tmp_path / "a.h264").read_bytes() + (tmp_path / "b.h264").read_bytes())
    with VideoReader(tmp_path / "x.h264") as reader:
        shapes = {picture.pixels.shape for picture in reader.frames_at([0.5, 3.0])}
        assert len(shapes) == 2
    with VideoReader(tmp_path / "x.h264") as reader:
        assert pixels_of(strip_thumbnail(reader, 4, 100)).shape == (25, 400, 3)


def test_a_picture_file_loses_its_metadata(tmp_path: Path) -> None:
    exif = Image.Exif()
    exif[0x0112], exif[0x010E] = 6, "secret"  # turn clockwise to show; a description
    Image.fromarray(numbered(5)).save(tmp_path / "x.jpg", exif=exif, comment=b"secret", quality=95)
    jpeg = picture_thumbnail(tmp_path / "x.jpg", 640)
    assert b"secret" not in jpeg
    pixels = pixels_of(jpeg)
    assert pixels.shape == (128, 32, 3)
    assert number_of(np.rot90(pixels)) == 5
    (tmp_path / "y.png").write_bytes(b"no picture")
    with pytest.raises(FeatureError, match=r"y\.png: cannot be read as a picture"):
        picture_thumbnail(tmp_path / "y.png", 640)


def test_the_quality_decides_the_size() -> None:
    image = Image.fromarray(np.random.default_rng(0).integers(0, 256, (64, 64, 3), np.uint8))
    assert (
        len(as_jpeg(image, 40, optimize=True)) < len(as_jpeg(image, 40)) < len(as_jpeg(image)) < len(as_jpeg(image, 95))
    )
