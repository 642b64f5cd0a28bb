"""Damaged inputs of every type: each is read, or refused with one of the project's own errors, in time and memory.

The inputs are read in child processes, some seconds at a time, so that a crash of a library is counted as well.
"""

from __future__ import annotations

import io
import json
import mmap
import os
import random
import resource
import shutil
import signal
import struct
import tempfile
import time
import traceback
from collections import Counter
from collections.abc import Sequence
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import dataclass, field
from multiprocessing.process import BaseProcess
from pathlib import Path

from p3iv.errors import P3ivError
from soak.inputs import InputType, files_of, input_types, make_examples
from soak.mutations import mutate
from soak.processes import Usage, limit_usage, start
from soak.report import Failure, Part

MAX_S, MAX_MB = 10, 2048
_LIMIT_MB = 2 * MAX_MB  # of new address space: above it, memory is refused
_BATCH_S = 2.0  # of one child
_SILENT_S = 60.0  # of one input, in a library that does not return
_MOST_KEPT = 3  # failures of one kind


class TookTooLongError(BaseException):
    """Not an Exception, so that no reader turns it into an answer."""


@dataclass(frozen=True)
class Input:
    """One damaged input: a file in the folder of examples with new content, or a text."""

    type: InputType
    path: str  # empty for a text
    content: bytes

    @classmethod
    def draw(cls, kind: InputType, folder: Path, seed: int, number: int) -> Input:
        rng = random.Random(f"{seed} {kind.name} {number}")
        if kind.texts:
            return cls(kind, "", mutate(rng, ".words", rng.choice(kind.texts).encode()))
        path = rng.choice(files_of(folder, kind.paths))
        return cls(kind, path, mutate(rng, Path(path).suffix, (folder / path).read_bytes()))

    def read(self, folder: Path) -> str:
        """`read` or `refused`; every other outcome is an exception."""
        text = self.path or self.content.decode("utf-8", "replace").replace("\0", "")
        before = (folder / self.path).read_bytes() if self.path else b""
        if self.path:
            self._write(folder, self.content)
        try:
            with redirect_stdout(io.StringIO()), redirect_stderr(io.StringIO()):
                self.type.read(folder, text)
        except P3ivError as error:
            if not str(error).strip() or len(str(error)) > 100_000:
                raise RuntimeError(f"a message of {len(str(error))} characters") from error
            return "refused"
        finally:
            if self.path:
                self._write(folder, before)
        return "read"

    def _write(self, folder: Path, content: bytes) -> None:
        """Write in place, with the old times: `extract` finds its work files by them."""
        path, times = folder / self.path, (folder / self.path).stat()
        path.write_bytes(content)
        os.utime(path, ns=(times.st_atime_ns, times.st_mtime_ns))


class _State:
    """What a child has done, in memory that its parent shares: it survives the child."""

    _FORM = struct.Struct("4Q")  # number of the input at hand, read, refused, failed

    def __init__(self, path: Path) -> None:
        if not path.exists():
            path.write_bytes(self._FORM.pack(0, 0, 0, 0))
        with path.open("r+b") as file:
            self._map = mmap.mmap(file.fileno(), self._FORM.size)

    def get(self) -> tuple[int, ...]:
        return self._FORM.unpack(self._map[: self._FORM.size])

    def set(self, *numbers: int) -> None:
        self._map[: self._FORM.size] = self._FORM.pack(*numbers)


def read_inputs(name: str, examples: Path, seed: int, numbers: range, results: Path) -> None:
    """Read the inputs with these numbers, or as many as some seconds allow; runs in a child."""
    (kind,) = (one for one in input_types() if one.name == name)
    folder = results / "folder"
    shutil.copytree(examples, folder)
    os.chdir(folder)
    state = _State(results / "state")
    limit_usage(Usage(cpu_s=3600, growth_mb=_LIMIT_MB))
    signal.signal(signal.SIGPROF, _raise_too_long)
    counts, end = {"read": 0, "refused": 0, "failed": 0}, time.process_time() + _BATCH_S
    for number in numbers:
        problem = _try(Input.draw(kind, examples, seed, number), folder, counts)
        if problem:
            with (results / "failures").open("a") as file:
                file.write(json.dumps([number, *problem]) + "\n")
        state.set(number + 1, *counts.values())
        if time.process_time() > end:
            return


