"""Child processes, for which p3iv is imported once; a child can be disturbed before its n-th change of a file."""

from __future__ import annotations

import errno
import itertools
import json
import multiprocessing
import os
import pkgutil
import resource
import signal
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from multiprocessing import forkserver
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any, Protocol, Self

import p3iv
from p3iv.cli.app import main

TIMEOUT_S = 120.0

context = multiprocessing.get_context("forkserver")
# Imported once for all children; torch imports its compiler when the first optimizer is made.
_MODULES = [module.name for module in pkgutil.walk_packages(p3iv.__path__, "p3iv.") if "__main__" not in module.name]
context.set_forkserver_preload([*_MODULES, "torch._dynamo", "soak.parts"])

_WRITES = os.O_WRONLY | os.O_RDWR | os.O_CREAT
_TAKE_ROOM = ("open", "os.mkdir", "os.link", "os.symlink")
_MOVES = ("os.rename", "os.remove", "os.mkdir", "os.rmdir", "os.link", "os.symlink", "os.truncate")


@dataclass(frozen=True)
class Change:
    """A change of a file that is about to happen."""

    number: int  # from 1
    event: str  # as Python's audit events are called
    path: Path
    destination: Path | None = None  # of a move


class Hook(Protocol):
    """Called in a child before every change of a file below `folder`."""

    @property
    def folder(self) -> Path: ...

    def __call__(self, change: Change) -> None: ...


@dataclass(frozen=True)
class KillAt:
    """Kills the process before its n-th change."""

    folder: Path
    number: int

    def __call__(self, change: Change) -> None:
        if change.number == self.number:
            os.kill(os.getpid(), signal.SIGKILL)


@dataclass(frozen=True)
class FullAt:
    """A disk that is full from the n-th change on; files can still be moved and deleted."""

    folder: Path
    number: int

    def __call__(self, change: Change) -> None:
        if change.number >= self.number and change.event in _TAKE_ROOM:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(change.path))


@dataclass(frozen=True)
class Usage:
    """What a child used after its start."""

    cpu_s: float
    growth_mb: float  # of the largest resident size

    @classmethod
    def now(cls) -> Self:
        used = resource.getrusage(resource.RUSAGE_SELF)
        return cls(used.ru_utime + used.ru_stime, used.ru_maxrss / 1024)

    def since(self, before: Usage) -> Usage:
        return Usage(self.cpu_s - before.cpu_s, self.growth_mb - before.growth_mb)


@dataclass(frozen=True)
class Ended:
    """How a command ended."""

    words: tuple[str, ...]
    exit_code: int  # minus the number of the signal that ended it
    stdout: str
    stderr: str
    usage: Usage | None  # None if it was killed

    @property
    def problem(self) -> str | None:
        """What a command must never do, if it did it."""
        before_start = "KeyboardInterrupt" in self.stderr and "cli/app.py" not in self.stderr
        if "Traceback (most recent call last)" in self.stderr and not before_start:
            return "a traceback:\n" + self.stderr[-2000:]
        if self.exit_code < 0 and -self.exit_code not in (signal.SIGKILL, signal.SIGTERM, signal.SIGINT):
            return f"ended by signal {-self.exit_code}"
        return None


class Command:
    """`p3iv WORDS...` in a child process."""

    def __init__(self, folder: Path, *words: str | Path, hook: Hook | None = None, limit: Usage | None = None) -> None:
        self.words = tuple(map(str, words))
        self._results = tempfile.TemporaryDirectory(prefix="soak-")
        results = Path(self._results.name)
        self.process = start(_run_main, folder, self.words, results, hook, limit)

    def send(self, number: signal.Signals) -> None:
        """Send a signal, unless it has ended; Python itself must have started."""
        while self.process.is_alive() and not (Path(self._results.name) / "stderr").exists():
            time.sleep(0.01)
        if self.process.is_alive() and self.process.pid is not None:
            os.kill(self.process.pid, number)

    def end(self, timeout_s: float = TIMEOUT_S) -> Ended:
        """Wait until it has ended; one that does not end in time is killed and counts as ended by SIGALRM."""
        self.process.join(timeout_s)
        late = self.process.is_alive()
        if late:
            self.process.kill()
            self.process.join()
        results = Path(self._results.name)
        texts = {name: _read(results / name) for name in ("stdout", "stderr", "usage")}
        self._results.cleanup()
        usage = Usage(**json.loads(texts["usage"])) if texts["usage"] else None
        code = -signal.SIGALRM if late else self.process.exitcode or 0
        return Ended(self.words, code, texts["stdout"], texts["stderr"], usage)


