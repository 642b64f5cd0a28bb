"""What is evaluated: a planner on the windows of one side; and what evaluations of one or several lengths share."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import torch
from torch import Tensor

from p3iv.data.folder import Dataset
from p3iv.data.tensors import PlanningData, WindowTensors
from p3iv.data.truth import condition_truth
from p3iv.evaluation.predictions import NamedLine
from p3iv.evaluation.result import Evaluation, Sampling, Scores, TaskScores
from p3iv.evaluation.tally import Values
from p3iv.metrics.intervals import Clusters, mean_intervals
from p3iv.metrics.references import ReferencePlans, known_references
from p3iv.planners.checkpoint import TrainedPlanner
from p3iv.plans.draws import SampleSettings
from p3iv.types import OnProgress, Side, Window

ScorePlans = Callable[[Tensor, Tensor], Values]  # every metric of plans (N, T) against references (N, T)


@dataclass(frozen=True)
class Subject:
    """A planner, the windows that it is evaluated on, and how."""

    trained: TrainedPlanner
    dataset: Dataset
    data: PlanningData
    side: Side
    windows: WindowTensors  # of the side
    evidence: tuple[str, ...]  # what the planner is told
    settings: SampleSettings
    mode: str
    notes: tuple[str, ...]
    on_progress: OnProgress

    @cached_property
    def videos(self) -> list[str]:
        """The video of every window."""
        return [window.video for window in self.windows.windows]

    @cached_property
    def clusters(self) -> Clusters:
        """The videos as clusters of windows."""
        return Clusters.of(self.videos)

    @cached_property
    def task_of(self) -> dict[str, str]:
        """The task of every video."""
        return {video.id: video.task for video in self.dataset.videos}

    def words(self, plan: Sequence[int]) -> tuple[str, ...]:
        """A plan in words."""
        return tuple(self.data.vocabulary.names[action] for action in plan)

    def line(self, window: Window, name: str, **found: Any) -> NamedLine:
        """The line of a window in the prediction file, with what was found for it."""
        return NamedLine(
            window=name,
            video=window.video,
            task=self.task_of[window.video],
            first_step=window.first_step,
            start_s=window.start_s,
            goal_s=None if window.goal_s == math.inf else window.goal_s,
            reference=self.words(window.action_ids),
            **found,
        )

    def evaluation(self, **scores: Any) -> Evaluation:
        """An evaluation with these scores."""
        config, settings = self.trained.header.config, self.settings
        return Evaluation(
            data=self.data.label,
            data_fingerprint=self.data.fingerprint,
            planner=config.planner,
            preset=config.preset,
            seed=config.seed,
            epoch=self.trained.header.progress.best_epoch,
            side=self.side,
            evidence=self.evidence,
            num_windows=len(self.windows),
            num_videos=len(set(self.videos)),
            num_actions=len(self.data.vocabulary),
            samples=Sampling(
                number=settings.num_samples,
                mode=self.mode,
                seed=settings.seed,
                input_noise=settings.input_noise,
                dropout=settings.dropout,
            ),
            smoothing=self.trained.transitions.smoothing,
            notes=self.notes,
            **scores,
        )

    def score_tasks(self, plans: Tensor, score: ScorePlans) -> tuple[TaskScores, ...]:
        """The scores of the plans of every task."""
        rows_of: dict[str, list[int]] = {}
        for row, video in enumerate(self.videos):
            rows_of.setdefault(self.task_of[video], []).append(row)
        return tuple(
            TaskScores(task=task, num_windows=len(rows), scores=self._score_rows(plans, rows, score))
            for task, rows in sorted(rows_of.items())
        )

    def _score_rows(self, plans: Tensor, rows: list[int], score: ScorePlans) -> Scores:
        clusters = Clusters.of([self.videos[row] for row in rows])
        return mean_intervals(score(plans[rows], self.windows.action_ids[rows]), clusters)

    def read_truth(self, horizon: int | None) -> ReferencePlans | None:
        """The known distributions of plans of the windows of one length, or of all windows where it is unknown.

        None if there is none for every one of them: only inclusive windows have them, and only if the planner is told
        start and goal.
        """
        config = self.trained.header.config.data
        if not self.dataset.has_truth or config.window != "inclusive" or set(self.evidence) != {"start", "goal"}:
            return None
        wanted = [w for w in self.windows.windows if horizon in (None, len(w.action_ids))]
        known = {}
        for true in self.dataset.read_truth(self.data.vocabulary):
            place = (true.video, true.first_step, true.num_steps)
            if horizon is not None and true.horizon == horizon:
                known[place] = true.plans
            elif horizon is None and true.horizons is not None and _covers(true.horizons, config.horizons):
                known[place] = condition_truth(true.plans, lambda plan: len(plan) in config.horizons).plans
        places = [(window.video, window.first_step, len(window.action_ids)) for window in wanted]
        return known_references([known[place] for place in places]) if all(p in known for p in places) else None


def _covers(truth: tuple[int, int], horizons: Sequence[int]) -> bool:
    return truth[0] <= horizons[0] and horizons[-1] <= truth[1]


def most_probable(truth: ReferencePlans) -> Tensor:
    """The most probable plan of every window, (N, T); ties to the first."""
    best = [
        int(first) + int(truth.probabilities[first:last].argmax())
        for first, last in zip(truth.first[:-1], truth.first[1:], strict=True)
    ]
    return truth.plans[torch.tensor(best)[truth.group]]
