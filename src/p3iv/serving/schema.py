"""Requests and answers of the service: the same field names as in `--json` and in Python."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Discriminator, Field, Tag

from p3iv.catalogue import MAX_PLANS, SAMPLING_MODES
from p3iv.validation import PlainText

MAX_SEED = 2**63 - 1
MAX_SECOND = 86_400.0  # no video that p3iv reads is longer
MAX_WIDTH = 65_536  # of features
MAX_FEATURE = 1e9  # far above what encoders give; the squares of much larger numbers are infinite in float32

Seconds = Annotated[float, Field(ge=0, le=MAX_SECOND, allow_inf_nan=False)]
Feature = Annotated[float, Field(ge=-MAX_FEATURE, le=MAX_FEATURE, allow_inf_nan=False)]
Id = Annotated[str, Field(min_length=32, max_length=64, pattern="^[0-9a-f]+$")]


class _Request(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class VideoMoment(_Request):
    """A second of a video."""

    video: Id
    t: Seconds


class PictureMoment(_Request):
    """A picture."""

    picture: Id


class FeatureMoment(_Request):
    """Features, as the planner was trained on."""

    features: Annotated[tuple[Feature, ...], Field(min_length=1, max_length=MAX_WIDTH)]


def _kind(moment: Any) -> str | None:
    """Which of the moments it is: the first of their fields that is there."""
    kinds = ("video", "picture", "features")
    has = moment.__contains__ if isinstance(moment, dict) else lambda kind: hasattr(moment, kind)
    return next((kind for kind in kinds if has(kind)), None)


Moment = Annotated[
    Annotated[VideoMoment, Tag("video")]
    | Annotated[PictureMoment, Tag("picture")]
    | Annotated[FeatureMoment, Tag("features")],
    Discriminator(
        _kind,
        custom_error_type="moment",
        custom_error_message='Input should be {"video": ID, "t": SECONDS}, {"picture": ID} or {"features": [...]}',
    ),
]


class Query(_Request):
    """Two moments."""

    start: Moment
    goal: Moment


class PlanRequest(Query):
    """A question for plans; the fields are those of `Planner.plan`."""

    number: Annotated[int, Field(ge=1, le=MAX_PLANS, strict=True)] = 100
    samples: Annotated[int, Field(ge=1, strict=True)] | None = None
    mode: Literal[tuple(SAMPLING_MODES)] | None = None  # type: ignore[valid-type]
    seed: Annotated[int, Field(ge=0, le=MAX_SEED, strict=True)] = 0
    horizon: Annotated[int, Field(ge=1, strict=True)] | None = None  # the planner's own
    graph: Literal["horizontal", "vertical"] | None = None  # draw the plans, for a wide or a narrow screen


class ProbabilityRequest(Query):
    """A plan in words."""

    plan: Annotated[tuple[str, ...], Field(min_length=1, max_length=100)]


class TokenRequest(_Request):
    """The token of a service on a public address."""

    token: Annotated[str, Field(max_length=1000)]


class PlanItem(BaseModel):
    """A plan and its probability."""

    steps: tuple[str, ...]
    probability: float


class SampleItem(BaseModel):
    """A sampled plan, and how often it was drawn."""

    steps: tuple[str, ...]
    count: int


class Graph(BaseModel):
    """The plans as one drawing: the content of an SVG file."""

    svg: str


class StepFacts(BaseModel):
    """A step of the plans: its place in the list of actions, and the training moment that shows it best."""

    index: int
    picture: VideoMoment | None


class Timings(BaseModel):
    """Where the time of an answer went, in milliseconds."""

    encode_ms: float
    plan_ms: float
    total_ms: float


class PlanAnswer(BaseModel):
    """The plans between two moments: `PlanDistribution.to_dict()`, and what a page needs beside it."""

    plan: tuple[str, ...]
    plan_probability: float
    source: Literal["chain", "samples"]
    plans: tuple[PlanItem, ...]
    samples: tuple[SampleItem, ...]
    graph: Graph | None
    steps: dict[str, StepFacts]
    timings: Timings


class ProbabilityAnswer(BaseModel):
    """The probability of a plan."""

    probability: float


class VideoAnswer(BaseModel):
    """A video that moments can be taken from."""

    id: Id
    name: PlainText
    source: Literal["dataset", "clip", "upload"]
    length_s: float | None  # None: not known before the video is asked for by its id
    width: int | None
    height: int | None
    media_type: str | None  # None: browsers do not play it, ask for frames
    has_frames: bool  # False: only its features are there
    expires_s: float | None  # seconds until an upload is deleted


class VideosAnswer(BaseModel):
    """All videos."""

    videos: tuple[VideoAnswer, ...]


class PictureAnswer(BaseModel):
    """An uploaded picture."""

    id: Id
    width: int
    height: int
    expires_s: float


class PlannerFacts(BaseModel):
    """The planner that answers."""

    name: str
    method: str
    backend: str
    data_label: str
    data_fingerprint: str


class EncoderAnswer(BaseModel):
    """What turns videos and pictures into features."""

    name: str
    fingerprint: str | None
    pictures: bool  # whether it takes single pictures


class LimitsAnswer(BaseModel):
    """What a client should know before it asks."""

    upload_bytes: int
    upload_s: int
    picture_bytes: int
    samples: int
    plans: int


class Example(BaseModel):
    """Two moments to begin with."""

    video: Id
    start: float
    goal: float


class InfoAnswer(BaseModel):
    """What the service can do."""

    version: str
    planner: PlannerFacts
    horizons: tuple[int, ...]
    actions: tuple[str, ...]
    encoder: EncoderAnswer | None  # None: there is no encoder, moments are those of the dataset, or features
    encoder_problem: str | None  # why there is none
    limits: LimitsAnswer
    example: Example | None
    step_pictures: bool  # whether /v1/steps/{index}/picture has pictures
    needs_token: bool


class StatusAnswer(BaseModel):
    """The service is alive, or ready."""

    status: Literal["ok"] = "ok"


class ErrorFacts(BaseModel):
    """What went wrong, and what to do."""

    code: str
    message: str
    hint: str | None = None


class ErrorAnswer(BaseModel):
    """The form of every error."""

    error: ErrorFacts
