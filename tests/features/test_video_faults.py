"""Files that are not videos, are damaged, or ask for too much: each gets one sentence that names it."""

from __future__ import annotations

import random
import re
import shutil
import struct
import subprocess
import sys
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

import av
import numpy as np
import pytest
from numpy.typing import NDArray

from clips import number_of, numbered, write_clip
from p3iv.errors import FeatureError
from p3iv.features.video import VideoReader
from p3iv.features.video_file import MAX_LENGTH_S, find_fault, naming_faults

EVEN_MS = [40 * number for number in range(200)]


def spoil(name: str, folder: Path) -> Path:
    path = folder / "bad video é.mp4"
    good = (folder / "good.mp4").read_bytes()
    if name == "symlink loop":
        path.symlink_to(path)
    elif name == "folder":
        path.mkdir()
    elif name == "audio only":
        write_sound(path)
    elif name != "missing":
        content = {
            "empty": b"",
            "cut before its index": good[: len(good) // 2],
            "noise": random.Random(0).randbytes(5000),
            "4 GB header": b"\0\0\0\x18ftypmp42\0\0\0\0mp42isom\xff\xff\xff\xffmoov",
            "8 EB header": b"\0\0\0\x18ftypmp42\0\0\0\0mp42isom\0\0\0\1mdat" + b"\x7f" + b"\xff" * 7,
            "unknown codec": good.replace(b"avc1", b"zzzz"),
            "playlist": b"#EXTM3U\n#EXTINF:1,\nhttp://127.0.0.1:9/x.ts\n",
            "list of files": b"ffconcat version 1.0\nfile good.mp4\n",
        }[name]
        path.write_bytes(content)
    return path


def write_sound(path: Path) -> None:
    with av.open(path, "w") as container:
        stream = container.add_stream("aac", rate=16000, layout="mono")
        frame = av.AudioFrame.from_ndarray(np.zeros((1, 16000), np.float32), format="fltp", layout="mono")
        frame.sample_rate = 16000
        container.mux(stream.encode(frame))
        container.mux(stream.encode())


FAULTS = {
    "missing": "No such file",
    "symlink loop": "symbolic links",
    "folder": "is a folder",
    "audio only": "no video stream",
    "empty": "is empty",
    "cut before its index": "cannot be read",
    "noise": "cannot be read",
    "4 GB header": "no video stream|cannot be read",
    "8 EB header": "no video stream|cannot be read",
    "unknown codec": "its video codec has no decoder here",
    "playlist": "cannot be read",
    "list of files": "its container is not one of mov, ",
}


@pytest.mark.parametrize("name", FAULTS)
def test_a_file_that_is_not_a_video_is_named(tmp_path: Path, name: str) -> None:
    write_clip(tmp_path / "good.mp4", EVEN_MS[:60])
    path = spoil(name, tmp_path)
    with pytest.raises(FeatureError, match=FAULTS[name]) as caught, VideoReader(path):
        pass
    assert str(caught.value).startswith(f"{path}: ")
    assert find_fault(path)


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("x.mp4", "ffconcat version 1.0\nfile good.ts\n"),
        ("x.ts", "ffconcat version 1.0\nfile good.ts\n"),
        ("x.m3u8", "#EXTM3U\n#EXT-X-TARGETDURATION:3\n#EXTINF:2.4,\ngood.ts\n#EXT-X-ENDLIST\n"),
    ],
)
def test_a_list_of_files_does_not_open_its_neighbours(tmp_path: Path, name: str, content: str) -> None:
    write_clip(tmp_path / "good.ts", EVEN_MS[:60])
    assert find_fault(tmp_path / "good.ts") is None
    (tmp_path / name).write_text(content)
    with av.open(tmp_path / name) as container:
        assert container.streams.video  # FFmpeg would open it
    assert "its container is not one of mov, " in (find_fault(tmp_path / name) or "")


