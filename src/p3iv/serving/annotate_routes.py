"""The routes that a service has with `--annotate`: steps of videos, suggestions, agreement, extraction and training."""

from __future__ import annotations

import asyncio
import re
from typing import Annotated

from fastapi import APIRouter, Query, Request, Response

from p3iv.data.annotations import MAIN, Annotation
from p3iv.serving.annotate_schema import (
    AgreementAnswer,
    AnnotationsAnswer,
    Annotator,
    ConflictAnswer,
    JobAnswer,
    JobsAnswer,
    NothingRequest,
    StepsAnswer,
    SuggestionsAnswer,
)
from p3iv.serving.annotating import Annotating
from p3iv.serving.command_jobs import CommandJobs
from p3iv.serving.events import OnProgress, stream_events
from p3iv.serving.problems import ServiceError, as_service_error
from p3iv.serving.routes import ERRORS, EVENTS, Ready, in_time, json_answer, ready_service
from p3iv.serving.service import Service
from p3iv.serving.suggesting import suggest_steps

annotate_router = APIRouter(responses=ERRORS)

By = Annotated[Annotator, Query()]
IF_MATCH = {
    "parameters": [
        {
            "name": "If-Match",
            "in": "header",
            "required": True,
            "schema": {"type": "string"},
            "description": "The ETag of the version that is replaced",
        }
    ]
}


@annotate_router.get("/v1/steps")
async def overview(service: Ready, annotator: By = MAIN) -> AnnotationsAnswer:
    """All videos to annotate, and the names of steps and procedures in use."""
    actions = service.info().actions
    return await asyncio.to_thread(_annotating(service).overview, service.media.library, annotator, actions)


@annotate_router.get("/v1/steps/{video}")
async def steps(service: Ready, response: Response, video: str, annotator: By = MAIN) -> StepsAnswer:
    """The steps of a video; the header ETag names this version of them."""
    found = service.media.library.find_annotated(video)
    answer, tag = await asyncio.to_thread(_annotating(service).read, found, annotator)
    response.headers["ETag"] = f'"{tag}"'
    return answer


@annotate_router.put("/v1/steps/{video}", responses={409: {"model": ConflictAnswer}}, openapi_extra=IF_MATCH)
async def change_steps(
    request: Request, response: Response, video: str, annotation: Annotation, annotator: By = MAIN
) -> StepsAnswer:
    """Replace the steps of the version that `If-Match` names; they are on the disk before this is answered."""
    service = ready_service(request)
    found = service.media.library.find_annotated(video)
    tag = re.fullmatch('"([0-9a-f]{32})"', request.headers.get("if-match", ""))
    if tag is None:
        raise ServiceError(428, "Say which version you change.", "Send If-Match with the ETag that you read.")
    writing = asyncio.to_thread(_annotating(service).write, found, annotator, annotation, tag[1])
    answer, new = await asyncio.shield(writing)
    response.headers["ETag"] = f'"{new}"'
    return answer


@annotate_router.get(
    "/v1/suggestions/{video}",
    responses={200: {"model": SuggestionsAnswer, "content": EVENTS}},
    response_class=Response,
)
async def suggestions(request: Request, service: Ready, video: str, annotator: By = MAIN) -> Response:
    """Steps to accept, learned from annotated videos; with `Accept: text/event-stream`, progress first."""
    found, annotating = service.media.library.find_annotated(video), _annotating(service)

    async def work(on_progress: OnProgress) -> SuggestionsAnswer:
        return await suggest_steps(service, annotating, found, annotator, on_progress)

    if "text/event-stream" in request.headers.get("accept", ""):
        return stream_events(work, as_service_error)
    return json_answer(await in_time(service, work(lambda *_: None)))


@annotate_router.get("/v1/agreement")
async def agreement(
    service: Ready, first: Annotated[Annotator, Query()], second: Annotated[Annotator, Query()]
) -> AgreementAnswer:
    """How far two annotators agree: about every video that both have annotated, and over all of them."""
    return await asyncio.to_thread(_annotating(service).agreement, service.media.library, first, second)


@annotate_router.post("/v1/extract", status_code=202)
async def start_extraction(service: Ready, _: NothingRequest) -> JobAnswer:
    """Compute features of the videos that have steps."""
    return _jobs(service).start("extract")


@annotate_router.post("/v1/train", status_code=202)
async def start_training(service: Ready, _: NothingRequest) -> JobAnswer:
    """Train a planner on the features; when it is done, the service plans with it."""
    return _jobs(service).start("train")


@annotate_router.get("/v1/jobs")
async def jobs(service: Ready) -> JobsAnswer:
    """All extractions and trainings since the service was started, the newest last."""
    return JobsAnswer(jobs=_jobs(service).listed())


@annotate_router.get("/v1/jobs/{job}")
async def job_state(service: Ready, job: str) -> JobAnswer:
    """How far an extraction or a training is."""
    return _jobs(service).find(job)


@annotate_router.delete("/v1/jobs/{job}")
async def cancel_job(service: Ready, job: str) -> JobAnswer:
    """Cancel an extraction, which can be continued, or a training."""
    return await _jobs(service).cancel(job)


def _annotating(service: Service) -> Annotating:
    if service.annotating is None:
        raise _not_annotating()
    return service.annotating


def _jobs(service: Service) -> CommandJobs:
    if service.jobs is None:
        raise _not_annotating()
    return service.jobs


def _not_annotating() -> ServiceError:
    return ServiceError(404, "This service does not annotate.", "Start it with --annotate DIR.")
