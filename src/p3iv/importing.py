"""A release, or a folder of one's own, becomes a dataset folder: all of it, or nothing."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from p3iv.annotations import (
    read_coin,
    read_crosstask,
    read_folder,
    read_niv,
    read_split,
    write_split,
    write_steps,
)
from p3iv.atomic import whole_folder
from p3iv.curation import restrict_split
from p3iv.dataset import DatasetCard, open_dataset, read_card
from p3iv.errors import ConfigError, DatasetError, SourceError
from p3iv.features import (
    DEFAULT_NOISE,
    FeatureStore,
    PackedFeatures,
    copy_store,
    import_features,
    match_language,
    read_language,
    read_rename,
    simulate_features,
    write_language,
)
from p3iv.splits import check_no_leak
from p3iv.types import Annotations, Problem, Video

Progress = Callable[[int, int], None]

READERS: dict[str, Callable[[Path], Annotations]] = {
    "crosstask": read_crosstask,
    "coin": read_coin,
    "niv": read_niv,
    "folder": read_folder,
}
VIDEO_SUFFIXES = (".mp4", ".mkv", ".webm", ".mov", ".avi", ".m4v", ".mpg", ".mpeg", ".ts")


@dataclass(frozen=True)
class ImportRequest:
    """What to import and from where; the optional parts of a `folder` source are taken from it unless named here."""

    kind: str  # one of READERS
    source: Path
    destination: Path
    features: Path | None = None
    language: Path | None = None
    rename: Path | None = None
    split: Path | None = None
    videos: Path | None = None
    encoder: str | None = None  # who made the features, for the record
    text_encoder: str | None = None
    dtype: str | None = None
    simulated: bool = False  # the features are stand-ins, made elsewhere
    keep_tasks_apart: bool = False  # CrossTask only: 133 task-steps rather than 105 texts
    strict: bool = False
    overwrite: bool = False


@dataclass(frozen=True)
class ImportReport:
    """What an import did, down to the last row it could not use."""

    folder: Path
    num_videos: int
    num_steps: int
    num_actions: int
    num_tasks: int
    features: PackedFeatures | None
    problems: tuple[Problem, ...] = field(default=())


def import_dataset(request: ImportRequest, *, progress: Progress | None = None) -> ImportReport:
    """Read, check, pack, and move the finished folder into place; `strict` refuses at the first problem's list."""
    refuse_to_overwrite(request.destination, overwrite=request.overwrite)
    request = _with_parts_of_folder(request)
    annotations = _read(request)
    with whole_folder(request.destination) as folder:
        problems = list(annotations.problems)
        annotations, card = _write_language(request, annotations, _card_of(request, annotations), folder)
        problems += _write_split(request, annotations, folder)
        packed, card = _write_features(request, annotations, card, folder, progress)
        problems += packed.problems if packed else ()
        problems += _link_videos(request, annotations.videos, folder)
        _copy_truth(request, folder)
        write_steps(folder / "steps.csv", annotations)
        card.write(folder)
        if request.strict and problems:
            raise SourceError(_strict_message(problems))
        open_dataset(folder)
    return ImportReport(
        folder=request.destination,
        num_videos=len(annotations.videos),
        num_steps=sum(len(video.steps) for video in annotations.videos),
        num_actions=len(annotations.vocabulary),
        num_tasks=len({video.task for video in annotations.videos}),
        features=packed,
        problems=tuple(problems),
    )


def simulate_dataset(
    folder: Path,
    *,
    seed: int = 0,
    noise: float | None = None,
    overwrite: bool = False,
    progress: Progress | None = None,
) -> PackedFeatures:
    """Give a dataset stand-in features made from its annotations and step embeddings, and mark it simulated."""
    dataset = open_dataset(folder)
    if dataset.language is None:
        raise DatasetError(f"{folder} has no language.npz; import it with --language FILE: simulation starts from it.")
    if dataset.card.encoder and not dataset.card.simulated and not overwrite:
        raise DatasetError(
            f"{folder} has {dataset.card.encoder} features. Pass --overwrite to put simulated ones in their place."
        )
    noise = DEFAULT_NOISE if noise is None else noise
    card = replace(
        dataset.card,
        encoder=f"stand-in seed {seed} noise {noise:g}",
        simulated=True,
        features_per_second=1.0,
        feature_fingerprint=None,
    )
    card.write(folder)  # before the rows: an interruption may call real rows simulated, never the other way round
    packed = simulate_features(
        dataset.videos,
        dataset.vocabulary,
        dataset.language,
        folder / "features",
        seed=seed,
        noise=noise,
        progress=progress,
    )
    replace(card, feature_fingerprint=packed.fingerprint).write(folder)
    return packed


def refuse_to_overwrite(folder: Path, *, overwrite: bool) -> None:
    """A folder that holds anything is only replaced when asked."""
    if folder.exists() and not folder.is_dir():
        raise DatasetError(f"{folder} is a file; name a folder.")
    if folder.is_dir() and any(folder.iterdir()) and not overwrite:
        raise DatasetError(f"{folder} exists and is not empty. Name another folder, or pass --overwrite to replace it.")


