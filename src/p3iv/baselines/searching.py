"""Plans found by beam search and ranked by how near to the goal they end: what DDN and PlaTe share.

The search (`baseline.beam`) keeps the likeliest beginnings; whole plans are ranked by log probability minus
`baseline.goal_weight` times the squared distance per dimension between the state that they end in and the goal's. No
weight suits all data, so by default (null) it is chosen after every epoch: of a short list, the one with the highest
success rate, then mean accuracy, on at most 512 validation windows; of equals the smallest. The chosen weight travels
in the checkpoint. A number fixes it.
"""

from __future__ import annotations

import torch
from torch import Tensor

from p3iv.baselines.autoregressive import Autoregressive, Memory, beam_search
from p3iv.config import Config
from p3iv.metrics import score_plans
from p3iv.models import PlannerShape
from p3iv.observations import PlanningData

SEARCH_SETTINGS = ("baseline.beam", "baseline.goal_weight")
WEIGHTS = (0.0, 1.0, 3.0, 10.0, 30.0, 100.0, 300.0)
MOST_WINDOWS = 512
_AT_ONCE = 128  # windows of one search


class Searching(Autoregressive):
    """A planner whose memory begins with the latent state that it is in and the goal's, (B, D) each."""

    goal_weight: Tensor  # (): a fixed one is kept by the configuration, a chosen one by the checkpoint

    def __init__(self, shape: PlannerShape, config: Config) -> None:
        super().__init__(shape, config)
        weight = config.baseline.goal_weight
        self.register_buffer("goal_weight", torch.tensor(weight or 0.0), persistent=weight is None)

    def arrival(self, memory: Memory) -> Tensor:
        """Minus the weighted distance between where a plan ends and the goal."""
        return -self.goal_weight * (memory[0] - memory[1]).square().mean(dim=1)

    def plan(self, start: Tensor, goal: Tensor) -> Tensor:
        return beam_search(self, start, goal, self.config.baseline.beam).plans[:, 0]


@torch.no_grad()
def choose_goal_weight(planner: Searching, data: PlanningData) -> None:
    """Choose the weight with the best plans for validation windows; the search itself does not depend on it."""
    if planner.config.baseline.goal_weight is not None:
        return
    planner.eval()
    planner.goal_weight.fill_(1.0)
    rows = torch.randperm(len(data.val), generator=torch.Generator().manual_seed(0))[:MOST_WINDOWS]
    found: list[list[Tensor]] = [[] for _ in WEIGHTS]
    for some in rows.split(_AT_ONCE):
        start, goal = (side[some].to(planner.goal_weight) for side in (data.val.start, data.val.goal))
        beams = beam_search(planner, start, goal, planner.config.baseline.beam)
        for plans, weight in zip(found, WEIGHTS, strict=True):
            best = (beams.log_probabilities + weight * beams.arrivals).argmax(dim=1)
            plans.append(beams.plans[torch.arange(len(some)), best].cpu())
    scores = [score_plans(torch.cat(plans), data.val.action_ids[rows]) for plans in found]
    merits = [(score.success_rate, score.mean_accuracy) for score in scores]
    planner.goal_weight.fill_(WEIGHTS[merits.index(max(merits))])
