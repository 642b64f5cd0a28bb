"""A worker that dies the first time it is asked, for the tests of what survives it."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

from p3iv.extraction import worker
from p3iv.extraction.request import EncodedVideo, EncodingSpec, VideoTask
from p3iv.extraction.worker import encode_group


def install() -> None:
    """Let the Ray engine ask such workers."""
    worker.encode_group = die_once


def die_once(tasks: Sequence[VideoTask], spec: EncodingSpec) -> list[EncodedVideo]:
    """The work, except for the first process that is asked for it."""
    try:
        Path(os.environ["P3IV_TEST_DIE_ONCE"]).touch(exist_ok=False)
    except FileExistsError:
        return encode_group(tasks, spec)
    os._exit(1)
