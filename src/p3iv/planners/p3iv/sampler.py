"""K plans for every start and goal (section 3.5): one seed fixes one set of latents that all pairs share.

Each pair is computed by itself and its latents in blocks of one fixed shape, so that neither the caller's batch nor K
changes a result: with the same seed, device and number of threads a pair always gets the same plans. Fewer latents are
a prefix of more, and so are the plans drawn from them.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator
from typing import Protocol

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional

from p3iv.planners.p3iv.decoder import Dropout
from p3iv.planners.p3iv.network import P3IVNetwork
from p3iv.plans.draws import (
    BLOCK,
    Draws,
    SampleSettings,
    chain_uniforms,
    collect_latents,
    normal_blocks,
    seed_of,
    uniform_blocks,
)
from p3iv.types import Array


class LogitSource(Protocol):
    """Computes the logits of a pair's K plans."""

    def logits(self, start: Tensor, goal: Tensor) -> Iterator[Tensor]:
        """Blocks (k, T, A) for one pair (F,), (F,); the last may be padded beyond K."""


class PlanSampler:
    """Draws plans from a planner."""

    def __init__(self, planner: P3IVNetwork, settings: SampleSettings) -> None:
        self.planner, self.settings = planner, settings
        horizon = planner.shape.horizon
        self._uniforms = uniform_blocks(settings, "categorical", horizon).reshape(-1, horizon)
        self._chain_uniforms = chain_uniforms(settings, horizon)
        self.source = source_of(planner, settings)

    @torch.inference_mode()
    def draw(self, start: Array, goal: Array) -> Draws:
        """Draw for pairs of observations (N, F)."""
        place = self.planner.queries
        pairs = zip(torch.as_tensor(start).to(place), torch.as_tensor(goal).to(place), strict=True)
        found = [self._draw_one(*pair) for pair in pairs]
        marginals, argmax, categorical = (np.stack(parts) for parts in zip(*found, strict=True))
        return Draws(marginals, argmax, categorical, self._chain_uniforms)

    def _draw_one(self, start: Tensor, goal: Tensor) -> tuple[Array, Array, Array]:
        blocks = (logits.cpu().numpy() for logits in self.source.logits(start, goal))
        return collect_latents(blocks, self._uniforms, self.settings.num_samples)


def source_of(planner: P3IVNetwork, settings: SampleSettings) -> LogitSource:
    """What makes the K plans differ: latents, input noise, dropout, or nothing."""
    if settings.input_noise:
        return _InputNoise(planner, settings)
    if settings.dropout:
        return _InferenceDropout(planner, settings)
    if planner.sizes.noise_width:
        latents = normal_blocks(settings, "latents", planner.sizes.noise_width)
        return _Latents(planner, torch.from_numpy(latents))
    return _OnePlan(planner, settings.num_samples)


