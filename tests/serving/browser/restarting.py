"""A service that is stopped and started again while a page is open."""

from __future__ import annotations

from contextlib import ExitStack
from pathlib import Path

import httpx

from soak.service_process import running_service, wait_for


class RestartableService:
    """A service that can be stopped, and started again at the same port."""

    def __init__(self, run: Path) -> None:
        self._run, self._running = run, ExitStack()
        self.port = 0
        self.start()

    def start(self) -> None:
        """Start it, at the port of the first start, and wait until it is ready."""
        service = self._running.enter_context(running_service(str(self._run), "--port", str(self.port)))
        self.port, self.url = service.port, service.url

    def begin_start(self) -> None:
        """Start it again, and wait until it answers, though not yet with plans."""
        self._running.enter_context(running_service(str(self._run), "--port", str(self.port), wait=False))
        wait_for(self._answers, "an answer", 60)

    def _answers(self) -> bool:
        try:
            return httpx.get(f"{self.url}/healthz").is_success
        except httpx.TransportError:
            return False

    def stop(self) -> None:
        """Stop it; its port then refuses connections."""
        self._running.close()
