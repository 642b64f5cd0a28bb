"""The routes of the service; each calls the service and says what its answer is."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable
from typing import Annotated, Any, TypeVar

from fastapi import APIRouter, Depends, Path, Query, Request, Response
from pydantic import BaseModel
from starlette.requests import ClientDisconnect
from starlette.responses import FileResponse

from p3iv.serving.events import OnProgress, stream_events, stream_moments
from p3iv.serving.examples import find_step_picture
from p3iv.serving.page_files import find_file
from p3iv.serving.problems import ServiceError, as_service_error
from p3iv.serving.protection import Protection, client_of
from p3iv.serving.schema import (
    ErrorAnswer,
    FollowRequest,
    InfoAnswer,
    PictureAnswer,
    PlanAnswer,
    PlanRequest,
    ProbabilityAnswer,
    ProbabilityRequest,
    Seconds,
    StatusAnswer,
    TokenRequest,
    VideoAnswer,
    VideosAnswer,
)
from p3iv.serving.service import Service

Result = TypeVar("Result")

FORMS = ("multipart/form-data", "application/x-www-form-urlencoded")
KEPT_BY_BROWSERS = {"Cache-Control": "private, max-age=600"}
JPEG: dict[int | str, dict[str, Any]] = {200: {"content": {"image/jpeg": {}}}}
VIDEO: dict[int | str, dict[str, Any]] = {
    200: {"content": {"video/*": {}}},
    206: {"content": {"video/*": {}}, "description": "The part that `Range` asks for"},
}
ANY_BODY = {
    "requestBody": {"content": {"application/octet-stream": {"schema": {"type": "string", "format": "binary"}}}}
}
EVENTS = {"text/event-stream": {"schema": {"type": "string", "description": "progress events, then result or error"}}}
MOMENTS = {
    "text/event-stream": {
        "schema": {"type": "string", "description": "moment events (second, done, now, left), then end or error"}
    }
}
ERRORS: dict[int | str, dict[str, Any]] = {
    status: {"model": ErrorAnswer}
    for status in ("4XX", "5XX", 422)  # FastAPI would describe 422 in its own form
}


def running_service(request: Request) -> Service:
    """The service, also while it starts."""
    service: Service = request.app.state.service
    return service


def ready_service(request: Request) -> Service:
    """The service, when it can answer.

    Raises:
        ServiceError: it is starting.
    """
    service = running_service(request)
    if not service.is_ready:
        raise ServiceError(503, "The service is starting.", "Try again.", code="not_ready", retry_after_s=1)
    return service


Ready = Annotated[Service, Depends(ready_service)]
FrameWidth = Annotated[int, Query(ge=16, le=1280)]

router = APIRouter(responses=ERRORS)


@router.get("/", include_in_schema=False)
async def page(request: Request) -> Response:
    has_planner = running_service(request).settings.planner is not None
    name = "index.html" if has_planner else "annotate.html"
    return find_file(request.app.state.page, name).response(request.headers)


@router.get("/annotate", include_in_schema=False)
async def annotate_page(request: Request) -> Response:
    if running_service(request).settings.annotate is None:
        raise ServiceError(404, "This service does not annotate.", "Start it with --annotate DIR.")
    return find_file(request.app.state.page, "annotate.html").response(request.headers)


@router.get("/static/{name}", include_in_schema=False)
async def page_file(request: Request, name: str) -> Response:
    return find_file(request.app.state.page, name).response(request.headers)


@router.get("/healthz")
async def health() -> StatusAnswer:
    """Whether the process answers."""
    return StatusAnswer()


@router.get("/readyz")
async def readiness(_: Ready) -> StatusAnswer:
    """Whether the planner is loaded and the encoder is built."""
    return StatusAnswer()


@router.post("/v1/session", status_code=204)
async def open_session(request: Request, given: TokenRequest) -> Response:
    """Exchange the token for a cookie, which videos and pictures of the page need."""
    protection: Protection = request.app.state.protection
    response = Response(status_code=204)
    if running_service(request).settings.token is not None:
        protection.check_token(given.token, client_of(request.scope))
        response.set_cookie(*protection.cookie, httponly=True, samesite="strict")
    return response


@router.get("/v1/info")
async def info(service: Ready) -> InfoAnswer:
    """The planner, what it understands, its actions, the encoder and the limits."""
    return service.info()


@router.get("/v1/videos")
async def videos(service: Ready) -> VideosAnswer:
    """All videos that moments can be taken from."""
    return VideosAnswer(videos=await asyncio.to_thread(service.media.listed))


@router.put("/v1/videos", status_code=201, openapi_extra=ANY_BODY, responses={200: {"model": VideoAnswer}})
async def add_video(
    request: Request, response: Response, service: Ready, name: Annotated[str, Query(max_length=500)] = "video"
) -> VideoAnswer:
    """Send a video: its bytes are the body. 200 if the service has these bytes already."""
    answer, is_new = await service.media.add_video(_raw_body(request), name)
    response.status_code = 201 if is_new else 200
    return answer


@router.get("/v1/videos/{video}")
async def video_facts(service: Ready, video: str) -> VideoAnswer:
    """What is known about a video."""
    return await in_time(service, service.media.describe(video))


@router.delete("/v1/videos/{video}", status_code=204)
async def delete_video(service: Ready, video: str) -> Response:
    """Delete an upload."""
    library = service.media.library
    library.uploads.delete(library.find_upload(video))
    return Response(status_code=204)


@router.get("/v1/videos/{video}/file", response_class=FileResponse, responses=VIDEO)
async def video_file(service: Ready, video: str) -> Response:
    """The bytes of a video that browsers play, also parts of them."""
    found = await in_time(service, service.media.open_file(video))
    if found.media_type is None:
        raise ServiceError(415, "Browsers do not play this video.", "Ask for its frames.")
    headers = {**KEPT_BY_BROWSERS, "ETag": f'"{found.tag}"'}  # the time of an upload's file is that of its last use
    return FileResponse(found.path, media_type=found.media_type, headers=headers, stat_result=found.status)


@router.get("/v1/videos/{video}/frame", response_class=Response, responses=JPEG)
async def video_frame(service: Ready, video: str, t: Seconds, w: FrameWidth = 640) -> Response:
    """The frame at a second."""
    return _jpeg(await in_time(service, service.media.frame(video, t, w)))


@router.get("/v1/videos/{video}/strip", response_class=Response, responses=JPEG)
async def video_strip(
    service: Ready, video: str, n: Annotated[int, Query(ge=1, le=60)] = 20, w: Annotated[int, Query(ge=16, le=320)] = 96
) -> Response:
    """Frames from the whole video, side by side in one picture."""
    return _jpeg(await in_time(service, service.media.strip(video, n, w)))


@router.put("/v1/pictures", status_code=201, openapi_extra=ANY_BODY)
async def add_picture(request: Request, service: Ready) -> PictureAnswer:
    """Send a picture: its bytes are the body."""
    return await service.media.add_picture(_raw_body(request))


@router.get("/v1/pictures/{picture}", response_class=Response, responses=JPEG)
async def picture(service: Ready, picture: str, w: FrameWidth = 640) -> Response:
    """An uploaded picture."""
    path = service.media.library.find_picture(picture).path
    return _jpeg(await in_time(service, service.media.picture(path, w)))


@router.get("/v1/steps/{index}/picture", response_class=FileResponse, responses=JPEG)
async def step_picture(service: Ready, index: Annotated[int, Path(ge=0, le=99_999)]) -> Response:
    """How a step looks, where the planner comes with pictures; `index` is its place in the list of actions."""
    path = find_step_picture(service.settings.planner, index)
    if path is None:
        raise ServiceError(404, "There is no picture of this step.")
    return FileResponse(path, media_type="image/jpeg", headers=KEPT_BY_BROWSERS)


@router.post("/v1/plan", responses={200: {"model": PlanAnswer, "content": EVENTS}}, response_class=Response)
async def plan(request: Request, service: Ready, question: PlanRequest) -> Response:
    """The plausible plans from a start to a goal; with `Accept: text/event-stream`, progress first."""

    async def work(on_progress: OnProgress) -> PlanAnswer:
        return await in_time(service, service.planning.plan(question, on_progress))

    if "text/event-stream" in request.headers.get("accept", ""):
        return stream_events(work, as_service_error)
    return json_answer(await work(lambda *_: None))


@router.post("/v1/follow", responses={200: {"content": MOMENTS}}, response_class=Response)
async def follow(service: Ready, question: FollowRequest) -> Response:
    """What is done, under way and left in every second of a video: `moment` events, then `end` or `error`."""
    moments = await in_time(service, service.following.open(question))
    return stream_moments(moments, as_service_error)


@router.post("/v1/probability")
async def probability(service: Ready, question: ProbabilityRequest) -> ProbabilityAnswer:
    """The probability of any plan in words."""
    found = await in_time(service, service.planning.probability(question))
    return ProbabilityAnswer(probability=found)


async def in_time(service: Service, work: Awaitable[Result]) -> Result:
    """The result of some work, unless it takes longer than a request may."""
    try:
        async with asyncio.timeout(service.settings.limits.request_s):
            return await work
    except TimeoutError as error:
        limit = service.settings.limits.request_s
        raise ServiceError(
            503, f"This took longer than {limit} seconds.", "Try again.", code="too_long", retry_after_s=5
        ) from error


async def _raw_body(request: Request) -> AsyncIterator[bytes]:
    content_type = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if content_type in FORMS:
        raise ServiceError(415, "The body must be the bytes of the file, not a form.", "With curl: -T FILE.")
    try:
        async for chunk in request.stream():
            yield chunk
    except ClientDisconnect as error:
        raise ServiceError(400, "The body is not complete.") from error


def _jpeg(content: bytes) -> Response:
    return Response(content, media_type="image/jpeg", headers=KEPT_BY_BROWSERS)


def json_answer(answer: BaseModel) -> Response:
    """An answer that was validated when it was made; FastAPI would validate it again."""
    return Response(answer.model_dump_json(exclude_unset=True), media_type="application/json")
