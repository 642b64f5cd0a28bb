"""Files that a stranger might send: playlists that name other files, and small files that ask for much."""

from __future__ import annotations

import io
import struct
import zlib
from collections.abc import Callable
from fractions import Fraction
from pathlib import Path

import av
import numpy as np
from PIL import Image

from clips import write_clip

Make = Callable[[Path], bytes]  # given an empty folder


def playlists(neighbour: Path) -> dict[str, bytes]:
    """Texts that some players take for a video, and that name a file beside them."""
    name, path = neighbour.name.encode(), str(neighbour).encode()
    hls = b"#EXTM3U\n#EXT-X-VERSION:3\n#EXT-X-TARGETDURATION:10\n#EXTINF:9,\n%s\n#EXT-X-ENDLIST\n"
    return {
        "ffconcat": b"ffconcat version 1.0\nfile %s\n" % name,
        "ffconcat, absolute": b"ffconcat version 1.0\nfile '%s'\n" % path,
        "ffconcat, url": b"ffconcat version 1.0\nfile 'file:%s'\n" % path,
        "hls": hls % name,
        "hls, url": hls % (b"file://" + path),
        "hls, http": hls % b"http://127.0.0.1:9/x.ts",
        "dash": b'<?xml version="1.0"?><MPD xmlns="urn:mpeg:dash:schema:mpd:2011" type="static"><Period><AdaptationSet '
        b'mimeType="video/mp4"><Representation id="1"><BaseURL>file://%s</BaseURL></Representation></AdaptationSet>'
        b"</Period></MPD>" % path,
        "sdp": b"v=0\no=- 0 0 IN IP4 127.0.0.1\ns=x\nc=IN IP4 127.0.0.1\nt=0 0\nm=video 9 RTP/AVP 96\n"
        b"a=rtpmap:96 H264/90000\n",
        "image sequence": b"%s" % path,
    }


def not_pictures(neighbour: Path) -> dict[str, bytes]:
    """Formats that are programs, or name other files."""
    path = str(neighbour).encode()
    return {
        "svg": b'<svg xmlns="http://www.w3.org/2000/svg" width="9" height="9"><image href="file://%s"/></svg>' % path,
        "svg with script": b'<svg xmlns="http://www.w3.org/2000/svg"><script>alert(1)</script></svg>',
        "eps": b"%%!PS-Adobe-3.0 EPSF-3.0\n%%%%BoundingBox: 0 0 9 9\n(%s) (r) file\nshowpage\n" % path,
        "ps": b"%!PS\n(x) run\n",
        "pdf": b"%PDF-1.4\n1 0 obj<<>>endobj\ntrailer<<>>\n%%EOF\n",
        "html": b"<html><img src=x onerror=alert(1)></html>",
        "mvg": b"push graphic-context\nimage over 0,0 0,0 '%s'\npop graphic-context\n" % path,
        "xpm": b'/* XPM */\nstatic char *x[] = {"1 1 1 1", "a c red", "a"};\n',
    }


def picture_bombs() -> dict[str, Callable[[], bytes]]:
    """Small pictures that are large, or that have much in them."""
    return {
        "png of 60000 x 60000": lambda: png(60_000, 60_000, zlib.compress(bytes(1000))),
        "png of 2**31 x 1": lambda: png(2**31 - 1, 1, zlib.compress(bytes(1000))),
        "png with a long text": lambda: png(1, 1, zlib.compress(bytes(4)), [(b"zTXt", b"a\0\0" + _zeros(32 << 20))]),
        "png with a large profile": lambda: png(
            1, 1, zlib.compress(bytes(4)), [(b"iCCP", b"a\0\0" + _zeros(32 << 20))]
        ),
        "gif of many frames": lambda: _gif(8, 8, 20_000),
        "gif of 65535 x 65535": lambda: _gif(65535, 65535, 1),
        "bmp of 65535 x 65535": lambda: _bmp(65535, 65535),
        "webp of 16383 x 16383": lambda: _webp(16383, 16383),
        "tiff of 2**32 rows": lambda: _tiff(65535, 2**32 - 1),
    }


