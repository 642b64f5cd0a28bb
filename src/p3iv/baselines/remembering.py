"""Tables whose sizes come with the training data, kept in the checkpoint like weights."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn


class Remembering(nn.Module):
    """A module whose buffers take the sizes of what is loaded into them."""

    def remember(self, **tables: Tensor) -> None:
        """Keep tensors under names; a second time they replace those of the first."""
        for name, table in tables.items():
            self.register_buffer(name, table.detach().clone())

    def _load_from_state_dict(self, state_dict: dict[str, Tensor], prefix: str, *rest: Any) -> None:
        for name in self._buffers:
            if f"{prefix}{name}" in state_dict:
                self._buffers[name] = torch.empty_like(state_dict[f"{prefix}{name}"])
        super()._load_from_state_dict(state_dict, prefix, *rest)