def _try(drawn: Input, folder: Path, counts: dict[str, int]) -> tuple[str, str] | None:
    """The kind and the text of a failure, if it was one."""
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    signal.setitimer(signal.ITIMER_PROF, MAX_S)
    try:
        outcome = drawn.read(folder)
    except (Exception, TookTooLongError) as error:
        signal.setitimer(signal.ITIMER_PROF, 0)
        counts["failed"] += 1
        frames = traceback.extract_tb(error.__traceback__)
        own = [frame for frame in frames if "/p3iv/" in frame.filename] or frames
        where = f"{Path(own[-1].filename).name}:{own[-1].lineno}"
        return f"{type(error).__name__} {where}", "".join(traceback.format_exception(error))[-1500:]
    signal.setitimer(signal.ITIMER_PROF, 0)
    grown_mb = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 1024
    if grown_mb > MAX_MB:
        counts["failed"] += 1
        return "memory", f"{outcome}, but memory grew by {grown_mb:.0f} MB"
    counts[outcome] += 1
    return None


def _raise_too_long(*_: object) -> None:
    raise TookTooLongError(f"over {MAX_S} s of processor time")


def run_fuzz(part: Part, examples: Path, keep: Path, names: Sequence[str] = ()) -> None:
    """Read inputs of every type in turn; failures are written to the folder `keep`."""
    kinds = [kind for kind in input_types() if not names or kind.name in names]
    batches = {kind.name: _Batches(part, kind, examples, keep) for kind in kinds}
    while any(batch.number < part.size for batch in batches.values()):
        for batch in batches.values():
            if part.is_over:
                return
            if batch.number < part.size:
                batch.run()


@dataclass
class _Batches:
    """The inputs of one type; a child reads some of them at a time."""

    part: Part
    type: InputType
    examples: Path
    keep: Path
    number: int = 0  # of the next input
    seen: Counter[str] = field(default_factory=Counter)  # failures by their kind

    def run(self) -> None:
        """Start a child and watch it."""
        with tempfile.TemporaryDirectory(prefix="soak-") as folder:
            results = Path(folder)
            state = _State(results / "state")
            state.set(self.number, 0, 0, 0)
            inputs = range(self.number, int(min(self.part.size, self.number + 100_000)))
            child = start(read_inputs, self.type.name, self.examples, self.part.seed, inputs, results)
            exit_code = _watch(child, state)
            self.number, read, refused, failed = state.get()
            found = [json.loads(line) for line in _lines(results / "failures")]
        if exit_code != 0:
            hung = exit_code == -signal.SIGKILL
            what = f"no answer for {_SILENT_S:.0f} s" if hung else f"the process ended with {exit_code}"
            found.append([self.number, what, what])
            failed += 1
            self.number += 1
        self.part.count(self.type.name, inputs=read + refused + failed, read=read, refused=refused)
        for number, kind, text in found:
            self._fail(number, kind, text)

    def _fail(self, number: int, kind: str, text: str) -> None:
        """Count a failure; the first ones of a kind are written to files for `--replay`."""
        self.seen[kind] += 1
        if self.seen[kind] > _MOST_KEPT:
            self.part.count(self.type.name, failures=1)
            return
        drawn = Input.draw(self.type, self.examples, self.part.seed, number)
        self.keep.mkdir(parents=True, exist_ok=True)
        name = f"{self.type.name}@{drawn.path.replace('/', '@') or 'text'}".replace(" ", "_")
        path = self.keep / f"{self.part.seed}-{number}-{name}"
        path.write_bytes(drawn.content)
        replay = {"seed": self.part.seed, "number": number, "file": str(path)}
        self.part.fail(Failure(self.type.name, f"{kind}\n{text}", replay))


def _watch(child: BaseProcess, state: _State) -> int:
    """Wait for a child, and kill it when it does not come to its next input; its exit code."""
    number, since = -1, time.monotonic()
    while child.is_alive():
        child.join(0.2)
        if state.get()[0] != number:
            number, since = state.get()[0], time.monotonic()
        elif time.monotonic() - since > _SILENT_S:
            child.kill()
            child.join()
    return child.exitcode or 0


def replay(file: Path, work: Path) -> str:
    """Read a kept input again, in this process; an exception is the failure."""
    make_examples(work)
    name, _, path = file.name.split("-", 2)[2].partition("@")
    (kind,) = (kind for kind in input_types() if kind.name.replace(" ", "_") == name)
    paths = [one for one in files_of(work, kind.paths) if one.replace("/", "@") == path]
    os.chdir(work)
    return Input(kind, paths[0] if paths else "", file.read_bytes()).read(work)


def _lines(path: Path) -> list[str]:
    return path.read_text().splitlines() if path.exists() else []
