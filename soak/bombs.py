"""Small files that ask for much: each is refused with one sentence, within a second and a gigabyte."""

from __future__ import annotations

import io
import json
import shutil
import struct
import zipfile
import zlib
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import Any, cast

import av
import numpy as np

from soak.inputs import files_of
from soak.processes import Usage, run_p3iv
from soak.report import Failure, Part

MAX_CPU_S, MAX_MB, MAX_PRINTED = 1.0, 1024, 4000  # beyond the start of the program; characters
DEEP = 100_000


@dataclass(frozen=True)
class Bomb:
    """A file that is written into the folder of examples, and the command that reads it."""

    name: str
    path: str
    content: Callable[[Path], bytes]  # given the folder of examples
    command: str
    exit_code: int = 1  # 0 where the rest of the input is used
    start_s: float = 0.0  # processor time that the command takes for any input

    def write(self, folder: Path) -> None:
        (folder / self.path).parent.mkdir(parents=True, exist_ok=True)
        (folder / self.path).write_bytes(self.content(folder))


CHECKPOINT = "run/checkpoints/best/model.safetensors"
PLAN = "plan run --start arrays/row.npy --goal arrays/row.npy --samples 3"
PLAN_FROM = "plan run --start {0} --goal {0} --samples 3"


def bombs() -> list[Bomb]:
    """Every bomb; `folder` in a content function is the folder of examples."""
    yaml_files = (("kitchen/dataset.yaml", "data stats kitchen"), ("run/config.yaml", "report run"))
    deep_files = (
        ("COIN.json", "data import coin COIN.json new"),
        ("kitchen/split.json", "data stats kitchen"),
        ("kitchen/truth.jsonl", "evaluate run --samples 3 --data kitchen"),
        ("kitchen/features/index.json", "evaluate run --samples 3 --data kitchen"),
        ("predictions.jsonl", "score predictions.jsonl --actions 5"),
        ("actions.json", "score predictions.jsonl --actions actions.json"),
        ("rename.json", "data import folder kitchen new --language language.npz --rename rename.json"),
        ("run/evaluation.json", "report run"),
        ("run/predictions.jsonl", "score run/predictions.jsonl --actions run/actions.json"),
        ("run/environment.json", "report run"),
    )
    imported = "data import crosstask crosstask.zip new"
    lines = "crosstask_release/annotations/23521_a_b-c.csv"
    return [
        Bomb("zip of 2 million lines", "crosstask.zip", lambda f: _zip_with(f, lines, b"a\n" * 2**21), imported, 0),
        Bomb("zip of 16 million lines", "crosstask.zip", lambda f: _zip_with(f, lines, b"a\n" * 2**24), imported, 0),
        Bomb(
            "zip of 2 million tasks",
            "crosstask.zip",
            lambda f: _zip_with(f, "tasks_primary.txt", b"1\n\n" * 2**21),
            imported,
        ),
        Bomb("zip of one long line", "crosstask.zip", lambda f: _zip_with(f, lines, b"1," * 2**24), imported, 0),
        Bomb(
            "2 million rows",
            "kitchen/steps.csv",
            lambda _: b"video,task,step,start_s,end_s\n" + b"a\n" * 2**21,
            "data import folder kitchen new",
        ),
        *(Bomb(f"aliases in {path}", path, lambda _: _aliases(9), command) for path, command in yaml_files),
        *(Bomb(f"merges in {path}", path, lambda _: _merges(26), command) for path, command in yaml_files),
        *(Bomb(f"deep {path}", path, lambda _: b"[" * DEEP, command) for path, command in yaml_files),
        *(Bomb(f"deep {path}", path, lambda _: b'{"a":' * DEEP, command) for path, command in deep_files),
        Bomb("deep metadata", CHECKPOINT, lambda f: _header(f, "[" * DEEP), PLAN),
        Bomb("wide network", CHECKPOINT, lambda f: _changed(f, "model.width", 10**9), PLAN),
        Bomb("hidden layer of a million", CHECKPOINT, lambda f: _changed(f, "model.encoder_hidden", 10**6), PLAN),
        Bomb("a thousand layers", CHECKPOINT, lambda f: _changed(f, "model.layers", 1000), PLAN),
        Bomb("feed_forward of 2**70", CHECKPOINT, lambda f: _changed(f, "model.feed_forward", 2**70), PLAN),
        Bomb("horizon of 10**9", CHECKPOINT, lambda f: _changed(f, "shape.horizon", 10**9), PLAN),
        Bomb("header of 2**60 bytes", CHECKPOINT, lambda _: struct.pack("<Q", 2**60) + b"{", PLAN),
        Bomb("weights that are not finite", CHECKPOINT, _not_finite, PLAN),
        Bomb("far video", "far/videos/v.mkv", _far_video, "extract far", start_s=3),
        Bomb("far video, checked", "far/videos/v.mkv", _far_video, "data check far"),
        Bomb("large picture", "p.png", lambda _: _png(100_000), PLAN_FROM.format("p.png")),
        Bomb("large picture as a video", "far/videos/v.mp4", lambda _: _png(100_000), "data check far"),
        Bomb("promise of 16 TB", "arrays/row.npy", lambda _: _npy("(1000000000000, 4)"), PLAN),
        Bomb(
            "promise in a store",
            "kitchen/features/rows.npy",
            lambda _: _npy("(1000000000000, 128)"),
            "data check kitchen",
        ),
        Bomb(
            "promise in a table",
            "language.npz",
            lambda _: _npz(_npy("(1000000000000, 4)")),
            "data import folder kitchen new --language language.npz",
        ),
        Bomb(
            "zeros in a table",
            "language.npz",
            lambda _: _npz(_npy("(3, 4)") + bytes(2**28)),
            "data import folder kitchen new --language language.npz",
        ),
        Bomb("far time", "kitchen/steps.csv", _far_steps, "evaluate run --samples 3 --data kitchen", 0),
        Bomb(
            "many samples",
            "actions.txt",
            lambda _: b"x",
            "plan run --start arrays/row.npy --goal arrays/row.npy --samples 1000000000000",
        ),
        Bomb(
            "long setting", "actions.txt", lambda _: b"x", "train kitchen --out new --set optim.epochs=" + "[" * 50_000
        ),
    ]


