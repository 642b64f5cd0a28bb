"""A replica of the service on Ray Serve: one process with the whole application, and worker processes of its own."""

from __future__ import annotations

import asyncio
import json
import logging
import os
import re
import socket
from dataclasses import dataclass
from logging.handlers import DatagramHandler
from pathlib import Path
from typing import Final

from starlette.types import ASGIApp

from p3iv.errors import P3ivError
from p3iv.serving.app import make_app
from p3iv.serving.log import JsonLines, log_event, start_logging
from p3iv.serving.ray_flow import FlowingApp
from p3iv.serving.schema import InfoAnswer
from p3iv.serving.service import Service
from p3iv.serving.settings import ServiceSettings

_SEND_TIMEOUT_S: Final = 1.0  # for a line of the log; then it is dropped
_REASON: Final = re.compile(r"\[p3iv: (\".*?\")\]")


@dataclass(frozen=True)
class LogTarget:
    """Where the log of a replica goes."""

    level: str
    relay: Path  # a socket of the command; replicas on other machines do not have it and log to Ray's files


class StartError(Exception):
    """The service of a replica cannot start. Of an exception in a replica, Ray tells only the text."""

    def __init__(self, reason: str) -> None:
        super().__init__(f"[p3iv: {json.dumps(reason)}]")


def find_reason(text: str) -> str | None:
    """The reason of a StartError, from the text that Ray makes of it."""
    found = _REASON.search(text)
    return str(json.loads(found[1])) if found else None


class Replica:
    """What Ray Serve calls.

    Args:
        settings: of the service.
        log: where to write what happens.
    """

    def __init__(self, settings: ServiceSettings, log: LogTarget) -> None:
        _start_log(log)
        self._service = Service(settings)
        self._has_started = asyncio.Event()
        self._service.on_start = self._has_started.set

    def __serve_build_asgi_app__(self) -> ASGIApp:
        """Make the application; the service starts and stops with it."""
        return FlowingApp(make_app(self._service))

    async def check_health(self) -> None:
        """Raise an error if the service cannot answer. A replica gets requests after the first call of this.

        Raises:
            StartError: the planner cannot be loaded, or the service is being stopped.
        """
        is_first = not self._has_started.is_set()
        await self._has_started.wait()
        failure = self._service.failure
        if failure is not None:
            raise StartError(str(failure)) if isinstance(failure, P3ivError) else failure
        if not self._service.is_ready:
            raise StartError("The service is being stopped.")
        if is_first:
            log_event("started", process=os.getpid())

    async def info(self) -> InfoAnswer:
        """What the service can do."""
        return self._service.info()


class RelayHandler(DatagramHandler):
    """Sends lines to the command that started the service."""

    def __init__(self, relay: Path) -> None:
        super().__init__(str(relay), None)

    def makePickle(self, record: logging.LogRecord) -> bytes:  # noqa: N802 logging's name
        """The content of a datagram: a line."""
        return self.format(record).encode()

    def makeSocket(self) -> socket.socket:  # type: ignore[override]  # noqa: N802
        """A socket on which a command that does not read holds nothing up for long."""
        made = super().makeSocket()
        made.settimeout(_SEND_TIMEOUT_S)
        return made

    def handleError(self, record: logging.LogRecord) -> None:  # noqa: N802
        """Drop the line."""


def _start_log(log: LogTarget) -> None:
    from ray import serve

    handler = RelayHandler(log.relay) if log.relay.is_socket() else logging.StreamHandler()
    handler.setFormatter(JsonLines(replica=serve.get_replica_context().replica_id.unique_id))
    start_logging(log.level, handler)
