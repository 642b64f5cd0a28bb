"""A share of the soak of the service with a fixed seed: malformed requests, a day of requests, clients that follow."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from soak.report import Part
from soak.service import harsh_service, run_day, run_followers, run_malformed
from soak.service_process import ServiceProcess

SEED = 16


@pytest.fixture(scope="module")
def harsh() -> Iterator[ServiceProcess]:
    with harsh_service() as started:
        yield started


def test_malformed_requests_are_refused_and_leave_nothing(harsh: ServiceProcess) -> None:
    part = Part(SEED)
    run_malformed(part, harsh, 400)
    assert part.failures == []
    total = part.to_dict()["total"]
    assert total["requests"] == 400
    assert total["status_400"] > 50
    assert total["hung_up"] > 10


def test_a_day_of_requests_leaves_nothing(harsh: ServiceProcess) -> None:
    part = Part(SEED)
    run_day(part, harsh, 200)
    assert part.failures == []
    assert part.to_dict()["total"]["requests"] == 200


def test_clients_that_follow_videos_leave_nothing(queries_run: Path) -> None:
    part = Part(SEED)
    with harsh_service(queries_run) as started:
        run_followers(part, started, 60)
    assert part.failures == []
    assert part.to_dict()["total"]["requests"] == 60
