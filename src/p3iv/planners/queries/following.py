"""The numbers of `plans.step_filter`, with which a video is followed, fitted to training and validation videos.

The step under way is scored by ridge regression from the moment and from what came before it, as in the other
closed-form parts.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor, nn

from p3iv.data.seconds import FollowData, FollowedVideo, Seconds
from p3iv.planners.queries.experts import Examples, LinearScores, Projection
from p3iv.plans.chain import Chain
from p3iv.plans.step_filter import NUM_SETTINGS, FollowNumbers, StepFilter
from p3iv.types import Array

SCALES = (3.0, 5.0, 8.0, 12.0, 18.0, 25.0, 35.0)  # of the scores
WEIGHTS = (0.05, 0.1, 0.2, 0.35)  # of what a second shows, for the seconds after it
NOW_WEIGHTS = (0.2, 0.35, 0.6, 1.0)  # the same for the second itself
PLAN_WEIGHTS = (0.0, 0.25, 0.5, 0.75, 1.0)  # of what is known of the first step, and of what was done
_MOMENTS_PER_VIDEO = 12  # of validation videos, whose plans choose the two weights


@dataclass(frozen=True, eq=False)
class _KnownMoment:
    """A moment of a validation video whose next steps are known."""

    start: Tensor  # (F,)
    history: Tensor  # (F,)
    has_history: bool
    filtered: StepFilter
    plan: tuple[int, ...]  # the step under way, if there is one, and the next ones


class FollowModel(nn.Module):
    """Scores the step under way, and holds the numbers of the filter."""

    first: Tensor  # (A,)
    goes_on: Tensor  # (A + 1,)
    repeats: Tensor  # (A,)
    log_share: Tensor  # (A + 1,)
    settings: Tensor  # (5,): as in `FollowNumbers`

    def __init__(self, projection: Projection, num_actions: int) -> None:
        super().__init__()
        self.under_way = LinearScores(2 * projection.width, 1, num_actions + 1)
        for name, size in {"first": 0, "goes_on": 1, "repeats": 0, "log_share": 1}.items():
            self.register_buffer(name, torch.zeros(num_actions + size))
        self.register_buffer("settings", torch.zeros(NUM_SETTINGS))
        self._known: list[_KnownMoment] = []

    def forward(self, start: Tensor, history: Tensor, has_history: Tensor) -> Tensor:
        """Scores of the step under way from projected observations: (B, D) twice and (B, 1) -> (B, A + 1)."""
        scores: Tensor = self.under_way(self.inputs(start, history, has_history))[:, 0]
        return scores

    def inputs(self, start: Tensor, history: Tensor, has_history: Tensor) -> Tensor:
        """Both observations side by side; the mean stands for a history that is absent: (B, 2D)."""
        middle = self.under_way.center[start.shape[1] :]
        return torch.cat((start, has_history * history + (1 - has_history) * middle), dim=1)

    def numbers(self, usage: Tensor, log_next: Tensor) -> FollowNumbers:
        """The numbers of the filter, for numpy; with how often procedures use steps (P, A), and transitions (A, A)."""
        parts = (self.first, self.goes_on, self.repeats, self.log_share, usage, self.settings, log_next)
        return FollowNumbers(*(part.detach().double().cpu().numpy() for part in parts))

    @torch.no_grad()
    def fit(self, data: FollowData, projection: Projection, usage: Tensor, log_next: Tensor) -> None:
        """Fit the scores to training seconds, and choose their scale and weight."""
        train, timing = data.train, data.timing
        for name in ("first", "goes_on", "repeats"):
            getattr(self, name).copy_(torch.from_numpy(getattr(timing, name)))
        counts = torch.bincount(train.action_ids, minlength=len(self.log_share)).double() + 1
        self.log_share.copy_((counts / counts.sum()).log())
        start, history = projection(train.start), projection(train.history)
        there = train.has_history
        middle = history[there].mean(dim=0) if there.any() else torch.zeros_like(history[0])
        self.under_way.center.copy_(torch.cat((start.mean(dim=0), middle)))
        rows = self.inputs(start, history, there[:, None].to(start))
        held_out = self.under_way.fit([Examples(rows, train.groups, train.action_ids[:, None])])[:, 0].double()
        scale = max(SCALES, key=lambda one: _mean_log(one * held_out, train.action_ids))
        self.settings.copy_(torch.tensor([timing.pause_share, scale, WEIGHTS[0], WEIGHTS[0], 0.0, 0.0]))
        scored = [(video, seconds, self._scores(seconds, projection)) for video, seconds in data.val]

        def fit_of(weights: tuple[float, float]) -> float:
            self.settings[2:4] = torch.tensor(weights)
            return float(np.mean(np.concatenate([self._logs(*each, usage, log_next) for each in scored])))

        if not scored:  # `settings` are then those of other runs
            return
        pairs = [(weight, now) for weight in WEIGHTS for now in NOW_WEIGHTS if now >= weight]
        self.settings[2:4] = torch.tensor(max(pairs, key=fit_of))
        self._known = [one for each in scored for one in self._known_moments(*each, usage, log_next)]

    def calibrate(self, chains_of: Callable[[Tensor, Tensor, Tensor, int], Chain], horizons: Sequence[int]) -> None:
        """Choose how much the step under way, and what was done, count for the plans of what is left.

        Args:
            chains_of: the chains of one length of starts (n, F) and histories (n, F), and whether there is one (n,).
            horizons: the lengths of plans.
        """
        best, found = (0.0, 0.0), -np.inf
        parts = [part for horizon in horizons if (part := self._parts(chains_of, horizon))]
        for first in PLAN_WEIGHTS:
            for done in PLAN_WEIGHTS:
                self.settings[4:] = torch.tensor([first, done])
                logs = [_plan_logs(*part, self.settings.double().numpy()) for part in parts]
                mean = float(np.concatenate(logs).mean()) if logs else -np.inf
                if mean > found:
                    best, found = (first, done), mean
        self.settings[4:] = torch.tensor(best)

    def _parts(
        self, chains_of: Callable[[Tensor, Tensor, Tensor, int], Chain], horizon: int
    ) -> tuple[Chain, list[_KnownMoment], int] | None:
        known = [one for one in self._known if len(one.plan) >= horizon]
        if not known:
            return None
        start, history = (torch.stack([getattr(one, name) for one in known]) for name in ("start", "history"))
        there = torch.tensor([one.has_history for one in known])
        return chains_of(start, history, there, horizon), known, horizon

    def _scores(self, seconds: Seconds, projection: Projection) -> Array:
        start, history = projection(seconds.start), projection(seconds.history)
        scores: Tensor = self(start, history, seconds.has_history[:, None].to(start))
        return scores.double().numpy()

    def _logs(self, video: FollowedVideo, seconds: Seconds, scores: Array, usage: Tensor, log_next: Tensor) -> Array:
        """The log probability of what is under way in every second that is seen."""
        filtered = StepFilter(self.numbers(usage, log_next), tracks=False)
        logs = []
        for row in _run(filtered, video, scores):
            logs.append(np.log(max(float(filtered.now[int(seconds.action_ids[row])]), 1e-9)))
        return np.array(logs)

    def _known_moments(
        self, video: FollowedVideo, seconds: Seconds, scores: Array, usage: Tensor, log_next: Tensor
    ) -> Iterator[_KnownMoment]:
        """Some moments of a video as it is followed, with what came next."""
        filtered = StepFilter(self.numbers(usage, log_next))
        chosen = set(np.linspace(0, len(scores) - 1, _MOMENTS_PER_VIDEO).astype(int).tolist())
        for row in _run(filtered, video, scores):
            moment = float(video.moments[row])
            plan = tuple(step.action for step in video.steps if step.end_s > moment)
            if row in chosen and plan:
                there = bool(seconds.has_history[row])
                yield _KnownMoment(seconds.start[row], seconds.history[row], there, filtered.copy(), plan)


def _run(filtered: StepFilter, video: FollowedVideo, scores: Array) -> Iterator[int]:
    """Give a filter the seconds of a video; yields the row of every one that is seen."""
    row = 0
    for second in range(int(video.moments[len(scores) - 1]) + 1):
        is_seen = second == video.moments[row]
        filtered.add(scores[row] if is_seen else None)
        if is_seen:
            yield row
            row += 1


def _mean_log(scores: Tensor, ids: Tensor) -> float:
    return float(scores.log_softmax(dim=1).gather(1, ids[:, None]).mean())


def _plan_logs(chain: Chain, known: Sequence[_KnownMoment], horizon: int, settings: Array) -> Array:
    """The log probabilities of what came next: (n,)."""
    weights = [one.filtered.plan_weights(settings) for one in known]
    extra = np.stack([np.stack([first, *[later] * (horizon - 1)]) for first, later in weights])
    plans = np.array([one.plan[:horizon] for one in known])
    weighted = chain.with_emissions(chain.log_emissions + extra)
    return weighted.log_probability(plans, np.arange(len(known)))
