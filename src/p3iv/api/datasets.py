"""Make, import, check and describe datasets and compute their features, as functions."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from p3iv.api.threads import torch_unchanged
from p3iv.encoders.registry import DEFAULT_ENCODER
from p3iv.errors import ConfigError

if TYPE_CHECKING:
    from p3iv.data.check import Finding
    from p3iv.data.importing import ImportReport
    from p3iv.data.stats import DatasetStats
    from p3iv.extraction.align import AlignmentReport
    from p3iv.extraction.request import ExtractionReport
    from p3iv.features.store import PackedFeatures
    from p3iv.types import OnProgress


def make_tabletop(
    data: str | Path,
    *,
    videos: int = 160,
    seed: int = 0,
    skip_features: bool = False,
    skip_rendering: bool = False,
    jobs: int = 1,
    overwrite: bool = False,
    progress: OnProgress | None = None,
) -> Path:
    """Generate the tabletop dataset, videos of household tasks whose plans have known probabilities.

    Args:
        data: the dataset folder to write.
        videos: number of videos.
        seed: the same seed gives the same videos.
        skip_features: write no features, which otherwise are the world's state with noise.
        skip_rendering: write everything except the .mp4 files.
        jobs: number of processes that render. With several, a script needs `if __name__ == "__main__":`.
        overwrite: replace the files that are already there.
        progress: is called after every video that was drawn.

    Returns:
        The dataset folder.

    Raises:
        ConfigError: fewer than three videos.
        DatasetError: the folder is there already.

    Example:
        >>> folder = p3iv.make_tabletop("few", videos=5, skip_rendering=True)
        >>> sorted(path.name for path in folder.iterdir())
        ['dataset.yaml', 'features', 'language.npz', 'split.json', 'steps.csv', 'truth.jsonl']
    """
    from p3iv.tabletop.make import make_tabletop as make

    make(
        Path(data),
        num_videos=videos,
        seed=seed,
        encoder="none" if skip_features else "state",
        render=not skip_rendering,
        jobs=jobs,
        overwrite=overwrite,
        on_progress=progress,
    )
    return Path(data)


def import_dataset(
    kind: str,
    source: str | Path,
    data: str | Path,
    *,
    features: str | Path | None = None,
    language: str | Path | None = None,
    rename: str | Path | None = None,
    release_split: str | Path | None = None,
    videos: str | Path | None = None,
    encoder: str | None = None,
    text_encoder: str | None = None,
    simulated: bool = False,
    dtype: str | None = None,
    keep_tasks_apart: bool = False,
    strict: bool = False,
    overwrite: bool = False,
    progress: OnProgress | None = None,
) -> ImportReport:
    """Import CrossTask, COIN, NIV or your own annotations as a dataset folder; the command is `p3iv data import`.

    Args:
        kind: crosstask, coin, niv or folder (your own steps.csv).
        source: the release or the folder to read.
        data: the dataset folder to write.
        features: a folder of features, one .npy or .npz per video with a row per second.
        language: step embeddings, an .npz with arrays step, embedding[, step_id].
        rename: JSON or CSV, step name in `language` -> name in the dataset.
        release_split: the split of `split="release"`, JSON {"train": [...], "val": [...], "test": [...]} of video ids.
        videos: a folder of videos to link, one file per video.
        encoder: name of the encoder that made the features.
        text_encoder: name of the encoder that made the step embeddings.
        simulated: the features are simulated; every printed result will say so.
        dtype: type of the stored features; without it, that of the source.
        keep_tasks_apart: crosstask: treat the same step text in two tasks as two actions (133 instead of 105).
        strict: write nothing if any part of the source cannot be used.
        overwrite: replace the files that are already there.
        progress: is called after every video whose features were packed.

    Raises:
        SourceError: the source cannot be read; with `strict`, any part of it cannot be used.
        ConfigError: an argument has no effect without another one.

    Example:
        >>> report = p3iv.import_dataset("folder", "demo/tabletop", "imported")
        >>> report.num_videos, len(report.problems)
        (40, 0)
    """
    from p3iv.data.importing import ImportRequest
    from p3iv.data.importing import import_dataset as run_import

    request = ImportRequest(
        kind=kind,
        source=Path(source),
        destination=Path(data),
        features=None if features is None else Path(features),
        language=None if language is None else Path(language),
        rename=None if rename is None else Path(rename),
        split=None if release_split is None else Path(release_split),
        videos=None if videos is None else Path(videos),
        encoder=encoder,
        text_encoder=text_encoder,
        dtype=dtype,
        simulated=simulated,
        keep_tasks_apart=keep_tasks_apart,
        strict=strict,
        overwrite=overwrite,
    )
    return run_import(request, on_progress=progress)


def simulate(
    data: str | Path,
    *,
    seed: int = 0,
    noise: float = 4.5,
    overwrite: bool = False,
    progress: OnProgress | None = None,
) -> PackedFeatures:
    """Simulate features for a dataset that has none, from its annotations and step embeddings.

    Scores on them test the code; they say nothing about real videos.

    Args:
        data: the dataset folder, with language.npz.
        seed: the same seed gives the same features.
        noise: noise in the features, from 0: more makes planning harder.
        overwrite: replace features that are not simulated.
        progress: is called after every video.

    Raises:
        DatasetError: the dataset has no step embeddings, or has features that are not simulated.

    Example:
        >>> p3iv.simulate("demo/tabletop", overwrite=True).num_videos
        40
    """
    from p3iv.data.simulate import simulate_dataset

    return simulate_dataset(Path(data), seed=seed, noise=noise, overwrite=overwrite, on_progress=progress)


def check(data: str | Path) -> list[Finding]:
    """Check a dataset folder: every error and warning; `severity` says which.

    Args:
        data: the dataset folder.

    Example:
        >>> [finding.message for finding in p3iv.check("demo/tabletop") if finding.severity == "error"]
        []
    """
    from p3iv.data.check import check_dataset

    return check_dataset(Path(data))


def stats(
    data: str | Path,
    *,
    window: str = "inclusive",
    protocol: int = 1,
    split: str | Path = "video",
    split_seed: int = 0,
    horizons: Sequence[int] = (3, 4, 5, 6),
) -> DatasetStats:
    """Count videos, actions and windows, per horizon and side of the split.

    Args:
        data: the dataset folder.
        window: inclusive or after-start, as in `train`.
        protocol: 1 or 2, as in `train`.
        split: video, release, window, or a JSON file of video ids.
        split_seed: seed of the random split.
        horizons: the horizons to count.

    Raises:
        DatasetError: the folder is not a dataset.

    Example:
        >>> p3iv.stats("demo/tabletop").videos
        40
    """
    from p3iv.config import CurationSettings
    from p3iv.data.folder import open_dataset
    from p3iv.data.stats import describe_dataset

    if not horizons:
        raise ConfigError("horizons is empty, but statistics need at least one horizon.")
    settings = CurationSettings(
        horizon=horizons[0], window=window, protocol=protocol, split=str(split), split_seed=split_seed
    )
    return describe_dataset(open_dataset(Path(data)), settings, horizons=horizons)


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