def start(target: Callable[..., object], *args: Any, **settings: Any) -> BaseProcess:
    """Start a function of an importable module as a child process."""
    process = context.Process(target=target, args=args, kwargs=settings)
    process.start()
    return process


def run_p3iv(folder: Path, *words: str | Path, hook: Hook | None = None, limit: Usage | None = None) -> Ended:
    """Run `p3iv WORDS...` to its end; a signal ends it when it takes more than the limit."""
    return Command(folder, *words, hook=hook, limit=limit).end()


def cpu_seconds() -> float:
    """The processor time of all children that have ended: they are children of the fork server."""
    pid = getattr(forkserver, "_forkserver")._forkserver_pid  # noqa: B009
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split() if pid else ["0"] * 20
    return sum(map(int, fields[11:15])) / os.sysconf("SC_CLK_TCK")


def limit_usage(limit: Usage) -> None:
    """Let the system end this process, or refuse it memory, at a limit beyond what it has used so far."""
    used = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    memory, seconds = used + (int(limit.growth_mb) << 20), int(Usage.now().cpu_s + limit.cpu_s) + 1
    resource.setrlimit(resource.RLIMIT_AS, (memory, memory))
    resource.setrlimit(resource.RLIMIT_CPU, (seconds, seconds))


def kill_at_every_change(folder: Path, function: Callable[..., object], *args: Any, **settings: Any) -> Iterator[int]:
    """Call the function again and again, killed before its 1st, 2nd, ... change of a file below `folder`.

    Yields the number of the change after every kill, and ends when a call comes to its own end.
    """
    for number in itertools.count(1):
        process = start(_call_watched, KillAt(folder, number), partial(function, *args, **settings))
        process.join(TIMEOUT_S)
        if process.exitcode not in (0, -signal.SIGKILL):
            raise RuntimeError(f"The call ended with exit code {process.exitcode}; its error is above.")
        if process.exitcode == 0:
            return
        yield number


def changed_path(event: str, details: Sequence[Any]) -> Path | None:
    """The path that is about to be opened for writing, moved, made or deleted, if an audit event is about that."""
    if event == "open" and isinstance(details[0], str) and details[2] & _WRITES:
        path = Path(details[0])
        return None if path.suffix == ".part" and path.exists() else path  # nobody reads an unfinished file
    if event not in _MOVES:
        return None
    at = details[-1]  # a folder handle, which shutil.rmtree uses
    above = Path() if not isinstance(at, int) or at == -1 else Path(f"/proc/self/fd/{at}").readlink()
    return above / str(details[0])


def _call_watched(hook: Hook, function: Callable[[], object]) -> None:
    numbers = itertools.count(1)

    def on_event(event: str, details: Sequence[Any]) -> None:
        path = changed_path(event, details)
        if path is not None and path.absolute().is_relative_to(hook.folder):
            destination = Path(details[1]) if event == "os.rename" else None
            hook(Change(next(numbers), event, path, destination))

    sys.addaudithook(on_event)
    function()


def _run_main(folder: Path, words: Sequence[str], results: Path, hook: Hook | None, limit: Usage | None) -> None:
    """Run the command line; what it prints goes to files, also what C libraries print."""
    os.chdir(folder)
    sys.argv = ["p3iv", *words]
    for number, name in ((1, "stdout"), (2, "stderr")):
        os.dup2(os.open(results / name, os.O_CREAT | os.O_WRONLY), number)
    if limit is not None:
        limit_usage(limit)
    before = Usage.now()
    try:
        if hook is None:
            main()
        else:
            _call_watched(hook, main)
    finally:
        (results / "usage").write_text(json.dumps(asdict(Usage.now().since(before))))


def _read(path: Path) -> str:
    return path.read_text(encoding="utf-8", errors="replace") if path.exists() else ""
