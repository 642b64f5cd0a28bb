"""SCHEMA: Niu et al., "State changes matter for procedure planning in instructional videos", ICLR 2024.

Every action is described by the states before and after it. Start and goal are aligned with these descriptions; one
decoder then imagines the states in between, a second one reads the actions off the sequence of states, and both attend
to the descriptions of all actions. Viterbi decodes with the transitions of the training plans.

The losses: cross-entropy of the actions, of the alignment (`successors.states`) and of the procedure, and 0.1 times the
squared distance of an imagined state from its description, the mean of what is said after the action before it and
before the action after it. The method follows the published code; where we had to choose, or depart from it:

- Three texts of each kind per action, written by a language model: the embedding of the step's own text stands in for
  them (`successors.states`), so the decoders attend to 2A descriptions instead of 6A.
- The procedure enters the first decoder as its scores, through a linear map and without gradients; the second one as an
  embedding, of the true procedure in training and of the guessed one afterwards. As in the code.
- Blocks as in the code: the output of an attention is normalised before it is added, and again after it. Its copies of
  a block begin with equal parameters, ours do not.
- Emissions are a softmax, and Viterbi is exact, in log space. The code's transitions are zero where no training plan
  has one, and then every plan may be impossible; ours have `successor.transition_floor`. So the planner is a `Chain`,
  with exact probabilities and exact samples.
- The probabilistic variant puts noise in place of the zero tokens of both decoders, but its code overwrites that of the
  first. We draw from the chain instead.
- Observations are standardised, and the encoder's two linear layers have `model.encoder_hidden` between them, as for
  ViterbiPlanNet; the code's have twice the width of the features. `successor.input_dropout` is the code's.
- The preset has the code's batch size, epochs, dropout, AdamW (weight decay 0.01), widths and 32 heads, and its
  learning rate for CrossTask, 4e-3 (NIV 3e-3, COIN 5e-3).

Attention to 2A descriptions takes most of the time, in proportion to the heads. With the preset, 150 CPU s are 18
epochs on CaptainCook4D, far from convergence; 8 heads and smaller batches take more steps in that time. Worth searching
on validation windows (8 combinations): model.heads 8 and 32; optim.batch_size 64 and 256; optim.learning_rate 1e-3 and
4e-3.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional

from p3iv.config import Config, ModelConfig
from p3iv.planners.base import Batch
from p3iv.planners.header import PlannerShape
from p3iv.planners.layers import cosine_positions
from p3iv.planners.successors.states import ResizableParameters, StateChain

DESCRIBED_WEIGHT = 0.1


class Attention(nn.Module):
    """Attention of tokens to each other, or to a memory that all windows share."""

    def __init__(self, sizes: ModelConfig) -> None:
        super().__init__()
        self.attend = nn.MultiheadAttention(sizes.width, sizes.heads, batch_first=True)
        self.drop = nn.Dropout(sizes.dropout)
        self.norm = nn.LayerNorm(sizes.width)

    def forward(self, tokens: Tensor, memory: Tensor | None = None) -> Tensor:
        """(B, L, D) and (M, D) -> (B, L, D)."""
        if memory is None:
            read, _ = self.attend(tokens, tokens, tokens, need_weights=False)
        else:  # one long sequence of all tokens, so that keys and values are computed once for all windows
            read, _ = self.attend(tokens.flatten(0, 1)[None], memory[None], memory[None], need_weights=False)
        normed: Tensor = self.norm(self.drop(read.view_as(tokens)))
        return normed


class Block(nn.Module):
    """Self-attention, attention to the descriptions, feed-forward; each is added and normalised."""

    def __init__(self, sizes: ModelConfig) -> None:
        super().__init__()
        self.own, self.described = Attention(sizes), Attention(sizes)
        self.feed = nn.Sequential(
            nn.Linear(sizes.width, sizes.feed_forward),
            nn.GELU(),
            nn.Dropout(sizes.dropout),
            nn.Linear(sizes.feed_forward, sizes.width),
        )
        self.norms = nn.ModuleList(nn.LayerNorm(sizes.width) for _ in range(3))
        self.drop = nn.Dropout(sizes.dropout)

    def forward(self, tokens: Tensor, memory: Tensor) -> Tensor:
        """(B, L, D) and (M, D) -> (B, L, D)."""
        after_own, after_described, after_feed = self.norms
        tokens = after_own(tokens + self.drop(self.own(tokens)))
        tokens = after_described(tokens + self.drop(self.described(tokens, memory)))
        fed: Tensor = after_feed(tokens + self.drop(self.feed(tokens)))
        return fed


class Decoder(nn.Module):
    """Blocks over tokens with positions."""

    positions: Tensor

    def __init__(self, sizes: ModelConfig, num_tokens: int) -> None:
        super().__init__()
        self.blocks = nn.ModuleList(Block(sizes) for _ in range(sizes.layers))
        self.register_buffer("positions", cosine_positions(num_tokens, sizes.width), persistent=False)

    def forward(self, tokens: Tensor, shift: Tensor, memory: Tensor) -> Tensor:
        """Tokens (B, L, D), what is added to all of them (B, D), and a memory (M, D) -> (B, L, D)."""
        tokens = tokens + self.positions + shift[:, None]
        for block in self.blocks:
            tokens = block(tokens, memory)
        return tokens


class ProcedureInputs(ResizableParameters):
    """How the procedure enters the decoders; the number of procedures C is known once it is fitted or loaded."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.zeros(width, 0))
        self.bias = nn.Parameter(torch.zeros(width))
        self.embedding = nn.Parameter(torch.zeros(0, width))

    def resize(self, number: int) -> None:
        """Make new parameters for this many procedures."""
        width = len(self.bias)
        layer = nn.Linear(number, width)
        self.weight, self.bias = nn.Parameter(layer.weight), nn.Parameter(layer.bias)
        self.embedding = nn.Parameter(torch.randn(number, width))

    def of_scores(self, scores: Tensor) -> Tensor:
        """(B, C) -> (B, D); no gradient reaches the scores."""
        return functional.linear(scores.detach(), self.weight, self.bias)


