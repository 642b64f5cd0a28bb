"""How much memory some code takes."""

from __future__ import annotations

import tracemalloc
from collections.abc import Callable
from typing import Any

from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves


class LargestTensor(TorchDispatchMode):
    """Records the number of elements of the largest tensor that is made inside it; views do not count."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.elements = 0

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = func(*args, **(kwargs or {}))
        known = {part.untyped_storage().data_ptr() for part in tree_leaves(args) if isinstance(part, Tensor)}
        for made in tree_leaves(result):
            if isinstance(made, Tensor) and made.untyped_storage().data_ptr() not in known:
                self.elements = max(self.elements, made.numel())
        return result


def peak_bytes(work: Callable[[], object]) -> int:
    """The most memory that arrays and Python objects made by some work take at one time."""
    tracemalloc.start()
    try:
        work()
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
