"""Make, import, check and describe datasets and compute their features, as functions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from p3iv.api.threads import torch_unchanged
from p3iv.errors import ConfigError

if TYPE_CHECKING:
    from p3iv.data.check_steps import Finding, RepairedSteps
    from p3iv.data.importing import ImportReport
    from p3iv.data.stats import DatasetStats
    from p3iv.experiments.enough import EnoughResult
    from p3iv.features.store import PackedFeatures
    from p3iv.types import OnProgress


def make_tabletop(
    data: str | Path,
    *,
    videos: int = 160,
    seed: int = 0,
    skip_features: bool = False,
    skip_rendering: bool = False,
    shift_test: bool = False,
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
        shift_test: another camera in another room films the test videos of the release split, so that validation is
            easier than test.
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
        shift_test=shift_test,
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
        kind: crosstask, coin, niv, lists (of windows that a successor released) or folder (your own steps.csv).
        source: the release or the folder to read.
        data: the dataset folder to write.
        features: a folder of features, one .npy or .npz per video with a row per second.
        language: step embeddings, an .npz with arrays step, embedding[, step_id]; without it they are made by minilm,
            where that is installed.
        rename: JSON or CSV, step name in `language` -> name in the dataset.
        release_split: the split of `split="release"`, JSON {"train": [...], "val": [...], "test": [...]} of video ids,
            or a released training list with its test list beside it.
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
    from p3iv.encoders.registry import has_text_encoder

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
        embed=has_text_encoder(),
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
    """Check a dataset folder: every error, warning and note; `severity` says which.

    A note says what was understood in a steps.csv that is written in another way than documented.

    Args:
        data: the dataset folder.

    Example:
        >>> [finding.message for finding in p3iv.check("demo/tabletop") if finding.severity == "error"]
        []
    """
    from p3iv.data.check import check_dataset

    return check_dataset(Path(data))


def repair(data: str | Path) -> RepairedSteps:
    """Write a repaired copy of a dataset's steps.csv, steps.fixed.csv; the command is `p3iv data check --fix`.

    It has what is understood in the documented way, without the rows that cannot be used. steps.csv stays as it is.

    Args:
        data: the dataset folder.

    Raises:
        SourceError: steps.csv has no usable row.

    Example:
        >>> p3iv.repair("demo/tabletop").path is None  # nothing to repair
        True
    """
    from p3iv.data.check_steps import repair_steps

    return repair_steps(Path(data))


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


def data_enough(
    data: str | Path,
    *,
    out: str | Path | None = None,
    planner: str = "p3iv-plus",
    preset: str | None = None,
    horizon: int = 3,
    folds: int = 5,
    split_seed: int = 0,
    seed: int = 0,
    settings: Mapping[str, object] | None = None,
    device: str = "auto",
    threads: int | None = None,
    progress: OnProgress | None = None,
) -> EnoughResult:
    """Say whether a dataset has enough videos; the command is `p3iv data enough`.

    Planners are cross-validated that learn from a quarter, a half and all of the videos, and a curve through their
    success rates says what twice as many would probably bring. Writes enough.json and learning_curve.svg. The same call
    continues after an interruption.

    Args:
        data: the dataset folder.
        out: where trainings and results go; by default the folder `enough` in the dataset folder.
        planner: the planner to train.
        preset: a set of settings; without it, the planner's own.
        horizon: the number of steps to plan.
        folds: number of folds of the cross-validations.
        split_seed: seed of the folds.
        seed: seed of parameters, noise, order and dropout.
        settings: further settings by their names, such as {"optim.epochs": 20}.
        device: auto, cpu, cuda or mps.
        threads: CPU threads of torch during the call; None leaves them as they are.
        progress: is called after every step of every training.

    Returns:
        The curve; where there are too few videos to say, `too_few` says why.

    Raises:
        ConfigError: a setting does not exist, or has a value that is not allowed.
        CheckpointError: `out` has a curve of other data or settings.

    Example:
        >>> found = p3iv.data_enough("demo/tabletop", out="curve", folds=2, settings={"optim.epochs": 1})
        >>> [point.num_videos for point in found.curve.points]
        [5.0, 10.0, 20.0]
    """
    from p3iv.api.runs import configure
    from p3iv.data.folder import open_dataset
    from p3iv.evaluation.learning_curve import ENOUGH_FOLDER
    from p3iv.experiments.enough import EnoughRequest, measure_enough
    from p3iv.training.loop import TrainRequest

    changes = {"planner": planner, "seed": seed, "data.horizon": horizon, "data.split_seed": split_seed}
    request = TrainRequest(
        dataset=open_dataset(Path(data)),
        run=Path(data) / ENOUGH_FOLDER if out is None else Path(out),
        config=configure(planner, preset, changes, settings or {}),
        device=device,
        on_progress=progress or (lambda _: None),
    )
    with torch_unchanged(threads):
        return measure_enough(EnoughRequest(request, folds))