def run_bombs(part: Part, examples: Path, work: Path, *, max_cpu_s: float = MAX_CPU_S) -> None:
    """Try every bomb once; each may take `max_cpu_s` beyond the start of the program."""
    for bomb in bombs():
        folder = work / "bomb"
        shutil.rmtree(folder, ignore_errors=True)
        shutil.copytree(examples, folder)
        (folder / "far").mkdir()
        (folder / "far" / "steps.csv").write_text("video,task,step,start_s,end_s\nv,t,a,0,1\nv,t,b,2,3\n")
        bomb.write(folder)
        _try(part, bomb, folder, max_cpu_s)


def _try(part: Part, bomb: Bomb, folder: Path, max_cpu_s: float) -> None:
    before = files_of(folder, ["./"])
    ended = run_p3iv(folder, *bomb.command.split(" "), limit=Usage(10 * MAX_CPU_S, 3 * MAX_MB))
    replay = {"bomb": bomb.name, "command": bomb.command}
    part.count(bomb.name, bombs=1)
    usage = ended.usage
    printed = ended.stdout + ended.stderr
    problems = [ended.problem] if ended.problem else []
    if ended.exit_code != bomb.exit_code:
        problems.append(f"exit code {ended.exit_code}, but it must be {bomb.exit_code}: {printed[-300:]}")
    if len(printed) > MAX_PRINTED:
        problems.append(f"{len(printed)} characters were printed: {printed[:300]}")
    if usage is None or usage.cpu_s > max_cpu_s + bomb.start_s:
        problems.append(f"{usage.cpu_s if usage else 'no end'} CPU seconds")
    if usage is None or usage.growth_mb > MAX_MB:
        problems.append(f"{usage.growth_mb if usage else 'no end'} MB")
    if bomb.exit_code and len(files_of(folder, ["./"])) != len(before):
        problems.append("files were left")
    for problem in problems:
        part.fail(Failure(bomb.name, problem, replay))


def _zip_with(folder: Path, name: str, content: bytes) -> bytes:
    """The CrossTask example with another member."""
    written = io.BytesIO()
    with (
        zipfile.ZipFile(folder / "crosstask.zip") as old,
        zipfile.ZipFile(written, "w", zipfile.ZIP_DEFLATED) as new,
    ):
        for member in old.namelist():
            if not member.endswith(name):
                new.writestr(member, old.read(member))
        new.writestr(name if "/" in name else f"crosstask_release/{name}", content)
    return written.getvalue()


