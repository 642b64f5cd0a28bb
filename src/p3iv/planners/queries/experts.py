"""The closed-form parts of the planner of queries: regressions from single pieces of evidence, each fitted by itself.

Observations are reduced to their principal components first. On CaptainCook4D 256 of 1,024 dimensions score the same
held-out windows right (17.2 / 12.4 / 16.1 % of first, middle and last actions at T = 3, as with all of them), and the
regressions take a seventh of the time.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn import functional

from p3iv.data.tensors import PlanningData, WindowTensors
from p3iv.planners.ridge import GroupedRidge

WIDTH = 256  # principal components of an observation
RIDGE_PENALTIES = (1.5, 6.0, 24.0)  # for rows of length 1
MAX_ROWS = 100_000  # of one regression: above it, windows are seen at fewer moments
_USAGE_SMOOTHING = 0.1  # added to the count of every action in every procedure


@dataclass(frozen=True)
class MomentRows:
    """The starts and goals of windows of all lengths, each once: they are those of the shortest windows."""

    shortest: WindowTensors
    start_row: Tensor  # (N,): the row of the start of every window among the shortest
    goal_row: Tensor  # (N,)
    video: Tensor  # (n,): the number of the video of every row
    following: Tensor  # (n, H): the actions from the start on, -1 after the end of the video

    @classmethod
    def of(cls, windows: WindowTensors) -> MomentRows:
        lengths = windows.lengths
        shortest, _ = windows.of_length(int(lengths.min()))
        short, longest = int(lengths.min()), int(lengths.max())
        row_of = {(w.video, w.first_step): row for row, w in enumerate(shortest.windows)}
        action_of = {
            (w.video, w.first_step + place): action
            for w in windows.windows
            for place, action in enumerate(w.action_ids)
        }
        number_of: dict[str, int] = {}
        return cls(
            shortest,
            start_row=torch.tensor([row_of[w.video, w.first_step] for w in windows.windows]),
            goal_row=torch.tensor([row_of[w.video, w.first_step + len(w.action_ids) - short] for w in windows.windows]),
            video=torch.tensor([number_of.setdefault(w.video, len(number_of)) for w in shortest.windows]),
            following=torch.tensor(
                [
                    [action_of.get((w.video, w.first_step + place), -1) for place in range(longest)]
                    for w in shortest.windows
                ]
            ),
        )


class Projection(nn.Module):
    """The principal components of observations."""

    mean: Tensor  # (F,)
    axes: Tensor  # (F, D)

    def __init__(self, feature_width: int) -> None:
        super().__init__()
        self.register_buffer("mean", torch.zeros(feature_width))
        self.register_buffer("axes", torch.zeros(feature_width, min(feature_width, WIDTH)))

    @property
    def width(self) -> int:
        """D."""
        return self.axes.shape[1]

    def fit(self, rows: Tensor) -> None:
        """Take the axes of the largest variance of rows (n, F)."""
        rows = rows.double()
        centred = rows - rows.mean(dim=0)
        _, vectors = torch.linalg.eigh(centred.T @ centred)
        self.mean.copy_(rows.mean(dim=0))
        self.axes.copy_(vectors[:, -self.width :].flip(1))

    def forward(self, features: Tensor) -> Tensor:
        """(..., F) -> (..., D)."""
        projected: Tensor = (features - self.mean) @ self.axes
        return projected


@dataclass(frozen=True)
class Examples:
    """Rows that classifiers are fitted to."""

    rows: Tensor  # (n, D)
    groups: Tensor  # (n,): the video of every row
    ids: Tensor  # (n, K): a class for each of K classifiers; -1 where there is none


class LinearScores(nn.Module):
    """Linear classifiers on one vector of length 1: (B, D) -> (B, K, C)."""

    center: Tensor  # (D,)
    weights: Tensor  # (K, D, C)

    def __init__(self, width: int, number: int, num_classes: int) -> None:
        super().__init__()
        self.register_buffer("center", torch.zeros(width))
        self.register_buffer("weights", torch.zeros(number, width, num_classes))

    def inputs(self, rows: Tensor) -> Tensor:
        """The rows minus their training mean, scaled to length 1."""
        return functional.normalize(rows - self.center, dim=1)

    def forward(self, rows: Tensor, first: int = 0, last: int | None = None) -> Tensor:
        """Scores by the classifiers from `first` to before `last`: (B, D) -> (B, K, C)."""
        return torch.einsum("bd,kdc->bkc", self.inputs(rows), self.weights[first:last])

    def fit(self, examples: Sequence[Examples], numbers: Sequence[int] = (0,)) -> Tensor:
        """Fit the classifiers of these numbers to all examples.

        Returns:
            The scores of the first examples without their own groups: (n, K, C).
        """
        ridge = GroupedRidge(
            torch.cat([self.inputs(one.rows) for one in examples]), torch.cat([one.groups for one in examples])
        )
        ids, held_out = torch.cat([one.ids for one in examples]), []
        for number, classes in zip(numbers, ids.unbind(dim=1), strict=True):
            fit = ridge.choose(
                classes, self.weights.shape[2], num_scored=len(examples[0].rows), penalties=RIDGE_PENALTIES
            )
            self.weights[number].copy_(fit.weights)
            held_out.append(fit.held_out.float())
        return torch.stack(held_out, dim=1)


@dataclass(frozen=True)
class HeldOutScores:
    """What the closed-form parts say about training windows when they are fitted without the window's own video."""

    pair: dict[int, Tensor]  # T -> (N_T, T, A)
    place: Tensor  # (N,): the row of every window in the table of its length
    start: Tensor  # (n, H, A), of moments
    history: Tensor  # (n, H, A)
    procedure: tuple[Tensor, Tensor, Tensor]  # (n, P) each: by start, goal and history
    start_row: Tensor  # (N,): the moment of the start of every window
    goal_row: Tensor  # (N,)


