"""The service under malformed requests, under requests that its description allows, over a long time, and followed."""

from __future__ import annotations

import json
import random
import re
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import httpx

from soak.followers import Followers, make_following_run
from soak.raw_http import RawAnswer, exchange
from soak.report import Failure, Part
from soak.requests import Known, Sent, draw_malformed, make_known
from soak.service_process import TRACEBACK, ServiceProcess, Usage, running_service, wait_for
from soak.visits import Visits

NUMBER: Final = 10_000  # requests
FOLLOWED_SHARE: Final = 20  # one video is followed for so many requests
SCHEMA_S: Final = 30
MAX_GROWTH_MB: Final = 60.0  # of all processes; up to 42 MB are rows of features, which are kept on purpose
CLIENTS: Final = 16
DISK_MIB, KEEP_S = 20, 2

_HARSH = (
    "idle_s=1",
    "request_s=10",
    "jobs=1",
    f"disk_mib={DISK_MIB}",
    f"keep_s={KEEP_S}",
    "upload_mib=4",
    "waiting=32",
)
_REFUSED = ("busy", "too_long", "not_ready")  # as the code of 503


def run_service(part: Part, number: int = NUMBER) -> None:
    """Send requests of all kinds to services; failures hold the bytes that were sent."""
    for run in (run_described, run_malformed, run_day):
        with harsh_service() as service:
            run(part, service, number)
    with (
        tempfile.TemporaryDirectory(prefix="soak-") as folder,
        harsh_service(make_following_run(Path(folder))) as service,
    ):
        run_followers(part, service, number // FOLLOWED_SHARE)


def harsh_service(planner: Path | None = None) -> AbstractContextManager[ServiceProcess]:
    """A service with little time, little disk space and one process that encodes."""
    options = [word for limit in _HARSH for word in ("--limit", limit)]
    return running_service(*([str(planner)] if planner else []), "--metrics", *options)


def run_described(part: Part, service: ServiceProcess, number: int) -> None:
    """Requests that Schemathesis makes of /openapi.json, valid and invalid ones."""
    words = [sys.executable, "-m", "schemathesis.cli", "run", "--no-color", "--warnings", "off", "--checks", "all"]
    # The description cannot say which files are videos, or how many steps a plan has.
    words += ["--exclude-checks", "positive_data_acceptance", "--seed", str(part.seed)]
    words += ["--max-time", str(max(1, round(SCHEMA_S * number / NUMBER))), f"{service.url}/openapi.json"]
    with tempfile.TemporaryDirectory(prefix="soak-") as folder:
        done = subprocess.run(words, cwd=folder, capture_output=True, text=True, check=False)
    found = re.search(r"(\d+) generated", done.stdout)
    part.count("described requests", requests=int(found[1]) if found else 0)
    if done.returncode != 0 or not found:
        part.fail(Failure("described requests", done.stdout[-3000:] + done.stderr[-1000:], {"seed": part.seed}))
    _check_log(part, "described requests", service)


def run_malformed(part: Part, service: ServiceProcess, number: int) -> None:
    """Requests with something wrong with them: refused in the form of all errors, and nothing is left of them."""
    client = _Client(service)
    known, seen = client.known(), _Seen(part, "malformed requests", service)
    answer = client.answer(known)
    for numbers in _warm_up_and_rest(number):
        before = seen.settle()
        _in_threads(lambda at: seen.check(at, draw_malformed(random.Random(f"{part.seed} {at}"), known)), numbers)
    seen.compare(before)
    if client.answer(known) != answer:
        part.fail(Failure("malformed requests", "another answer afterwards", {"seed": part.seed}))
    _check_log(part, "malformed requests", service)


def run_day(part: Part, service: ServiceProcess, number: int) -> None:
    """Valid requests of all kinds, with uploads that live two seconds: as in a day, everything grows old many times."""
    known, seen = _Client(service).known(), _Seen(part, "a day", service)
    for numbers in _warm_up_and_rest(number):
        before = seen.settle()
        with Visits(service.url, known, part.seed) as visits:
            _in_threads(lambda at, visits=visits: seen.note(at, visits.pay(at)), numbers)  # type: ignore[misc]
    seen.compare(before)
    (uploads,) = service.folder.glob("p3iv-uploads-*")
    wait_for(lambda: [path.name for path in uploads.iterdir()] == ["in-use.lock"], "the end of all uploads", 20)
    _check_log(part, "a day", service)


def run_followers(part: Part, service: ServiceProcess, number: int) -> None:
    """Clients that follow videos, and stay or not."""
    seen = _Seen(part, "followers", service)
    for numbers in _warm_up_and_rest(number):
        before = seen.settle()
        with Followers(service.url, make_known("", ()).clip, part.seed) as followers:
            _in_threads(lambda at, followers=followers: seen.note(at, followers.pay(at)), numbers)  # type: ignore[misc]
        wait_for(lambda: _figure(service, "p3iv_follows") == 0, "the end of all videos", 30)
    seen.compare(before)
    _check_log(part, "followers", service)


def _figure(service: ServiceProcess, name: str) -> float:
    """One of the service's figures."""
    lines = httpx.get(f"{service.url}/metrics", timeout=60).text.splitlines()
    return next(float(line.split()[1]) for line in lines if line.startswith(f"{name} "))


def _warm_up_and_rest(number: int) -> tuple[range, range]:
    """Growth is measured over the second, when all is loaded."""
    return range(number // 10), range(number // 10, number)


@dataclass
class _Seen:
    """What came back, and what the service holds."""

    part: Part
    name: str
    service: ServiceProcess

    def check(self, at: int, sent: Sent) -> None:
        """Send something malformed, and see that the answers are those of a service that is well."""
        if not sent.waits:
            exchange(self.service.port, sent.content, wanted=0)
            self._count(requests=1, hung_up=1)
            return
        answers = exchange(self.service.port, sent.content)
        self._count(requests=1, **{f"status_{answer.status}": 1 for answer in answers}, silent=int(not answers))
        for problem in filter(None, (_problem_of(answer, sent.content) for answer in answers)):
            self._fail(problem, at, sent)

    def note(self, at: int, problem: str | None) -> None:
        """Count a valid request, and its problem if it had one."""
        self._count(requests=1)
        if problem:
            self._fail(problem, at, None)
        if at % 3 == 0 and (used := min(_upload_bytes(self.service) for _ in range(3))) > DISK_MIB << 20:
            self._fail(f"uploads take {used} bytes", at, None)

    def settle(self) -> Usage:
        """What the service holds when nobody asks anything."""
        wait_for(lambda: len(self.service.worker_pids()) == 1, "its worker", 60)
        seen: list[Usage] = []

        def is_quiet() -> bool:
            time.sleep(0.2)
            seen.append(self.service.usage())
            return len(seen) > 3 and len({usage.handles for usage in seen[-4:]}) == 1

        wait_for(is_quiet, "a quiet moment", 30)
        return seen[-1]

    def compare(self, before: Usage) -> None:
        """Handles, threads and processes are as before; memory is nearly so."""
        after = self.settle()
        growth_mb = after.resident_mb - before.resident_mb
        self._count(
            **{"before_mb": round(before.resident_mb), "after_mb": round(after.resident_mb)},
            **{"before_handles": before.handles, "after_handles": after.handles},
            **{"before_threads": before.threads, "after_threads": after.threads, "processes": after.processes},
        )
        if growth_mb > MAX_GROWTH_MB or after.handles > before.handles or after.processes > before.processes:
            self._fail(f"{before} before, {after} after", -1, None)
        if after.threads > before.threads + CLIENTS:  # those that read files end when they have been idle for a while
            self._fail(f"{before.threads} threads before, {after.threads} after", -1, None)

    def _count(self, **numbers: int) -> None:
        with _lock:
            self.part.count(self.name, **numbers)

    def _fail(self, problem: str, at: int, sent: Sent | None) -> None:
        replay: dict[str, Any] = {"seed": self.part.seed, "number": at}
        replay |= {"kind": sent.kind, "sent": repr(sent.content[:3000])} if sent else {}
        with _lock:
            self.part.fail(Failure(self.name, problem, replay))


_lock = threading.Lock()


class _Client:
    """Asks the service what it is asked before and after everything else."""

    def __init__(self, service: ServiceProcess) -> None:
        self._url = service.url

    def known(self) -> Known:
        """What valid requests name."""
        example = httpx.get(f"{self._url}/v1/info").json()["example"]
        question = {name: {"video": example["video"], "t": example[name]} for name in ("start", "goal")}
        plan = httpx.post(f"{self._url}/v1/plan", json=question, timeout=60).json()["plan"]
        return make_known(example["video"], tuple(plan))

    def answer(self, known: Known) -> dict[str, Any]:
        """Plans and samples, without times."""
        question = known.question | {"samples": 50, "seed": 5, "graph": "horizontal"}
        answer = httpx.post(f"{self._url}/v1/plan", json=question, timeout=60)
        return {**answer.json(), "timings": None, "status": answer.status_code}


def _problem_of(answer: RawAnswer, sent: bytes) -> str | None:
    """What is wrong with an answer to something malformed."""
    if TRACEBACK.encode() in answer.body:
        return "a traceback in an answer"
    if answer.status < 400:
        return None  # it was valid all the same
    if sent.startswith(b"HEAD "):
        return None if answer.status < 500 else f"status {answer.status}"
    try:
        code = answer.error["code"]
    except ValueError as error:
        return str(error)
    if answer.status >= 500 and not (answer.status == 503 and code in _REFUSED):
        return f"status {answer.status}: {answer.body[:300]!r}"
    return None


def _check_log(part: Part, name: str, service: ServiceProcess) -> None:
    """Nothing failed, and every line is an event."""
    for event in service.log():
        is_bad = event["event"] in ("failure", "text") or "exception" in event or event.get("status") == 500
        if is_bad:
            part.fail(Failure(name, f"in the log: {json.dumps(event)}", {"seed": part.seed}))


def _upload_bytes(service: ServiceProcess) -> int:
    """The size of all uploads; too much if one is deleted and another one written meanwhile."""
    sizes = []
    for path in service.folder.glob("p3iv-uploads-*/*"):
        try:
            sizes.append(path.stat().st_size)
        except FileNotFoundError:  # its time was over
            continue
    return sum(sizes)


def _in_threads(work: Callable[[int], None], numbers: range) -> None:
    with ThreadPoolExecutor(CLIENTS) as threads:
        for _ in threads.map(work, numbers):
            pass
