"""Services as processes of their own, which tests share: each takes two seconds to start."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import httpx
import pytest

from conftest import MakeOnce
from p3iv.data.folder import open_dataset
from p3iv.planner import Planner
from p3iv.shipped import shipped_clips, shipped_planner
from p3iv.training.loop import TrainRequest, train
from runs import quick
from soak.service_process import ServiceProcess, running_service

PLANNER = "tabletop-demo"
TOKEN = "a-token_of.tests~1"  # noqa: S105
SMALL_LIMITS = {
    **{"upload_mib": 1, "picture_mib": 1, "json_kib": 8, "upload_minutes": 1, "disk_mib": 3},
    **{"jobs": 1, "waiting": 1, "request_s": 4, "idle_s": 1, "job_memory_mib": 512},
}
PUBLIC_LIMITS = {"jobs": 1, "plans_per_minute": 3, "uploads_per_hour": 2}

OpenClient = Callable[..., httpx.Client]


def limit_options(limits: dict[str, int]) -> list[str]:
    return [word for name, number in limits.items() for word in ("--limit", f"{name}={number}")]


def figure(client: httpx.Client, name: str) -> float:
    """One of the service's figures."""
    (line,) = [line for line in client.get("/metrics").text.splitlines() if line.startswith(f"{name} ")]
    return float(line.split()[1])


@pytest.fixture(scope="session")
def service() -> Iterator[ServiceProcess]:
    """`p3iv serve` with its defaults, but for one process that encodes and with metrics."""
    with running_service("--limit", "jobs=1", "--metrics") as started:
        yield started


@pytest.fixture
def client(service: ServiceProcess) -> Iterator[httpx.Client]:
    """Asks the default service."""
    with httpx.Client(base_url=service.url, timeout=60) as opened:
        yield opened


@pytest.fixture(scope="session")
def strict() -> Iterator[ServiceProcess]:
    """A service on this machine with small limits and a given token."""
    with running_service("--token", TOKEN, "--metrics", *limit_options(SMALL_LIMITS)) as started:
        yield started


@pytest.fixture
def strict_client(strict: ServiceProcess) -> Iterator[httpx.Client]:
    """Asks the service with small limits, with its token."""
    headers = {"Authorization": f"Bearer {TOKEN}"}
    with httpx.Client(base_url=strict.url, timeout=60, headers=headers) as opened:
        yield opened


@pytest.fixture(scope="session")
def public() -> Iterator[ServiceProcess]:
    """A service that other machines can reach; it makes its token itself."""
    options = ("--host", "0.0.0.0", "--allow-name", "Kitchen.example")  # noqa: S104
    with running_service(*options, *limit_options(PUBLIC_LIMITS)) as started:
        yield started


@pytest.fixture
def public_token(public: ServiceProcess) -> str:
    return public.address.partition("#token=")[2]


@pytest.fixture
def public_client(public: ServiceProcess) -> Iterator[OpenClient]:
    """Opens clients of the public service, each from an address of its own, so that tests do not share limits."""
    with ExitStack() as opened:

        def open_client(address: str, token: str = "") -> httpx.Client:
            headers = {"Authorization": f"Bearer {token}"} if token else {}
            transport = httpx.HTTPTransport(local_address=address)
            return opened.enter_context(
                httpx.Client(base_url=public.url, transport=transport, headers=headers, timeout=60)
            )

        yield open_client


@pytest.fixture(scope="session")
def queries_run(make_once: MakeOnce, demo: Path) -> Path:
    """A run of P3IV+ for one to six steps on the videos of the demo: it knows words, procedures and history."""
    config = quick("p3iv-plus", data__horizon=6, data__min_horizon=1)
    return make_once("queries_run", lambda run: train(TrainRequest(open_dataset(demo / "tabletop"), run, config)))


@pytest.fixture(scope="session")
def queries_service(queries_run: Path) -> Iterator[ServiceProcess]:
    """A service whose planner understands all evidence."""
    with running_service(str(queries_run), "--limit", "jobs=1", "--metrics") as started:
        yield started


@pytest.fixture
def queries_client(queries_service: ServiceProcess) -> Iterator[httpx.Client]:
    """Asks the service whose planner understands all evidence."""
    with httpx.Client(base_url=queries_service.url, timeout=60) as opened:
        yield opened


@pytest.fixture(scope="session")
def stored_service(query_run: Path) -> Iterator[ServiceProcess]:
    """A service whose planner understands all evidence; of its videos there are only features, of every second."""
    with running_service(str(query_run), "--limit", "jobs=1") as started:
        yield started


@pytest.fixture(scope="session")
def planner() -> Planner:
    """The planner of the default service, in this process."""
    return Planner.from_pretrained(PLANNER)


@pytest.fixture(scope="session")
def clip() -> Path:
    """A video that comes with the planner."""
    assert shipped_planner(PLANNER) is not None
    return shipped_clips(PLANNER)[0].path
