"""Import annotations, and optionally features, embeddings, a split and videos, as a dataset folder."""

from __future__ import annotations

import os
import shutil
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from p3iv.catalogue import VIDEO_SUFFIXES
from p3iv.data.embedding import write_embeddings
from p3iv.data.folder import (
    Dataset,
    DatasetCard,
    find_twins,
    find_videos,
    open_unfinished,
    read_card,
    refuse_other_features,
    refuse_to_overwrite,
    replacing_dataset,
)
from p3iv.data.truth import TRUTH_FILE, TruthReader
from p3iv.data.windows import check_no_leak, restrict_split
from p3iv.encoders.base import TextEncoder
from p3iv.encoders.identity import IMPORTED, EncoderIdentity, name_encoder
from p3iv.encoders.registry import DEFAULT_TEXT_ENCODER, build_text_encoder
from p3iv.errors import ConfigError, SourceError, SplitError
from p3iv.features.import_arrays import copy_store, import_features
from p3iv.features.language import LanguageTable, match_language, read_language, read_rename, write_language
from p3iv.features.store import FeatureStore, PackedFeatures
from p3iv.files import atomic_file
from p3iv.readers.folder import read_split, write_split
from p3iv.readers.registry import read_annotations
from p3iv.readers.steps import read_video_column, write_steps
from p3iv.types import (
    Annotations,
    OnProgress,
    Problem,
    Split,
    Video,
    Vocabulary,
    count_problems,
    counted,
    list_problems,
    listed,
)
from p3iv.validation import ProblemLog, make_plain, shown


@dataclass(frozen=True)
class ImportRequest:
    """What to import; the optional parts of a `folder` source are taken from it unless named here."""

    kind: str  # a name in READERS, or ANNOTATION_FILES
    source: Path
    destination: Path
    features: Path | None = None
    language: Path | None = None
    rename: Path | None = None
    split: Path | None = None
    videos: Path | None = None
    encoder: str | None = None  # that made the features, for dataset.yaml
    text_encoder: str | None = None
    dtype: str | None = None
    simulated: bool = False  # the features were simulated by another program
    keep_tasks_apart: bool = False  # CrossTask only: 133 task-steps rather than 105 texts
    embed: bool = False  # without step embeddings, make them with the default text encoder
    strict: bool = False
    overwrite: bool = False
    more_sources: tuple[Path, ...] = ()  # further files of the same kind

    @property
    def sources(self) -> list[Path]:
        """All paths that are read."""
        paths = (self.source, self.features, self.language, self.rename, self.split, self.videos)
        return [*(path for path in paths if path is not None), *self.more_sources]

    def with_parts_of_folder(self) -> ImportRequest:
        """Take language, features and videos from a `folder` source unless others are named."""
        if self.kind != "folder":
            return self
        own = {"language": "language.npz", "features": "features", "videos": "videos"}
        found = {
            option: self.source / name
            for option, name in own.items()
            if getattr(self, option) is None and os.path.lexists(self.source / name)
        }
        return replace(self, **found)  # type: ignore[arg-type]


def _refuse_unused(request: ImportRequest) -> None:
    """Refuse options about features or step embeddings that are not imported."""
    parts = {"features": ("encoder", "dtype", "simulated"), "language": ("text_encoder", "rename")}
    for part, options in parts.items():
        given = [f"--{option.replace('_', '-')}" for option in options if getattr(request, option)]
        if given and getattr(request, part) is None:
            raise ConfigError(f"{given[0]} has no effect without --{part}: pass that, too, or leave {given[0]} out.")


@dataclass(frozen=True)
class ImportReport:
    """What an import wrote, and every row that it could not use."""

    folder: Path
    num_videos: int
    num_steps: int
    num_actions: int
    num_tasks: int
    features: PackedFeatures | None
    problems: tuple[Problem, ...] = field(default=())
    notes: tuple[str, ...] = ()  # information that is not about missing parts
    first_rows: tuple[tuple[str, str, str, float | None, float | None], ...] = ()  # of steps.csv, after a dry run


def card_of(request: ImportRequest, annotations: Annotations, packed: PackedFeatures | None) -> DatasetCard:
    """The card of the new dataset, from the cards of its sources and the options."""
    card = DatasetCard(
        name=make_plain(annotations.name), source=make_plain(f"{request.kind} from {request.source.name}")
    )
    if request.kind == "folder" and os.path.lexists(request.source / "dataset.yaml"):
        card = read_card(request.source)
    card = replace(card, text_encoder=_text_encoder(request, card))
    if request.features is None or packed is None:
        return replace(card, encoder=None, simulated=False, feature_fingerprint=None)
    origins = _cards_beside(request.features)
    origin = origins[0] if origins else replace(card, encoder=None)
    return replace(
        card,
        encoder=name_encoder(request.encoder) if request.encoder else origin.encoder or EncoderIdentity(IMPORTED),
        simulated=request.simulated or any(beside.simulated for beside in origins),
        features_per_second=origin.features_per_second,
        feature_fingerprint=packed.fingerprint,
    )