class Schema(StateChain):
    """States in between, then actions, from start, goal and the descriptions of all actions."""

    preset = "schema"

    def __init__(self, shape: PlannerShape, config: Config) -> None:
        super().__init__(shape, config, nn.ReLU())
        sizes = config.model
        width = sizes.width
        self.inputs = ProcedureInputs(width)
        self.enter = nn.Linear(width, width)
        self.state_decoder = Decoder(sizes, shape.horizon + 1)
        self.leave = nn.Linear(width, width, bias=False)
        self.action_decoder = Decoder(sizes, 2 * shape.horizon + 1)
        self.classify = nn.Sequential(
            nn.Linear(width, width), nn.ReLU(), nn.Dropout(sizes.dropout), nn.Linear(width, shape.num_actions)
        )

    def resize_procedures(self, number: int) -> None:
        super().resize_procedures(number)
        self.inputs.resize(number)

    def check_loaded(self) -> None:
        super().check_loaded()
        number = len(self.procedures.bias)
        if not number or self.inputs.weight.shape[1] != number or len(self.inputs.embedding) != number:
            raise ValueError("its tables of procedures have different lengths")

    def forward(self, start: Tensor, goal: Tensor) -> Tensor:
        """Scores of the actions at every position: (B, F) twice -> (B, T, A)."""
        ends, descriptions = self.encode(start, goal), self.states.describe(self.language)
        scores = self.procedures(ends)
        states = self.imagine(ends, descriptions, scores)
        return self.read_actions(states, descriptions, scores.argmax(dim=1))

    def imagine(self, ends: Tensor, descriptions: Tensor, scores: Tensor) -> Tensor:
        """The states from start to goal: (B, 2, D), (A, 2, D) and scores of procedures (B, C) -> (B, T + 1, D)."""
        entered, between = self.enter(ends), self.shape.horizon - 1
        tokens = torch.cat((entered[:, :1], functional.pad(entered[:, 1:], (0, 0, between, 0))), dim=1)
        decoded = self.state_decoder(tokens, self.inputs.of_scores(scores), descriptions.flatten(0, 1))
        return torch.cat((ends[:, :1], self.leave(decoded[:, 1:-1]), ends[:, 1:]), dim=1)

    def read_actions(self, states: Tensor, descriptions: Tensor, procedure: Tensor) -> Tensor:
        """Scores of the actions between states: (B, T + 1, D), (A, 2, D) and (B,) -> (B, T, A)."""
        paired = torch.stack((states, torch.zeros_like(states)), dim=2)  # a token for the action after every state
        tokens = paired.flatten(1, 2)[:, :-1]  # (B, 2T + 1, D): nothing follows the goal
        decoded = self.action_decoder(tokens, self.inputs.embedding[procedure], descriptions.flatten(0, 1))
        logits: Tensor = self.classify(decoded[:, 1::2])
        return logits

    def losses(self, batch: Batch, procedure: Tensor) -> dict[str, Tensor]:
        ends, descriptions = self.encode(batch.start, batch.goal), self.states.describe(self.language)
        scores = self.procedures(ends)
        states = self.imagine(ends, descriptions, scores)
        logits = self.read_actions(states, descriptions, procedure)
        losses = {
            "action": functional.cross_entropy(logits.flatten(0, 1), batch.action_ids.flatten()),
            "alignment": self.states.loss(ends, descriptions, batch.action_ids),
            "procedure": functional.cross_entropy(scores, procedure),
        }
        if self.shape.horizon > 1:
            said = described_states(descriptions, batch.action_ids)
            losses["described"] = DESCRIBED_WEIGHT * functional.mse_loss(states[:, 1:-1], said)
        return losses


def described_states(descriptions: Tensor, action_ids: Tensor) -> Tensor:
    """What is said of the states between actions, without gradients: (A, 2, D) and (B, T) -> (B, T - 1, D)."""
    before, after = descriptions.detach().unbind(dim=1)
    return (after[action_ids[:, :-1]] + before[action_ids[:, 1:]]) / 2
