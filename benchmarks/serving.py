"""The service: latency and throughput by number of clients, memory, start and size of the page.

usage: python -m benchmarks.serving [--requests N] [--memory-requests N] [--seconds S] [--clients N ...]

`p3iv serve` runs as a process of its own with the planner that comes with p3iv, one torch thread and one worker per
core; the clients are threads of this process on the same machine. The video is 720p H.264, 30 frames per second, with
a key frame every 250 frames. "cached" requests ask for moments that are encoded already; each "new" request asks for
two seconds of which no neighbour was encoded. "ready" is the time from the start of the process until plans are
answered, with and without an encoder. Memory is the sum over its processes of their proportional share (PSS),
which counts shared pages once. `--seconds` is the length of the video.
"""

from __future__ import annotations

import http.client
import json
import os
import queue
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import numpy as np
from PIL import Image

from benchmarks.timing import make_parser
from p3iv.features.video_file import write_video
from p3iv.serving.page_files import read_page

SPACING_S = 3  # between new moments, whose rows then have no second in common
FPS = 30


@dataclass
class Server:
    """A running service."""

    port: int
    pid: int
    ready_s: float

    def request(self, method: str, path: str, body: bytes | None = None) -> tuple[int, bytes]:
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=120)
        try:
            connection.request(method, path, body, {"Content-Type": "application/json"})
            answer = connection.getresponse()
            return answer.status, answer.read()
        finally:
            connection.close()

    def ask(self, method: str, path: str, body: bytes | None = None) -> Any:
        status, content = self.request(method, path, body)
        if status >= 400:
            raise SystemExit(f"{method} {path}: {status} {content[:300]!r}")
        return json.loads(content)

    def memory_mib(self) -> float:
        """The memory of the service and its workers."""
        return sum(_pss_kib(pid) for pid in _family(self.pid)) / 1024

    def handles(self) -> int:
        """Open files of the service and its workers."""
        return sum(len(list(Path(f"/proc/{pid}/fd").iterdir())) for pid in _family(self.pid))

    def threads(self) -> int:
        """Threads of the service and its workers."""
        return sum(len(list(Path(f"/proc/{pid}/task").iterdir())) for pid in _family(self.pid))


@contextmanager
def serve(*arguments: str) -> Iterator[Server]:
    """Start a service, wait until it is ready, and stop it."""
    command = [sys.executable, "-m", "p3iv", "serve", *arguments, "--port", "0", "--log-level", "error"]
    began = time.perf_counter()
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment) as process:  # noqa: S603
        try:
            assert process.stdout is not None  # noqa: S101 it is a pipe
            address = next(line.split()[1] for line in process.stdout if line.startswith("Open "))
            port = urlsplit(address).port
            yield Server(port or 0, process.pid, time.perf_counter() - began)
        finally:
            process.terminate()
            process.wait()


def _family(pid: int) -> list[int]:
    """A process and its descendants."""
    found = [pid]
    for task in Path(f"/proc/{pid}/task").iterdir():
        for child in (task / "children").read_text().split():
            found += _family(int(child))
    return found


def _pss_kib(pid: int) -> int:
    lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("Pss:"))


def make_video(path: Path, seconds: int) -> None:
    """A video in 720p of about 5 Mbit/s, as cameras and phones make: soft colours that move, and grain."""
    rng = np.random.default_rng(0)
    colours = Image.fromarray(rng.integers(20, 220, (18, 32, 3), np.uint8))
    scene = np.asarray(colours.resize((1280, 720), Image.Resampling.BICUBIC)).astype(np.int16)
    grain = rng.integers(-5, 6, (8, 720, 1280, 1), np.int16)
    frames = (np.roll(scene, 2 * number, axis=1) + grain[number % len(grain)] for number in range(FPS * seconds))
    write_video(path, (frame.clip(0, 255).astype(np.uint8) for frame in frames), fps=FPS)


def upload_variant(server: Server, content: bytes, number: int) -> str:
    """Send the video as other bytes: a free box at its end makes another file of it."""
    box = b"\0\0\0\x10free" + number.to_bytes(8, "big")
    answer = server.ask("PUT", "/v1/videos?name=bench.mp4", content + box)
    return str(answer["id"])


