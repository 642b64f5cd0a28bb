"""Models in the layout of transformers, by their name on the hub or from a local folder."""

from __future__ import annotations

import hashlib
import json
import pickle
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

import torch
from torch import Tensor, nn

from p3iv.errors import FeatureError, MissingExtraError
from p3iv.features.pictures import Framing
from p3iv.types import listed


@dataclass(frozen=True)
class EncoderOptions:
    """What a user may say about an encoder beside its name."""

    weights: str | None = None  # a file, a folder or a name on the hub, as the encoder says
    max_words: int = 16  # s3d: words of a text that count; the P3IV release used 30


@runtime_checkable
class VideoEncoder(Protocol):
    """Turns the frames of a second into one row."""

    name: str  # as dataset.yaml keeps it: NAME, or NAME:WEIGHTS where the name leaves them open
    width: int  # F
    frames_per_second: int  # how densely a second is looked at
    frames_per_clip: int  # L, centred on the middle of the second; at most frames_per_second
    framing: Framing
    fingerprint: str  # of the weights: rows of two fingerprints do not mix

    def encode(self, clips: Tensor) -> Tensor:
        """(B, L, 3, S, S) uint8 -> (B, F) float32; a clip's row does not depend on the others."""


@runtime_checkable
class TextEncoder(Protocol):
    """Turns descriptions of steps into embeddings."""

    name: str
    width: int  # F_l

    def encode_text(self, texts: Sequence[str]) -> Tensor:
        """N texts -> (N, F_l) float32; an empty text has an embedding too."""


def clip_moments(encoder: VideoEncoder, second: int) -> list[float]:
    """When the frames of a second's clip are shown: L of them, evenly around its middle.

    At 16 frames per second and clip these are the frames that ffmpeg's `fps=16` picks.
    """
    length, rate = encoder.frames_per_clip, encoder.frames_per_second
    return [max(0.0, second + 0.5 + (number - (length - 1) / 2) / rate) for number in range(length)]


def weights_path(options: EncoderOptions) -> Path | None:
    """The weights as a local path, where they are given."""
    return None if options.weights is None else Path(options.weights)


def read_state(path: Path) -> dict[str, Tensor]:
    """The tensors of a .pth or .safetensors file; nothing else in it is loaded or run.

    Raises:
        FeatureError: naming the file.
    """
    if not path.is_file():
        raise FeatureError(f"{path}: there is no such file of weights")
    try:
        if path.suffix == ".safetensors":
            from safetensors.torch import load_file  # most weights are .pth

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


try:
    from transformers import AutoModel, AutoTokenizer
    from transformers.utils.hub import cached_file
    from transformers.utils.logging import disable_progress_bar
except ImportError as error:
    raise MissingExtraError("transformers", "encoders", "This encoder") from error


@dataclass(frozen=True)
class Pretrained:
    """A model, ready to be asked, and what turns text into its tokens."""

    model: Any
    tokenizer: Any
    pictures: Mapping[str, Any]  # preprocessor_config.json; empty where there is none


def load_pretrained(source: str | Path) -> Pretrained:
    """Load a model; only a name on the hub that is not in the cache needs a network.

    Raises:
        FeatureError: naming the model.
    """
    disable_progress_bar()  # type: ignore[no-untyped-call]
    try:
        model: Any = AutoModel.from_pretrained(source)
        tokenizer: Any = AutoTokenizer.from_pretrained(source)
        pictures = _read_pictures(source)
    except (OSError, ValueError, KeyError, ImportError) as error:
        reason = " ".join(str(error).split())[:300]
        raise FeatureError(f"model {source}: cannot be loaded ({reason})") from error
    return Pretrained(model.eval().requires_grad_(False), tokenizer, pictures)


def _read_pictures(source: str | Path) -> Mapping[str, Any]:
    path = cached_file(source, "preprocessor_config.json", _raise_exceptions_for_missing_entries=False)
    content = json.loads(Path(path).read_text(encoding="utf-8")) if path else {}
    return content if isinstance(content, Mapping) else {}
