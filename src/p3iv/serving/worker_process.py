"""What runs in a worker process: set up once, confine itself, then do one job after another.

The process reads pickled jobs from its parent, which it trusts, and answers with a plain value, because the parent does
not trust it. An answer is one of

    ("result", value)
    ("error", class, arguments, message)    a P3ivError
    ("failed", class)                       any other exception; its message may hold the name of a file
    ("memory",)                             there was not enough memory
"""

from __future__ import annotations

import ctypes
import os
import pickle
import re
import resource
import signal
import socket
import stat
import sys
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Final, TypeVar

from p3iv.errors import P3ivError
from p3iv.parallel import follow_parent
from p3iv.serving.plain_values import pack_value

Argument = TypeVar("Argument")

LENGTH_BYTES: Final = 8  # before each job and each answer
OUT_OF_CPU_TIME: Final = signal.SIGPROF  # ends a process whose job has used its CPU time

_NO_MEMORY: Final = re.compile("can't allocate memory|bad_alloc|[Ff]ailed to allocate")  # of torch and onnxruntime

_MAX_OPEN_FILES: Final = 64
_PR_SET_NO_NEW_PRIVS: Final = 38  # of linux/prctl.h


def serve_jobs(
    channel: socket.socket, parent: int, set_up: Callable[[], object], memory_bytes: int, cpu_s: float
) -> None:
    """Do the jobs that come through the channel until it is closed. The first answer is that of `set_up`."""
    follow_parent(parent)
    signal.signal(OUT_OF_CPU_TIME, signal.SIG_DFL)
    with suppress(OSError), channel, channel.makefile("rb") as jobs:  # OSError: the parent is gone
        answer = _answer(_discard_result, set_up)
        _confine(memory_bytes)
        _send(channel, answer)
        while job := jobs.read(int.from_bytes(jobs.read(LENGTH_BYTES), "big")):
            # RLIMIT_CPU counts from the start of the process, with a clock that was 10 % ahead of getrusage after 5 s.
            signal.setitimer(signal.ITIMER_PROF, cpu_s)
            answer = _answer(_do_job, job)
            signal.setitimer(signal.ITIMER_PROF, 0)
            _send(channel, answer)


def _send(channel: socket.socket, answer: bytes) -> None:
    channel.sendall(len(answer).to_bytes(LENGTH_BYTES, "big"))
    channel.sendall(answer)


def _discard_result(set_up: Callable[[], object]) -> None:
    set_up()


def _do_job(job: bytes) -> object:
    work, args = pickle.loads(job)  # noqa: S301 - from the parent
    return work(*args)


def _answer(work: Callable[[Argument], object], argument: Argument) -> bytes:
    """The packed result of some work, or what became of it."""
    try:
        return pack_value(("result", work(argument)))
    except Exception as error:
        if _is_lack_of_memory(error):
            return pack_value(("memory",))
        if isinstance(error, P3ivError):
            return pack_value(("error", type(error).__name__, tuple(map(str, error.args)), str(error)))
        return pack_value(("failed", type(error).__name__))


def _is_lack_of_memory(error: BaseException | None) -> bool:
    """Whether an error, or one that led to it, is a MemoryError or what torch and onnxruntime raise in its place."""
    while error is not None:
        if isinstance(error, MemoryError) or (isinstance(error, RuntimeError) and _NO_MEMORY.search(str(error))):
            return True
        error = error.__cause__ or error.__context__
    return False


def _confine(memory_bytes: int) -> None:
    """Limit what this process can do from now on, and what an attacker can do who takes it over."""
    _discard_output_to_files()
    _lower_limit(resource.RLIMIT_CORE, 0)
    _lower_limit(resource.RLIMIT_FSIZE, 0)
    _lower_limit(resource.RLIMIT_NOFILE, _MAX_OPEN_FILES)
    if sys.platform == "linux":
        _lower_limit(resource.RLIMIT_DATA, _data_bytes() + memory_bytes)
        ctypes.CDLL(None).prctl(_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)


def _discard_output_to_files() -> None:
    """Let a library print although no file can be written: what would go to a file is thrown away."""
    with Path(os.devnull).open("wb") as nothing:
        for output in (1, 2):
            with suppress(OSError):  # it is closed
                if stat.S_ISREG(os.fstat(output).st_mode):
                    os.dup2(nothing.fileno(), output)


def _lower_limit(kind: int, value: int) -> None:
    _, hard = resource.getrlimit(kind)
    value = value if hard == resource.RLIM_INFINITY else min(value, hard)
    resource.setrlimit(kind, (value, value))


def _data_bytes() -> int:
    """The memory of this process that counts for RLIMIT_DATA."""
    status = Path("/proc/self/status").read_text(encoding="utf-8")
    [kilobytes] = [line.split()[1] for line in status.splitlines() if line.startswith("VmData:")]
    return 1024 * int(kilobytes)