def question(video: str, start: float, goal: float) -> bytes:
    moments = {"start": {"video": video, "t": start}, "goal": {"video": video, "t": goal}}
    return json.dumps(moments).encode()


def run_clients(server: Server, bodies: Sequence[bytes], clients: int) -> dict[str, float]:
    """Send all questions from some clients, each of which waits for its answer; the figures of it."""
    waiting: queue.SimpleQueue[bytes] = queue.SimpleQueue()
    for body in bodies:
        waiting.put(body)
    latencies: list[float] = []
    errors: list[int] = []

    def client() -> None:
        connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=120)
        while True:
            try:
                body = waiting.get_nowait()
            except queue.Empty:
                break
            began = time.perf_counter()
            connection.request("POST", "/v1/plan", body, {"Content-Type": "application/json"})
            answer = connection.getresponse()
            answer.read()
            latencies.append(time.perf_counter() - began)
            if answer.status != 200:
                errors.append(answer.status)
        connection.close()

    threads = [threading.Thread(target=client) for _ in range(clients)]
    began = time.perf_counter()
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    elapsed = time.perf_counter() - began
    ordered = sorted(latencies)
    return {
        "p50_ms": round(1000 * statistics.median(ordered), 1),
        "p99_ms": round(1000 * ordered[min(len(ordered) - 1, int(0.99 * len(ordered)))], 1),
        "per_s": round(len(ordered) / elapsed, 1),
        "errors": len(errors),
    }


def measure(server: Server, content: bytes, options: Any) -> dict[str, Any]:
    """All figures of a running service."""
    idle_mib = server.memory_mib()
    found: dict[str, Any] = {"ready_s": round(server.ready_s, 2), "idle_mib": round(idle_mib)}
    last = options.seconds - 2
    moments = range(1, last - SPACING_S, 2 * SPACING_S)
    variant = 0
    for clients in options.clients:
        bodies: list[bytes] = []
        while len(bodies) < max(clients, options.requests // 20):
            video = upload_variant(server, content, variant)
            variant += 1
            bodies += [question(video, at, at + SPACING_S) for at in moments]
        found[f"new_{clients}"] = run_clients(server, bodies[: max(clients, options.requests // 20)], clients)
    pairs = [question(video, at, at + SPACING_S) for at in list(moments)[:16]]
    run_clients(server, pairs, 1)  # now they are encoded
    for clients in options.clients:
        bodies = [pairs[number % len(pairs)] for number in range(options.requests)]
        found[f"cached_{clients}"] = run_clients(server, bodies, clients)
    found["handles"], found["threads"] = [server.handles()], [server.threads()]
    many = [pairs[number % len(pairs)] for number in range(options.memory_requests)]
    before_mib = server.memory_mib()
    run_clients(server, many, 4)
    found |= {"before_many_mib": round(before_mib), "after_many_mib": round(server.memory_mib())}
    found["handles"].append(server.handles())
    found["threads"].append(server.threads())
    return found


def page_bytes() -> int:
    """The compressed size of everything that the page loads at first."""
    return sum(len(file.compressed) for file in read_page().values())


def main() -> None:
    parser = make_parser(__doc__)
    parser.add_argument("--requests", type=int, default=1000, help="cached requests per number of clients")
    parser.add_argument("--memory-requests", type=int, default=10_000)
    parser.add_argument("--seconds", type=int, default=120, help="length of the video")
    parser.add_argument("--clients", type=int, nargs="+", default=[1, 4, 16])
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "bench.mp4"
        make_video(path, options.seconds)
        content = path.read_bytes()
    with serve() as server:
        result = measure(server, content, options)
    with serve("--encoder", "s3d", "--weights", "missing.pth") as server:  # which cannot be built
        result["ready_without_encoder_s"] = round(server.ready_s, 2)
    result |= {"page_bytes": page_bytes(), "video_mbit_per_s": round(8 * len(content) / options.seconds / 1e6, 1)}
    for name, value in result.items():
        print(f"{name:16} {value}")
    print(json.dumps(result))


if __name__ == "__main__":
    main()
