"""Structured logs: one line of JSON per event, without file names, texts of users, or tracebacks."""

from __future__ import annotations

import json
import logging
import sys
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any, TextIO

LOGGER = logging.getLogger("p3iv.serving")


class JsonLines(logging.Formatter):
    """An event as one line of JSON; the message of other libraries as its text.

    Args:
        more: what every line says, too.
    """

    def __init__(self, **more: object) -> None:
        super().__init__()
        self._more = more

    def format(self, record: logging.LogRecord) -> str:
        """One line; an exception is named by its type and the place in our code where it passed last."""
        when = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(record.created))
        content: dict[str, Any] = {
            "time": f"{when}.{int(record.msecs):03d}Z",
            "level": record.levelname.lower(),
            **self._more,
        }
        content |= getattr(record, "event", None) or {
            "event": "log",
            "logger": record.name,
            "text": record.getMessage(),
        }
        if record.exc_info and record.exc_info[1] is not None:
            content |= describe_exception(record.exc_info[1])
        return json.dumps(content, ensure_ascii=True, default=str)


def describe_exception(error: BaseException) -> dict[str, Any]:
    """The type of an exception and the line of p3iv that raised it or called what did; its text may name a file."""
    place, frame = "", error.__traceback__
    while frame is not None:
        module = str(frame.tb_frame.f_globals.get("__name__", ""))
        if module.partition(".")[0] == "p3iv":
            place = f"{module}:{frame.tb_lineno}"
        frame = frame.tb_next
    return {"exception": type(error).__name__, "place": place}


def log_event(event: str, *, level: int = logging.INFO, **content: Any) -> None:
    """Write an event down."""
    if LOGGER.isEnabledFor(level):
        LOGGER.log(level, event, extra={"event": {"event": event, **content}})


def log_failure(error: BaseException, **content: Any) -> None:
    """Write an unexpected exception down."""
    log_event("failure", level=logging.ERROR, **content, **describe_exception(error))


def start_logging(level: str, handler: logging.Handler | None = None) -> None:
    """Send the events of the service, what uvicorn and asyncio say, and warnings of libraries to standard error.

    Args:
        level: the least important events that are logged.
        handler: where else they go.
    """
    if handler is None:
        handler = logging.StreamHandler(sys.stderr)
        handler.setFormatter(JsonLines())
    for name in (LOGGER.name, "uvicorn", "uvicorn.error", "asyncio"):
        logger = logging.getLogger(name)
        logger.handlers, logger.propagate = [handler], False
        logger.setLevel(level.upper() if name == LOGGER.name else logging.WARNING)
    warnings.showwarning = _log_warning


def set_up_with_log(set_up: Callable[[], object], level: int) -> None:
    """Set up a worker process that writes lines as the service does."""
    start_logging(logging.getLevelName(level))
    set_up()


def _log_warning(  # noqa: PLR0917 as in Python's own
    message: Warning | str,
    category: type[Warning],
    filename: str,
    lineno: int,
    file: TextIO | None = None,  # noqa: ARG001
    line: str | None = None,  # noqa: ARG001
) -> None:
    place = f"{Path(filename).name}:{lineno}"
    log_event("warning", level=logging.WARNING, kind=category.__name__, text=str(message), place=place)
