"""The request, the tasks and the report of an extraction."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from p3iv.catalogue import DTYPES
from p3iv.encoders.base import EncoderOptions, VideoEncoder
from p3iv.encoders.identity import PRECOMPUTED, EncoderIdentity
from p3iv.encoders.registry import DEFAULT_ENCODER, TEXT_ENCODERS, VIDEO_ENCODERS, require_encoder
from p3iv.errors import ConfigError, one_of
from p3iv.features.store import PackedFeatures
from p3iv.features.store_index import KeptSeconds
from p3iv.parallel import check_engine
from p3iv.types import Array, Problem

KEEP = "keep"  # as --text-encoder: leave language.npz as it is


@dataclass(frozen=True)
class ExtractionRequest:
    """Which dataset, which encoders, and how many workers; the rows do not depend on the workers."""

    folder: Path
    encoder: str = DEFAULT_ENCODER
    text_encoder: str | None = None  # None: the encoder itself if it encodes text, else minilm
    weights: str | None = None
    text_weights: str | None = None
    max_words: int = 16
    allow_download: bool = False
    only_needed: bool = False
    dtype: str = "float16"
    engine: str = "local"
    address: str | None = None  # of a Ray cluster; None starts one on this machine
    jobs: int = 1
    threads: int = 1
    strict: bool = False
    overwrite: bool = False

    def __post_init__(self) -> None:
        if self.encoder != PRECOMPUTED:
            require_encoder(self.encoder, VIDEO_ENCODERS, option="--encoder", task="video")
        if self.text_encoder not in (None, KEEP):
            require_encoder(self.text_encoder, TEXT_ENCODERS, option="--text-encoder", task="text")
        check_engine(self.engine, self.address)
        if self.dtype not in DTYPES:
            raise ConfigError(f"--dtype {self.dtype}, but it must be {one_of(self.dtype, DTYPES)}")
        for name in ("jobs", "threads", "max_words"):
            if getattr(self, name) < 1:
                raise ConfigError(f"--{name.replace('_', '-')} {getattr(self, name)}, but it must be at least 1.")

    @property
    def options(self) -> EncoderOptions:
        return EncoderOptions(self.weights, self.max_words, self.allow_download)

    def spec(self, encoder: VideoEncoder) -> EncodingSpec:
        """What a worker needs to encode videos as this encoder does."""
        return EncodingSpec(self.encoder, self.options, encoder.identity.fingerprint, self.dtype, self.threads)


@dataclass(frozen=True)
class EncodingSpec:
    """What a worker needs to encode videos."""

    encoder: str
    options: EncoderOptions
    fingerprint: str | None  # of the encoder where the extraction was started
    dtype: str
    threads: int


@dataclass(frozen=True)
class VideoTask:
    """One video to encode: every second, or the seconds around some moments."""

    video: str
    path: Path
    moments_s: tuple[float, ...] | None = None  # None: every second; infinity is the last moment


@dataclass(frozen=True)
class EncodedVideo:
    """The result of a task: rows, or the reason why there are none."""

    video: str
    rows: Array | None  # (N, F)
    kept: KeptSeconds | None = None
    num_frames: int = 0  # decoded
    fault: str | None = None


@dataclass(frozen=True)
class ExtractionReport:
    """What an extraction wrote, and every video that it could not use."""

    folder: Path
    encoder: EncoderIdentity
    text_encoder: EncoderIdentity | None
    features: PackedFeatures
    num_frames: int  # decoded by this run
    num_resumed: int  # videos that an earlier, unfinished run had encoded
    seconds: float
    problems: tuple[Problem, ...] = ()
    is_kept: bool = False  # the features were complete before
    num_new_steps: int = 0  # with kept features: steps that had no embedding
    notes: tuple[str, ...] = ()  # what was understood in steps.csv, and which steps are after the end of their video

    @property
    def speed(self) -> str:
        """Decoded frames per second."""
        return frames_per_second(self.num_frames, self.seconds)


def frames_per_second(num_frames: int, seconds: float) -> str:
    """The speed of an extraction, in whole frames."""
    return f"{num_frames / max(seconds, 1e-9):.0f}"
