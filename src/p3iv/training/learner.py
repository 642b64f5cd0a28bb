"""One training step of the paper: the critic's, then the planner's, on one batch."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from p3iv.config import Config
from p3iv.errors import ConfigError
from p3iv.losses import (
    action_loss,
    critic_loss,
    diversity_loss,
    diversity_ratio,
    generator_loss,
    language_loss,
    least_diverse_pair,
    visual_loss,
)
from p3iv.models import P3IV, Critic

Sync = Callable[[nn.Module], None]  # averages gradients over processes; does nothing in one


@dataclass(frozen=True)
class Batch:
    """Windows of one step."""

    start: Tensor  # (B, F)
    goal: Tensor  # (B, F)
    action_ids: Tensor  # (B, T)
    noise: Tensor | None  # (B, Z), one latent per window; None where the planner has no noise
    steps: Tensor | None = None  # (B, T, F): visual targets, strong supervision only
    share: float = 1.0  # of this process's windows in the global batch, times the number of processes


class P3ivLearner:
    """Planner, critic, their optimisers, and the losses that are switched on."""

    def __init__(self, planner: P3IV, config: Config, language: Tensor | None, *, sync: Sync) -> None:
        self.planner = planner
        self.weights = config.loss
        self.language = language  # (A, F_l)
        self.is_adversarial = config.loss.adversarial > 0
        self._needs_targets = config.loss.language > 0 or self.is_adversarial
        self._needs_states = self._needs_targets or config.loss.diversity > 0
        if self._needs_targets and config.loss.supervision == "language" and language is None:
            raise ConfigError("loss.language and loss.adversarial need language.npz. Import it, or set both to 0.")
        device = next(planner.parameters()).device
        self.critic = Critic(planner.shape.horizon, planner.config.width).to(device)
        fused = device.type in ("cpu", "cuda")
        self.optimizer = torch.optim.Adam(planner.parameters(), lr=config.optim.learning_rate, fused=fused)
        self.critic_optimizer = torch.optim.Adam(
            self.critic.parameters(), lr=config.optim.critic_learning_rate, fused=fused
        )
        self._sync = sync

    def train_step(self, batch: Batch, latents: Tensor | None) -> dict[str, Tensor]:
        """Update critic and planner once; `latents` (1, S, Z) are those of the diversity loss. Returns named terms."""
        tokens = self.planner.tokens(batch.start, batch.goal)
        pair = None if latents is None or not self.weights.diversity else self._choose_pair(tokens, latents)
        hidden = self._decode(tokens, batch.noise, pair)  # (B, 1 or 3, T, D)
        states = self.planner.state_head(hidden) if self._needs_states else None
        targets = self._encode_targets(batch) if self._needs_targets else None
        seen: dict[str, Tensor] = {}
        terms: dict[str, Tensor] = {}
        if self.weights.action:
            terms["action"] = action_loss(self.planner.action_head(hidden[:, 0]), batch.action_ids)
        if states is not None and targets is not None:
            if self.is_adversarial:
                seen |= self._train_critic(
                    self._real_states(targets, batch).detach(), states[:, 0].detach(), batch.share
                )
            terms |= self._state_terms(states[:, 0], targets, batch)
        if states is not None and pair is not None:
            ratio = diversity_ratio(states[:, 1:], pair)
            terms["diversity"] = diversity_loss(ratio, self.weights.diversity_form)
            seen["diversity_ratio"] = ratio.mean()
        total = torch.stack([getattr(self.weights, name) * term for name, term in terms.items()]).sum()
        self.optimizer.zero_grad(set_to_none=True)
        (total * batch.share).backward()
        self._sync(self.planner)
        self.optimizer.step()
        return {name: term.detach() for name, term in {"total": total, **terms, **seen}.items()}

    @torch.no_grad()
    def _choose_pair(self, tokens: Tensor, latents: Tensor) -> Tensor:
        """The pair of latents per window that L_reg takes, (B, 2, Z): all S run without dropout and without a graph."""
        self.planner.eval()
        states = self.planner.state_head(self.planner.decode(tokens, latents))  # (B, S, T, D)
        pair = least_diverse_pair(states, latents)
        return latents[0][torch.stack((pair.first, pair.second), dim=1)]

    def _decode(self, tokens: Tensor, noise: Tensor | None, pair: Tensor | None) -> Tensor:
        """Decode each window's latent with dropout and, riding along without it, the pair of L_reg."""
        self.planner.train()
        if noise is None:
            return self.planner.decode(tokens, None)
        latents = noise[:, None] if pair is None else torch.cat((noise[:, None], pair), dim=1)
        return self.planner.decode(tokens, latents, num_dropped=1)

    def _encode_targets(self, batch: Batch) -> Tensor:
        """Projected descriptions of the vocabulary (A, D), or of what is seen at each step (B, T, D)."""
        if self.weights.supervision == "visual":
            if batch.steps is None:
                raise ConfigError("loss.supervision=visual needs the features of the steps in between.")
            return self.planner.encode_target(self.planner.standardise(batch.steps))  # type: ignore[no-any-return]
        return self.planner.encode_target(self.language)  # type: ignore[no-any-return]

    def _real_states(self, targets: Tensor, batch: Batch) -> Tensor:
        return targets if self.weights.supervision == "visual" else targets[batch.action_ids]  # (B, T, D)

    def _state_terms(self, states: Tensor, targets: Tensor, batch: Batch) -> dict[str, Tensor]:
        terms = {}
        if self.weights.language:
            temperature = self.weights.language_temperature
            terms["language"] = (
                visual_loss(states, targets, temperature)
                if self.weights.supervision == "visual"
                else language_loss(states, targets, batch.action_ids, temperature)
            )
        if self.is_adversarial:
            with frozen(self.critic):
                terms["adversarial"] = generator_loss(self.critic(states))
        return terms

    def _train_critic(self, real: Tensor, generated: Tensor, share: float) -> dict[str, Tensor]:
        """One step of the critic on sequences that are cut off from the planner's graph."""
        real_logits, generated_logits = self.critic(torch.cat((real, generated))).chunk(2)
        loss = critic_loss(real_logits, generated_logits)
        self.critic_optimizer.zero_grad(set_to_none=True)
        (loss * share).backward()
        self._sync(self.critic)
        self.critic_optimizer.step()
        return {
            "critic": loss,
            "critic_real": (real_logits > 0).float().mean(),
            "critic_generated": (generated_logits < 0).float().mean(),
        }


@contextmanager
def frozen(module: nn.Module) -> Iterator[None]:
    """Gradients pass through a module but do not reach its parameters."""
    for parameter in module.parameters():
        parameter.requires_grad_(False)
    try:
        yield
    finally:
        for parameter in module.parameters():
            parameter.requires_grad_(True)