def video_bombs() -> dict[str, Make]:
    """Small videos that declare large pictures, many of them, or a long time."""
    return {
        "pictures of 65500 x 65500": _large_frames,
        "2**32 samples": lambda folder: _patched(folder, b"stsz", 4, struct.pack(">II", 1, 2**32 - 1)),
        "2**32 times": lambda folder: _patched(folder, b"stts", 4, struct.pack(">III", 1, 2**32 - 1, 1)),
        "2**32 chunks": lambda folder: _patched(folder, b"stco", 4, struct.pack(">I", 2**32 - 1)),
        "a box of 2**63 bytes": lambda folder: _patched(folder, b"moov", -8, struct.pack(">I", 1)),
        "a length of centuries": lambda folder: _patched(folder, b"mdhd", 16, struct.pack(">I", 2**32 - 1)),
        "the first half": lambda folder: (content := _small(folder))[: len(content) // 2],
    }


def slow_video(folder: Path, frames: int = 1400) -> bytes:
    """A short file that takes long to decode: many large frames that repeat the one before, and one key frame."""
    path = folder / "slow.mp4"
    with av.open(path, "w") as container:
        stream = container.add_stream("libx264", rate=25, options={"preset": "ultrafast"})
        stream.width, stream.height, stream.pix_fmt = 4096, 4096, "yuv420p"
        black = av.VideoFrame.from_ndarray(np.zeros((4096, 4096, 3), np.uint8), format="rgb24")
        first, repeated = [*stream.encode(black), *stream.encode(black), *stream.encode()]
        for number in range(frames):
            packet = av.Packet(bytes(repeated if number else first))
            packet.stream, packet.time_base = stream, Fraction(1, 25)
            packet.pts = packet.dts = number
            packet.is_keyframe = number == 0
            container.mux(packet)
    return path.read_bytes()


def padded(video: bytes, num_bytes: int, seed: int = 0) -> bytes:
    """The same MP4 with bytes behind it that players skip."""
    rest = num_bytes - len(video) - 8
    return video + struct.pack(">I", rest + 8) + b"free" + np.random.default_rng(seed).bytes(rest)


def png(width: int, height: int, pixels: bytes, more: list[tuple[bytes, bytes]] | None = None) -> bytes:
    """A PNG with any size in its header."""

    def chunk(kind: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    chunks = [(b"IHDR", struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)), *(more or [])]
    return b"\x89PNG\r\n\x1a\n" + b"".join(chunk(*each) for each in [*chunks, (b"IDAT", pixels), (b"IEND", b"")])


def _zeros(number: int) -> bytes:
    """Many compressed zeros, made of few at a time."""
    compressor, block = zlib.compressobj(9), bytes(1 << 20)
    return b"".join([*(compressor.compress(block) for _ in range(number >> 20)), compressor.flush()])


def _gif(width: int, height: int, frames: int) -> bytes:
    frame = b"\x2c" + struct.pack("<HHHHB", 0, 0, 1, 1, 0) + b"\x02\x02\x44\x01\x00"
    return b"GIF89a" + struct.pack("<HHBBB", width, height, 0x80, 0, 0) + bytes(6) + frame * frames + b"\x3b"


def _bmp(width: int, height: int) -> bytes:
    header = struct.pack("<IiiHHIIiiII", 40, width, height, 1, 24, 0, 0, 0, 0, 0, 0)
    return b"BM" + struct.pack("<IHHI", 54, 0, 0, 54) + header


def _webp(width: int, height: int) -> bytes:
    """A lossless WebP of which only the header is there."""
    bits = (width - 1) | (height - 1) << 14
    data = b"VP8L" + struct.pack("<I", 13) + b"\x2f" + struct.pack("<I", bits) + bytes(8) + b"\0"
    return b"RIFF" + struct.pack("<I", 4 + len(data)) + b"WEBP" + data


def _tiff(width: int, height: int) -> bytes:
    tags = [(256, width), (257, height), (258, 8), (259, 1), (262, 1), (273, 200), (277, 1), (278, height), (279, 9)]
    entries = b"".join(struct.pack("<HHII", tag, 4, 1, value) for tag, value in tags)
    return b"II*\0" + struct.pack("<IH", 8, len(tags)) + entries + bytes(100)


def _small(folder: Path) -> bytes:
    write_clip(folder / "small.mp4", range(0, 3000, 100))
    return (folder / "small.mp4").read_bytes()


def _patched(folder: Path, box: bytes, offset: int, put: bytes) -> bytes:
    """A small MP4 with other bytes at an offset behind the name of a box."""
    content = _small(folder)
    at = content.index(box) + 4 + offset
    return content[:at] + put + content[at + len(put) :]


def _large_frames(folder: Path) -> bytes:
    """Motion JPEG: every frame is a picture that says its size."""
    path, picture = folder / "large.avi", io.BytesIO()
    Image.new("RGB", (64, 64)).save(picture, "JPEG")
    content = bytearray(picture.getvalue())
    at = content.index(b"\xff\xc0") + 5
    content[at : at + 4] = struct.pack(">HH", 65500, 65500)
    with av.open(path, "w") as container:
        stream = container.add_stream("mjpeg", rate=1)
        stream.width = stream.height = 64
        stream.pix_fmt = "yuvj420p"
        for second in range(3):
            packet = av.Packet(bytes(content))
            packet.stream, packet.pts, packet.dts, packet.time_base = stream, second, second, Fraction(1, 1)
            container.mux(packet)
    return path.read_bytes()