@dataclass(frozen=True)
class ClosedScores:
    """What the closed-form parts say about a batch."""

    pair: Tensor  # (B, T, A), from start and goal together
    start: Tensor  # (B, T, A), from the start alone
    history: Tensor  # (B, T, A)
    procedure: Tensor  # (3, B, P): by start, goal and history


class Experts(nn.Module):
    """All closed-form parts: scores of actions, of procedures and of lengths, and which actions a procedure uses."""

    counts: Tensor  # (P, A): how often an action occurs in the training videos of a procedure

    def __init__(self, feature_width: int, num_actions: int, num_procedures: int, horizons: Sequence[int]) -> None:
        super().__init__()
        self.horizons = tuple(horizons)
        self.projection = Projection(feature_width)
        width, longest = self.projection.width, max(horizons)
        self.first_of = {horizon: sum(self.horizons[:number]) for number, horizon in enumerate(self.horizons)}
        self.pair = LinearScores(2 * width, sum(horizons), num_actions)
        self.start = LinearScores(width, longest, num_actions)
        self.history = LinearScores(width, longest, num_actions)
        self.procedure = nn.ModuleList(LinearScores(width, 1, num_procedures) for _ in range(3))
        self.length = LinearScores(4 * width, 1, len(self.horizons))
        self.register_buffer("counts", torch.zeros(num_procedures, num_actions))

    def forward(self, start: Tensor, goal: Tensor, history: Tensor, horizon: int) -> ClosedScores:
        """The scores of queries; what is absent gives numbers without meaning: (B, F) each."""
        seen, wanted, before = (self.projection(part) for part in (start, goal, history))
        first = self.first_of[horizon]
        both = torch.cat((seen, wanted), dim=1)
        return ClosedScores(
            pair=self.pair(both, first, first + horizon),
            start=self.start(seen, 0, horizon),
            history=self.history(before, 0, horizon),
            procedure=torch.stack(
                [path(part)[:, 0] for path, part in zip(self.procedure, (seen, wanted, before), strict=True)]
            ),
        )

    def score_lengths(self, start: Tensor, goal: Tensor) -> Tensor:
        """How well every length fits a start and a goal: (B, F) twice -> (B, H)."""
        scores: Tensor = self.length(self._length_inputs(self.projection(start), self.projection(goal)))[:, 0]
        return scores

    def _length_inputs(self, start: Tensor, goal: Tensor) -> Tensor:
        """Start, goal, how far they differ and how they vary together, each of length 1: (n, D) twice -> (n, 4D).

        Start and goal alone say little about how far apart they are: on IKEA ASM the length is right for 21 % of
        held-out pairs with them, and for 30 % with all four.
        """
        parts = (start, goal, (start - goal).abs(), start * goal)
        return torch.cat([functional.normalize(part, dim=1) for part in parts], dim=1)

    def usage(self) -> Tensor:
        """How probable every action is in every procedure: (P, A)."""
        return _shares(self.counts)

    def log_usage(self, procedure: Tensor, own_counts: Tensor | None = None, own: Tensor | None = None) -> Tensor:
        """Log of how probable every action is in a procedure with these probabilities: (B, P) -> (B, A).

        Args:
            procedure: (B, P).
            own_counts: (B, A), the actions of each query's own video, which do not count.
            own: (B,), the procedure of that video.
        """
        usage = self.usage()
        mixed = procedure @ usage
        if own_counts is not None and own is not None:
            change = _shares(self.counts[own] - own_counts) - usage[own]
            mixed = mixed + procedure.gather(1, own[:, None]) * change
        return mixed.clamp_min(1e-12).log()

    def fit(self, data: PlanningData) -> HeldOutScores:
        """Fit every part to the training windows, each as if the others did not exist."""
        train, moments = data.train, MomentRows.of(data.train)
        shortest = moments.shortest
        if shortest.history is None or shortest.has_history is None or shortest.task_ids is None:
            raise AssertionError("the windows have no history or no tasks")
        self.projection.fit(torch.cat((shortest.start, shortest.goal)))
        nearby = train.nearby if train.nearby is not None else shortest.start.new_empty(0, 2, 1, 1)
        starts = [self.projection(rows) for rows in (shortest.start, *(pair[0] for pair in nearby))]
        goals = [self.projection(rows) for rows in (shortest.goal, *(pair[1] for pair in nearby))]
        before, there = self.projection(shortest.history), shortest.has_history
        self._center(starts[0], goals[0], before[there])
        tasks, steps = shortest.task_ids[:, None], range(max(self.horizons))
        self._count(data, train)
        pair, place = self._fit_pairs(train, moments, starts, goals)
        return HeldOutScores(
            pair=pair,
            place=place,
            start=self.start.fit([Examples(rows, moments.video, moments.following) for rows in starts], steps),
            history=_spread(
                self.history.fit([Examples(before[there], moments.video[there], moments.following[there])], steps),
                there,
            ),
            procedure=(
                self._fit_procedure(0, [Examples(rows, moments.video, tasks) for rows in starts]),
                self._fit_procedure(1, [Examples(rows, moments.video, tasks) for rows in goals]),
                _spread(self._fit_procedure(2, [Examples(before[there], moments.video[there], tasks[there])]), there),
            ),
            start_row=moments.start_row,
            goal_row=moments.goal_row,
        )

    def _center(self, start: Tensor, goal: Tensor, history: Tensor) -> None:
        both = torch.cat((start.mean(dim=0), goal.mean(dim=0)))
        middles = {self.pair: both, self.start: start.mean(dim=0)}
        if len(history):
            middles[self.history] = history.mean(dim=0)
        paths: list[LinearScores] = [path for path in self.procedure if isinstance(path, LinearScores)]
        middles |= {paths[0]: start.mean(dim=0), paths[1]: goal.mean(dim=0), paths[2]: self.history.center}
        for path, middle in middles.items():
            path.center.copy_(middle if path is not paths[2] or not len(history) else history.mean(dim=0))

    def _fit_pairs(
        self, train: WindowTensors, moments: MomentRows, starts: Sequence[Tensor], goals: Sequence[Tensor]
    ) -> tuple[dict[int, Tensor], Tensor]:
        """Fit every position of every length, and which length a pair has."""
        copies = list(zip(starts, goals, strict=True))

        def examples(rows: Tensor, ids: Tensor) -> list[Examples]:
            start, goal = moments.start_row[rows], moments.goal_row[rows]
            few = copies[: max(1, MAX_ROWS // max(1, len(rows)))]
            return [Examples(torch.cat((s[start], g[goal]), dim=1), moments.video[start], ids) for s, g in few]

        held_out, place = {}, torch.zeros(len(train), dtype=torch.int64)
        ends = self._fit_ends(train, examples)
        for horizon in self.horizons:
            rows = (train.lengths == horizon).nonzero()[:, 0]
            place[rows] = torch.arange(len(rows))
            middle, parts = range(1, horizon - 1), [ends[rows, :1]]
            if middle:
                first, ids = self.first_of[horizon], train.action_ids[rows][:, 1 : horizon - 1]
                parts.append(self.pair.fit(examples(rows, ids), [first + position for position in middle]))
            held_out[horizon] = torch.cat((*parts, ends[rows, 1:]), dim=1)[:, :horizon]
        inputs = self._length_inputs(starts[0][moments.start_row], goals[0][moments.goal_row])
        numbers = torch.tensor([self.horizons.index(length) for length in train.lengths.tolist()])
        self.length.center.copy_(inputs.mean(dim=0))
        self.length.fit([Examples(inputs, moments.video[moments.start_row], numbers[:, None])])
        return held_out, place

    def _fit_ends(self, train: WindowTensors, examples: Callable[[Tensor, Tensor], list[Examples]]) -> Tensor:
        """Fit the first and the last position of every length; returns their held-out scores, (N, 2, A).

        The first step depends on where a window begins and the last one on where it ends, so the windows of all lengths
        teach one regression of each. Windows of one step have their own: there, start and goal show the same step.
        """
        last = train.action_ids.gather(1, train.lengths[:, None] - 1)
        ids = torch.cat((train.action_ids[:, :1], last), dim=1)  # (N, 2)
        held_out = torch.zeros(len(train), 2, self.pair.weights.shape[2])
        for horizons in ([h for h in self.horizons if h == 1], [h for h in self.horizons if h > 1]):
            rows = torch.isin(train.lengths, torch.tensor(horizons)).nonzero()[:, 0]
            if not len(rows):
                continue
            ends = [(self.first_of[h], self.first_of[h] + h - 1) for h in horizons]
            held_out[rows] = self.pair.fit(examples(rows, ids[rows]), ends[0])
            for first, final in ends[1:]:
                self.pair.weights[first], self.pair.weights[final] = self.pair.weights[list(ends[0])]
        return held_out

    def _fit_procedure(self, number: int, examples: Sequence[Examples]) -> Tensor:
        path = self.procedure[number]
        if not isinstance(path, LinearScores):
            raise TypeError(f"a procedure path is a {type(path).__name__}")
        return path.fit(examples)[:, 0]

    def _count(self, data: PlanningData, train: WindowTensors) -> None:
        """Count the actions of every procedure in the training videos."""
        if train.task_ids is None:
            raise AssertionError("the windows have no tasks")
        task_of = {window.video: task for window, task in zip(train.windows, train.task_ids.tolist(), strict=True)}
        self.counts.zero_()
        for video, ids in zip(data.train_sequence_videos, data.train_sequences, strict=True):
            if video in task_of:
                self.counts[task_of[video]] += torch.bincount(torch.tensor(ids), minlength=self.counts.shape[1])


def _spread(scores: Tensor, there: Tensor) -> Tensor:
    """Scores of some rows as scores of all, zero for the others."""
    whole = scores.new_zeros(len(there), *scores.shape[1:])
    whole[there] = scores
    return whole


def _shares(counts: Tensor) -> Tensor:
    """Counts (..., A) as shares, smoothed."""
    smoothed = counts.clamp_min(0) + _USAGE_SMOOTHING
    return smoothed / smoothed.sum(dim=-1, keepdim=True)
