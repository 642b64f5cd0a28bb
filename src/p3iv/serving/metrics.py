"""Figures for Prometheus: requests by route, and what the service holds."""

from __future__ import annotations

from collections.abc import Callable

from prometheus_client import CONTENT_TYPE_LATEST, CollectorRegistry, Counter, Gauge, Histogram, generate_latest
from starlette.responses import Response

from p3iv.serving.service import Service

SECONDS = (0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0, 30.0)


class Metrics:
    """Counts answers, and reads the state of the service when it is asked."""

    def __init__(self, service: Service) -> None:
        self._service, self._registry = service, CollectorRegistry()
        labels = ("method", "route", "status")
        self._requests = Counter("p3iv_requests", "Answered requests", labels, registry=self._registry)
        self._seconds = Histogram(
            "p3iv_request_seconds", "Time to answer", ("route",), buckets=SECONDS, registry=self._registry
        )
        self._gauge("p3iv_ready", "1 when plans are answered", lambda: float(service.is_ready))
        self._gauge("p3iv_jobs_waiting", "Jobs that wait for a process", lambda: service.pool.waiting)
        self._gauge("p3iv_plans_waiting", "Plans that wait or are computed", self._plans_waiting)
        self._gauge(
            "p3iv_follows", "Videos that are followed", lambda: service.following.number if service.following else 0
        )
        self._gauge("p3iv_cached_rows", "Rows of features in memory", lambda: len(service.observer.cache))
        self._gauge(
            "p3iv_upload_bytes", "Disk space of uploads", lambda: float(service.media.library.uploads.used_bytes())
        )

    def _plans_waiting(self) -> int:
        return self._service.planning.requests.waiting if self._service.has_planner else 0

    def _num_followed(self) -> int:
        return self._service.following.number if self._service.has_planner else 0

    def count(self, method: str, route: str, status: int, seconds: float) -> None:
        """Count an answer."""
        self._requests.labels(method, route, str(status)).inc()
        self._seconds.labels(route).observe(seconds)

    async def response(self) -> Response:
        """All figures as text."""
        return Response(generate_latest(self._registry), media_type=CONTENT_TYPE_LATEST)

    def _gauge(self, name: str, about: str, read: Callable[[], float]) -> None:
        gauge = Gauge(name, about, registry=self._registry)
        gauge.set_function(lambda: read() if self._service.is_ready else 0.0)
