"""How the planner of queries is trained: as P3IV+, with each piece of evidence left out at random."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional

from p3iv.data.tensors import PlanningData
from p3iv.planners.base import Batch, Sync
from p3iv.planners.p3iv.losses import language_loss
from p3iv.planners.plus.learner import SECOND_RATE, ChainLearner, end_losses, fit_fold_transitions, see_nearby
from p3iv.planners.queries.evidence import QueryTensors, query_of_windows
from p3iv.planners.queries.experts import HeldOutScores
from p3iv.planners.queries.network import OwnVideo, QueryNetwork, closed_scores_of, place_scores
from p3iv.planners.queries.second_expert import SecondQueryExpert
from p3iv.plans.evidence import EVIDENCE, GOAL, PROCEDURE, START

# How often a training query has each piece of evidence.
SHARES = {"start": 0.97, "goal": 0.9, "history": 0.45, "words": 0.15, "procedure": 0.2}

FACTORS = (
    "pair_scale",
    "start_scale",
    "history_scale",
    "procedure_gain",
    "named_gain",
    "inferred_gain",
    "log_beta",
)
FACTOR_RATE = 3.0  # times the learning rate of the networks
PROCEDURE_WEIGHT = 0.5  # of the auxiliary task of the second network: to name the procedure


class QueryLearner(ChainLearner):
    """Trains the planner of queries."""

    planner: QueryNetwork
    trained: QueryNetwork

    def __init__(self, planner: QueryNetwork, data: PlanningData, held_out: HeldOutScores, *, sync: Sync) -> None:
        plus, size = planner.config.plus, planner.config.optim.batch_size
        transitions, fold = fit_fold_transitions(data, plus.backoff, plus.folds)
        numbers = data.train.lengths.bincount()
        steps = int((-(-numbers // size)).sum())
        super().__init__(planner, planner.config, transitions, fold, steps_per_epoch=steps, sync=sync)
        self.held_out, self._train = held_out, data.train
        self._shares = torch.tensor([SHARES[name] for name in EVIDENCE])
        self._counts, self._video = _count_videos(data)

    def parameter_groups(self) -> list[dict[str, Any]]:
        """The factors of the closed-form scores, a few numbers, and the second network learn faster than the rest."""
        few = [getattr(self.trained, name) for name in FACTORS]
        second = [] if self.trained.second is None else list(self.trained.second.parameters())
        faster = {id(one) for one in (*few, *second)}
        rest = [one for one in self.trained.parameters() if id(one) not in faster]
        groups: list[dict[str, Any]] = [{"params": rest}, {"params": few, "factor": FACTOR_RATE}]
        return [*groups, {"params": second, "factor": SECOND_RATE}] if second else groups

    def losses(self, batch: Batch) -> dict[str, Tensor]:
        """The loss terms of a batch, already weighted."""
        if batch.rows is None or batch.evidence is None:
            raise AssertionError("the evidence of a window is found by its row")
        plus, horizon = self.config.plus, batch.action_ids.shape[1]
        query, own = self._query(batch.rows, batch.evidence, batch.start), self._own(batch.rows, batch.start)
        closed = place_scores(closed_scores_of(self.held_out, batch.rows, horizon), batch.start)
        with self._autocast:  # only the network: the chain needs full precision
            out = self.trained(query, horizon, closed, own)
        fold = self.fold[batch.rows]
        terms = self.chain_terms(out.emissions.to(batch.start), self.trained.first_beta, batch.action_ids, fold)
        if self.config.loss.language:
            weight, temperature = self.config.loss.language, self.config.loss.language_temperature
            terms["language"] = weight * language_loss(out.states, out.descriptions, batch.action_ids, temperature)
        if plus.ends:
            each = end_losses(out.end_scores, batch.action_ids, plus.label_smoothing)  # (B, 2)
            terms["ends"] = plus.ends * 2 * (each * query.has[:, [START, GOAL]]).mean()
        if self.trained.second is not None:
            terms["second"] = self._second_loss(self.trained.second, query, batch.rows, batch.action_ids)
        return terms

    def _second_loss(self, second: SecondQueryExpert, query: QueryTensors, rows: Tensor, action_ids: Tensor) -> Tensor:
        """The sum of the second network's own terms; it shares no parameter with the rest."""
        plus, query = self.config.plus, self._see_nearby(query, rows)
        with self._autocast:
            out = second.score_query(query, self.trained.positions(action_ids.shape[1]))
        emissions = out.emissions.to(query.start)
        terms = list(self.chain_terms(emissions, second.beta, action_ids, self.fold[rows]).values())
        each = end_losses(out.end_scores.to(query.start), action_ids, plus.label_smoothing)  # (B, 2)
        terms.append(plus.ends * 2 * (each * query.has[:, [START, GOAL]]).mean())
        tasks = functional.cross_entropy(out.procedure_scores.to(query.start), self._tasks(rows), reduction="none")
        terms.append(PROCEDURE_WEIGHT * (tasks * (1 - query.has[:, PROCEDURE])).mean())
        return torch.stack(terms).sum()

    def _see_nearby(self, query: QueryTensors, rows: Tensor) -> QueryTensors:
        """The same queries, each start and goal seen at its own second or at one nearby, at random."""
        moments = self.held_out.start_row[rows], self.held_out.goal_row[rows]
        start, goal = see_nearby((query.start, query.goal), self._train.nearby, moments)
        return replace(query, start=start, goal=goal)

    def _query(self, rows: Tensor, uniforms: Tensor, like: Tensor) -> QueryTensors:
        """The queries of training windows, with the evidence that the uniform numbers choose."""
        query = query_of_windows(self._train.take(rows), self.trained.shape, like, EVIDENCE)
        return replace(query, has=query.has * (uniforms < self._shares).to(like))

    def _own(self, rows: Tensor, like: Tensor) -> OwnVideo:
        return OwnVideo(self._tasks(rows).to(like.device), self._counts[self._video[rows]].to(like))

    def _tasks(self, rows: Tensor) -> Tensor:
        if self._train.task_ids is None:
            raise AssertionError("the windows have no tasks")
        return self._train.task_ids[rows]


def _count_videos(data: PlanningData) -> tuple[Tensor, Tensor]:
    """How often each action occurs in every training video (V, A), and the video of every window (N,)."""
    number_of = {video: number for number, video in enumerate(data.train_sequence_videos)}
    counts = [torch.bincount(torch.tensor(ids), minlength=len(data.names)) for ids in data.train_sequences]
    return torch.stack(counts), torch.tensor([number_of[window.video] for window in data.train.windows])
