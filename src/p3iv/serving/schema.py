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
MAX_TEXT = 500  # characters of a goal in words, or of a name
MAX_ENTRIES = 100  # of one kind of condition

Seconds = Annotated[float, Field(ge=0, le=MAX_SECOND, allow_inf_nan=False)]
Feature = Annotated[float, Field(ge=-MAX_FEATURE, le=MAX_FEATURE, allow_inf_nan=False)]
Text = Annotated[str, Field(min_length=1, max_length=MAX_TEXT)]
Position = Annotated[int, Field(ge=1, le=MAX_ENTRIES, strict=True)]
Texts = Annotated[tuple[Text, ...], Field(max_length=MAX_ENTRIES)]
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


class TextGoal(_Request):
    """A goal in words: a step that comes last, or a procedure."""

    text: Text


KINDS = ("video", "picture", "features", "text")  # of moments; the last for the goal only


def _kind(moment: Any) -> str | None:
    """Which of the moments it is: the first of their fields that is there."""
    has = moment.__contains__ if isinstance(moment, dict) else lambda kind: hasattr(moment, kind)
    return next((kind for kind in KINDS[:-1] if has(kind)), None)


def _kind_of_goal(moment: Any) -> str | None:
    is_text = "text" in moment if isinstance(moment, dict) else isinstance(moment, TextGoal)
    return _kind(moment) or ("text" if is_text else None)


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


Goal = Annotated[
    Annotated[VideoMoment, Tag("video")]
    | Annotated[PictureMoment, Tag("picture")]
    | Annotated[FeatureMoment, Tag("features")]
    | Annotated[TextGoal, Tag("text")],
    Discriminator(
        _kind_of_goal,
        custom_error_type="goal",
        custom_error_message='Input should be {"text": WORDS}, {"video": ID, "t": SECONDS}, {"picture": ID} or '
        '{"features": [...]}',
    ),
]


class ConditionsRequest(_Request):
    """What a plan must satisfy, as in `p3iv.plans.conditions.Conditions`."""

    without: Texts = ()
    including: Annotated[Texts, Field(alias="with")] = ()
    first: Text | None = None
    last: Text | None = None
    at: Annotated[tuple[tuple[Position, Text], ...], Field(max_length=MAX_ENTRIES)] = ()
    before: Annotated[tuple[tuple[Text, Text], ...], Field(max_length=MAX_ENTRIES)] = ()
    done: Texts = ()


class GoalQuery(_Request):
    """Where a user wants to be, and what the plans must satisfy."""

    goal: Goal | None = None
    procedure: Text | None = None
    horizon: Annotated[int, Field(ge=1, strict=True)] | None = None  # None: any that the planner knows
    conditions: ConditionsRequest = ConditionsRequest()


class Query(GoalQuery):
    """What a user asks: the arguments of `Planner.plan`."""

    start: Moment
    history: Annotated[bool, Field(strict=True)] = True


class PlanRequest(Query):
    """A question for plans; the fields are those of `Planner.plan`."""

    number: Annotated[int, Field(ge=1, le=MAX_PLANS, strict=True)] = 100
    samples: Annotated[int, Field(ge=1, strict=True)] | None = None
    mode: Literal[tuple(SAMPLING_MODES)] | None = None  # type: ignore[valid-type]
    seed: Annotated[int, Field(ge=0, le=MAX_SEED, strict=True)] = 0
    why: Annotated[bool, Field(strict=True)] = False  # also say what speaks for every plan
    graph: Literal["horizontal", "vertical"] | None = None  # draw the plans, for a wide or a narrow screen


class FollowRequest(GoalQuery):
    """A video to follow; the fields are those of `Planner.follow`."""

    video: Id
    number: Annotated[int, Field(ge=1, le=MAX_PLANS, strict=True)] = 5  # of plans in every moment
    from_s: Annotated[Seconds, Field(alias="from")] = 0.0  # earlier seconds are seen, too, but not sent


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


class LengthItem(BaseModel):
    """A number of steps and its probability."""

    steps: int
    probability: float


class ExampleItem(BaseModel):
    """A moment of a training video that resembles a step."""

    video: str
    second: float
    distance: float | None = None


class StepReasonsItem(BaseModel):
    """What each source says for a step, in nats."""

    step: str
    addends: dict[str, float]
    examples: tuple[ExampleItem, ...] = ()


class ChangeItem(BaseModel):
    """The cheapest change of one piece of evidence with which another plan would be recommended."""

    source: str
    step: int | None
    factor: float
    nats: float
    plan: tuple[str, ...]


class ReasonsItem(BaseModel):
    """Why a plan is as probable as it is: everything sums to its log probability."""

    steps: tuple[StepReasonsItem, ...]
    length: float
    conditions: float
    normaliser: float
    log_probability: float
    change: ChangeItem | None = None


class WhyWords(BaseModel):
    """The reasons of a plan in sentences: what matters most, and what would change the plan."""

    headline: str
    change: str | None


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


class PlansItem(BaseModel):
    """Plans and their probabilities: `PlanDistribution.to_dict()`.

    Fields with a default are left out where they have no content.
    """

    plan: tuple[str, ...]
    plan_probability: float
    source: Literal["chain", "samples"]
    plans: tuple[PlanItem, ...]
    samples: tuple[SampleItem, ...]
    lengths: tuple[LengthItem, ...] = ()
    understood: tuple[str, ...] = ()
    why: tuple[ReasonsItem, ...] = ()


class PlanAnswer(PlansItem):
    """The plans of a query, and what a page needs beside them."""

    why_words: tuple[WhyWords, ...] = ()
    graph: Graph | None
    steps: dict[str, StepFacts]
    timings: Timings


class DoneItem(BaseModel):
    """A step of a video that is done."""

    step: str
    start_s: int
    end_s: int
    probability: float


class NowItem(BaseModel):
    """A step that may be under way."""

    step: str | None  # None: no step
    probability: float


class MomentAnswer(BaseModel):
    """A second of a video that is followed: `FollowedMoment.to_dict()`."""

    second: int
    done: tuple[DoneItem, ...]
    now: tuple[NowItem, ...]  # the most probable first
    left: PlansItem


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
    planner: PlannerFacts | None  # None: the service was started only to annotate
    horizons: tuple[int, ...]  # the numbers of steps that plans can have
    actions: tuple[str, ...]
    procedures: tuple[str, ...]  # that a query can name
    evidence: tuple[str, ...]  # that the planner understands: start, goal, history, words, procedure
    reasons: bool  # whether it can say why
    can_follow: bool  # whether it can follow a video
    annotates: bool  # whether steps of videos can be annotated
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