def _text_encoder(request: ImportRequest, card: DatasetCard) -> EncoderIdentity | None:
    if request.language is None:
        return None
    own = request.source / "language.npz"
    is_own = request.kind == "folder" and own.exists() and request.language.samefile(own)
    if request.text_encoder:
        return name_encoder(request.text_encoder)
    return (card.text_encoder if is_own else None) or name_encoder(request.language.name)


def _cards_beside(features: Path) -> list[DatasetCard]:
    """The cards of the dataset folders that contain the features, with and without following links."""
    if features.name != "features" and not FeatureStore.is_at(features):
        return []  # feature files beside a dataset.yaml need not belong to that dataset
    folders = dict.fromkeys((features.resolve().parent, features.absolute().parent))
    cards = {folder: read_card(folder) for folder in folders if os.path.lexists(folder / "dataset.yaml")}
    if FeatureStore.is_at(features):
        for folder, card in cards.items():
            refuse_other_features(card, FeatureStore.open(features), folder)
    return list(cards.values())


def write_language_of(
    request: ImportRequest, annotations: Annotations, folder: Path, embedder: TextEncoder | None = None
) -> Annotations:
    """Write language.npz if one is given or to be made; its rows then define the vocabulary."""
    if request.language is None:
        if embedder is not None:
            write_embeddings(folder, annotations.vocabulary, embedder)
        return annotations
    rename = read_rename(request.rename) if request.rename else {}
    table = read_language(request.language)
    matched = match_language(_with_own_ids(request, annotations.vocabulary, table), table, rename)
    ids = [action.id for action in matched.vocabulary.actions if action.id is not None]
    complete = ids if len(ids) == len(matched.vocabulary) else None
    write_language(folder / "language.npz", matched.vocabulary.names, matched.embedding, complete)
    return replace(annotations, vocabulary=matched.vocabulary)


def _with_own_ids(request: ImportRequest, vocabulary: Vocabulary, table: LanguageTable) -> Vocabulary:
    """The actions with the ids that the source's language.npz has for them; steps.csv has no ids.

    An id that `table` uses for another step is dropped: the two tables then number differently.
    """
    own = request.source / "language.npz"
    if request.kind != "folder" or not own.is_file():
        return vocabulary
    mine, name_of = read_language(own), dict(zip(table.ids or (), table.names, strict=False))
    times = Counter(mine.names)
    id_of = {name: id_ for name, id_ in zip(mine.names, mine.ids or (), strict=False) if times[name] == 1}
    actions = []
    for action in vocabulary.actions:
        id_ = id_of.get(action.name)
        agreed = id_ is not None and name_of.get(id_, action.name) in (action.name, action.text)
        actions.append(replace(action, id=id_ if agreed else None))
    return Vocabulary(tuple(actions))


def write_split_of(request: ImportRequest, annotations: Annotations, folder: Path) -> list[Problem]:
    """Write split.json; a release's own split that cannot be used becomes a problem, a requested one an error."""
    split = read_split(request.split) if request.split else annotations.split
    if split is None:
        return []
    where = (request.split or request.source).name
    try:
        notes = _write_fitting(split, annotations, folder)
    except SplitError as error:
        if request.split:
            raise
        return [Problem(where, str(error).removesuffix("."), "split left out")]
    return [Problem(where, note, "split written without them") for note in notes]


def _write_fitting(split: Split, annotations: Annotations, folder: Path) -> tuple[str, ...]:
    check_no_leak(split)
    split, notes = restrict_split(split, (video.id for video in annotations.videos))
    write_split(folder / "split.json", split)
    return notes


def pack_features(
    request: ImportRequest, annotations: Annotations, folder: Path, on_progress: OnProgress | None
) -> PackedFeatures | None:
    """Write features/ if features are given, as files or as a store."""
    if request.features is None:
        return None
    pack = copy_store if FeatureStore.is_at(request.features) else import_features
    return pack(request.features, annotations.videos, folder / "features", dtype=request.dtype, on_progress=on_progress)


def link_videos(request: ImportRequest, videos: Sequence[Video], folder: Path) -> Sequence[Problem]:
    """Hard-link the video files under their ids, or copy them if the file system cannot link."""
    if request.videos is None:
        return []
    if not request.videos.is_dir():
        raise SourceError(f"--videos {request.videos} is not a folder.")
    at_hand = {stem: path for stem, path in find_videos(request.videos).items() if path.is_file()}
    twins = find_twins(request.videos)
    (folder / "videos").mkdir()
    log = ProblemLog()
    for video in videos:
        names = (video.id, *video.aliases, f"{video.task}_{video.id}")
        found = next((at_hand[name] for name in names if name in at_hand), None)
        if Path(video.id).name != video.id:
            what = f"{shown(video.id)} cannot be a file name"
            log.add(str(request.videos), what, "steps kept, video left out")
        elif found is None and (twin := next((twins[name] for name in names if name in twins), None)):
            log.add(str(request.videos), twin, "steps kept, video left out")
        elif found is None:
            expected = f"no file {video.id}{{{','.join(VIDEO_SUFFIXES[:3])},...}}"
            log.add(str(request.videos), expected, "steps kept, video missing")
        else:
            _link_or_copy(found, folder / "videos" / f"{video.id}{found.suffix.lower()}")
    return log.problems