def _aliases(depth: int) -> bytes:
    rows = ['a0: &a0 ["x", "x", "x", "x", "x", "x", "x", "x", "x", "x"]']
    rows += [f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 10)}]" for n in range(1, depth)]
    return "\n".join([*rows, "name: kitchen", f"encoder: *a{depth - 1}", f"planner: *a{depth - 1}"]).encode()


def _merges(depth: int) -> bytes:
    rows = ["a0: &a0 {x: 1}", *(f"a{n}: &a{n} {{<<: [*a{n - 1}, *a{n - 1}]}}" for n in range(1, depth))]
    return "\n".join([*rows, "name: kitchen"]).encode()


def _split_header(folder: Path) -> tuple[dict[str, Any], bytes]:
    content = (folder / CHECKPOINT).read_bytes()
    (size,) = struct.unpack("<Q", content[:8])
    return json.loads(content[8 : 8 + size]), content[8 + size :]


def _header(folder: Path, text: str) -> bytes:
    """The checkpoint with another text in its header."""
    header, data = _split_header(folder)
    header["__metadata__"]["p3iv"] = text
    new = json.dumps(header).encode()
    return struct.pack("<Q", len(new)) + new + data


def _changed(folder: Path, name: str, value: object) -> bytes:
    """The checkpoint with another setting or size."""
    header, _ = _split_header(folder)
    content = json.loads(header["__metadata__"]["p3iv"])
    section, key = name.split(".")
    (content[section] if section == "shape" else content["config"][section])[key] = value
    return _header(folder, json.dumps(content))


def _not_finite(folder: Path) -> bytes:
    header, data = _split_header(folder)
    floats = [
        entry["data_offsets"] for name, entry in header.items() if name != "__metadata__" and entry["dtype"] == "F32"
    ]
    changed = bytearray(data)
    for first, last in floats:
        changed[first:last] = np.full((last - first) // 4, np.nan, np.float32).tobytes()
    new = json.dumps(header).encode()
    return struct.pack("<Q", len(new)) + new + bytes(changed)


def _far_video(folder: Path) -> bytes:
    """Three frames, the last after 1e8 seconds."""
    path = folder / "far.mkv"
    with av.open(path, "w") as container:
        stream = cast(Any, container.add_stream("libx264", rate=1))
        stream.width = stream.height = 32
        stream.pix_fmt, stream.time_base = "yuv420p", Fraction(1, 1000)
        stream.codec_context.time_base = Fraction(1, 1000)
        for second in (0, 1, 10**8):
            frame = av.VideoFrame.from_ndarray(np.zeros((32, 32, 3), np.uint8), format="rgb24")
            frame.pts, frame.time_base = second * 1000, Fraction(1, 1000)
            container.mux(stream.encode(frame))
        container.mux(stream.encode())
    content = path.read_bytes()
    path.unlink()
    return content


def _png(size: int) -> bytes:
    def chunk(kind: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    header = struct.pack(">IIBBBBB", size, size, 8, 2, 0, 0, 0)
    body = chunk(b"IHDR", header) + chunk(b"IDAT", zlib.compress(bytes(1000))) + chunk(b"IEND", b"")
    return b"\x89PNG\r\n\x1a\n" + body


def _npy(shape: str) -> bytes:
    text = f"{{'descr': '<f4', 'fortran_order': False, 'shape': {shape}, }}".ljust(117) + "\n"
    return b"\x93NUMPY\x01\x00" + struct.pack("<H", len(text)) + text.encode() + bytes(48)


def _npz(array: bytes) -> bytes:
    names = io.BytesIO()
    np.save(names, np.array(["a", "b", "c"]))
    written = io.BytesIO()
    with zipfile.ZipFile(written, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("step.npy", names.getvalue())
        archive.writestr("embedding.npy", array)
    return written.getvalue()


def _far_steps(folder: Path) -> bytes:
    """The last step of a video is far after its features."""
    lines = (folder / "kitchen/steps.csv").read_bytes().splitlines()
    cells = lines[-1].split(b",")
    cells[3], cells[4] = b"1e19", b"1e300"
    return b"\n".join([*lines[:-1], b",".join(cells)]) + b"\n"
