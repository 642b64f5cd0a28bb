"""The threads of torch during one call."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from p3iv.errors import ConfigError


@contextmanager
def torch_unchanged(threads: int | None = None) -> Iterator[None]:
    """Use so many threads of torch inside; afterwards its threads and random numbers are as before."""
    import torch  # takes a second to import

    if threads is not None and threads < 1:
        raise ConfigError(f"--threads {threads}, but it must be at least 1.")
    before = torch.get_num_threads()
    try:
        with torch.random.fork_rng(devices=range(torch.cuda.device_count())):
            if threads is not None:
                torch.set_num_threads(threads)
            yield
    finally:
        if torch.get_num_threads() != before:
            torch.set_num_threads(before)