def _read(request: ImportRequest) -> Annotations:
    if not request.keep_tasks_apart:
        return READERS[request.kind](request.source)
    if request.kind != "crosstask":
        raise ConfigError(
            f"--keep-tasks-apart is for CrossTask, not for {request.kind}: its steps have names of their own."
        )
    return read_crosstask(request.source, keep_tasks_apart=True)


def _with_parts_of_folder(request: ImportRequest) -> ImportRequest:
    """A `folder` source brings its own language, features and videos where no other are named."""
    if request.kind != "folder":
        return request
    own = {"language": "language.npz", "features": "features", "videos": "videos"}
    found = {
        option: request.source / name
        for option, name in own.items()
        if getattr(request, option) is None and (request.source / name).exists()
    }
    return replace(request, **found)  # type: ignore[arg-type]


def _card_of(request: ImportRequest, annotations: Annotations) -> DatasetCard:
    if request.kind == "folder" and (request.source / "dataset.yaml").exists():
        card = replace(read_card(request.source), feature_fingerprint=None)
        if request.features != request.source / "features":
            card = replace(card, encoder=None, simulated=False)
        return card if request.language == request.source / "language.npz" else replace(card, text_encoder=None)
    return DatasetCard(name=annotations.name, source=f"{request.kind} from {request.source.name}")


def _write_language(
    request: ImportRequest, annotations: Annotations, card: DatasetCard, folder: Path
) -> tuple[Annotations, DatasetCard]:
    if request.language is None:
        if request.rename is not None:
            raise SourceError("--rename maps names of a language file; pass --language FILE with it.")
        return annotations, card
    rename = read_rename(request.rename) if request.rename else {}
    matched = match_language(annotations.vocabulary, read_language(request.language), rename)
    write_language(folder / "language.npz", matched.vocabulary.names, matched.embedding)
    encoder = request.text_encoder or card.text_encoder or request.language.name
    return replace(annotations, vocabulary=matched.vocabulary), replace(card, text_encoder=encoder)


def _write_split(request: ImportRequest, annotations: Annotations, folder: Path) -> list[Problem]:
    split = read_split(request.split) if request.split else annotations.split
    if split is None:
        return []
    check_no_leak(split)
    split, notes = restrict_split(split, (video.id for video in annotations.videos))
    write_split(folder / "split.json", split)
    where = request.split.name if request.split else request.source.name
    return [Problem(where, note, "split written without them") for note in notes]


def _write_features(
    request: ImportRequest, annotations: Annotations, card: DatasetCard, folder: Path, progress: Progress | None
) -> tuple[PackedFeatures | None, DatasetCard]:
    if request.features is None:
        return None, card
    packed = _packed(request.features, annotations.videos, folder / "features", request.dtype, progress)
    encoder = request.encoder or card.encoder or "imported"
    simulated = request.simulated or card.simulated
    return packed, replace(card, encoder=encoder, simulated=simulated, feature_fingerprint=packed.fingerprint)


def _packed(
    source: Path, videos: Sequence[Video], destination: Path, dtype: str | None, progress: Progress | None
) -> PackedFeatures:
    if FeatureStore.is_at(source):
        return copy_store(source, videos, destination, dtype=dtype, progress=progress)
    return import_features(source, videos, destination, dtype=dtype, progress=progress)


def _link_videos(request: ImportRequest, videos: Sequence[Video], folder: Path) -> list[Problem]:
    """Bring the video files in under their ids, by hard link where the file system allows, else by copy."""
    if request.videos is None:
        return []
    if not request.videos.is_dir():
        raise SourceError(f"--videos {request.videos} is not a folder.")
    at_hand = {path.stem: path for path in sorted(request.videos.iterdir()) if path.suffix.lower() in VIDEO_SUFFIXES}
    (folder / "videos").mkdir()
    problems = []
    for video in videos:
        names = (video.id, *video.aliases, f"{video.task}_{video.id}")
        found = next((at_hand[name] for name in names if name in at_hand), None)
        if Path(video.id).name != video.id:
            problems.append(Problem(str(request.videos), f"{video.id!r} is no file name", "steps kept, video left out"))
        elif found is None:
            expected = f"no file {video.id}{{{','.join(VIDEO_SUFFIXES[:3])},...}}"
            problems.append(Problem(str(request.videos), expected, "steps kept, video missing"))
        else:
            _link_or_copy(found, folder / "videos" / f"{video.id}{found.suffix.lower()}")
    return problems


def _link_or_copy(source: Path, destination: Path) -> None:
    try:
        os.link(source.resolve(), destination)
    except OSError:
        shutil.copyfile(source, destination)


def _copy_truth(request: ImportRequest, folder: Path) -> None:
    truth = request.source / "truth.jsonl"
    if request.kind == "folder" and truth.exists():
        shutil.copyfile(truth, folder / "truth.jsonl")


def _strict_message(problems: Sequence[Problem]) -> str:
    lines = "\n".join(f"  {problem}" for problem in problems[:20])
    more = f"\n  and {len(problems) - 20} more" if len(problems) > 20 else ""
    return f"--strict: {len(problems)} problems, so nothing was written.\n{lines}{more}"
