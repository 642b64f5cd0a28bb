"""Ext-GAIL: Bi et al., "Procedure planning in instructional videos via contextual modeling and model-based policy
learning", ICCV 2021.

A context latent of (start, goal) by reparameterisation; a recurrent policy and a transition model, both conditioned on
the context, rolled out from the start. Trained with an ELBO, a state loss, a discriminator on (state, action, context),
which the policy is trained against through Gumbel-softmax actions, and a term that recovers the context from the
roll-out. The paper leaves open, or we do not know, the sizes, the weights, what the discriminator sees of a plan, and
the data augmentation, which according to the P3IV paper gives 30 % more training data. Our choices:

- The context is a normal latent of `model.noise_width`, pulled to the standard normal with weight 0.01.
- Cross-entropy with weight 1 on forced actions, states with weight 1, adversarial and recovery terms with 0.1 each, on
  the policy's own roll-out. The discriminator judges every step; it learns as fast as the policy
  (`optim.learning_rate`): at P3IV's `optim.critic_learning_rate` its loss on the tabletop stays at chance, 2 ln 2.
- Augmentation: 30 % of the windows of a batch come a second time as a random proper part of themselves, whose goal is
  the state that the part leads to; only the actions of the part are scored. `ext-gail-no-aug` does without.
- `argmax` samples take the most likely actions under each context, as those of P3IV; the recommended plan is that of
  the mean context.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn import functional

from p3iv.config import Config
from p3iv.data.tensors import PlanningData
from p3iv.errors import ConfigError
from p3iv.planners.base import Batch, Learner, Sync
from p3iv.planners.baselines.autoregressive import Autoregressive, Memory, Rollout
from p3iv.planners.baselines.base import Prepared, Sampled, pick, states_of
from p3iv.planners.header import PlannerShape
from p3iv.planners.layers import adam, frozen, mixed_precision, mlp
from p3iv.planners.p3iv.losses import critic_loss, generator_loss

KL_WEIGHT, ADVERSARIAL_WEIGHT, RECOVERY_WEIGHT = 0.01, 0.1, 0.1

AUGMENTED = 0.3  # share of additional windows

LARGEST_UNIFORM = 1 - 2**-24


class ExtGail(Autoregressive):
    """Context encoder, policy and transition model."""

    augments = True  # whether 30 % of the windows come a second time as a part of themselves

    @classmethod
    def is_visual(cls, config: Config) -> bool:
        return True

    def __init__(self, shape: PlannerShape, config: Config) -> None:
        super().__init__(shape, config)
        width, self.context_width = config.model.width, config.model.noise_width
        if self.context_width == 0:
            raise ConfigError(f"model.noise_width=0, but planner={config.planner} needs a context: at least 1.")
        self.encode_observation = mlp(shape.feature_width, config.model.encoder_hidden, width)
        self.drop = nn.Dropout(config.model.dropout)
        self.context_head = mlp(2 * width, config.model.head_hidden, 2 * self.context_width)
        self.embed_action = nn.Embedding(shape.num_actions, width)
        self.first_token = nn.Parameter(torch.zeros(width))
        self.transition = mlp(2 * width + self.context_width, config.model.head_hidden, width)
        self.cell = nn.GRUCell(3 * width + self.context_width, width)
        self.action_head = mlp(2 * width + self.context_width, config.model.head_hidden, shape.num_actions)
        # Recovers the context from one state and action of a roll-out; the mean over its steps is the guess.
        self.recover = mlp(2 * width, config.model.head_hidden, self.context_width)

    @property
    def num_uniforms(self) -> int:
        return self.shape.horizon + self.context_width

    def begin(self, start: Tensor, goal: Tensor) -> Memory:
        state, target = self.encode(start), self.encode(goal)
        return self.begin_with(state, target, self.context_of(state, target)[0])

    def begin_with(self, state: Tensor, target: Tensor, context: Tensor) -> Memory:
        """Begin between two latent states (B, D) under a context (B, Z)."""
        token = self.first_token.expand(len(state), -1)
        return state, target, context, self.cell(torch.cat((state, token, target, context), dim=1))

    def act(self, memory: Memory) -> Tensor:
        state, _, context, history = memory
        logits: Tensor = self.action_head(self.drop(torch.cat((history, state, context), dim=1)))
        return logits

    def move(self, memory: Memory, action_ids: Tensor) -> Memory:
        return self.move_by(memory, self.embed_action(action_ids))

    def move_by(self, memory: Memory, action: Tensor) -> Memory:
        """Take an action given as its embedding, or as a mixture of several: (B, D)."""
        state, target, context, history = memory
        state = state + self.transition(torch.cat((state, action, context), dim=1))
        return state, target, context, self.cell(torch.cat((state, action, target, context), dim=1), history)

    def encode(self, observations: Tensor) -> Tensor:
        """Observations as latent states: (..., F) -> (..., D)."""
        encoded: Tensor = self.drop(self.encode_observation(self.standardise(observations)))
        return encoded

    def context_of(self, state: Tensor, target: Tensor) -> tuple[Tensor, Tensor]:
        """Mean and log variance of the context between two latent states: (B, Z) each."""
        mean, log_variance = self.context_head(torch.cat((state, target), dim=1)).chunk(2, dim=1)
        return mean, log_variance.clamp(-10, 10)

    def prepare(self, start: Tensor, goal: Tensor) -> Prepared:
        state, target = self.encode(start), self.encode(goal)
        mean, log_variance = self.context_of(state, target)
        best = self.plan(start, goal)

        def draw(uniforms: Tensor) -> Sampled:
            number, horizon = len(uniforms), self.shape.horizon
            noise = torch.special.ndtri(uniforms[:, horizon:].clamp(1 - LARGEST_UNIFORM, LARGEST_UNIFORM))
            context = mean + (log_variance / 2).exp() * noise
            begun = self.begin_with(state.expand(number, -1), target.expand(number, -1), context)
            likeliest = self.roll_out(begun, lambda logits, _: logits.argmax(dim=-1))
            drawn = self.roll_out(begun, lambda logits, at: pick(logits.softmax(dim=-1), uniforms[:, at]))
            return Sampled(likeliest.action_ids, drawn.action_ids, drawn.action_logits.softmax(dim=-1))

        return Prepared(best[0], draw)

    def make_learner(self, data: PlanningData, sync: Sync) -> ExtGailLearner:
        return ExtGailLearner(self, sync)


class ExtGailWithoutAugmentation(ExtGail):
    """Ext-GAIL trained on whole windows only."""

    augments = False

    @classmethod
    def describe(cls, config: Config) -> str:
        return "Ext-GAIL (Bi et al., ICCV 2021) without augmentation: trained on whole windows only."


class Discriminator(nn.Module):
    """Tells true steps from steps of the policy."""

    def __init__(self, planner: ExtGail) -> None:
        super().__init__()
        width = planner.config.model.width
        inputs = width + planner.shape.num_actions + planner.context_width
        self.judge = mlp(inputs, planner.config.model.encoder_hidden, 1)

    def forward(self, states: Tensor, actions: Tensor, context: Tensor) -> Tensor:
        """(B, T, D), shares of actions (B, T, A) and (B, Z) -> logits (B, T)."""
        shared = context[:, None].expand(-1, states.shape[1], -1)
        logits: Tensor = self.judge(torch.cat((states, actions, shared), dim=-1))[..., 0]
        return logits


@dataclass(frozen=True)
class _Rollouts:
    """What one step computes before the discriminator is updated."""

    states: Tensor  # (B, T + 1, D): the encoded observations
    forced: Rollout  # with the true actions
    own_states: Tensor  # (B, T, D): before each action of the policy
    own_actions: Tensor  # (B, T, A): Gumbel-softmax actions of the policy
    mean: Tensor  # (B, Z)
    log_variance: Tensor  # (B, Z)
    context: Tensor  # (B, Z)


class ExtGailLearner(Learner):
    """Updates the discriminator, then the policy with its context."""

    def __init__(self, planner: ExtGail, sync: Sync) -> None:
        self.planner, self._sync = planner, sync
        self.discriminator = Discriminator(planner).to(planner.feature_mean)
        self._autocast = mixed_precision(planner, planner.config)
        rate = planner.config.optim.learning_rate
        self.optimizer, self.critic_optimizer = (
            adam(module, planner.config, rate) for module in (planner, self.discriminator)
        )
        super().__init__(
            planner.config,
            modules={"planner": planner, "critic": self.discriminator},
            optimizers={"optimizer": self.optimizer, "critic_optimizer": self.critic_optimizer},
        )

    def train_step(self, batch: Batch) -> dict[str, Tensor]:
        self.planner.train()
        seen, action_ids, is_scored = states_of(batch), batch.action_ids, torch.ones_like(batch.action_ids)
        if self.planner.augments and batch.action_ids.shape[1] > 1 and len(seen):
            seen, action_ids, is_scored = with_parts(seen, action_ids)
        scored = is_scored.to(seen.dtype)
        with self._autocast:
            rollouts = self._roll_out(seen, action_ids, scored)
        critic = self._train_discriminator(rollouts, action_ids, scored, batch.loss_weight)
        with self._autocast:
            terms = self._terms(rollouts, action_ids, scored)
            total = torch.stack(list(terms.values())).sum()
        self.optimizer.zero_grad(set_to_none=True)
        (total * batch.loss_weight).backward()
        self._sync(self.planner)
        self.optimizer.step()
        return {name: term.detach() for name, term in {"total": total, **terms, "critic": critic}.items()}

    def _roll_out(self, seen: Tensor, action_ids: Tensor, scored: Tensor) -> _Rollouts:
        """Encode the observations (B, T + 1, F), then follow the true actions and, apart from them, the policy's."""
        planner, rows = self.planner, torch.arange(len(seen), device=seen.device)
        length = scored.sum(dim=1).long()
        states = planner.encode(seen)  # (B, T + 1, D)
        start, goal = states[:, 0], states[rows, length]
        mean, log_variance = planner.context_of(start, goal)
        context = mean + (log_variance / 2).exp() * torch.randn_like(mean)
        forced = planner.roll_out(planner.begin_with(start, goal, context), lambda _, at: action_ids[:, at])
        own_states, own_actions = self.own_plan(start, goal, context)
        return _Rollouts(states, forced, own_states, own_actions, mean, log_variance, context)

    def _terms(self, rollouts: _Rollouts, action_ids: Tensor, scored: Tensor) -> dict[str, Tensor]:
        """The loss terms of the policy, already weighted."""
        imagined = torch.stack([memory[0] for memory in rollouts.forced.memories], dim=1)
        own = rollouts.own_states, rollouts.own_actions, rollouts.context, scored
        return {
            "action": _mean(_cross_entropy(rollouts.forced.action_logits, action_ids), scored),
            "state": _mean((imagined - rollouts.states[:, 1:].detach()).square().mean(dim=-1), scored),
            "context": KL_WEIGHT * _divergence(rollouts.mean, rollouts.log_variance),
            "adversarial": ADVERSARIAL_WEIGHT * self.adversarial_term(*own),
            "recovery": RECOVERY_WEIGHT * self._recovery(*own),
        }

    def own_plan(self, start: Tensor, goal: Tensor, context: Tensor) -> tuple[Tensor, Tensor]:
        """States before each action (B, T, D) and Gumbel-softmax actions (B, T, A) of the policy's own roll-out."""
        memory, states, actions = self.planner.begin_with(start, goal, context), [], []
        for _ in range(self.planner.shape.horizon):
            states.append(memory[0])
            actions.append(functional.gumbel_softmax(self.planner.act(memory), dim=-1))
            memory = self.planner.move_by(memory, actions[-1] @ self.planner.embed_action.weight)
        return torch.stack(states, dim=1), torch.stack(actions, dim=1)

    def _train_discriminator(
        self, rollouts: _Rollouts, action_ids: Tensor, scored: Tensor, loss_weight: float
    ) -> Tensor:
        is_scored, context = scored.bool(), rollouts.context.detach()
        true_states = rollouts.states[:, :-1].detach()
        true_actions = functional.one_hot(action_ids, self.planner.shape.num_actions).to(true_states.dtype)
        with self._autocast:
            real = self.discriminator(true_states, true_actions, context)[is_scored]
            own = self.discriminator(rollouts.own_states.detach(), rollouts.own_actions.detach(), context)[is_scored]
            loss = critic_loss(real, own)
        self.critic_optimizer.zero_grad(set_to_none=True)
        (loss * loss_weight).backward()
        self._sync(self.discriminator)
        self.critic_optimizer.step()
        return loss

    def adversarial_term(self, states: Tensor, actions: Tensor, context: Tensor, scored: Tensor) -> Tensor:
        """How well the discriminator recognises the policy's steps, without gradients for the discriminator."""
        with frozen(self.discriminator):
            return generator_loss(self.discriminator(states, actions, context.detach())[scored.bool()])

    def _recovery(self, states: Tensor, actions: Tensor, context: Tensor, scored: Tensor) -> Tensor:
        """The error of the context recovered from the roll-out: the mutual-information term of InfoGAIL."""
        guesses = self.planner.recover(torch.cat((states, actions @ self.planner.embed_action.weight), dim=-1))
        guess = (guesses * scored[..., None]).sum(dim=1) / scored.sum(dim=1, keepdim=True)
        error: Tensor = (guess - context.detach()).square().mean()
        return error