def _link_or_copy(source: Path, destination: Path) -> None:
    try:
        os.link(source.resolve(), destination)
    except OSError:
        shutil.copyfile(source, destination)


def copy_truth(request: ImportRequest, dataset: Dataset) -> list[Problem]:
    """Copy the lines of a folder's truth.jsonl whose videos were imported completely."""
    source = request.source / TRUTH_FILE
    if request.kind != "folder" or not os.path.lexists(source):
        return []
    if not source.is_file():
        raise SourceError(f"{source} is a folder or a broken link. Delete it, or put the file there.")
    whole = _whole_videos(request.source, dataset.videos)
    reader = TruthReader(dataset.videos, dataset.vocabulary)
    left_out: Counter[str] = Counter()
    with (
        atomic_file(dataset.folder / TRUTH_FILE) as temporary,
        temporary.open("wb") as kept,
        source.open("rb") as lines,
    ):
        for line in lines:
            if _fits(line, reader, whole):
                kept.write(line)
            else:
                left_out[reader.video_of(line)] += 1
    if not left_out:
        return []
    what = f"{counted(left_out.total(), 'line')} about other steps, of {listed(sorted(left_out))}"
    return [Problem(TRUTH_FILE, what, "lines left out")]


def _fits(line: bytes, reader: TruthReader, whole: set[str]) -> bool:
    try:
        return reader.read(line).video in whole
    except ValueError:
        return False


def _whole_videos(source: Path, videos: Sequence[Video]) -> set[str]:
    """The videos of which every row was used: a lost row changes the numbers of the steps after it.

    A row without a video may belong to any of them, so then no video counts as complete.
    """
    rows = Counter(read_video_column(source))
    return set() if None in rows else {video.id for video in videos if rows[video.id] == len(video.steps)}


def import_dataset(request: ImportRequest, *, on_progress: OnProgress | None = None) -> ImportReport:
    """Write the complete dataset folder or nothing; with `strict`, problems are an error."""

    def read() -> Annotations:
        return read_annotations(request.kind, request.source, keep_tasks_apart=request.keep_tasks_apart)

    return import_read(request, read, on_progress=on_progress)


def import_read(
    request: ImportRequest, read: Callable[[], Annotations], *, on_progress: OnProgress | None = None
) -> ImportReport:
    """Write the dataset folder of the annotations that `read` returns; it is called once the folder may be written."""
    request = request.with_parts_of_folder()
    refuse_to_overwrite(request.destination, overwrite=request.overwrite, sources=request.sources)
    _refuse_unused(request)
    annotations = read()
    with replacing_dataset(request.destination, overwrite=request.overwrite, sources=request.sources) as folder:
        return _build(request, annotations, folder, on_progress)


def _build(
    request: ImportRequest, annotations: Annotations, folder: Path, on_progress: OnProgress | None
) -> ImportReport:
    """Write all files into `folder`; dataset.yaml comes last, so that a folder without it is unfinished."""
    problems = list(annotations.problems)
    embedder = build_text_encoder(DEFAULT_TEXT_ENCODER) if request.embed and request.language is None else None
    annotations = write_language_of(request, annotations, folder, embedder)
    problems += write_split_of(request, annotations, folder)
    packed = pack_features(request, annotations, folder, on_progress)
    problems += packed.problems if packed else ()
    problems += link_videos(request, annotations.videos, folder)
    write_steps(folder / "steps.csv", annotations)
    problems += copy_truth(request, open_unfinished(folder))
    refuse_problems(request, problems)
    card = card_of(request, annotations, packed)
    (replace(card, text_encoder=embedder.text_identity) if embedder else card).write(folder)
    report = report_of(request, annotations, packed, problems)
    return replace(report, notes=(*report.notes, _note_embedded(report, embedder))) if embedder else report


def _note_embedded(report: ImportReport, embedder: TextEncoder) -> str:
    made = f"embeddings of {counted(report.num_actions, 'step')} were made by {embedder.text_identity}"
    return f"no --language was given, so {made} (language.npz)"


def report_of(
    request: ImportRequest, annotations: Annotations, packed: PackedFeatures | None, problems: Sequence[Problem]
) -> ImportReport:
    """What was written, in numbers."""
    return ImportReport(
        folder=request.destination,
        num_videos=len(annotations.videos),
        num_steps=sum(len(video.steps) for video in annotations.videos),
        num_actions=len(annotations.vocabulary),
        num_tasks=len({video.task for video in annotations.videos}),
        features=packed,
        problems=tuple(problems),
        notes=(*annotations.notes, *(packed.notes if packed else ())),
    )


def refuse_problems(request: ImportRequest, problems: Sequence[Problem]) -> None:
    """With `strict`, raise an error that lists the problems."""
    if request.strict and problems:
        found = counted(count_problems(problems), "problem")
        raise SourceError(f"--strict: {found}, so nothing was written.\n{list_problems(problems)}")
