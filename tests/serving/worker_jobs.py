"""Set-up functions and jobs for the tests of the worker pool."""

from __future__ import annotations

import logging
import os
import signal
import socket
import stat
import sys
import threading
import time
from contextlib import suppress
from dataclasses import dataclass
from io import BytesIO
from pathlib import Path

import numpy as np

from p3iv.errors import FeatureError, MissingExtraError, PlanError
from p3iv.types import Array


@dataclass(frozen=True)
class Size:
    width: int
    height: int | None


@dataclass(frozen=True)
class Facts:
    name: str
    length_s: float
    size: Size
    content: bytes = b""


def nothing() -> None:
    """A set-up or a job that does nothing."""


def fail_if_there(path: Path) -> None:
    if path.exists():
        raise PlanError("There is no encoder.")


def fail() -> None:
    raise ValueError("/secret/file.mp4 is odd")


def echo(value: object) -> object:
    return value


def make_array(*shape: int) -> Array:
    return np.arange(np.prod(shape), dtype=np.float32).reshape(shape)


def process_id() -> int:
    return os.getpid()


def wait_until_there(begun: Path, go: Path) -> int:
    """Tell that the job has begun, and return the id of the process when it is told to."""
    begun.touch()
    while not go.exists():
        time.sleep(0.005)
    return os.getpid()


def compute_forever() -> None:
    while True:
        pass


def compute_for(cpu_s: float) -> int:
    """Use CPU time, and return the id of the process."""
    end = time.process_time() + cpu_s
    while time.process_time() < end:
        pass
    return os.getpid()


def keep_memory() -> None:
    """A set-up that allocates more than a job may."""
    globals()["kept"] = np.ones(300 * 2**20, np.uint8)


def use_memory(num_bytes: int) -> int:
    return int(np.ones(num_bytes, np.uint8)[-1])


def use_memory_of_torch(num_bytes: int) -> int:
    import torch

    return int(torch.ones(num_bytes, dtype=torch.uint8)[-1])


def hide_lack_of_memory(num_bytes: int) -> None:
    """What the decoder of videos does: every error becomes a FeatureError."""
    try:
        use_memory(num_bytes)
    except MemoryError as error:
        raise FeatureError("cannot be read") from error


def crash() -> None:
    os.kill(os.getpid(), signal.SIGSEGV)


def raise_plan_error() -> None:
    raise PlanError("Two videos, but one is needed.")


def raise_when_there(begun: Path, go: Path) -> None:
    wait_until_there(begun, go)
    raise_plan_error()


def raise_missing_extra() -> None:
    raise MissingExtraError("PyAV", "video", "Reading video")


def raise_unknown_error() -> None:
    raise type("UnknownError", (PlanError,), {})("Only the worker knows this class.")


def return_path() -> Path:
    return Path("name")


def answer_with(content: bytes) -> None:
    """Send bytes to the parent, as an attacker would who runs code in a worker."""
    for handle in range(3, 64):
        with suppress(OSError):
            if stat.S_ISSOCK(os.fstat(handle).st_mode):
                socket.socket(fileno=os.dup(handle)).sendall(content)
    time.sleep(60)


def try_forbidden(folder: Path) -> dict[str, object]:
    """What this process can still do."""
    opened: list[int] = []
    with suppress(OSError):
        for _ in range(1000):
            opened.append(os.open(os.devnull, os.O_RDONLY))
    for handle in opened:
        os.close(handle)
    with suppress(OSError):
        (folder / "file").write_text("content")
    return {
        "opened": len(opened),
        "written": (folder / "file").stat().st_size,
        "no_new_privileges": "NoNewPrivs:\t1" in Path("/proc/self/status").read_text(),
    }


def log() -> None:
    logging.getLogger("p3iv").error("A message of a worker.")


def print_much() -> None:
    for output in (sys.stdout, sys.stderr):
        print("printed by a job", file=output, flush=True)
        os.write(output.fileno(), b"printed by a library\n")


def show_process_id() -> None:
    """Print the id of the process and go on for a minute."""
    print(os.getpid(), flush=True)
    time.sleep(60)


def count_own_resources() -> tuple[int, int]:
    """Open files and threads of this process."""
    return len(list(Path("/proc/self/fd").iterdir())), threading.active_count()


def import_libraries() -> None:
    """What a set-up does that builds an encoder."""
    import av
    import onnxruntime  # type: ignore[import-untyped]
    import torch

    torch.set_num_threads(1)
    assert av.codecs_available
    assert onnxruntime.get_available_providers()


def use_libraries(clip: Path, network: bytes) -> dict[str, object]:
    """Decode with PyAV, write and read a JPEG with Pillow, and compute with torch and onnxruntime."""
    import av
    import onnxruntime
    import torch
    from PIL import Image

    with av.open(clip) as container:
        pictures = [Image.fromarray(frame.to_ndarray(format="rgb24")) for frame in container.decode(video=0)]
    jpeg = BytesIO()
    pictures[0].save(jpeg, "JPEG")
    session = onnxruntime.InferenceSession(network)
    [doubled] = session.run(None, {"x": np.ones(3, np.float32)})
    pixels = torch.from_numpy(np.stack([np.asarray(picture) for picture in pictures])).permute(0, 3, 1, 2)
    return {
        "frames": len(pictures),
        "size": Image.open(jpeg).size,
        "maps": tuple(torch.nn.Conv2d(3, 8, 3)(pixels.float()).shape),
        "doubled": doubled.tolist(),
    }
