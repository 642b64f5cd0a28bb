"""A worker that dies on its first task, to test that the extraction survives it."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

from p3iv.extraction import worker
from p3iv.extraction.request import EncodedVideo, EncodingSpec, VideoTask
from p3iv.extraction.worker import encode_group


def install() -> None:
    """Make the Ray engine use such workers."""
    worker.encode_group = die_once


def die_once(tasks: Sequence[VideoTask], spec: EncodingSpec) -> list[EncodedVideo]:
    """Encode the tasks, except in the first process, which dies."""
    try:
        Path(os.environ["P3IV_TEST_DIE_ONCE"]).touch(exist_ok=False)
    except FileExistsError:
        return encode_group(tasks, spec)
    os._exit(1)