class _Latents:
    """The network on blocks of latents; what all pairs or all latents share is computed once.

    In the first block every token of a plan is its own part plus that of the plan's latent. The latent's part of the
    keys is the same at every token, so the softmax cancels it; its part of the values is kept whole, because the
    weights sum to 1. So attention needs only the tokens' keys and values, and its output map is applied once per pair.
    """

    def __init__(self, planner: P3IVNetwork, latents: Tensor) -> None:
        self.planner = planner
        first = planner.decoder.stack[0]
        weight, width = first.self_projection.weight, planner.sizes.width
        with torch.inference_mode():
            latents = latents.to(planner.queries)
            added = functional.linear(latents, planner.join.weight[:, width:])  # (blocks, S, D)
            self.queries = self._heads(functional.linear(added, weight[:width]))
            values = functional.linear(added, weight[2 * width :])
            self.added = added + first.self_output(values)
            self.memory = planner.decoder.keys_values()

    def logits(self, start: Tensor, goal: Tensor) -> Iterator[Tensor]:
        planner, blocks = self.planner, self.planner.decoder.stack
        tokens = planner.tokens(start[None], goal[None])[0]  # (L, D)
        outputs = [0] * (len(blocks) - 1) + [1]  # the last block skips the start token
        query, key, value = blocks[0].self_projection(tokens).chunk(3, dim=-1)
        query, key = self._heads(query)[outputs[0] :], self._heads(key)  # (L, H, d)
        own = torch.einsum("nhd,mhd->nmh", query, key)
        kept = tokens[outputs[0] :]
        split = (planner.sizes.heads, -1)
        output = blocks[0].self_output.weight.unflatten(1, split)
        mixed = torch.einsum("mhd,ehd->mhe", value.unflatten(1, split), output).flatten(0, 1)  # (L H, D)
        off = Dropout(0.0)
        for queries, added in zip(self.queries, self.added, strict=True):
            noise = torch.einsum("shd,mhd->smh", queries, key)
            weights = (own + noise[:, None]).softmax(dim=2).flatten(2)  # (S, L', L H)
            attended = torch.addmm(added.repeat_interleave(len(kept), 0), weights.flatten(0, 1), mixed)
            hidden = attended.view(len(queries), len(kept), -1).add_(kept)
            hidden = blocks[0].read_and_feed(hidden, self.memory[0], off)[None]
            for block, memory, first_output in zip(blocks[1:], self.memory[1:], outputs[1:], strict=True):
                hidden = block(hidden, block.self_projection(hidden), memory, off, first_output=first_output)
            yield planner.action_head(hidden[0])

    def _heads(self, x: Tensor) -> Tensor:
        """(..., D) -> (..., H, d), scaled so that a product of two has the scale of attention."""
        heads = x.unflatten(-1, (self.planner.sizes.heads, -1))
        scaled: Tensor = heads * heads.shape[-1] ** -0.25
        return scaled


class _OnePlan:
    """A planner without noise: one plan, drawn K times."""

    def __init__(self, planner: P3IVNetwork, num_samples: int) -> None:
        self.planner, self.num_samples = planner, num_samples

    def logits(self, start: Tensor, goal: Tensor) -> Iterator[Tensor]:
        logits = self.planner(start[None], goal[None]).action_logits
        for _ in range(-(-self.num_samples // BLOCK)):
            yield logits.expand(BLOCK, -1, -1)


class _InputNoise:
    """Noise on the standardised observations of a planner at z = 0."""

    def __init__(self, planner: P3IVNetwork, settings: SampleSettings) -> None:
        self.planner = planner
        width = 2 * planner.shape.feature_width
        noise = normal_blocks(settings, "input", width)
        self.noise = torch.from_numpy(noise * np.float32(settings.input_noise)).to(planner.queries)

    def logits(self, start: Tensor, goal: Tensor) -> Iterator[Tensor]:
        for block in self.noise:
            at_start, at_goal = (block * self.planner.feature_scale.repeat(2)).chunk(2, dim=1)
            yield self.planner(start + at_start, goal + at_goal).action_logits


class _InferenceDropout:
    """Dropout left on in a planner at z = 0, the same masks for every pair."""

    def __init__(self, planner: P3IVNetwork, settings: SampleSettings) -> None:
        self.planner = copy.deepcopy(planner)
        self.planner.decoder.dropout = settings.dropout
        self.planner.decoder.train()
        self.num_blocks = -(-settings.num_samples // BLOCK)
        self.seed = seed_of(settings, "dropout")

    def logits(self, start: Tensor, goal: Tensor) -> Iterator[Tensor]:
        tokens = self.planner.tokens(start[None], goal[None]).expand(BLOCK, -1, -1)
        devices = [start.device] if start.device.type == "cuda" else []
        for number in range(self.num_blocks):
            with torch.random.fork_rng(devices):
                torch.manual_seed((self.seed + number) % 2**63)
                hidden = self.planner.decode(tokens, None)[:, 0]
            yield self.planner.action_head(hidden)
