from __future__ import annotations

import random
import struct
from fractions import Fraction
from functools import cache
from pathlib import Path
from typing import cast

import av
import numpy as np
import pytest
from av.container import InputContainer
from av.video.stream import VideoStream
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from clips import number_of, numbered, write_clip
from p3iv.catalogue import VIDEO_SUFFIXES
from p3iv.errors import FeatureError
from p3iv.features.pictures import Framing, Picture, frame_picture, read_picture
from p3iv.features.video import VideoReader
from p3iv.features.video_file import find_fault, open_video
from p3iv.moments import PICTURES

B_FRAMES = {"bf": "3", "g": "12", "x264-params": "open-gop=1:scenecut=0:b-adapt=0", "threads": "1"}
CLOSED = {"bf": "5", "g": "30", "threads": "1"}  # pictures between key frames refer to no others
LONG = {"g": "250", "threads": "1"}  # as x264 does by default
EVEN_MS = [40 * number for number in range(200)]
_rng = random.Random(1)
UNEVEN_MS = [0]
for _ in range(150):
    UNEVEN_MS.append(UNEVEN_MS[-1] + _rng.choice([10, 40, 120, 500]))
LATE_MS = [7300 + time_ms for time_ms in EVEN_MS]
SPARSE_MS = [0]
for _ in range(60):
    SPARSE_MS.append(SPARSE_MS[-1] + _rng.choice([40, 40, 40, 2500]))
