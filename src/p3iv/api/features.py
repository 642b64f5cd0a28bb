"""Features of videos and embeddings of step texts, as functions: `p3iv.extract(...)` does what `p3iv extract` does."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from p3iv.api.threads import torch_unchanged
from p3iv.encoders.registry import DEFAULT_ENCODER, DEFAULT_TEXT_ENCODER

if TYPE_CHECKING:
    from p3iv.data.embedding import EmbeddingReport
    from p3iv.extraction.align import AlignmentReport
    from p3iv.extraction.request import ExtractionReport
    from p3iv.types import OnProgress


def extract(
    data: str | Path,
    *,
    encoder: str = DEFAULT_ENCODER,
    text_encoder: str | None = None,
    weights: str | Path | None = None,
    text_weights: str | Path | None = None,
    max_words: int = 16,
    allow_download: bool = False,
    only_needed: bool = False,
    dtype: str = "float16",
    jobs: int = 1,
    engine: str = "local",
    address: str | None = None,
    threads: int = 1,
    strict: bool = False,
    overwrite: bool = False,
    progress: OnProgress | None = None,
) -> ExtractionReport:
    """Compute features of a dataset's videos, and embeddings of its step texts.

    After an interruption, the same call continues with the remaining videos and writes the same bytes.

    Args:
        data: the dataset folder, with steps.csv and videos/.
        encoder: the encoder of the videos, or precomputed.
        text_encoder: the encoder of the texts, or keep (leave language.npz as it is); without it, that of `encoder` if
            it encodes text, else minilm.
        weights: weights of `encoder`: a file, a folder or a name on the hub. precomputed: a folder of .npy files.
        text_weights: weights of `text_encoder`, if they differ.
        max_words: s3d: read at most this many words of a text.
        allow_download: fetch a model from the Hugging Face hub if it is not on this machine.
        only_needed: encode only the seconds around the start and end of each step.
        dtype: type of the stored features.
        jobs: number of processes. With several, a script needs `if __name__ == "__main__":`.
        engine: local (processes on this machine) or ray (a cluster that sees the same folders).
        address: HOST:PORT of a Ray cluster.
        threads: CPU threads of torch in each process.
        strict: fail if any video cannot be used.
        overwrite: replace the features that are already there.
        progress: is called after every video.

    Raises:
        DatasetError: the folder has other features, or features of some videos only.
        FeatureError: no video can be used; with `strict`, any video cannot.

    Example:
        >>> report = p3iv.extract("my_kitchen", only_needed=True)
        >>> report.encoder.name, report.features.num_videos
        ('efficientnet-lite0', 6)
    """
    from p3iv.extraction.extract import extract_features
    from p3iv.extraction.request import ExtractionRequest

    request = ExtractionRequest(
        folder=Path(data),
        encoder=encoder,
        text_encoder=text_encoder,
        weights=None if weights is None else str(weights),
        text_weights=None if text_weights is None else str(text_weights),
        max_words=max_words,
        allow_download=allow_download,
        only_needed=only_needed,
        dtype=dtype,
        engine=engine,
        address=address,
        jobs=jobs,
        threads=threads,
        strict=strict,
        overwrite=overwrite,
    )
    with torch_unchanged(threads):
        return extract_features(request, on_progress=progress)


def embed(
    data: str | Path,
    *,
    text_encoder: str = DEFAULT_TEXT_ENCODER,
    text_weights: str | Path | None = None,
    max_words: int = 16,
    allow_download: bool = False,
    overwrite: bool = False,
) -> EmbeddingReport:
    """Make the step embeddings of a dataset, language.npz, from the texts of its steps; no video is needed.

    Complete embeddings of the same encoder stay as they are.

    Args:
        data: the dataset folder.
        text_encoder: the encoder of the texts.
        text_weights: its weights: a file, a folder or a name on the hub.
        max_words: s3d: read at most this many words of a text.
        allow_download: fetch a model from the Hugging Face hub if it is not on this machine.
        overwrite: replace the embeddings that are already there.

    Raises:
        DatasetError: the folder has embeddings of another origin.
        MissingExtraError: the text encoder is not installed.

    Example:
        >>> report = p3iv.embed("my_kitchen", overwrite=True)
        >>> report.text_encoder.name, report.width
        ('minilm', 384)
    """
    from p3iv.data.embedding import EmbeddingRequest, embed_dataset
    from p3iv.encoders.base import EncoderOptions

    options = EncoderOptions(None if text_weights is None else str(text_weights), max_words, allow_download)
    return embed_dataset(EmbeddingRequest(Path(data), text_encoder, options, overwrite))


def align(
    data: str | Path,
    *,
    split: str | Path = "video",
    split_seed: int = 0,
    protocol: int = 1,
    seed: int = 0,
    steps: int = 400,
    threads: int | None = None,
) -> AlignmentReport:
    """Adapt step embeddings to how the steps look in the videos, as the paper's "native" features.

    Args:
        data: the dataset folder, with features and language.npz.
        split: the split to train with afterwards; only its training videos are used.
        split_seed: seed of the random split.
        protocol: 1 or 2, as in `train`.
        seed: seed of the initial parameters and the batches.
        steps: number of optimiser steps.
        threads: CPU threads of torch during the call; None leaves them as they are.

    Raises:
        ConfigError: a split that shares videos between its sides.

    Example:
        >>> report = p3iv.align("demo/tabletop", split="release", steps=20)
        >>> report.num_videos
        22
    """
    from p3iv.extraction.align import AlignmentRequest, align_dataset

    with torch_unchanged(threads):
        return align_dataset(AlignmentRequest(Path(data), str(split), split_seed, protocol, seed, steps))
