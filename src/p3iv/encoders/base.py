"""The interfaces of video and text encoders, and how their weights are loaded."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from p3iv.encoders.identity import EncoderIdentity
from p3iv.errors import FeatureError, MissingExtraError
from p3iv.features.pictures import Framing
from p3iv.types import counted, listed
from p3iv.validation import make_plain

if TYPE_CHECKING:  # an encoder in an ONNX file needs no torch
    from torch import Tensor, nn

Clips = NDArray[np.uint8]  # (B, L, 3, S, S)
Rows = NDArray[np.float32]  # (B, F)

CLIPS_VERSION: Final = 2  # raised when the frames of a second are chosen, cropped or scaled in another way

_HALF: Final = ("torch.float16", "torch.bfloat16")
_COUNTERS: Final = ("num_batches_tracked", "position_ids")  # no output depends on them, and not every file has them


@dataclass(frozen=True)
class EncoderOptions:
    """What a user may choose for an encoder beside its name."""

    weights: str | None = None  # a file, a folder or a name on the hub; each encoder says which
    max_words: int = 16  # s3d: the words of a text that it reads; the P3IV release used 30
    allow_download: bool = False  # of a name on the hub that is not on this machine


@runtime_checkable
class VideoEncoder(Protocol):
    """Encodes the frames of one second as one row of features."""

    identity: EncoderIdentity  # rows of encoders with different fingerprints must not be mixed
    width: int  # F
    frames_per_second: int  # sampling rate within a clip
    frames_per_clip: int  # L, centred on the middle of the second; at most frames_per_second
    framing: Framing

    def encode(self, clips: Clips) -> Rows:
        """(B, L, 3, S, S) uint8 -> (B, F) float32; a clip's row does not depend on the others."""


@runtime_checkable
class TextEncoder(Protocol):
    """Encodes descriptions of steps as embeddings."""

    text_identity: EncoderIdentity
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


def fingerprint_of(state: Mapping[str, Tensor], about: Mapping[str, Any]) -> str:
    """A hash of weights, and of everything else that the output of an encoder depends on.

    Weights in half precision count as the same numbers in single precision, so that the same weights have one
    fingerprint whatever precision they are loaded in. 20 ms for the 19 MB of EfficientNet-Lite0.
    """
    digest = hashlib.sha256(json.dumps(about, sort_keys=True).encode())
    for name in sorted(state):
        if name.endswith(_COUNTERS):
            continue
        tensor = state[name].detach()
        tensor = (tensor.float() if str(tensor.dtype) in _HALF else tensor).contiguous()
        digest.update(json.dumps([name, str(tensor.dtype), list(tensor.shape)]).encode())
        digest.update(tensor.numpy().data.cast("B") if tensor.numel() else b"")
    return digest.hexdigest()


def identify(name: str, weights: str | None, state: Mapping[str, Tensor], **about: Any) -> EncoderIdentity:
    """The identity of an encoder, computed by torch, with these weights; `about` says what else decides its output."""
    precision = next((str(t.dtype).removeprefix("torch.") for t in state.values() if t.is_floating_point()), None)
    if weights is not None and Path(weights).exists():
        weights = make_plain(Path(weights).absolute().name)  # where it is says nothing elsewhere
    fingerprint = fingerprint_of(state, {"encoder": name, **about})
    return EncoderIdentity(name, weights, fingerprint, "torch", precision)


def describe_clips(encoder: VideoEncoder) -> dict[str, Any]:
    """How the frames of a second become the input of an encoder, for its fingerprint."""
    return {
        "version": CLIPS_VERSION,
        "frames": [encoder.frames_per_second, encoder.frames_per_clip],
        "framing": asdict(encoder.framing),
    }


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


def load_pretrained(source: str | Path, *, allow_download: bool = False) -> Pretrained:
    """Load a model of transformers from a folder, or by its name on the hub.

    Without `allow_download` nothing but the local cache is asked for a name on the hub.

    Raises:
        FeatureError: naming the model.
    """
    try:
        from transformers import AutoModel, AutoTokenizer
        from transformers.utils.logging import disable_progress_bar
    except ImportError as error:
        raise MissingExtraError("transformers", "encoders", "This encoder") from error
    disable_progress_bar()  # type: ignore[no-untyped-call]
    is_local = Path(source).is_dir() or not allow_download
    try:
        with _offline(is_local):
            # Without trust_remote_code=False, transformers may ask on the terminal whether to run the model's own code.
            choices: dict[str, Any] = {"local_files_only": is_local, "trust_remote_code": False}
            model: Any = AutoModel.from_pretrained(source, **choices)
            tokenizer: Any = AutoTokenizer.from_pretrained(source, **choices)
            preprocessing = _read_preprocessing(source, is_local=is_local)
    except (OSError, ValueError, KeyError, ImportError) as error:
        if not Path(source).is_dir() and not allow_download:
            raise FeatureError(
                f"model {source}: there is no such folder, nor such a model in the local cache of the hub. Give a "
                f"folder: --weights FOLDER, or allow the download of a model of that name: --allow-download."
            ) from error
        reason = " ".join(str(error).split())[:300]
        raise FeatureError(f"model {source}: cannot be loaded ({reason})") from error
    return Pretrained(model.eval().requires_grad_(False), tokenizer, preprocessing)


@contextmanager
def _offline(wanted: bool) -> Iterator[None]:
    """Keep huggingface_hub from opening any connection; with `local_files_only` alone it may still open one."""
    from huggingface_hub import constants

    before = constants.HF_HUB_OFFLINE
    constants.HF_HUB_OFFLINE = before or wanted
    try:
        yield
    finally:
        constants.HF_HUB_OFFLINE = before


def _read_preprocessing(source: str | Path, *, is_local: bool) -> Mapping[str, Any]:
    from transformers.utils.hub import cached_file

    path = cached_file(
        source, "preprocessor_config.json", local_files_only=is_local, _raise_exceptions_for_missing_entries=False
    )
    content = json.loads(Path(path).read_text(encoding="utf-8")) if path else {}
    return content if isinstance(content, Mapping) else {}
