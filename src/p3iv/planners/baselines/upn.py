"""UPN: Srinivas et al., "Universal planning networks", ICML 2018, with a softmax for discrete actions.

An encoder, and a forward model in its latent space. A plan is found by gradient descent on the actions, so that they
lead to a state near the goal's. The descent is unrolled, and encoder and model are trained through it to end in the
demonstrated actions. The softmax is that of Chang et al. 2020, who first compared with UPN on this task. The paper
leaves open where the descent starts, its steps and rates, the distance, and how intermediate observations are used (UPN
has none; tables of this field count it among the visually supervised). Our choices:

- The variables are logits (T, A), which start at learned values, the same for every pair; actions enter the model as
  softmax-weighted embeddings.
- `baseline.inner_steps` steps, each with a learned rate that starts at `baseline.inner_rate`; the distance is Huber's,
  as in the paper, summed over dimensions. Four steps by default: in a trial on 64 windows of the tabletop, 62 of them
  were right after 200 updates with four steps, and none with eight, whose gradients explode.
- The outer loss is cross-entropy of the final logits, plus 0.1 times the squared error of the states that the model
  imagines under the true actions; its gradient is cut to a norm of 1.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn
from torch.nn import functional

from p3iv.config import Config
from p3iv.data.tensors import PlanningData
from p3iv.planners.base import Batch, Sync
from p3iv.planners.baselines.base import Baseline, LossLearner, Prepared, Sampled, pick, state_loss, states_of
from p3iv.planners.header import PlannerShape
from p3iv.planners.p3iv.losses import action_loss

STATE_WEIGHT = 0.1

MAX_GRAD_NORM = 1.0  # second derivatives make some gradients very large


class Upn(Baseline):
    """Plans by gradient descent through a learned model."""

    own_settings = ("baseline.inner_steps", "baseline.inner_rate")

    @classmethod
    def is_visual(cls, config: Config) -> bool:
        return True

    def __init__(self, shape: PlannerShape, config: Config) -> None:
        super().__init__(shape, config)
        width = config.model.width
        self.encode_observation = _smooth_mlp(shape.feature_width, config.model.encoder_hidden, width)
        self.model = _smooth_mlp(2 * width, config.model.head_hidden, width)
        self.drop = nn.Dropout(config.model.dropout)
        self.embed_action = nn.Parameter(torch.randn(shape.num_actions, width))
        self.first_logits = nn.Parameter(torch.zeros(shape.horizon, shape.num_actions))
        rates = torch.full((config.baseline.inner_steps,), math.log(config.baseline.inner_rate))
        self.log_rates = nn.Parameter(rates)

    def forward(self, start: Tensor, goal: Tensor) -> Tensor:
        return self.descend(start, goal)[0]

    def plan(self, start: Tensor, goal: Tensor) -> Tensor:
        return self(start, goal).argmax(dim=-1)  # type: ignore[no-any-return]

    def prepare(self, start: Tensor, goal: Tensor) -> Prepared:
        shares = self(start, goal).softmax(dim=-1)  # (1, T, A)
        best = shares.argmax(dim=-1)

        def draw(uniforms: Tensor) -> Sampled:
            drawn = pick(shares.expand(len(uniforms), -1, -1), uniforms)
            return Sampled(best.expand(len(uniforms), -1), drawn, shares)

        return Prepared(best[0], draw)

    def descend(self, start: Tensor, goal: Tensor) -> tuple[Tensor, Tensor]:
        """The logits that the descent ends with (B, T, A), and the planning loss before every step and after the last.

        Gradients are needed even inside no_grad: the descent is the planner.
        """
        is_taught = torch.is_grad_enabled()
        with torch.enable_grad():
            state, target = self.encode(start), self.encode(goal)
            logits = self.first_logits.expand(len(start), -1, -1)
            losses = [self.planning_loss(state, target, logits)]
            for rate in self.log_rates.exp():
                (slope,) = torch.autograd.grad(losses[-1].sum(), logits, create_graph=is_taught)
                logits = logits - rate * slope
                if not is_taught:
                    logits = logits.detach().requires_grad_()
                losses.append(self.planning_loss(state, target, logits))
        found, path = logits, torch.stack(losses)  # (inner_steps + 1, B)
        return (found, path) if is_taught else (found.detach(), path.detach())

    def planning_loss(self, state: Tensor, target: Tensor, logits: Tensor) -> Tensor:
        """The distance between the goal and the end of the plan with these logits: (B,)."""
        end = self.imagine(state, logits.softmax(dim=-1))[:, -1]
        return functional.huber_loss(end, target, reduction="none").sum(dim=-1)

    def imagine(self, state: Tensor, actions: Tensor) -> Tensor:
        """The states that actions (B, T, A), as shares of the vocabulary, lead to from a state (B, D): (B, T, D)."""
        states = []
        for action in (actions @ self.embed_action).unbind(dim=1):
            state = state + self.model(torch.cat((state, action), dim=1))
            states.append(state)
        return torch.stack(states, dim=1)

    def encode(self, observations: Tensor) -> Tensor:
        """Observations as latent states: (..., F) -> (..., D)."""
        encoded: Tensor = self.drop(self.encode_observation(self.standardise(observations)))
        return encoded

    def losses(self, batch: Batch) -> dict[str, Tensor]:
        """Cross-entropy through the descent, and 0.1 times the error of imagined states."""
        states = self.encode(states_of(batch))
        logits, _ = self.descend(batch.start, batch.goal)
        true = functional.one_hot(batch.action_ids, self.shape.num_actions).to(states.dtype)
        return {
            "action": action_loss(logits, batch.action_ids),
            "state": STATE_WEIGHT * state_loss(self.imagine(states[:, 0], true), states[:, 1:]),
        }

    def make_learner(self, data: PlanningData, sync: Sync) -> LossLearner:
        return LossLearner(self, sync, self.losses, max_grad_norm=MAX_GRAD_NORM)


def _smooth_mlp(width_in: int, hidden: int, width_out: int) -> nn.Sequential:
    """One hidden layer with a smooth activation, because training the descent needs second derivatives."""
    return nn.Sequential(nn.Linear(width_in, hidden), nn.GELU(), nn.Linear(hidden, width_out))
