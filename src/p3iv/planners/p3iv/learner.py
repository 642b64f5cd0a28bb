"""P3IV as a planner of the house, and one training step of the paper: the critic's, then the planner's."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager

import torch
from torch import Tensor, nn
from torch.optim import Optimizer

from p3iv.config import Config
from p3iv.data.tensors import PlanningData, WindowTensors
from p3iv.errors import ConfigError
from p3iv.planners.base import Batch, PlannerKind, PlannerShape, Sync
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
from p3iv.planners.p3iv.network import P3IV
from p3iv.planners.p3iv.sampler import PlanSampler
from p3iv.plans.chain import Chain
from p3iv.plans.transitions import Transitions

EVALUATION_BATCH = 1024


class P3ivLearner:
    """Planner, critic, their optimisers, and the losses that are switched on."""

    def __init__(self, planner: P3IV, config: Config, language: Tensor | None, *, sync: Sync) -> None:
        self.planner = planner
        self.weights = config.loss
        self.language = language  # (A, F_l)
        self.is_adversarial = config.loss.adversarial > 0
        self._needs_targets = config.loss.language > 0 or self.is_adversarial
        if self._needs_targets and config.loss.supervision == "language" and language is None:
            raise ConfigError("loss.language and loss.adversarial need language.npz. Import it, or set both to 0.")
        device, dtype = planner.queries.device, planner.queries.dtype
        self._cast = torch.autocast(device.type, torch.bfloat16, enabled=config.optim.precision == "mixed")
        self.critic = Critic(planner.shape.horizon, planner.config.width).to(device, dtype)
        fused = device.type in ("cpu", "cuda")
        rates = config.optim.learning_rate, config.optim.critic_learning_rate
        self.optimizer, self.critic_optimizer = (
            torch.optim.Adam(module.parameters(), lr=rate, eps=config.optim.epsilon, fused=fused)
            for module, rate in zip((planner, self.critic), rates, strict=True)
        )
        self.rates: Mapping[str, float] = dict(zip(("optimizer", "critic_optimizer"), rates, strict=True))
        self._sync = sync

    @property
    def modules(self) -> Mapping[str, nn.Module]:
        return {"planner": self.planner, "critic": self.critic}

    @property
    def optimizers(self) -> Mapping[str, Optimizer]:
        return {"optimizer": self.optimizer, "critic_optimizer": self.critic_optimizer}

    def train_step(self, batch: Batch, latents: Tensor | None) -> dict[str, Tensor]:
        """Update critic and planner once; `latents` (1, S, Z) are those of the diversity loss. Returns named terms."""
        with self._cast:
            terms, seen = self._forward(batch, latents)
            total = torch.stack([getattr(self.weights, name) * term for name, term in terms.items()]).sum()
        self.optimizer.zero_grad(set_to_none=True)
        (total * batch.share).backward()
        self._sync(self.planner)
        self.optimizer.step()
        return {name: term.detach() for name, term in {"total": total, **terms, **seen}.items()}

    def _forward(self, batch: Batch, latents: Tensor | None) -> tuple[dict[str, Tensor], dict[str, Tensor]]:
        """The planner's loss terms, and what else is worth knowing; trains the critic on the way."""
        self.planner.train()
        tokens = self.planner.tokens(batch.start, batch.goal)
        hidden = self.planner.decode(tokens, None if batch.noise is None else batch.noise[:, None])[:, 0]  # (B, T, D)
        terms: dict[str, Tensor] = {}
        seen: dict[str, Tensor] = {}
        if self.weights.action:
            terms["action"] = action_loss(self.planner.action_head(hidden), batch.action_ids)
        if self._needs_targets:
            states, targets = self.planner.state_head(hidden), self._encode_targets(batch)
            if self.is_adversarial:
                seen |= self._train_critic(self._real_states(targets, batch).detach(), states.detach(), batch.share)
            terms |= self._state_terms(states, targets, batch)
        if self.weights.diversity and latents is not None:
            ratio = self._least_ratio(tokens, latents)
            terms["diversity"] = diversity_loss(ratio, self.weights.diversity_form)
            seen["diversity_ratio"] = ratio.mean()
        return terms, seen

    def _least_ratio(self, tokens: Tensor, latents: Tensor) -> Tensor:
        """The ratio that L_reg takes of every window, (B,), without dropout.

        The maximum picks one pair, so all S latents run without a graph and that pair alone runs again with one.
        """
        self.planner.eval()
        with torch.no_grad():
            states = self.planner.state_head(self.planner.decode(tokens, latents))  # (B, S, T, D)
            pair = least_diverse_pair(states, latents)
        chosen = latents[0][torch.stack((pair.first, pair.second), dim=1)]  # (B, 2, Z)
        return diversity_ratio(self.planner.state_head(self.planner.decode(tokens, chosen)), chosen)

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


def predict_argmax(planner: P3IV, windows: WindowTensors, device: torch.device) -> Tensor:
    """The most likely action of every position at z = 0: (N, T)."""
    return _marginals(planner, windows, device).argmax(dim=-1)


def predict_viterbi(planner: P3IV, transitions: Transitions, windows: WindowTensors, device: torch.device) -> Tensor:
    """The default decoder at z = 0, (N, T); marginals of K latents after every epoch would cost more than the epoch."""
    return Chain.of(_marginals(planner, windows, device), transitions.row).best_paths()[0]


def _marginals(planner: P3IV, windows: WindowTensors, device: torch.device) -> Tensor:
    planner.eval()
    dtype = planner.queries.dtype
    with torch.no_grad():
        parts = [
            _scores(planner, start.to(device, dtype), goal.to(device, dtype)).softmax(dim=-1).cpu()
            for start, goal in zip(
                windows.start.split(EVALUATION_BATCH), windows.goal.split(EVALUATION_BATCH), strict=True
            )
        ]
    return torch.cat(parts)


def _build(shape: PlannerShape, config: Config) -> P3IV:
    return P3IV(shape, config.model)


def _fit(planner: P3IV, data: PlanningData) -> None:
    planner.fit_scale(torch.cat((data.train.start, data.train.goal)))


def _teach(planner: P3IV, data: PlanningData, config: Config, sync: Sync) -> P3ivLearner:
    language = None if data.language is None else data.language.to(planner.queries)
    return P3ivLearner(planner, config, language, sync=sync)


def _scores(planner: P3IV, start: Tensor, goal: Tensor) -> Tensor:
    logits: Tensor = planner(start, goal).action_logits
    return logits


def _predict(planner: P3IV, transitions: Transitions, start: Tensor, goal: Tensor) -> Tensor:
    return Chain.of(_scores(planner, start, goal).softmax(dim=-1), transitions.row).best_paths()[0]


def _describe(config: Config) -> str:
    terms = ("action", "language", "adversarial", "diversity")
    weights = ", ".join(f"{name} {getattr(config.loss, name):g}" for name in terms)
    return f"losses: {weights}; chosen by Viterbi at z = 0"


KIND = PlannerKind(
    build=_build,
    fit=_fit,
    teach=_teach,
    sampler=PlanSampler,
    scores=_scores,
    predict=_predict,
    describe=_describe,
    reads=(),
    is_visual=lambda config: config.loss.supervision == "visual",
)
