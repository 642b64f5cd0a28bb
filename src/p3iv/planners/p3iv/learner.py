"""One training step of the paper: an update of the critic, then an update of the planner."""

from __future__ import annotations

import torch
from torch import Tensor

from p3iv.config import Config
from p3iv.errors import ConfigError
from p3iv.planners.base import Batch, Learner, Sync
from p3iv.planners.layers import adam, evaluating, frozen, mixed_precision
from p3iv.planners.p3iv.losses import (
    Critic,
    action_loss,
    critic_loss,
    diversity_loss,
    diversity_ratio,
    generator_loss,
    language_loss,
    least_diverse_pair,
    visual_loss,
)
from p3iv.planners.p3iv.network import P3IVNetwork, PlanOutput


class P3IVLearner(Learner):
    """Planner, critic, their optimisers, and the losses whose weight is not 0."""

    def __init__(self, planner: P3IVNetwork, config: Config, language: Tensor | None, *, sync: Sync) -> None:
        self.planner = planner
        self.weights = config.loss
        self.language = language  # (A, F_l)
        self.is_adversarial = config.loss.adversarial > 0
        self.is_visual = config.loss.supervision == "visual"
        self._needs_targets = config.loss.language > 0 or self.is_adversarial
        if self._needs_targets and not self.is_visual and language is None:
            raise ConfigError(
                "loss.language and loss.adversarial need language.npz. Make it with `p3iv data embed DIR`, or set both "
                "to 0."
            )
        self.critic = Critic(planner.shape.horizon, planner.sizes.width).to(planner.queries)
        self.optimizer = adam(planner, config, config.optim.learning_rate)
        self.critic_optimizer = adam(self.critic, config, config.optim.critic_learning_rate)
        self._autocast, self._sync = mixed_precision(planner, config), sync
        super().__init__(
            config,
            modules={"planner": planner, "critic": self.critic},
            optimizers={"optimizer": self.optimizer, "critic_optimizer": self.critic_optimizer},
        )

    def train_step(self, batch: Batch) -> dict[str, Tensor]:
        """Update critic and planner once; returns the loss terms of the planner and the statistics of the critic."""
        self.planner.train()
        with self._autocast:
            out: PlanOutput = self.planner(batch.start, batch.goal, batch.noise)
            targets = self._encode_targets(batch) if self._needs_targets else None
        seen: dict[str, Tensor] = {}
        if self.is_adversarial and targets is not None:
            real = targets if self.is_visual else targets[batch.action_ids]  # (B, T, D)
            seen |= self.train_critic(real.detach(), out.state_embeddings.detach(), batch.loss_weight)
        with self._autocast:
            terms = self._terms(out, targets, batch)
            if self.weights.diversity and batch.latents is not None:
                ratio = self._least_ratio(out.tokens, batch.latents)
                terms["diversity"] = diversity_loss(ratio, self.weights.diversity_form)
                seen["diversity_ratio"] = ratio.mean()
            total = torch.stack([getattr(self.weights, name) * term for name, term in terms.items()]).sum()
        self.optimizer.zero_grad(set_to_none=True)
        (total * batch.loss_weight).backward()
        self._sync(self.planner)
        self.optimizer.step()
        return {name: term.detach() for name, term in {"total": total, **terms, **seen}.items()}

    def train_critic(self, real: Tensor, generated: Tensor, loss_weight: float = 1.0) -> dict[str, Tensor]:
        """Update the critic once, on state sequences (B, T, D) that are detached from the planner's graph."""
        with self._autocast:
            real_logits, generated_logits = self.critic(torch.cat((real, generated))).chunk(2)
            loss = critic_loss(real_logits, generated_logits)
        self.critic_optimizer.zero_grad(set_to_none=True)
        (loss * loss_weight).backward()
        self._sync(self.critic)
        self.critic_optimizer.step()
        return {
            "critic": loss,
            "critic_real": (real_logits > 0).float().mean(),
            "critic_generated": (generated_logits < 0).float().mean(),
        }

    def adversarial_term(self, states: Tensor) -> Tensor:
        """L_adv of the planner's states (B, T, D), without gradients for the critic."""
        with frozen(self.critic):
            return generator_loss(self.critic(states))

    def _encode_targets(self, batch: Batch) -> Tensor:
        """Projected descriptions of the vocabulary (A, D), or projected observations of the steps (B, T, D)."""
        if not self.is_visual:
            return self.planner.encode_target(self.language)  # type: ignore[no-any-return]
        if batch.steps is None:
            raise ConfigError("loss.supervision=visual needs the features of the steps in between.")
        return self.planner.encode_target(self.planner.standardise(batch.steps))  # type: ignore[no-any-return]

    def _terms(self, out: PlanOutput, targets: Tensor | None, batch: Batch) -> dict[str, Tensor]:
        """L_a, L_l and L_adv of the planner, those whose weights are not 0."""
        terms: dict[str, Tensor] = {}
        if self.weights.action:
            terms["action"] = action_loss(out.action_logits, batch.action_ids)
        if self.weights.language and targets is not None:
            temperature = self.weights.language_temperature
            terms["language"] = (
                visual_loss(out.state_embeddings, targets, temperature)
                if self.is_visual
                else language_loss(out.state_embeddings, targets, batch.action_ids, temperature)
            )
        if self.is_adversarial:
            terms["adversarial"] = self.adversarial_term(out.state_embeddings)
        return terms

    def _least_ratio(self, tokens: Tensor, latents: Tensor) -> Tensor:
        """The smallest diversity ratio of every window, which L_reg uses, (B,); without dropout.

        The maximum picks one pair, so all S latents run without a graph, and only that pair runs again with one.
        """
        planner = self.planner
        with evaluating(planner):
            with torch.no_grad():
                states = planner.state_head(planner.decode(tokens, latents))  # (B, S, T, D)
                pair = least_diverse_pair(states, latents)
            chosen = latents[0][torch.stack((pair.first, pair.second), dim=1)]  # (B, 2, Z)
            return diversity_ratio(planner.state_head(planner.decode(tokens, chosen)), chosen)
