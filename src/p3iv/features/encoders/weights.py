"""Network weights from files: plain tensors only, and every parameter in its place."""

from __future__ import annotations

import hashlib
import pickle
from collections.abc import Mapping
from importlib.util import find_spec
from pathlib import Path

import torch
from torch import Tensor, nn

from p3iv.errors import FeatureError
from p3iv.types import listed


def read_state(path: Path) -> dict[str, Tensor]:
    """The tensors of a .pth or .safetensors file; nothing else in it is loaded or run.

    Raises:
        FeatureError: naming the file.
    """
    if not path.is_file():
        raise FeatureError(f"{path}: there is no such file of weights")
    try:
        if path.suffix == ".safetensors":
            from safetensors.torch import load_file  # noqa: PLC0415 - most weights are .pth

            return load_file(path)
        state = torch.load(path, map_location="cpu", weights_only=True)
    except (OSError, RuntimeError, ValueError, EOFError, KeyError, pickle.UnpicklingError) as error:
        raise FeatureError(f"{path}: cannot be read as weights ({str(error).splitlines()[0][:200]})") from error
    state = state.get("state_dict", state) if isinstance(state, Mapping) else state
    if not isinstance(state, Mapping) or not all(isinstance(value, Tensor) for value in state.values()):
        raise FeatureError(f"{path}: holds no state dict, which is a mapping of names to tensors")
    return {str(name): value for name, value in state.items()}


def load_strictly(network: nn.Module, state: Mapping[str, Tensor], where: str) -> None:
    """Every parameter by its published name, no more and no fewer.

    Raises:
        FeatureError: naming what is missing, strange or of another shape.
    """
    own = network.state_dict()
    # files of old PyTorch versions do not count the batches of a batch norm
    missing = [name for name in own if name not in state and not name.endswith("num_batches_tracked")]
    strange = [name for name in state if name not in own]
    shaped = [name for name in own if name in state and own[name].shape != state[name].shape]
    for names, what in ((missing, "lacks"), (strange, "has no place for"), (shaped, "has another shape for")):
        if names:
            raise FeatureError(f"{where}: {what} {len(names)} parameters of this network: {listed(names)}")
    network.load_state_dict(state, strict=False)


def fingerprint_of_state(state: Mapping[str, Tensor]) -> str:
    """Twelve digits that tell two sets of weights apart."""
    digest = hashlib.sha256()
    for name in sorted(state):
        digest.update(name.encode())
        digest.update(state[name].contiguous().numpy().data.cast("B") if state[name].numel() else b"")
    return digest.hexdigest()[:12]


def package_folder(package: str) -> Path | None:
    """Where an installed package has its files, without importing it."""
    spec = find_spec(package)
    folders = list(spec.submodule_search_locations or ()) if spec else []
    return Path(folders[0]) if folders else None
