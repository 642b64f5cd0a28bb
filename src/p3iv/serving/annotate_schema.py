"""Requests and answers about the steps of videos that are annotated."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field

from p3iv.data.annotations import ANNOTATOR, AnnotatedStep
from p3iv.serving.schema import ErrorAnswer, Id
from p3iv.validation import PlainText

Annotator = Annotated[str, Field(pattern=f"^{ANNOTATOR}$")]


class StepsAnswer(BaseModel):
    """The steps of a video; the header ETag names this version of them."""

    video: Id
    annotator: str
    task: str  # "": not said yet
    steps: tuple[AnnotatedStep, ...]


class ConflictAnswer(ErrorAnswer):
    """Somebody else has changed the steps: what they are now. The header ETag names this version."""

    current: StepsAnswer


class AnnotatedVideo(BaseModel):
    """A video to annotate, and how far it is."""

    id: Id
    name: PlainText
    task: str
    num_steps: int
    problem: str | None  # why its steps cannot be read


class AnnotationsAnswer(BaseModel):
    """All videos to annotate, who has annotated some, and the names in use, the most frequent first."""

    annotators: tuple[str, ...]
    videos: tuple[AnnotatedVideo, ...]
    steps: tuple[str, ...]
    tasks: tuple[str, ...]


class SuggestedStep(BaseModel):
    """A part of a video that may be one step."""

    start_s: float
    end_s: float
    step: str | None  # None: no name is probable
    probability: float | None


class SuggestionsAnswer(BaseModel):
    """The parts of a video that may be steps."""

    suggestions: tuple[SuggestedStep, ...]
    source: Literal["features", "thumbnails"]
    learned_from: int  # annotated videos; 0: they are too few, and the parts lie between visual changes


class AgreementFigures(BaseModel):
    """How far two annotators agree."""

    seconds: int
    same_share: float | None  # of seconds with the same step, or none; None: there are no seconds
    kappa: float | None  # Cohen's, over seconds; None where chance alone would agree
    boundary_s: float | None  # mean distance of a boundary to the nearest of the other; None: one has none


class VideoAgreement(AgreementFigures):
    """How far two annotators agree about one video."""

    id: Id
    name: PlainText


class AgreementAnswer(BaseModel):
    """How far two annotators agree, about every video that both have annotated and over all of them."""

    annotators: tuple[str, str]
    videos: tuple[VideoAgreement, ...]
    overall: AgreementFigures


class NothingRequest(BaseModel):
    """A request without fields."""

    model_config = ConfigDict(extra="forbid")


class JobProgress(BaseModel):
    """How far a job is."""

    what: str
    done: float
    total: int
    about: str


class JobAnswer(BaseModel):
    """An extraction or a training."""

    id: Id
    kind: Literal["extract", "train"]
    status: Literal["running", "done", "failed", "cancelled"]
    progress: JobProgress | None
    message: str | None  # what came out, or what went wrong
    planner: str | None  # the new planner, with which the service answers from now on


class JobsAnswer(BaseModel):
    """All extractions and trainings."""

    jobs: tuple[JobAnswer, ...]
