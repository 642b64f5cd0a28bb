"""The interfaces of video and text encoders, and how their weights are loaded."""

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
from p3iv.types import counted, listed


@dataclass(frozen=True)
class EncoderOptions:
    """What a user may choose for an encoder beside its name."""

    weights: str | None = None  # a file, a folder or a name on the hub; each encoder says which
    max_words: int = 16  # s3d: the words of a text that it reads; the P3IV release used 30


@runtime_checkable
class VideoEncoder(Protocol):
    """Encodes the frames of one second as one row of features."""

    name: str  # as in dataset.yaml: NAME, or NAME:WEIGHTS where the name alone does not determine the weights
    width: int  # F
    frames_per_second: int  # sampling rate within a clip
    frames_per_clip: int  # L, centred on the middle of the second; at most frames_per_second
    framing: Framing
    fingerprint: str  # of the weights; rows of different fingerprints must not be mixed

    def encode(self, clips: Tensor) -> Tensor:
        """(B, L, 3, S, S) uint8 -> (B, F) float32; a clip's row does not depend on the others."""


@runtime_checkable
class TextEncoder(Protocol):
    """Encodes descriptions of steps as embeddings."""

    name: str
    width: int  # F_l

    def encode_text(self, texts: Sequence[str]) -> Tensor:
        """N texts -> (N, F_l) float32; an empty text has an embedding too."""


def clip_moments(encoder: VideoEncoder, second: int) -> list[float]:
    """The times of the L frames of a second's clip, spaced evenly around the middle of the second.

    At 16 frames per second and clip, ffmpeg's `fps=16` picks the same frames.
    """
    length, rate = encoder.frames_per_clip, encoder.frames_per_second
    return [max(0.0, second + 0.5 + (number - (length - 1) / 2) / rate) for number in range(length)]


def weights_path(options: EncoderOptions) -> Path | None:
    """The weights as a local path, if the user gave any."""
    return None if options.weights is None else Path(options.weights)


def read_state(path: Path) -> dict[str, Tensor]:
    """Read the tensors of a .pth or .safetensors file; nothing else in it is loaded or run.

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
        raise FeatureError(f"{path}: is not a state dict, which maps names to tensors")
    return {str(name): value for name, value in state.items()}


def load_strictly(network: nn.Module, state: Mapping[str, Tensor], where: str) -> None:
    """Load every parameter by its published name; missing and additional ones are errors.

    Raises:
        FeatureError: naming parameters that are missing, unknown or of another shape.
    """
    own = network.state_dict()
    # old PyTorch versions did not count the batches of a batch norm
    missing = [name for name in own if name not in state and not name.endswith("num_batches_tracked")]
    unknown = [name for name in state if name not in own]
    shaped = [name for name in own if name in state and own[name].shape != state[name].shape]
    for names, problem in (
        (missing, "missing from the file"),
        (unknown, "unknown to this network"),
        (shaped, "of another shape than in this network"),
    ):
        if names:
            raise FeatureError(f"{where}: {counted(len(names), 'parameter')} {problem}: {listed(names)}")
    network.load_state_dict(state, strict=False)


def fingerprint_of_state(state: Mapping[str, Tensor]) -> str:
    """A hash of the weights, 12 hexadecimal digits."""
    digest = hashlib.sha256()
    for name in sorted(state):
        digest.update(name.encode())
        digest.update(state[name].contiguous().numpy().data.cast("B") if state[name].numel() else b"")
    return digest.hexdigest()[:12]


def package_folder(package: str) -> Path | None:
    """The folder of an installed package, without importing it."""
    spec = find_spec(package)
    folders = list(spec.submodule_search_locations or ()) if spec else []
    return Path(folders[0]) if folders else None


@dataclass(frozen=True)
class Pretrained:
    """A model in evaluation mode and its tokenizer."""

    model: Any
    tokenizer: Any
    preprocessing: Mapping[str, Any]  # preprocessor_config.json; empty if there is none


def load_pretrained(source: str | Path) -> Pretrained:
    """Load a model of transformers by its name on the hub or from a folder.

    Only a name that is not in the local cache needs a network.

    Raises:
        FeatureError: naming the model.
    """
    try:
        from transformers import AutoModel, AutoTokenizer
        from transformers.utils.logging import disable_progress_bar
    except ImportError as error:
        raise MissingExtraError("transformers", "encoders", "This encoder") from error
    disable_progress_bar()  # type: ignore[no-untyped-call]
    try:
        model: Any = AutoModel.from_pretrained(source)
        tokenizer: Any = AutoTokenizer.from_pretrained(source)
        preprocessing = _read_preprocessing(source)
    except (OSError, ValueError, KeyError, ImportError) as error:
        reason = " ".join(str(error).split())[:300]
        raise FeatureError(f"model {source}: cannot be loaded ({reason})") from error
    return Pretrained(model.eval().requires_grad_(False), tokenizer, preprocessing)


def _read_preprocessing(source: str | Path) -> Mapping[str, Any]:
    from transformers.utils.hub import cached_file

    path = cached_file(source, "preprocessor_config.json", _raise_exceptions_for_missing_entries=False)
    content = json.loads(Path(path).read_text(encoding="utf-8")) if path else {}
    return content if isinstance(content, Mapping) else {}