@pytest.mark.parametrize("error", [OverflowError("too far"), AttributeError("no decoder"), AssertionError()])
def test_any_error_of_the_decoder_is_an_error_of_the_file(error: Exception) -> None:
    with pytest.raises(FeatureError, match=r"x\.mp4: cannot be read \("), naming_faults(Path("x.mp4")):
        raise error


def test_a_title_in_another_encoding_is_no_fault(tmp_path: Path) -> None:
    with av.open(tmp_path / "x.mp4", "w", metadata_errors="surrogateescape") as container:
        container.metadata["title"] = "caf\udce9"
        stream = container.add_stream("libx264", rate=25)
        stream.width, stream.height, stream.pix_fmt = 128, 32, "yuv420p"
        container.mux(stream.encode(av.VideoFrame.from_ndarray(numbered(9), format="rgb24")))
        container.mux(stream.encode())
    with VideoReader(tmp_path / "x.mp4") as reader:
        assert [number_of(picture.pixels) for picture in reader.frames_at([0.0])] == [9]


def test_a_video_that_ends_early_is_named(tmp_path: Path) -> None:
    write_clip(
        tmp_path / "x.mp4", EVEN_MS, options={"g": "5", "threads": "1"}, container_options={"movflags": "faststart"}
    )
    content = (tmp_path / "x.mp4").read_bytes()
    (tmp_path / "x.mp4").write_bytes(content[: content.index(b"mdat") + 4000])
    decoded_s = 0.0
    with av.open(tmp_path / "x.mp4") as container, suppress(av.FFmpegError):
        for frame in container.decode(video=0):
            decoded_s = max(decoded_s, float(frame.time or 0))
    found = re.fullmatch(r"truncated: 8.0 s declared, (.*) s found", find_fault(tmp_path / "x.mp4") or "")
    assert found is not None
    assert 1 < decoded_s < float(found[1]) < decoded_s + 0.4
    with pytest.raises(FeatureError, match=r"x.mp4: truncated: 8.0 s declared"), VideoReader(tmp_path / "x.mp4"):
        pass


def test_a_damaged_video_shows_the_same_whether_all_of_it_is_read_or_one_moment(tmp_path: Path) -> None:
    """A decoder fills damaged places from the frames that it has decoded, so none of them may be skipped there."""
    good, rng, moments, num_changed = tmp_path / "good.mp4", random.Random(7), [1.02, 4.06, 7.9], 0
    write_clip(good, EVEN_MS, options={"bf": "5", "g": "250", "threads": "1"})
    before = [read_at(good, [moment])[0] for moment in moments]
    for number in range(12):
        path = tmp_path / f"damaged{number}.mp4"
        path.write_bytes(damage(good.read_bytes(), rng))
        alone = [read_at(path, [moment]) for moment in moments]
        among = read_at(path, [0.02 + time_ms / 1000 for time_ms in EVEN_MS])
        for place, shown, as_before in zip([25, 101, 197], alone, before, strict=True):
            if place < len(among):  # a damaged frame that is not needed is no error
                assert np.array_equal(shown[0], among[place])
            num_changed += bool(shown) and not np.array_equal(shown[0], as_before)
    assert num_changed > 5


def damage(content: bytes, rng: random.Random) -> bytes:
    """The bytes of an MP4 with some bits of its frames turned."""
    start, end = content.index(b"mdat") + 4, content.index(b"moov") - 4
    changed = bytearray(content)
    for _ in range(3):
        changed[rng.randrange(start, end)] ^= 1 << rng.randrange(8)
    return bytes(changed)


def read_at(path: Path, moments: Sequence[float]) -> list[NDArray[np.uint8]]:
    """The frames at these moments, up to the first one that cannot be decoded."""
    frames = []
    with suppress(FeatureError), VideoReader(path) as reader:
        for picture in reader.frames_at(moments):
            frames.append(picture.pixels)
    return frames


