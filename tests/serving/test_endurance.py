"""A share of the soak of the service with a fixed seed: malformed requests, and a day of requests and uploads."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from soak.report import Part
from soak.service import harsh_service, run_day, run_malformed
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
