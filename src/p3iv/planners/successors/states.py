"""What ViterbiPlanNet and SCHEMA share: states aligned with texts, the procedure as a second task, and a chain.

Start and goal become states by a linear encoder, behind strong dropout. A contrastive loss aligns the start with what
is said of the state before the first action, the goal with what is said of the state after the last one. The papers let
a language model write these texts, three of each kind per action; here the embedding of the step's own text stands in
for all of them. One text cannot tell before from after, so each kind has a linear map of its own: the published encoder
applied to [text; 0] before an action and to [0; text] after it. With one map for both, ViterbiPlanNet had 7.5 / 12.5 /
15.4 on validation windows of CaptainCook4D, with two 8.8 / 13.4 / 16.1 (success rate, accuracy, IoU; T = 3, one seed).

A head tells the procedure, which only trains the states (ViterbiPlanNet) or also enters the decoders (SCHEMA). Both
planners decode with transitions counted in the training plans, so both are chains with exact probabilities.
"""

from __future__ import annotations

import math
import sys
from abc import abstractmethod
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional

from p3iv.config import Config
from p3iv.data.tensors import PlanningData, WindowTensors
from p3iv.errors import ConfigError, DatasetError
from p3iv.planners.base import VALIDATION_BATCH, Batch, ChainPlanner, Sync
from p3iv.planners.baselines.base import LossLearner
from p3iv.planners.header import PlannerShape
from p3iv.planners.layers import Standardised
from p3iv.plans.chain import Chain
from p3iv.plans.transitions import Sequences, count_transitions
from p3iv.types import Array

WEIGHT_DECAY = 0.01  # of AdamW, as in the published code of both

_FIRST_SCALE = math.log(1 / 0.07)  # of the similarities, as in CLIP


class StateEncoder(nn.Module):
    """Observations and step texts as points of one space; linear, so that few videos suffice."""

    def __init__(self, shape: PlannerShape, config: Config) -> None:
        super().__init__()
        hidden, width = config.model.encoder_hidden, config.model.width
        self.observe = nn.Sequential(nn.Linear(shape.feature_width, hidden), nn.Linear(hidden, width))
        self.before = nn.Linear(shape.target_width, width, bias=False)
        self.after = nn.Linear(shape.target_width, width, bias=False)
        self.drop = nn.Dropout(config.successor.input_dropout)
        self.log_scale = nn.Parameter(torch.tensor(_FIRST_SCALE))

    def forward(self, observations: Tensor) -> Tensor:
        """The states of start and goal: (B, 2, F) -> (B, 2, D)."""
        states: Tensor = self.observe(self.drop(observations))
        return states

    def describe(self, language: Tensor) -> Tensor:
        """The described states before and after every action: (A, F_l) -> (A, 2, D)."""
        return torch.stack([kind(self.drop(language)) for kind in (self.before, self.after)], dim=1)

    def loss(self, states: Tensor, descriptions: Tensor, action_ids: Tensor) -> Tensor:
        """Cross-entropy of the first action given the start and of the last one given the goal, their mean."""
        ends = action_ids[:, (0, -1)]  # (B, 2)
        return functional.cross_entropy(self.similarities(states, descriptions).flatten(0, 1), ends.flatten())

    def similarities(self, states: Tensor, descriptions: Tensor) -> Tensor:
        """Scaled cosines of the start with the states before actions, of the goal with those after them: (B, 2, A)."""
        seen, said = functional.normalize(states, dim=-1), functional.normalize(descriptions, dim=-1)
        return self.log_scale.exp() * torch.einsum("bed,aed->bea", seen, said)


class ResizableParameters(nn.Module):
    """A module whose parameters take the sizes of the tensors loaded into them."""

    def _load_from_state_dict(self, state_dict: dict[str, Tensor], prefix: str, *rest: Any) -> None:
        for name, own in self._parameters.items():
            loaded = state_dict.get(f"{prefix}{name}")
            if own is not None and loaded is not None and own.shape != loaded.shape:
                self._parameters[name] = nn.Parameter(own.new_empty(loaded.shape))
        super()._load_from_state_dict(state_dict, prefix, *rest)


class ProcedureHead(ResizableParameters):
    """Scores of the procedures of the training windows; how many these are is known once it is fitted or loaded."""

    def __init__(self, width: int, activation: nn.Module, dropout: float) -> None:
        super().__init__()
        self.hidden = nn.Sequential(nn.Linear(2 * width, width), activation, nn.Dropout(dropout))
        self.weight = nn.Parameter(torch.zeros(0, width))
        self.bias = nn.Parameter(torch.zeros(0))

    def resize(self, number: int) -> None:
        """Make new parameters for this many procedures, C."""
        layer = nn.Linear(self.weight.shape[1], number)
        self.weight, self.bias = nn.Parameter(layer.weight), nn.Parameter(layer.bias)

    def forward(self, states: Tensor) -> Tensor:
        """(B, 2, D) -> (B, C)."""
        return functional.linear(self.hidden(states.flatten(1)), self.weight, self.bias)


