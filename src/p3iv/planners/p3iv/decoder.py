"""The memory-augmented decoder (section 3.2): blocks of self-attention, cross-attention to one memory, feed-forward.

Tokens have an axis of latents, because many plans of one start and goal differ only in their noise: what they share is
computed once. Shapes: B windows, S latents, L tokens, D width, H heads, d = D / H, M memory slots.
"""

from __future__ import annotations

import math
from typing import cast

import torch
from torch import Tensor, nn
from torch.nn import functional

from p3iv.config import ModelConfig


class Dropout:
    """The masks of one forward pass, from torch's default generator.

    On the CPU a decision takes 8 random bits, a quarter of the time of torch's own dropout. Eight bits give multiples
    of 1/256 only, so each pass drops with one of the two multiples around the probability, chosen at random so that the
    mean is the probability, and scales accordingly.
    """

    def __init__(self, probability: float) -> None:
        self.probability = probability
        self._masks = torch.empty(0)

    @property
    def is_off(self) -> bool:
        return self.probability == 0.0

    def prepare(self, number: int, like: Tensor) -> None:
        """Draw the masks of this many elements at once; further ones are drawn when they are needed."""
        if not self.is_off:
            self._masks = self.draw(number, like)

    def add(self, x: Tensor, update: Tensor) -> Tensor:
        """X + dropout(update)."""
        return x + update if self.is_off else torch.addcmul(x, update, self._mask(update))

    def _mask(self, like: Tensor) -> Tensor:
        wanted = like.numel()
        if len(self._masks) < wanted:
            self._masks = self.draw(wanted, like)
        taken, self._masks = self._masks[:wanted], self._masks[wanted:]
        return taken.view(like.shape)

    def draw(self, number: int, like: Tensor) -> Tensor:
        """The factors: 0 with the given probability p, else 1 / (1 - p)."""
        if like.device.type != "cpu":
            kept = torch.rand(number, device=like.device) >= self.probability
            return kept.to(like.dtype).mul_(1.0 / (1.0 - self.probability))
        lower = math.floor(self.probability * 256)
        threshold = lower + int(torch.rand(()).item() < self.probability * 256 - lower)
        bits = torch.empty((number + 7) // 8, dtype=torch.int64).random_(-(2**63), None)
        kept = bits.view(torch.uint8) >= threshold
        return kept.to(like.dtype).mul_(256.0 / (256 - threshold))  # twice as fast as kept * scale


class DecoderBlock(nn.Module):
    """Post-norm block; `memory_slots=0` leaves the cross-attention out.

    Dropout acts on the output of every sub-layer, as Vaswani et al. describe it, and not inside: masks on attention
    weights and hidden units too, as in torch's own blocks, made an epoch with L_a + L_l about a tenth slower.
    """

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        width = config.width
        self.heads = config.heads
        self.self_projection = nn.Linear(width, 3 * width)
        self.self_output = nn.Linear(width, width)
        self.self_norm = nn.LayerNorm(width)
        if config.memory_slots:
            self.cross_query = nn.Linear(width, width)
            self.cross_memory = nn.Linear(width, 2 * width)
            self.cross_output = nn.Linear(width, width)
            self.cross_norm = nn.LayerNorm(width)
        self.expand = nn.Linear(width, config.feed_forward)
        self.contract = nn.Linear(config.feed_forward, width)
        self.feed_norm = nn.LayerNorm(width)

    def forward(
        self, tokens: Tensor, projected: Tensor, memory: Tensor | None, dropout: Dropout, *, first_output: int = 0
    ) -> Tensor:
        """Attend and transform.

        Args:
            tokens: (B, S, L, D).
            projected: queries, keys and values of the tokens, (B, S, L, 3D).
            memory: the memory's keys and values for this block, (M, 2D), or None.
            dropout: where the masks come from.
            first_output: tokens before this one are attended to but not computed further.

        Returns:
            (B, S, L - first_output, D)
        """
        attended = self.self_output(attend_within(projected, self.heads, first_output))
        return self.read_and_feed(dropout.add(tokens[:, :, first_output:], attended), memory, dropout)

    def read_and_feed(self, attended: Tensor, memory: Tensor | None, dropout: Dropout) -> Tensor:
        """What follows the self-attention: its norm, the memory (M, 2D), the feed-forward; (..., D) -> (..., D)."""
        kept = self.self_norm(attended)
        if memory is not None:
            read = attend_to_memory(self.cross_query(kept), memory, self.heads)
            kept = self.cross_norm(dropout.add(kept, self.cross_output(read)))
        hidden = functional.relu(self.expand(kept), inplace=True)
        return self.feed_norm(dropout.add(kept, self.contract(hidden)))  # type: ignore[no-any-return]


class MemoryDecoder(nn.Module):
    """A stack of blocks that share one read-only learned memory (eq. 2)."""

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        self.dropout = config.dropout
        self.blocks = nn.ModuleList(DecoderBlock(config) for _ in range(config.layers))
        self.memory = (
            nn.Parameter(torch.randn(config.memory_slots, config.width) / math.sqrt(config.width))
            if config.memory_slots
            else None
        )

    @property
    def stack(self) -> list[DecoderBlock]:
        """The blocks, first to last."""
        return cast(list[DecoderBlock], list(self.blocks))

    def forward(self, shared: Tensor, noise: Tensor | None) -> Tensor:
        """Decode every latent of every window.

        Args:
            shared: the tokens without their noise, (B, L, D).
            noise: what each latent adds to every token, (B or 1, S, D); None for the deterministic planner.

        Returns:
            The last L - 1 tokens, (B, S, L - 1, D); nothing is read at the start token, so the last block skips it.
        """
        dropout = Dropout(self.dropout if self.training else 0.0)
        tokens = shared[:, None]  # (B, 1, L, D)
        project = self.stack[0].self_projection
        projected = project(tokens)
        if noise is not None:
            # The projection is linear: the tokens' part is computed once per window, the noise's once per latent.
            tokens = tokens + noise[:, :, None]
            projected = projected + functional.linear(noise, project.weight)[:, :, None]
        dropout.prepare(self._num_decisions(tokens), tokens)
        for number, (block, memory) in enumerate(zip(self.stack, self.keys_values(), strict=True)):
            if number:
                projected = block.self_projection(tokens)
            is_last = number == len(self.blocks) - 1
            tokens = block(tokens, projected, memory, dropout, first_output=1 if is_last else 0)
        return tokens

    def keys_values(self) -> list[Tensor | None]:
        """The memory as every block reads it, (M, 2D) each: once for all windows and latents."""
        return [None if self.memory is None else block.cross_memory(self.memory) for block in self.stack]

    def _num_decisions(self, tokens: Tensor) -> int:
        """Elements that dropout decides on in one pass; the last block leaves out the start token."""
        windows, latents, num_tokens, width = tokens.shape
        updates = 2 if self.memory is None else 3
        return windows * latents * (len(self.blocks) * num_tokens - 1) * updates * width


def attend_within(projected: Tensor, heads: int, first_output: int) -> Tensor:
    """Self-attention of (B, S, L, 3D) for the tokens from `first_output` on: (B, S, L - first_output, D).

    A plan has few tokens: products of 4 x 16 matrices cost more than elementwise products and sums.
    """
    query, key, value = projected.unflatten(-1, (3, heads, -1)).unbind(-3)  # each (B, S, L, H, d)
    query = query[:, :, first_output:, None] * query.shape[-1] ** -0.5  # (B, S, L', 1, H, d)
    weights = (query * key[:, :, None]).sum(dim=-1).softmax(dim=3)  # (B, S, L', L, H)
    read: Tensor = (weights[..., None] * value[:, :, None]).sum(dim=3)
    return read.flatten(3)


def attend_to_memory(query: Tensor, keys_values: Tensor, heads: int) -> Tensor:
    """Cross-attention of all tokens of all windows (B, S, L, D), as one long row of queries, to the memory (M, 2D)."""
    key, value = keys_values.unflatten(-1, (2, heads, -1)).permute(1, 2, 0, 3)  # each (H, M, d)
    row = query.flatten(0, -2).unflatten(-1, (heads, -1)).transpose(0, 1)  # (H, B S L, d)
    read = functional.scaled_dot_product_attention(row[None], key[None], value[None])[0]
    return read.transpose(0, 1).reshape(query.shape)