@pytest.mark.parametrize("live", ["0", "1"])  # a live file does not declare its length
def test_a_video_of_years_is_refused(tmp_path: Path, live: str) -> None:
    day_ms = 1000 * MAX_LENGTH_S
    for name, last_ms in (("day.mkv", day_ms - 2000), ("long.mkv", day_ms + 1000), ("far.mkv", 10**11)):
        write_clip(tmp_path / name, [0, 1000, last_ms], container_options={"live": live})
    assert find_fault(tmp_path / "day.mkv") is None
    assert (find_fault(tmp_path / "long.mkv") or "").endswith("s long; up to 86400 s (24 h) are read")
    with pytest.raises(FeatureError, match=r"far.mkv: is 10000000\d s long"), VideoReader(tmp_path / "far.mkv"):
        pass


MEASURE = """
import resource, sys
from pathlib import Path
from p3iv.data.folder import VIDEO_SUFFIXES
from p3iv.errors import FeatureError
from p3iv.features.video import VideoReader
for name in sys.argv[1:]:
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    try:
        with VideoReader(Path(name)) as reader:
            for _ in reader.frames_at(range(reader.num_seconds)):
                pass
        print("read")
    except FeatureError as error:
        print(error)
    print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before)
"""


def huge_header(folder: Path) -> Path:
    """Raw video that announces pictures of 216 MB and has small ones."""
    write_clip(folder / "x.avi", EVEN_MS[:3], codec="rawvideo", size=(64, 64))
    content = (folder / "x.avi").read_bytes()
    small, large = (struct.pack("<Iii", 40, size, size) for size in (64, 12000))
    assert content.count(small) == 1
    (folder / "x.avi").write_bytes(content.replace(small, large))
    return folder / "x.avi"


def huge_frames(folder: Path) -> Path:
    """A small video whose frames say, each for itself, that they are large."""
    write_clip(folder / "x.mkv", EVEN_MS[:3], codec="mjpeg", size=(64, 64), options={"strict": "unofficial"})
    start_of_frame = b"\xff\xc0\x00\x11\x08"
    content = (folder / "x.mkv").read_bytes()
    assert content.count(start_of_frame) == 3
    small, large = (start_of_frame + struct.pack(">HH", size, size) for size in (64, 12000))
    (folder / "x.mkv").write_bytes(content.replace(small, large))
    return folder / "x.mkv"


def test_memory_does_not_grow_with_the_size_or_the_length_of_a_video(tmp_path: Path) -> None:
    for name in ("header", "frames"):
        (tmp_path / name).mkdir()
    paths = [huge_header(tmp_path / "header"), huge_frames(tmp_path / "frames"), tmp_path / "long.mp4"]
    write_clip(paths[2], [40 * number for number in range(1500)], options={"preset": "ultrafast"})
    done = subprocess.run([sys.executable, "-c", MEASURE, *paths], capture_output=True, text=True, check=True)
    messages, kilobytes = done.stdout.splitlines()[::2], done.stdout.splitlines()[1::2]
    assert messages[0].startswith(f"{paths[0]}: pictures of 12000 x 12000; up to")
    assert messages[1].startswith(f"{paths[1]}: cannot be read")
    assert messages[2] == "read"
    assert all(int(grown) < 50_000 for grown in kilobytes[:2])
    assert int(kilobytes[2]) < 60_000  # 1,500 frames of RGB alone would be 18 MB here, as objects of PyAV far more


def test_a_good_file_beside_bad_ones_reads_as_ever(tmp_path: Path) -> None:
    write_clip(tmp_path / "good.mp4", EVEN_MS[:60])
    odd = tmp_path / "concat:a|b %03d 'x' é.mp4"
    shutil.copy(tmp_path / "good.mp4", odd)
    with VideoReader(odd) as reader:
        assert [number_of(picture.pixels) for picture in reader.frames_at([1.0])] == [25]
