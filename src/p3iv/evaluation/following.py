"""`p3iv evaluate --follow`: score how a planner follows whole videos, as a function of the share that was seen.

Every video is followed from its beginning to the end of its last step, and asked at moments at equal distances. What is
left is compared with as many of the next steps, beginning with the one under way. Beside it stands what the same
planner says about every moment alone: the classifier of the step under way without what came before, and the plan
without what was done.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, Literal

import numpy as np
import torch
from pydantic import BaseModel, ConfigDict, Field
from torch import Tensor

from p3iv.data.folder import Dataset
from p3iv.data.following import SecondReader
from p3iv.data.padding import pad_plans
from p3iv.data.seconds import FollowedVideo, Seconds
from p3iv.data.tensors import load_planning_data
from p3iv.errors import ConfigError, DatasetError, PlanError
from p3iv.evaluation.result import Scores
from p3iv.files import exclusive, remove_leftovers, write_text
from p3iv.metrics.intervals import Clusters, difference_intervals, mean_intervals
from p3iv.metrics.plans import edit_scores
from p3iv.planners.checkpoint import TrainedPlanner
from p3iv.plans.evidence import Answer, Evidence
from p3iv.plans.step_filter import FollowNumbers, StepFilter
from p3iv.types import Array, OnProgress, Progress, Side, listed
from p3iv.validation import read_model

NUM_MOMENTS: Final = 20  # of a video
NUM_PARTS: Final = 5  # of a video, each with scores of its own
NUM_LEFT: Final = 3  # steps that are planned
MIXES: Final = ((), ("procedure",))  # what the planner is told beside the video
METRICS_OF_MOMENTS: Final = ("now_accuracy", "next_accuracy", "edit_score")  # that a moment alone has, too
FORMAT: Final = 1


class _Part(BaseModel):
    model_config = ConfigDict(frozen=True)


class ShareScores(_Part):
    """Scores of the moments at which some share of a video was seen."""

    low: float  # the share, from 0 to 1
    high: float
    num_moments: int = Field(ge=0)
    scores: Scores


class MixScores(_Part):
    """Scores of a planner that is told something beside the video."""

    evidence: tuple[str, ...]
    scores: Scores
    alone: Scores  # of every moment alone
    differences: Scores  # following minus every moment alone
    shares: tuple[ShareScores, ...]


class FollowEvaluation(_Part):
    """How well a planner follows videos."""

    format: Literal[1] = FORMAT
    data: str
    data_fingerprint: str
    planner: str
    seed: int
    side: Side
    num_videos: int = Field(ge=1)
    num_moments: int = Field(ge=1)
    num_left: int  # steps that are planned
    mixes: tuple[MixScores, ...]
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, eq=False)
class _SeenVideo:
    """A video with the scores of the step under way in its seconds."""

    video: FollowedVideo
    seconds: Seconds
    scores: Array  # (n, A + 1)
    rows: dict[int, int]  # the row of every second that is seen


@dataclass(frozen=True, eq=False)
class _Moment:
    """A moment of a video, what is true of it and what was found."""

    video: str
    share: float
    values: dict[str, float]
    alone: dict[str, float]


@dataclass
class _Truth:
    """The steps of a video at a moment."""

    video: FollowedVideo
    second: int
    label: int  # the step under way; A: none
    left: tuple[int, ...] = field(init=False)
    done: frozenset[int] = field(init=False)

    def __post_init__(self) -> None:
        self.left = tuple(step.action for step in self.video.steps if step.end_s > self.second)[:NUM_LEFT]
        self.done = frozenset(step.action for step in self.video.steps if step.end_s <= self.second)


def follow_file(run: Path, side: Side) -> Path:
    """Where the scores of following are written."""
    return run / ("follow.json" if side == "test" else f"follow_{side}.json")


def evaluate_following(
    trained: TrainedPlanner, dataset: Dataset, side: Side, run: Path, on_progress: OnProgress
) -> FollowEvaluation:
    """Follow the videos of a side and write the scores into the run folder.

    Raises:
        ConfigError: this planner cannot follow videos.
        DatasetError: no video of the side has features and times of its steps.
    """
    numbers, config = trained.follow_numbers, trained.header.config
    if numbers is None:
        raise ConfigError(
            f"planner={config.planner} of this run cannot follow videos. Train one that can, on videos with start_s "
            f"and end_s in steps.csv: p3iv train DIR --planner p3iv-plus --horizon 1-6."
        )
    data = load_planning_data(dataset, config.data, names=trained.header.names)
    reader = SecondReader(dataset, data.vocabulary, len(data.names), config.data.observation)
    names = tuple(dict.fromkeys(window.video for window in data.side(side).windows))
    videos = [video for name in names if (video := reader.open(name)) is not None and video.steps]
    if not videos:
        raise DatasetError(f"{dataset.folder} has no {side} video with features and times of its steps.")
    tasks = {video.id: video.task for video in dataset.videos}
    following = _Following(trained, numbers, reader, tasks)
    found: dict[tuple[str, ...], list[_Moment]] = {mix: [] for mix in MIXES}
    for number, video in enumerate(videos, start=1):
        for mix, moments in following.follow(video).items():
            found[mix] += moments
        on_progress(Progress("Following videos", number, len(videos)))
    lost = [name for name in names if name not in {video.id for video in videos}]
    result = FollowEvaluation(
        data=data.label,
        data_fingerprint=data.fingerprint,
        planner=config.planner,
        seed=config.seed,
        side=side,
        num_videos=len(videos),
        num_moments=len(found[()]),
        num_left=following.horizon,
        mixes=tuple(_score(mix, moments) for mix, moments in found.items()),
        notes=(f"videos without features or times of steps are left out: {listed(lost)}",) if lost else (),
    )
    path = follow_file(run, side)
    with exclusive(path, doing=f"is writing {path}"):
        remove_leftovers(path)
        write_text(path, json.dumps(result.model_dump(mode="json"), indent=2) + "\n")
    return result


def read_following(path: Path) -> FollowEvaluation:
    """Read what `evaluate_following` wrote.

    Raises:
        PlanError: it is not such a file.
    """
    return read_model(path, FollowEvaluation, error=PlanError, advice="Type: p3iv evaluate RUN --follow.")


class _Following:
    """Follows videos with one planner, with everything that it is told."""

    def __init__(
        self, trained: TrainedPlanner, numbers: FollowNumbers, reader: SecondReader, tasks: dict[str, str]
    ) -> None:
        self.trained, self.numbers, self.reader, self.tasks = trained, numbers, reader, tasks
        horizons = trained.header.config.data.horizons
        self.horizon = max(horizons[0], min(NUM_LEFT, horizons[-1]))

    def follow(self, video: FollowedVideo) -> dict[tuple[str, ...], list[_Moment]]:
        """The moments of a video, by what the planner is told."""
        end = min(video.num_seconds, int(video.steps[-1].end_s))
        seen = video.moments[video.moments < end]
        if not len(seen):
            return {}
        wanted = set(seen[((np.arange(NUM_MOMENTS) + 0.5) / NUM_MOMENTS * len(seen)).astype(int)].tolist())
        seconds = self.reader.read(video, seen)
        rows = {int(second): row for row, second in enumerate(seen)}
        whole = _SeenVideo(video, seconds, self._score_under_way(seconds), rows)
        found: dict[tuple[str, ...], list[_Moment]] = {}
        for mix in MIXES:
            procedure = self._procedure(video) if "procedure" in mix else None
            filtered, states = StepFilter(self.numbers, procedure), {}
            for second in range(int(seen[-1]) + 1):
                filtered.add(whole.scores[rows[second]] if second in rows else None)
                if second in wanted:
                    states[second] = filtered.copy()
            found[mix] = list(self._moments(whole, states, procedure))
        return found

    def _score_under_way(self, seconds: Seconds) -> Array:
        scores = np.empty((len(seconds), len(self.numbers.first) + 1))
        for has in (True, False):
            rows = (seconds.has_history == has).numpy()
            if rows.any():
                history = {"history": seconds.history[rows].numpy()} if has else {}
                scores[rows] = self.trained.score_under_way(Evidence(start=seconds.start[rows].numpy(), **history))
        return scores

    def _moments(self, whole: _SeenVideo, states: dict[int, StepFilter], procedure: Array | None) -> Iterator[_Moment]:
        video, seconds = whole.video, whole.seconds
        for second, state in states.items():
            row = whole.rows[second]
            truth = _Truth(video, second, int(seconds.action_ids[row]))
            parts = {} if procedure is None else {"procedure": procedure[None]}
            if bool(seconds.has_history[row]):
                parts["history"] = seconds.history[row : row + 1].numpy()
            answer = self.trained.answer(Evidence(start=seconds.start[row : row + 1].numpy(), **parts))
            done = frozenset(step.action for step in state.finished)
            values = self._compare(truth, int(state.now.argmax()), answer.weighted(*state.plan_weights()))
            values["done_iou"] = len(done & truth.done) / len(done | truth.done) if done | truth.done else 1.0
            alone = self._compare(truth, int(whole.scores[row].argmax()), answer)
            yield _Moment(video.id, (second + 0.5) / (video.steps[-1].end_s or 1), values, alone)

    def _compare(self, truth: _Truth, now: int, answer: Answer) -> dict[str, float]:
        chain = answer.chains[answer.horizons.index(self.horizon)]
        plan = tuple(chain.best_paths()[0][0].tolist())[: len(truth.left)]
        return {
            "now_accuracy": float(now == truth.label),
            "next_accuracy": float(plan[0] == truth.left[0]),
            "edit_score": float(edit_scores(pad_plans([plan]), pad_plans([truth.left]))[0]),
        }

    def _procedure(self, video: FollowedVideo) -> Array | None:
        known = self.trained.header.procedures
        task = self.tasks[video.id]
        return np.eye(len(known))[known.index(task)] if task in known else None


def _score(mix: tuple[str, ...], moments: Sequence[_Moment]) -> MixScores:
    ours, alone = _columns(moments, "values"), _columns(moments, "alone")
    clusters = Clusters.of([moment.video for moment in moments])
    compared = {name: ours[name] for name in METRICS_OF_MOMENTS}
    return MixScores(
        evidence=mix,
        scores=mean_intervals(ours, clusters),
        alone=mean_intervals(alone, clusters),
        differences=difference_intervals(compared, alone, clusters),
        shares=tuple(_score_share(moments, part) for part in range(NUM_PARTS)),
    )


def _score_share(moments: Sequence[_Moment], part: int) -> ShareScores:
    low, high = part / NUM_PARTS, (part + 1) / NUM_PARTS
    here = [moment for moment in moments if low <= moment.share < high or (high == 1 and moment.share >= 1)]
    scores = mean_intervals(_columns(here, "values"), Clusters.of([moment.video for moment in here])) if here else {}
    return ShareScores(low=low, high=high, num_moments=len(here), scores=scores)


def _columns(moments: Sequence[_Moment], name: str) -> dict[str, Tensor]:
    rows = [getattr(moment, name) for moment in moments]
    return {metric: torch.tensor([row[metric] for row in rows], dtype=torch.float64) for metric in rows[0]}