KINDS = {  # with open groups of pictures, unless the name says closed or long
    "even.mp4": EVEN_MS,
    "uneven.mp4": UNEVEN_MS,
    "uneven.mkv": UNEVEN_MS,
    "late.mp4": LATE_MS,
    "late.mkv": LATE_MS,
    "late.ts": LATE_MS,
    "uneven.flv": UNEVEN_MS,
    "sparse.mp4": SPARSE_MS,
    "sparse.mkv": SPARSE_MS,
    "closed.mp4": EVEN_MS,
    "closed.mkv": EVEN_MS,
    "long.mp4": EVEN_MS,
    "long.mkv": EVEN_MS,
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("clips")
    for name, times_ms in KINDS.items():
        write_clip(path / name, times_ms, options={"closed": CLOSED, "long": LONG}.get(name[:-4], B_FRAMES))
    return path


@cache
def decode_all(path: Path) -> list[tuple[Fraction, NDArray[np.uint8]]]:
    """Every frame with its time, by a plain decode from start to end."""
    with av.open(path) as container:
        origin = Fraction(container.start_time or 0, av.time_base)
        return [
            (frame.pts * frame.time_base - origin, np.asarray(frame.to_ndarray(format="rgb24"), np.uint8))
            for frame in container.decode(video=0)
            if frame.pts is not None and frame.time_base is not None
        ]


@pytest.mark.parametrize("name", KINDS)
def test_the_times_of_a_full_decode_are_those_that_were_written(folder: Path, name: str) -> None:
    frames = decode_all(folder / name)
    assert [number_of(pixels) for _, pixels in frames] == list(range(len(KINDS[name])))
    written = [Fraction(time_ms - KINDS[name][0], 1000) for time_ms in KINDS[name]]
    assert all(abs(time_s - there) < Fraction(1, 1000) for (time_s, _), there in zip(frames, written, strict=True))


@pytest.mark.parametrize("name", KINDS)
@settings(max_examples=12)
@given(data=st.data())
def test_frames_by_time_are_those_of_a_full_decode(folder: Path, name: str, data: st.DataObject) -> None:
    frames = decode_all(folder / name)
    last = float(frames[-1][0])
    moments = sorted(data.draw(st.lists(st.floats(-1, last + 0.5), min_size=1, max_size=6)))
    with VideoReader(folder / name, data.draw(st.sampled_from([None, last + 0.04]))) as reader:
        pictures = list(reader.frames_at(moments))
    for moment, picture in zip(moments, pictures, strict=True):
        shown = max((place for place, (time_s, _) in enumerate(frames) if time_s <= Fraction(moment)), default=0)
        assert np.array_equal(picture.pixels, frames[shown][1]), moment


def test_a_frame_is_shown_from_its_own_time_on(folder: Path) -> None:
    moments = [0.999, 1.0, 1.0399, 1.04]
    with VideoReader(folder / "late.mp4") as reader:
        assert [number_of(picture.pixels) for picture in reader.frames_at(moments)] == [24, 25, 25, 26]
        assert (float(reader.length_s), reader.num_seconds) == (8.0, 8)


def test_far_moments_are_reached_without_decoding_what_lies_between(folder: Path) -> None:
    with VideoReader(folder / "even.mp4") as reader:
        pictures = list(reader.frames_at([0.1, 7.5]))
        assert [number_of(picture.pixels) for picture in pictures] == [2, 187]
        assert reader.num_decoded < 60  # of 200
    with VideoReader(folder / "even.mp4") as reader:
        list(reader.frames_at([second / 10 for second in range(80)]))
        assert reader.num_decoded < 300  # near moments are not sought one by one


OPENED = {  # name, length if it is known, moment -> how often the file is opened
    ("long.mp4", None, 7.5): 1,
    ("long.mp4", 8.0, 7.5): 1,
    ("closed.mp4", None, 7.5): 1,
    ("closed.mp4", None, 0.5): 1,
    ("closed.mkv", None, 7.5): 1,
    ("closed.mkv", 8.0, 0.5): 1,
    ("closed.mkv", None, 0.5): 2,  # not every container can seek back to its first frame
    ("uneven.flv", None, 0.5): 3,  # nor to its end
}


@pytest.mark.parametrize("case", OPENED)
def test_a_moment_opens_its_file_once_where_that_is_safe(
    folder: Path, monkeypatch: pytest.MonkeyPatch, case: tuple[str, float | None, float]
) -> None:
    opened: list[Path] = []

    def open_and_count(path: Path) -> tuple[InputContainer, VideoStream]:
        opened.append(path)
        return open_video(path)

    for module in ("video", "video_file"):
        monkeypatch.setattr(f"p3iv.features.{module}.open_video", open_and_count)
    name, length_s, moment = case
    with VideoReader(folder / name, length_s) as reader:
        assert reader.num_decoded == 0
        assert len(list(reader.frames_at([moment]))) == 1
    assert len(opened) == OPENED[case]


def test_frames_that_no_frame_refers_to_are_decoded_only_where_they_are_wanted(folder: Path) -> None:
    frames = decode_all(folder / "long.mp4")
    with av.open(folder / "long.mp4") as container:
        container.streams.video[0].codec_context.skip_frame = "NONREF"
        num_referred = sum(1 for _ in container.decode(video=0))
    assert num_referred < 0.8 * len(frames)
    with VideoReader(folder / "long.mp4") as reader:
        (picture,) = reader.frames_at([7.5])
        assert np.array_equal(picture.pixels, frames[187][1])
        assert reader.num_decoded < 0.9 * 187
    with VideoReader(folder / "long.mp4") as reader:
        wanted = [float(time_s) + 0.02 for time_s, _ in frames]  # every one
        for (_, pixels), picture in zip(frames, reader.frames_at(wanted), strict=True):
            assert np.array_equal(picture.pixels, pixels)
        assert reader.num_decoded == len(frames)


@pytest.mark.parametrize("name", KINDS)
@settings(max_examples=12)
@given(data=st.data())
def test_with_a_tolerance_any_frame_shortly_before_a_moment_will_do(
    folder: Path, name: str, data: st.DataObject
) -> None:
    frames = decode_all(folder / name)
    moments = sorted(data.draw(st.lists(st.floats(0, float(frames[-1][0])), min_size=1, max_size=6)))
    tolerance_s = data.draw(st.floats(0, 4))
    with VideoReader(folder / name) as reader:
        pictures = list(reader.frames_at(moments, tolerance_s))
    for moment, picture in zip(moments, pictures, strict=True):
        until = [pixels for time_s, pixels in frames if time_s <= Fraction(moment)]
        late = [pixels for time_s, pixels in frames if Fraction(moment - tolerance_s) <= time_s <= Fraction(moment)]
        assert any(np.array_equal(picture.pixels, pixels) for pixels in late or until[-1:])


@pytest.mark.parametrize("name", ["closed.mp4", "closed.mkv"])
def test_a_key_frame_within_the_tolerance_is_the_only_frame_that_is_decoded(folder: Path, name: str) -> None:
    with av.open(folder / name) as container:
        keys = [number for number, frame in enumerate(container.decode(video=0)) if frame.key_frame]
    moments = [(number + 20) * 0.04 for number in keys]
    with VideoReader(folder / name) as reader:
        assert [number_of(picture.pixels) for picture in reader.frames_at(moments[1:], 0.9)] == keys[1:]
        assert reader.num_decoded == len(keys) - 1
    with VideoReader(folder / name) as reader:
        list(reader.frames_at(moments[1:]))
        assert reader.num_decoded > 10 * len(keys)


@pytest.mark.parametrize(("codec", "name"), [("mpeg4", "x.avi"), ("mpeg4", "x.mkv"), ("libvpx-vp9", "x.webm")])
def test_other_codecs_and_containers(tmp_path: Path, codec: str, name: str) -> None:
    options = {"deadline": "realtime", "cpu-used": "8"} if "vp9" in codec else {"g": "10"}
    write_clip(tmp_path / name, EVEN_MS[:60], codec=codec, options=options)
    with VideoReader(tmp_path / name) as reader:
        assert [number_of(picture.pixels) for picture in reader.frames_at([0.5, 1.5])] == [12, 37]


CODECS = {
    ".webm": "libvpx-vp9",
    ".avi": "mpeg4",
    ".mpg": "mpeg2video",
    ".mpeg": "mpeg1video",
    ".wmv": "wmv2",
    ".hevc": "libx265",
}


@pytest.mark.parametrize("suffix", VIDEO_SUFFIXES)
def test_every_container_that_is_accepted_opens(tmp_path: Path, suffix: str) -> None:
    write_frames(tmp_path / f"x{suffix}", 50, rate=25, codec=CODECS.get(suffix, "libx264"))
    with VideoReader(tmp_path / f"x{suffix}") as reader:
        assert [number_of(picture.pixels) for picture in reader.frames_at([0.0, 1.0])] == [0, 25]


@pytest.mark.parametrize("suffix", [".h264", ".flv"])
def test_all_frames_of_a_long_gap_are_counted(tmp_path: Path, suffix: str) -> None:
    """A raw stream has no times, only a rate; H.264 in FLV has no packet after a seek to its end."""
    write_frames(tmp_path / f"x{suffix}", 205, rate=10)
    with VideoReader(tmp_path / f"x{suffix}") as reader:
        assert 20.4 <= reader.length_s <= 20.5  # FLV has no length of its last frame
        moments = [0.0, 1.0, 1.05, 12.0, 20.0]
        assert [number_of(picture.pixels) for picture in reader.frames_at(moments)] == [0, 10, 10, 120, 200]
    assert find_fault(tmp_path / f"x{suffix}") is None


@pytest.mark.parametrize("suffix", [".mp4", ".mkv", ".avi", ".ts", ".flv", ".h264"])
def test_a_video_of_one_frame_is_a_video(tmp_path: Path, suffix: str) -> None:
    write_frames(tmp_path / f"x{suffix}", 1, rate=25, codec=CODECS.get(suffix, "libx264"))
    with VideoReader(tmp_path / f"x{suffix}") as reader:
        assert reader.num_seconds == 1
        assert [number_of(picture.pixels) for picture in reader.frames_at([0.0, 0.5])] == [0, 0]


def test_whole_seconds_are_exact_where_the_start_is_not_a_whole_number_of_microseconds(tmp_path: Path) -> None:
    write_frames(tmp_path / "x.mpg", 100, rate=30, codec="mpeg2video")
    with av.open(tmp_path / "x.mpg") as container:
        stream = container.streams.video[0]
        assert stream.start_time is not None and stream.time_base is not None
        start_us = stream.start_time * stream.time_base * av.time_base
    assert 0 < start_us - int(start_us) < Fraction(1, 2)  # rounded down, all frames would come late
    with VideoReader(tmp_path / "x.mpg") as reader:
        assert [number_of(picture.pixels) for picture in reader.frames_at([0.0, 1.0, 2.0, 3.0])] == [0, 30, 60, 90]


def write_frames(path: Path, number: int, *, rate: int, codec: str = "libx264") -> None:
    """Numbered frames at a constant rate, for containers and codecs without time stamps in milliseconds."""
    with av.open(path, "w") as container:
        stream = cast(VideoStream, container.add_stream(codec, rate=rate, options={"g": "10"}))
        stream.width, stream.height, stream.pix_fmt = 128, 32, "yuv420p"
        for place in range(number):
            container.mux(stream.encode(av.VideoFrame.from_ndarray(numbered(place), format="rgb24")))
        container.mux(stream.encode())


@pytest.mark.parametrize(("degrees", "turns"), [(90, 1), (-90, 3), (180, 2)])
def test_rotation_is_honoured(tmp_path: Path, degrees: float, turns: int) -> None:
    write_clip(tmp_path / "x.mp4", EVEN_MS[:5], size=(128, 128), rotation=degrees)
    with VideoReader(tmp_path / "x.mp4") as reader:
        (picture,) = reader.frames_at([0.0])
    assert picture.quarter_turns == turns
    stored = np.zeros((128, 128, 3), np.uint8)
    stored[:64, 64:] = 255
    shown = frame_picture(Picture(stored, quarter_turns=turns), Framing(128)).transpose(1, 2, 0)
    assert np.array_equal(shown, np.rot90(stored, turns))


def test_a_phone_held_upright_is_shown_upright(tmp_path: Path) -> None:
    """The matrix that phones write for a clockwise quarter turn: what is stored on the left is shown on top."""
    path = tmp_path / "phone.mp4"
    write_clip(path, EVEN_MS[:3], size=(128, 128))
    content = bytearray(path.read_bytes())
    place = content.index(b"tkhd") + 4 + 40
    content[place : place + 36] = struct.pack(">9i", 0, 1 << 16, 0, -(1 << 16), 0, 0, 0, 0, 1 << 30)
    path.write_bytes(content)
    with VideoReader(path) as reader:
        (picture,) = reader.frames_at([0.0])
    stored = np.zeros((128, 128, 3), np.uint8)
    stored[:, :64] = 255
    shown = frame_picture(Picture(stored, quarter_turns=picture.quarter_turns), Framing(128))
    assert shown[:, :60].min() == 255
    assert shown[:, 68:].max() == 0


def test_the_shape_of_pixels_is_honoured(tmp_path: Path) -> None:
    write_clip(tmp_path / "x.mp4", EVEN_MS[:3], size=(64, 128), aspect=Fraction(2))
    with VideoReader(tmp_path / "x.mp4") as reader:
        (picture,) = reader.frames_at([0.0])
    assert picture.pixel_aspect == 2
    stored = np.zeros((128, 64, 3), np.uint8)  # shown as 128 x 128, so all of it is seen
    stored[:, :32] = 255
    shown = frame_picture(Picture(stored, 2.0), Framing(128))
    assert shown[:, :, :62].min() == 255
    assert shown[:, :, 66:].max() == 0


@settings(max_examples=40)
@given(
    height=st.integers(1, 90),
    width=st.integers(1, 90),
    aspect=st.sampled_from([1.0, 1e-6, 0.3, 16 / 11, 1e6]),
    turns=st.integers(0, 3),
)
def test_any_picture_becomes_a_square(height: int, width: int, aspect: float, turns: int) -> None:
    picture = Picture(np.full((height, width, 3), 77, np.uint8), aspect, turns)
    for name in ("bilinear", "bicubic"):
        for with_torch in (True, False):
            square = frame_picture(picture, Framing(32, name), with_torch=with_torch)
            assert square.shape == (3, 32, 32)
            assert np.unique(square).tolist() == [77]


@settings(max_examples=30)
@given(height=st.integers(1, 300), width=st.integers(1, 300), seed=st.integers(0, 2**32 - 1))
def test_torch_and_pillow_scale_alike(height: int, width: int, seed: int) -> None:
    pixels = np.random.default_rng(seed).integers(0, 256, (height, width, 3), np.uint8)
    for framing, largest in ((Framing(64), 1), (Framing(64, "bicubic"), 2)):
        one, other = (frame_picture(Picture(pixels), framing, with_torch=w).astype(int) for w in (True, False))
        assert np.abs(one - other).max() <= largest
        assert (one != other).mean() <= 0.02


def test_odd_sizes_and_no_audio(tmp_path: Path) -> None:
    write_clip(tmp_path / "x.mkv", EVEN_MS[:3], codec="ffv1", size=(133, 35))
    with VideoReader(tmp_path / "x.mkv") as reader:
        (picture,) = reader.frames_at([0.0])
    assert picture.pixels.shape == (35, 133, 3)


def test_a_moment_that_the_video_never_reaches_is_an_error(folder: Path) -> None:
    with VideoReader(folder / "even.mp4") as reader, pytest.raises(FeatureError, match=r"its frames end at 8.0 s"):
        list(reader.frames_at([9.5]))


def test_a_picture_file_is_rotated_by_its_metadata(tmp_path: Path) -> None:
    from PIL import Image

    image = Image.fromarray(numbered(5))
    exif = Image.Exif()
    exif[0x0112] = 6  # turn clockwise to show
    image.save(tmp_path / "x.png", exif=exif)
    assert np.array_equal(read_picture(tmp_path / "x.png").pixels, np.rot90(numbered(5), -1))
    (tmp_path / "y.jpg").write_bytes(b"\xff\xd8 no picture")
    with pytest.raises(FeatureError, match=r"y\.jpg: cannot be read as a picture"):
        read_picture(tmp_path / "y.jpg")


@pytest.mark.parametrize("suffix", PICTURES)
def test_only_common_picture_formats_are_opened(tmp_path: Path, suffix: str) -> None:
    from PIL import Image

    path = tmp_path / f"x{suffix}"
    Image.fromarray(numbered(5)).save(path, lossless=True)
    assert number_of(read_picture(path).pixels) == 5
    Image.fromarray(numbered(5)).save(path, format="EPS")
    with pytest.raises(FeatureError, match=r"cannot be read as a picture \(cannot identify image file"):
        read_picture(path)