def with_parts(seen: Tensor, action_ids: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Windows, and after them random proper parts of some: states (B, T + 1, F), actions (B, T) and which are scored.

    A part of states i..j and actions i..j-1 is moved to the front; what follows it stays for the shape and is not
    scored.
    """
    number, horizon = action_ids.shape
    chosen = torch.randperm(number, device=seen.device)[: math.ceil(AUGMENTED * number)]
    length = torch.randint(1, horizon, (len(chosen),), device=seen.device)
    first = (torch.rand(len(chosen), device=seen.device) * (horizon - length + 1)).long()
    place = first[:, None] + torch.arange(horizon + 1, device=seen.device)
    parts = seen[chosen[:, None], place.clamp(max=horizon)]
    part_ids = action_ids[chosen[:, None], place[:, :-1].clamp(max=horizon - 1)]
    is_scored = torch.arange(horizon, device=seen.device) < length[:, None]
    return (
        torch.cat((seen, parts)),
        torch.cat((action_ids, part_ids)),
        torch.cat((torch.ones_like(action_ids, dtype=torch.bool), is_scored)),
    )


def _cross_entropy(action_logits: Tensor, action_ids: Tensor) -> Tensor:
    return functional.cross_entropy(action_logits.transpose(1, 2), action_ids, reduction="none")  # (B, T)


def _mean(values: Tensor, scored: Tensor) -> Tensor:
    """Sum over the scored positions, mean over the windows: (B, T) twice."""
    return (values * scored).sum(dim=1).mean()


def _divergence(mean: Tensor, log_variance: Tensor) -> Tensor:
    """KL of the context from the standard normal."""
    return 0.5 * (mean.square() + log_variance.exp() - 1 - log_variance).sum(dim=1).mean()
