"""ViterbiPlanNet: Seminara et al., "Injecting procedural knowledge via differentiable Viterbi", CVPR 2026.

A network scores every action at every position, and a layer that decodes with the transitions of the training plans is
part of training: Viterbi with log-sum-exp for its maximum, and with a softmax for its back-pointers. What comes out at
a position is a distribution over actions, and the loss is its squared distance from the true action.

With these two operators the trellis holds the forward messages of a chain, the back-pointers are p(a_{t-1} | a_t), and
the output is exactly the chain's marginals p(a_t) given start and goal. So the planner is a `Chain` with emissions
sigmoid(score), and its probabilities are exact. We compute the marginals by messages in both directions, without a
matrix of back-pointers per window. A test compares them with a literal transcription of the layer and with a sum over
all plans.

The network: two states (`successors.states`), one block of self-attention over them, then one hidden layer with a
sigmoid that scores all positions at once. The losses, of equal weight: the squared error of the marginals, mean over
positions and actions; the alignment of the states with texts; and the squared error of the scores of the procedure,
without a softmax. The method follows the published code; where we had to choose, or depart from it:

- Texts of states written by a language model: the embedding of the step's own text stands in (`successors.states`).
- The code recommends by a second Viterbi, over the marginals, with the transitions again and without the floor; it
  also scores a second pass through the layer. We recommend the most probable plan of the chain itself, so that plans
  and probabilities agree: 8.8 / 13.4 / 16.1 on validation windows of CaptainCook4D (success rate, accuracy, IoU; T = 3,
  one seed), where the code's way has 8.2 / 13.2 / 16.1.
- Transitions that no training plan has get `successor.transition_floor`, as in the code.
- Observations are standardised, as for all our planners. The encoder's two linear layers have `model.encoder_hidden`
  between them, 256; the code's have twice the width of the features, which is no better (8.4 / 13.0 / 15.7) and slower.
- The preset has the code's learning rate, batch size, dropout, AdamW (weight decay 0.01) and widths.
- `successor.input_dropout`, 0.4 in the code, is essential on small data: 6.4 / 10.0 / 12.7 without it.

Worth searching on validation windows (8 combinations): optim.learning_rate 3e-4 and 9e-4 (3e-3 was worse);
successor.input_dropout 0.4 and 0.6; successor.transition_floor 1e-10 and 1e-4.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional

from p3iv.config import Config
from p3iv.planners.base import Batch
from p3iv.planners.header import PlannerShape
from p3iv.planners.plus.likelihood import backward_messages, forward_messages
from p3iv.planners.successors.states import StateChain


class ViterbiPlanNet(StateChain):
    """Emissions of a chain, trained through the chain's marginals."""

    preset = "viterbi-plan-net"

    def __init__(self, shape: PlannerShape, config: Config) -> None:
        super().__init__(shape, config, nn.GELU())
        sizes = config.model
        block = nn.TransformerEncoderLayer(
            sizes.width, sizes.heads, sizes.feed_forward, sizes.dropout, "gelu", batch_first=True
        )
        norm = nn.LayerNorm(sizes.width)
        self.mix = nn.TransformerEncoder(block, sizes.layers, norm, enable_nested_tensor=False)
        self.emit = nn.Sequential(
            nn.Linear(2 * sizes.width, sizes.head_hidden),
            nn.Sigmoid(),
            nn.Dropout(sizes.dropout),
            nn.Linear(sizes.head_hidden, shape.horizon * shape.num_actions),
        )

    def forward(self, start: Tensor, goal: Tensor) -> Tensor:
        """Log emissions: (B, F) twice -> (B, T, A)."""
        return self.emissions_of(self.encode(start, goal))

    def emissions_of(self, states: Tensor) -> Tensor:
        """Log emissions of encoded states: (B, 2, D) -> (B, T, A)."""
        scores = self.emit(self.mix(states).flatten(1))
        return functional.logsigmoid(scores.unflatten(1, (self.shape.horizon, self.shape.num_actions)))

    def losses(self, batch: Batch, procedure: Tensor) -> dict[str, Tensor]:
        states, descriptions = self.encode(batch.start, batch.goal), self.states.describe(self.language)
        procedures = self.procedures(states)
        return {
            "marginals": self.plan_loss(self.emissions_of(states), batch.action_ids),
            "alignment": self.states.loss(states, descriptions, batch.action_ids),
            "procedure": functional.mse_loss(procedures, _one_hot(procedure, procedures)),
        }

    def plan_loss(self, log_emissions: Tensor, action_ids: Tensor) -> Tensor:
        """The squared error of the marginals, mean over windows, positions and actions: (B, T, A) and (B, T)."""
        with torch.autocast(log_emissions.device.type, enabled=False):  # the chain needs full precision
            marginals = chain_marginals(log_emissions.to(self.log_transitions), self.log_transitions)
            return functional.mse_loss(marginals, _one_hot(action_ids, marginals))


def chain_marginals(log_emissions: Tensor, log_transitions: Tensor) -> Tensor:
    """The differentiable Viterbi layer: the probability of every action at every position under a chain.

    Args:
        log_emissions: (B, T, A).
        log_transitions: (A, A), from row to column.

    Returns:
        (B, T, A).
    """
    forward, backward = (messages(log_emissions, log_transitions) for messages in (forward_messages, backward_messages))
    return (forward + backward).softmax(dim=-1)


def _one_hot(ids: Tensor, like: Tensor) -> Tensor:
    return functional.one_hot(ids, like.shape[-1]).to(like.dtype)
