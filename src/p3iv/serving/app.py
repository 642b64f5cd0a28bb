"""The HTTP application: the routes, the form of their errors, and how the service starts and stops with it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.routing import APIRoute
from starlette.exceptions import HTTPException
from starlette.responses import Response
from starlette.types import ASGIApp

from p3iv.environment import own_version
from p3iv.errors import P3ivError
from p3iv.serving.annotate_routes import annotate_router
from p3iv.serving.log import log_event, log_failure
from p3iv.serving.page_files import read_page
from p3iv.serving.problems import ServiceError, as_service_error, error_of_status
from p3iv.serving.protection import OnAnswer, Protection
from p3iv.serving.routes import router
from p3iv.serving.schema import KINDS
from p3iv.serving.service import Service
from p3iv.validation import explain_problems


def make_app(service: Service) -> ASGIApp:
    """The application of a service, with what protects it."""
    app = FastAPI(
        title="p3iv", version=own_version(), summary="Plans from a moment of video to a goal.", docs_url=None,
        redoc_url=None, redirect_slashes=False, lifespan=_lifespan,
    )  # fmt: skip
    app.include_router(router)
    if service.settings.annotate is not None:
        app.include_router(annotate_router)
    on_answer: OnAnswer | None = None
    if service.settings.metrics:
        from p3iv.serving.metrics import Metrics  # prometheus_client, which only this option needs

        metrics = Metrics(service)
        app.add_api_route("/metrics", metrics.response, include_in_schema=False)
        on_answer = metrics.count
    for kind in (P3ivError, HTTPException, RequestValidationError):
        app.add_exception_handler(kind, _answer_error)
    protection = Protection(app, service.settings, on_answer)
    app.state.service, app.state.protection, app.state.page = service, protection, read_page()
    return protection


@asynccontextmanager
async def _lifespan(app: FastAPI) -> AsyncIterator[None]:
    """Start the service while requests are answered already: with 503, until it is ready."""
    service: Service = app.state.service
    running = asyncio.create_task(service.run())
    try:
        yield
    finally:
        running.cancel()
        [failure] = await asyncio.gather(running, return_exceptions=True)
        if isinstance(failure, Exception):
            log_failure(failure)
        await service.stop()
        log_event("stopped")


async def _answer_error(request: Request, error: Exception) -> Response:
    response = _as_service_error(error).response()
    if response.status_code == 405:
        response.headers["Allow"] = ", ".join(_methods(request))
    return response


def _methods(request: Request) -> list[str]:
    """The methods that a path takes."""
    routers = [router, annotate_router] if request.app.state.service.settings.annotate is not None else [router]
    routes = [route for each in routers for route in each.routes if isinstance(route, APIRoute)]
    found = (route.methods for route in routes if route.path_regex.match(request.scope["path"]))
    return sorted({method for methods in found for method in methods or ()})


def _as_service_error(error: Exception) -> ServiceError:
    """Any error of a route in the form of the service."""
    if isinstance(error, RequestValidationError):
        return _explain(error)
    if isinstance(error, HTTPException):
        if isinstance(error.__cause__, ServiceError):  # FastAPI wraps what happens while a body is read
            return error.__cause__
        return error_of_status(error.status_code)
    return as_service_error(error)


def _explain(error: RequestValidationError) -> ServiceError:
    problems = error.errors()
    if tuple(problems[0]["loc"]) == ("body",):
        if isinstance(problems[0]["input"], bytes):
            return ServiceError(415, "The body must be JSON.", "Send it with Content-Type: application/json.")
        return ServiceError(400, "The body must be an object in JSON.")
    return ServiceError(400, f"{explain_problems([_without_tags(each) for each in problems])}.")


def _without_tags(problem: dict[str, object]) -> dict[str, object]:
    """A problem of pydantic whose place is that in the request: neither `body` nor the kind of a moment is a field."""
    place = tuple(problem["loc"])  # type: ignore[arg-type, var-annotated]
    place = place[1:] if place[:1] in (("body",), ("query",), ("path",)) else place
    if len(place) > 1 and place[0] in ("start", "goal") and place[1] in KINDS:
        place = (place[0], *place[2:])
    return {**problem, "loc": place}