class StateChain(Standardised, ChainPlanner):
    """A network over encoded states that scores actions by position, and transitions that are counted."""

    own_settings = ("successor.input_dropout", "successor.transition_floor")
    unused_settings = ("model.memory_slots", "model.noise_width", "loss.", "optim.critic")
    chosen_buffers = ()

    language: Tensor  # (A, F_l)
    log_transitions: Tensor  # (A, A)

    def __init__(self, shape: PlannerShape, config: Config, activation: nn.Module) -> None:
        super().__init__(shape.feature_width)
        self.shape, self.config = shape, config
        self.states = StateEncoder(shape, config)
        self.procedures = ProcedureHead(config.model.width, activation, config.model.dropout)
        self.register_buffer("language", torch.zeros(shape.num_actions, shape.target_width))
        self.register_buffer("log_transitions", torch.zeros(shape.num_actions, shape.num_actions))

    @classmethod
    def describe(cls, config: Config) -> str:
        """The first paragraph of the planner's file."""
        about = sys.modules[cls.__module__].__doc__ or ""
        return " ".join(about.partition("\n\n")[0].split())

    def fit(self, data: PlanningData) -> None:
        if data.language is None:
            raise ConfigError(
                f"planner={self.config.planner} learns from the texts of the steps and needs language.npz. Make it "
                f"with `p3iv data embed DIR`, or use a planner that does not need it: --planner retrieval."
            )
        self.fit_scale(torch.cat((data.train.start, data.train.goal)))
        self.language.copy_(data.language)
        floor, plans = self.config.successor.transition_floor, data.train.action_ids.tolist()
        self.log_transitions.copy_(torch.from_numpy(log_plan_transitions(plans, self.shape.num_actions, floor)))
        self.resize_procedures(int(procedure_ranks(data.train).max()) + 1)

    def resize_procedures(self, number: int) -> None:
        """Make parameters for this many procedures."""
        self.procedures.resize(number)

    def check_loaded(self) -> None:
        if len(self.procedures.weight) != len(self.procedures.bias):
            raise ValueError("its tables of procedures have different lengths")

    def make_learner(self, data: PlanningData, sync: Sync) -> LossLearner:
        ranks = procedure_ranks(data.train)

        def losses(batch: Batch) -> dict[str, Tensor]:
            if batch.rows is None:
                raise AssertionError("a batch without the rows of its windows does not say which procedures they show")
            return self.losses(batch, ranks[batch.rows.cpu()].to(batch.action_ids.device))

        return LossLearner(self, sync, losses, weight_decay=WEIGHT_DECAY)

    @abstractmethod
    def losses(self, batch: Batch, procedure: Tensor) -> dict[str, Tensor]:
        """The loss terms of a batch whose windows show these procedures, (B,)."""

    def encode(self, start: Tensor, goal: Tensor) -> Tensor:
        """The states of start and goal: (B, F) twice -> (B, 2, D)."""
        states: Tensor = self.states(self.standardise(torch.stack((start, goal), dim=1)))
        return states

    def action_logits(self, start: Tensor, goal: Tensor) -> Tensor:
        scores: Tensor = self(start, goal)
        return scores

    def chain(self, start: Tensor, goal: Tensor, *, size: int = VALIDATION_BATCH) -> Chain:
        pairs = zip(start.split(size), goal.split(size), strict=True)
        emissions = np.concatenate([_as_array(self.action_logits(*pair)) for pair in pairs])
        return Chain(emissions, _as_array(self.log_transitions))


def log_plan_transitions(plans: Sequences, num_actions: int, floor: float) -> Array:
    """Log of the transitions of the published code: (A, A) float64.

    Counts in the training plans, rows normalised; then every probability is at least `floor`, and the rows are
    normalised again. An action that nothing ever followed is followed by every action with equal probability.
    """
    counts = count_transitions(plans, num_actions)
    shares = (counts / counts.sum(axis=1, keepdims=True).clip(min=1)).clip(min=floor)
    result: Array = np.log(shares / shares.sum(axis=1, keepdims=True))
    return result


def procedure_ranks(windows: WindowTensors) -> Tensor:
    """The procedure of every window, as its rank among the procedures of these windows: (N,)."""
    if windows.task_ids is None:
        raise DatasetError("These windows do not say which procedure they belong to.")
    ranks: Tensor = windows.task_ids.unique(return_inverse=True)[1]
    return ranks


def _as_array(tensor: Tensor) -> Array:
    return tensor.detach().cpu().double().numpy()
