"""Speed of `import_features` compared with a plain loop that reads, checks, hashes, writes and syncs the same files.

Prints wall time and CPU time of both, their ratios, and the peak of anonymous memory, which excludes memory-mapped
files.
"""

from __future__ import annotations

import hashlib
import json
import os
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from benchmarks.timing import make_parser
from p3iv.features.import_arrays import import_features
from p3iv.features.store import FeatureStore
from p3iv.types import Video


@dataclass(frozen=True)
class Timing:
    """Time and memory of one call."""

    wall_s: float
    process_s: float
    peak_anonymous_mb: float


def main() -> None:
    parser = make_parser(__doc__)
    parser.add_argument("--videos", type=int, default=2750)
    parser.add_argument("--rows", type=int, default=300, help="mean number; a video has 0.5 to 1.5 times as many")
    parser.add_argument("--width", type=int, default=512)
    parser.add_argument("--dtype", choices=["float16", "float32"], default="float32")
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--folder", type=Path, help="where to put the temporary files")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory(dir=args.folder) as name:
        root = Path(name)
        videos = generate(root / "raw", args.videos, args.rows, args.width, args.dtype)
        compare(root, videos, args.repeats)


def generate(folder: Path, num_videos: int, num_rows: int, width: int, dtype: str) -> list[Video]:
    """Write one .npy file of random rows per video."""
    folder.mkdir()
    rng = np.random.default_rng(0)
    videos = [Video(f"video{number:05d}", "task", ()) for number in range(num_videos)]
    for video in videos:
        size = (int(rng.integers(num_rows // 2, num_rows * 3 // 2 + 1)), width)
        np.save(folder / f"{video.id}.npy", rng.standard_normal(size, dtype=np.float32).astype(dtype))
    os.sync()  # neither of the two should have to wait for these files to reach the disk
    return videos


def compare(root: Path, videos: list[Video], repeats: int) -> None:
    """Run both in turn and print the best of each."""
    plain, ours = [], []
    for _ in range(repeats):
        plain.append(timed(lambda: plain_loop(root / "raw", videos, root / "plain.bin")))
        (root / "plain.bin").unlink()
        ours.append(timed(lambda: import_features(root / "raw", videos, root / "features")))
    store = FeatureStore.open(root / "features")
    store.verify()
    num_rows = sum(map(store.num_rows, store.videos))
    print(f"{len(store.videos)} videos, {num_rows} rows of {store.width} {store.dtype}; best of {repeats}")
    report("plain loop", plain)
    report("import_features", ours)
    for label, seconds in (("wall", lambda run: run.wall_s), ("CPU", lambda run: run.process_s)):
        print(f"ratio of {label} time: {min(map(seconds, ours)) / min(map(seconds, plain)):.2f}")
    result = {
        "wall_ratio": round(min(run.wall_s for run in ours) / min(run.wall_s for run in plain), 2),
        "cpu_ratio": round(min(run.process_s for run in ours) / min(run.process_s for run in plain), 2),
        "peak_anonymous_mb": round(max(run.peak_anonymous_mb for run in ours)),
    }
    print(json.dumps(result))


def plain_loop(folder: Path, videos: list[Video], destination: Path) -> None:
    """The work that every import has to do."""
    digest = hashlib.sha256()
    with destination.open("wb") as file:
        for video in videos:
            rows = np.load(folder / f"{video.id}.npy")
            if not np.isfinite(rows).all():
                raise SystemExit(f"{video.id} is not finite")
            digest.update(rows.data)
            file.write(rows.data)
        file.flush()
        os.fsync(file.fileno())


def timed(run: Callable[[], object]) -> Timing:
    with anonymous_memory() as sizes:
        wall, process = time.perf_counter(), time.process_time()
        run()
        wall, process = time.perf_counter() - wall, time.process_time() - process
    return Timing(wall, process, max(sizes) / 1024)


@contextmanager
def anonymous_memory() -> Iterator[list[int]]:
    """Collect RssAnon in KiB every 20 ms; VmHWM would include memory-mapped files."""
    sizes, done = [rss_anon()], threading.Event()

    def sample() -> None:
        while not done.wait(0.02):
            sizes.append(rss_anon())

    thread = threading.Thread(target=sample)
    thread.start()
    try:
        yield sizes
    finally:
        done.set()
        thread.join()


def rss_anon() -> int:
    lines = Path("/proc/self/status").read_text(encoding="ascii").splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("RssAnon:"))


def report(name: str, runs: list[Timing]) -> None:
    wall, process = min(run.wall_s for run in runs), min(run.process_s for run in runs)
    memory = max(run.peak_anonymous_mb for run in runs)
    print(f"{name:16s} {wall:6.2f} s wall  {process:6.2f} s CPU  {memory:6.0f} MB anonymous at most")


if __name__ == "__main__":
    main()
