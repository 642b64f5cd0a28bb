"""Are the files in videos/ the videos of the dataset, and whole?"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from importlib.util import find_spec
from pathlib import Path

from p3iv.dataset import VIDEO_SUFFIXES
from p3iv.inspection.findings import Finding
from p3iv.types import Video, counted, listed


def check_videos(folder: Path, videos: Sequence[Video]) -> Iterator[Finding]:
    """Missing, strange, empty, unreadable and truncated files; nothing where the dataset has no videos/."""
    if not os.path.lexists(folder):
        return
    if not folder.is_dir():
        yield Finding("error", "videos is a file or a broken link, expected a folder of video files")
        return
    entries = sorted(folder.iterdir())
    files = [path for path in entries if path.is_file() and path.suffix.lower() in VIDEO_SUFFIXES]
    yield from _check_names(entries, files, videos)
    yield from _check_contents(files)


def _check_names(entries: list[Path], files: list[Path], videos: Sequence[Video]) -> Iterator[Finding]:
    if broken := [path.name for path in entries if not path.is_file()]:
        yield Finding("error", f"videos/ holds folders or broken links: {listed(broken)}")
    if others := [path.name for path in entries if path.is_file() and path.suffix.lower() not in VIDEO_SUFFIXES]:
        what = f"videos/ holds {counted(len(others), 'file')} with an ending other than {', '.join(VIDEO_SUFFIXES)}"
        yield Finding("warning", f"{what}: {listed(others)}")
    known, at_hand = {video.id for video in videos}, {path.stem for path in files}
    if missing := [video.id for video in videos if video.id not in at_hand]:
        yield Finding("warning", f"videos/ lacks {counted(len(missing), 'video')}: {listed(missing)}")
    if strangers := [path.name for path in files if known and path.stem not in known]:
        yield Finding("warning", f"videos/ holds {counted(len(strangers), 'file')} of no video: {listed(strangers)}")


def _check_contents(files: list[Path]) -> Iterator[Finding]:
    if empty := [path.name for path in files if path.stat().st_size == 0]:
        yield Finding("error", f"videos/ holds {counted(len(empty), 'empty file')}: {listed(empty)}")
    if find_spec("av") is None:
        yield Finding("warning", "videos/ was not looked into: PyAV is missing (pip install 'p3iv[video]')")
        return
    from p3iv.features.video_input import find_fault  # noqa: PLC0415 - needs PyAV

    faults = {path.name: find_fault(path) for path in files if path.name not in set(empty)}
    if faulty := [f"{name} ({fault})" for name, fault in faults.items() if fault]:
        yield Finding("error", f"videos/: {counted(len(faulty), 'file')} cannot be used: {listed(faulty)}")
