"""`p3iv serve` as a process of its own, for tests of the service and of its page, and for the soak.

with running_service("--limit", "jobs=1") as service:
    httpx.get(f"{service.url}/healthz")
    service.log()  # what it has written down so far

The end of the block stops it as a user would, with SIGTERM, and checks that nothing is left of it.
"""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

START_S, STOP_S = 60.0, 20.0
TRACEBACK = "Traceback (most recent call last)"


@dataclass(frozen=True)
class Usage:
    """What the processes of a service hold together."""

    resident_mb: float
    handles: int
    threads: int
    processes: int


class ServiceProcess:
    """A service that has been started; use `running_service`, which also ends it.

    Args:
        folder: an empty folder, in which the service runs and has its temporary files.
        options: of `p3iv serve`. Without a port, any free one is taken.
    """

    def __init__(self, folder: Path, options: tuple[str, ...]) -> None:
        self.folder, self._given_address = folder, ""
        words = [sys.executable, "-m", "p3iv", "serve", *options]
        words += [] if "--port" in options else ["--port", "0"]
        environment = {**os.environ, "TMPDIR": str(folder), "OMP_NUM_THREADS": "1"}
        with (folder / "stdout").open("wb") as stdout, (folder / "stderr").open("wb") as stderr:
            self._process = subprocess.Popen(words, cwd=folder, env=environment, stdout=stdout, stderr=stderr)

    @property
    def pid(self) -> int:
        """The process that answers requests; its children decode and encode."""
        return self._process.pid

    @property
    def address(self) -> str:
        """What a user would open in a browser, with the token if there is one: http://127.0.0.1:PORT/#token=..."""
        if not self._given_address:
            self.wait_until_ready()
        return self._given_address

    @property
    def url(self) -> str:
        """The address without a path: http://127.0.0.1:PORT."""
        return self.address.partition("/#")[0].rstrip("/")

    @property
    def port(self) -> int:
        """The port that it listens at."""
        return urlsplit(self.address).port or 0

    @property
    def printed(self) -> str:
        """Everything on standard output and standard error so far."""
        return "".join((self.folder / name).read_text("utf-8", "replace") for name in ("stdout", "stderr"))

    def log(self) -> list[dict[str, Any]]:
        """The events that it has written down so far. A line that is not JSON is an event `text`."""
        lines = (self.folder / "stderr").read_text("utf-8", "replace").splitlines()
        return [_parse_line(line) for line in lines if not line.startswith("loading ")]

    def wait_until_ready(self) -> None:
        """Wait for the address.

        Raises:
            RuntimeError: the service has ended, or takes too long.
        """
        wait_for(lambda: self._find_address() or self._process.poll() is not None, "the start of the service", START_S)
        if not self._find_address():
            raise RuntimeError(f"p3iv serve ended with {self._process.returncode}:\n{self.printed}")

    def pids(self) -> list[int]:
        """The process and those below it."""
        return [self.pid, *_descendants(self.pid)]

    def worker_pids(self) -> list[int]:
        """The processes that decode and encode."""
        commands = {pid: Path(f"/proc/{pid}/cmdline").read_bytes() for pid in _descendants(self.pid)}
        return [pid for pid, command in commands.items() if b"spawn_main" in command]

    def usage(self) -> Usage:
        """What its processes hold now."""
        found = [each for each in map(_usage_of, self.pids()) if each]
        return Usage(
            sum(each.resident_mb for each in found),
            sum(each.handles for each in found),
            sum(each.threads for each in found),
            len(found),
        )

    def stop(self) -> list[str]:
        """End it with SIGTERM, and return what is wrong with its end: nothing, usually."""
        pids = self.pids()
        self._process.send_signal(signal.SIGTERM)  # nothing happens if it has ended already
        try:
            self._process.wait(STOP_S)
        except subprocess.TimeoutExpired:
            self.kill()
            return [f"it did not end within {STOP_S:g} seconds"]
        problems = [] if self._process.returncode == 0 else [f"exit code {self._process.returncode}"]
        problems += [f"process {pid} is left" for pid in pids if not _has_ended(pid)]
        problems += [f"{path.name} is left" for path in self.folder.glob("p3iv-uploads-*")]
        problems += ["a traceback was printed"] if TRACEBACK in self.printed else []
        return [*problems, self.printed[-5000:]] if problems else []

    def kill(self) -> None:
        """End it at once, without a check."""
        for pid in reversed(self.pids()):
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        self._process.wait()

    def _find_address(self) -> bool:
        found = re.search(r"^Open (\S+)", (self.folder / "stdout").read_text("utf-8"), re.MULTILINE)
        self._given_address = found[1] if found else ""
        return found is not None


@contextmanager
def running_service(*options: str, wait: bool = True) -> Iterator[ServiceProcess]:
    """Run `p3iv serve OPTIONS...` during a block.

    Args:
        *options: such as "--limit", "jobs=1"; the port is chosen by the system, unless it is given.
        wait: until plans are answered.

    Raises:
        RuntimeError: it did not start, or did not end as it should.
    """
    with tempfile.TemporaryDirectory(prefix="service-") as folder:
        service = ServiceProcess(Path(folder), options)
        try:
            if wait:
                service.wait_until_ready()
            yield service
        except BaseException:
            service.kill()
            raise
        if problems := service.stop():
            raise RuntimeError("\n".join(problems))


def wait_for(is_so: Callable[[], object], what: str, seconds: float = 10.0) -> None:
    """Wait until something is so.

    Raises:
        RuntimeError: naming `what` was waited for in vain.
    """
    end = time.monotonic() + seconds
    while not is_so():
        if time.monotonic() > end:
            raise RuntimeError(f"waited {seconds:g} s for {what}")
        time.sleep(0.02)


def _parse_line(line: str) -> dict[str, Any]:
    with suppress(ValueError):
        if isinstance(event := json.loads(line), dict):
            return event
    return {"event": "text", "text": line}


def _descendants(pid: int) -> Iterator[int]:
    """The children of a process, their children, and so on."""
    with suppress(OSError):
        for task in Path(f"/proc/{pid}/task").iterdir():
            for child in map(int, (task / "children").read_text().split()):
                yield child
                yield from _descendants(child)


def _has_ended(pid: int) -> bool:
    """Whether a process ends within a few seconds."""
    with suppress(RuntimeError):
        wait_for(lambda: _usage_of(pid) is None, "its end", 5)
        return True
    return False


def _usage_of(pid: int) -> Usage | None:
    """What one process holds; None if it has ended."""
    try:
        status = dict(line.split(":", 1) for line in Path(f"/proc/{pid}/status").read_text().splitlines())
        if "VmRSS" not in status:  # it has ended, and its parent has not asked for its exit code
            return None
        handles = len(list(Path(f"/proc/{pid}/fd").iterdir()))
    except OSError:
        return None
    return Usage(int(status["VmRSS"].split()[0]) / 1024, handles, int(status["Threads"]), 1)
