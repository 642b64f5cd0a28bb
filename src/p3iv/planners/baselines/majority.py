"""Majority: the most frequent training plan of the procedure that start and goal seem to belong to.

Not a method of a paper, but a simple lower bound that tables of this field leave out. The procedure is predicted by a
linear classifier (ridge regression from [start; goal] onto procedures, closed form, scale and penalty chosen on
validation windows). Among equally frequent plans, the first by action ids is recommended. `argmax` samples are that
plan; `categorical` samples are drawn from all training plans of the procedure.
"""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional

from p3iv.config import Config
from p3iv.data.tensors import PlanningData, WindowTensors
from p3iv.errors import DatasetError
from p3iv.metrics.counts import count_plans
from p3iv.planners.baselines.base import Baseline, Prepared, ResizableBuffers, Sampled, require_range
from p3iv.planners.header import PlannerShape
from p3iv.planners.ridge import fit_on_validation, with_intercept


class Majority(ResizableBuffers, Baseline):
    """Keeps the plans of every procedure, most frequent first."""

    task_weights: Tensor  # (2F + 1, C)
    task_plans: Tensor  # (U, T): the distinct plans of procedure 0, then of 1, ...
    plan_counts: Tensor  # (U,)
    first_plan: Tensor  # (C + 1,)

    def __init__(self, shape: PlannerShape, config: Config) -> None:
        super().__init__(shape, config)
        whole = torch.zeros(0, dtype=torch.int64)
        self.store(
            task_weights=torch.zeros(2 * shape.feature_width + 1, 0),
            task_plans=torch.zeros(0, shape.horizon, dtype=torch.int64),
            plan_counts=whole,
            first_plan=whole,
        )

    def fit(self, data: PlanningData) -> None:
        super().fit(data)
        ids, val_ids = _tasks(data.train), _tasks(data.val)
        seen, rank = ids.unique(return_inverse=True)
        val_rank = torch.searchsorted(seen, val_ids).clamp(max=len(seen) - 1)
        val_rank = torch.where(seen[val_rank] == val_ids, val_rank, torch.full_like(val_rank, -1))  # not in train
        train, val = (self._inputs(side.start, side.goal) for side in (data.train, data.val))
        tables = [count_plans(data.train.action_ids[rank == task][None]) for task in range(len(seen))]
        sizes = torch.tensor([0, *(len(table.plans) for table in tables)])
        self.store(
            task_weights=fit_on_validation(train, val, [(rank, val_rank)], len(seen), self.feature_scale.repeat(2))[0],
            task_plans=torch.cat([table.plans for table in tables]),
            plan_counts=torch.cat([table.counts for table in tables]),
            first_plan=sizes.cumsum(0),
        )

    def check_loaded(self) -> None:
        num_plans, num_tasks = len(self.task_plans), self.task_weights.shape[1]
        require_range(self.task_plans, self.shape.num_actions, "plans")
        require_range(self.plan_counts - 1, 2**31, "counts")
        require_range(self.first_plan, num_plans + 1, "procedures")
        if len(self.plan_counts) != num_plans or len(self.first_plan) != num_tasks + 1:
            raise ValueError("its tables of plans have different lengths")
        if not num_tasks or bool((self.first_plan.diff() < 1).any()):
            raise ValueError("it has a procedure without a plan")

    def plan(self, start: Tensor, goal: Tensor) -> Tensor:
        return self.task_plans[self.first_plan[self.predict_task(start, goal)]]

    def prepare(self, start: Tensor, goal: Tensor) -> Prepared:
        task = int(self.predict_task(start, goal))
        rows = slice(int(self.first_plan[task]), int(self.first_plan[task + 1]))
        plans, counts = self.task_plans[rows], self.plan_counts[rows].double()
        shares = functional.one_hot(plans, self.shape.num_actions) * (counts / counts.sum())[:, None, None]
        total = counts.cumsum(0)

        def draw(uniforms: Tensor) -> Sampled:
            drawn = plans[(total <= uniforms[:, :1].double() * total[-1]).sum(dim=1)]
            return Sampled(plans[:1].expand(len(uniforms), -1), drawn, shares.sum(dim=0, keepdim=True))

        return Prepared(plans[0], draw)

    def predict_task(self, start: Tensor, goal: Tensor) -> Tensor:
        """The rank of the predicted procedure among those of the training windows: (B,)."""
        return (with_intercept(self._inputs(start, goal)) @ self.task_weights).argmax(dim=1)

    def _inputs(self, start: Tensor, goal: Tensor) -> Tensor:
        return self.standardise(torch.stack((start, goal), dim=1)).flatten(1)


def _tasks(windows: WindowTensors) -> Tensor:
    if windows.task_ids is None:
        raise DatasetError("These windows do not say which procedure they belong to.")
    return windows.task_ids
