"""Errors of the service: each has a code, an HTTP status and a sentence."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from http import HTTPStatus
from pathlib import Path

from starlette.responses import JSONResponse

from p3iv.errors import FeatureError, P3ivError
from p3iv.serving.log import log_failure
from p3iv.serving.schema import ErrorAnswer, ErrorFacts
from p3iv.serving.workers import JobTooLongError, QueueFullError
from p3iv.types import UNFIT

CODES = {
    400: "bad_request",
    401: "unauthorized",
    403: "forbidden",
    404: "not_found",
    405: "method_not_allowed",
    408: "too_slow",
    409: "conflict",
    413: "too_large",
    415: "unsupported_media",
    416: "bad_range",
    422: "cannot_plan",
    428: "precondition_required",
    429: "too_many_requests",
    500: "internal",
    503: "busy",
}


SENTENCES = {  # of errors that have no words of their own
    404: "There is no such route.",
    405: "This route does not take that method.",
    416: "The file does not have these bytes.",
    500: "The service failed; this was logged.",
}


class ServiceError(P3ivError):
    """A request that is refused.

    Args:
        status: of HTTP.
        message: the sentence for the user.
        hint: what to do, where the message does not say it.
        code: a name for programs; by default that of the status.
        retry_after_s: when to ask again, where waiting helps.
        closes: whether the connection is closed, because its next bytes may not be the next request.
    """

    def __init__(
        self,
        status: int,
        message: str,
        hint: str | None = None,
        *,
        code: str = "",
        retry_after_s: int | None = None,
        closes: bool = False,
    ) -> None:
        super().__init__(message)
        self.status, self.hint = status, hint
        self.code = code or CODES.get(status, HTTPStatus(status).name.lower())
        self.headers = {} if retry_after_s is None else {"Retry-After": str(retry_after_s)}
        self.headers |= {"Connection": "close"} if closes else {}

    @property
    def content(self) -> ErrorAnswer:
        return ErrorAnswer(error=ErrorFacts(code=self.code, message=_printable(str(self)), hint=self.hint))

    def response(self) -> JSONResponse:
        return JSONResponse(self.content.model_dump(), self.status, self.headers)


def as_service_error(error: Exception) -> ServiceError:
    """Any error as one of the service; what is not expected is written down and not told."""
    if isinstance(error, ServiceError):
        return error
    if isinstance(error, QueueFullError):
        return ServiceError(503, str(error), retry_after_s=2)
    if isinstance(error, JobTooLongError):
        return ServiceError(503, str(error), code="too_long", retry_after_s=5)
    if isinstance(error, P3ivError):
        return ServiceError(422, str(error))
    log_failure(error)
    return error_of_status(500)


def error_of_status(status: int) -> ServiceError:
    """An error of which only the status is known."""
    return ServiceError(status, SENTENCES.get(status, "The request cannot be read."))


def not_found(what: str) -> ServiceError:
    """There is nothing of this id."""
    return ServiceError(404, f"There is no such {what}.", "Uploads are deleted after some time: send it again.")


@contextmanager
def found_file(what: str, path: Path) -> Iterator[None]:
    """While a job reads a file that a client may delete: a file that is gone is not found, and not a damaged one."""
    try:
        yield
    except FeatureError as error:
        if path.exists():
            raise
        raise not_found(what) from error


def _printable(text: str) -> str:
    """A sentence without characters that change how the rest is shown; it may quote what was sent."""
    return UNFIT.sub("\N{REPLACEMENT CHARACTER}", text)
