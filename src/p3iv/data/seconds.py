"""The seconds of videos whose steps have times: what following a video is learned from. `data.following` reads them."""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor

from p3iv.types import Array


@dataclass(frozen=True)
class TimedStep:
    """A step with times."""

    action: int
    start_s: float
    end_s: float


@dataclass(frozen=True, eq=False)
class Seconds:
    """Observations at whole seconds, as a planner sees a start and what came before it."""

    start: Tensor  # (n, F)
    history: Tensor  # (n, F)
    has_history: Tensor  # (n,) bool
    action_ids: Tensor  # (n,): the step under way; A: none
    groups: Tensor  # (n,): the number of the video

    def __len__(self) -> int:
        return len(self.start)


@dataclass(frozen=True, eq=False)
class FollowedVideo:
    """A video whose steps are known."""

    id: str
    steps: tuple[TimedStep, ...]
    num_seconds: int
    moments: Array  # (n,): the seconds that can be seen


@dataclass(frozen=True, eq=False)
class StepTiming:
    """How long steps and pauses take, and how steps begin and repeat, in the training videos."""

    first: Array  # (A,): probability that a video begins with a step
    goes_on: Array  # (A + 1,): that a step, and at last a pause, goes on for another second
    repeats: Array  # (A,): that a step which was done occurs again
    pause_share: float  # how often a pause follows a step


@dataclass(frozen=True, eq=False)
class FollowData:
    """What following is fitted to, and the validation videos that its few numbers are chosen on."""

    train: Seconds
    timing: StepTiming
    val: tuple[tuple[FollowedVideo, Seconds], ...]
