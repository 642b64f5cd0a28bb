"""How long one plan takes."""

from __future__ import annotations

import statistics
import time

import torch

from p3iv.data.tensors import PlanningData
from p3iv.planners.checkpoint import TrainedPlanner

TIMED_PAIRS = 30
_WARM_UP = 3


def time_plans(trained: TrainedPlanner, data: PlanningData) -> float:
    """Median processor time, in milliseconds, of one plan to follow, one pair at a time; P3IV's is the one at z = 0."""
    windows, place = data.test, next(trained.planner.buffers())
    spent = []
    with torch.no_grad():
        for number in range(min(TIMED_PAIRS, len(windows)) + _WARM_UP):
            row = slice(number % len(windows), number % len(windows) + 1)
            began = time.process_time()
            start, goal = windows.start[row].to(place), windows.goal[row].to(place)
            trained.planner.recommend(start, goal, trained.transitions)
            spent.append(1000 * (time.process_time() - began))
    return statistics.median(spent[_WARM_UP:])
