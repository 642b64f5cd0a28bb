"""Cut videos into windows, and split videos or windows into train, val and test (supplement E)."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from p3iv.catalogue import ALL_VIDEOS, SPLIT_KINDS
from p3iv.config import CurationSettings
from p3iv.errors import SplitError, one_of
from p3iv.readers.folder import read_split
from p3iv.types import SIDES, Side, Split, Video, Vocabulary, Window, counted, hash_number, listed
from p3iv.validation import shown

TEST_SHARE = {1: 0.30, 2: 0.15}  # by protocol, supplement E

VAL_SHARE = 0.20  # of the training videos

MIN_VIDEOS = 3  # one of each side


TaskOf = Mapping[str, str]  # the task of every video, by its id

_FOLD = re.compile(r"fold-([1-9]\d{0,3})-of-([1-9]\d{0,3})(?:-keep-(50|25))?(-refit)?")


class TooFewVideosError(SplitError):
    """There are not enough videos for train, val and test."""


def draw_order(keys: Iterable[str], *, seed: int, purpose: str) -> list[str]:
    """Shuffle the keys; the order depends only on the seed and the purpose."""
    return sorted(keys, key=lambda key: draw_number(key, seed=seed, purpose=purpose))


def draw_number(key: str, *, seed: int, purpose: str) -> int:
    """A 64-bit number for a key, uniform over seeds."""
    return hash_number(f"{seed}\0{purpose}\0{key}")


def split_by_video(videos: Sequence[str], *, seed: int, protocol: int = 1) -> Split:
    """70/30 by video (85/15 under protocol 2), then a fifth of the training videos for validation."""
    _require_videos(len(videos))
    order = draw_order(videos, seed=seed, purpose="test")
    num_test = _share(len(order), TEST_SHARE[protocol], leave=2)
    return complete_split(Split(tuple(order[num_test:]), (), tuple(order[:num_test])), seed=seed)


def split_stratified(task_of: TaskOf, *, seed: int, protocol: int = 1) -> Split:
    """The same shares as `split_by_video`, each with its share of the videos of every task as far as possible."""
    _require_videos(len(task_of))
    num_test = _share(len(task_of), TEST_SHARE[protocol], leave=2)
    test = set(take_stratified(task_of, num_test, seed=seed, purpose="test"))
    return _with_stratified_val(task_of, test, seed=seed)


def split_fold(task_of: TaskOf, number: int, num_folds: int, *, seed: int, num_halvings: int = 0) -> Split:
    """The split of one fold of a cross-validation, counted from 1: every video is tested in exactly one of them.

    The numbers of videos of two folds differ by at most 1, and so do their numbers of videos of each task. A fifth of
    the other videos, stratified by task, is for validation. With `num_halvings`, only a half, a quarter, ... of the
    other videos is used, and the test videos are the same.
    """
    check_folds(len(task_of), num_folds)
    order = _tasks_in_order(task_of, seed=seed, purpose="folds")
    test = set(order[number - 1 :: num_folds])
    for _ in range(num_halvings):
        others = {video: task for video, task in task_of.items() if video not in test}
        kept = take_stratified(others, max(2, round(len(others) / 2)), seed=seed, purpose="keep")
        task_of = {video: task_of[video] for video in (*kept, *test)}
    return _with_stratified_val(task_of, test, seed=seed)


def check_folds(num_videos: int, num_folds: int) -> None:
    """Refuse more folds than videos, and folds that leave fewer than two videos to train and validate with.

    Raises:
        TooFewVideosError: saying how many are needed.
    """
    if num_videos < max(num_folds, MIN_VIDEOS):
        raise TooFewVideosError(
            f"{counted(num_videos, 'video')} for {num_folds} folds, but every fold needs a video of its own to test, "
            f"and two others: {max(num_folds, MIN_VIDEOS)} or more."
        )


def take_stratified(task_of: TaskOf, number: int, *, seed: int, purpose: str) -> list[str]:
    """Some of the videos, at random; each task has its share of them, rounded up or down."""
    order, total = _tasks_in_order(task_of, seed=seed, purpose=purpose), len(task_of)
    return [video for place, video in enumerate(order) if (place + 1) * number // total > place * number // total]


def _tasks_in_order(task_of: TaskOf, *, seed: int, purpose: str) -> list[str]:
    """The videos, those of a task next to each other; tasks and the videos of a task in random order."""
    order = draw_order(task_of, seed=seed, purpose=purpose)
    rank = {task: place for place, task in enumerate(draw_order(set(task_of.values()), seed=seed, purpose=purpose))}
    return sorted(order, key=lambda video: rank[task_of[video]])


def _with_stratified_val(task_of: TaskOf, test: set[str], *, seed: int) -> Split:
    """A split with these test videos, and a stratified fifth of the others for validation."""
    others = {video: task for video, task in task_of.items() if video not in test}
    num_val = _share(len(others), VAL_SHARE, leave=1)
    val = set(take_stratified(others, num_val, seed=seed, purpose="val"))
    return Split(tuple(sorted(set(others) - val)), tuple(sorted(val)), tuple(sorted(test)))


def complete_split(split: Split, *, seed: int) -> Split:
    """Move a fifth of the training videos to validation if the split has no validation videos."""
    if split.val:
        return split
    if len(split.train) < 2:
        have = counted(len(split.train), "training video")
        raise TooFewVideosError(f"{have}, but at least 2 are needed: a fifth of them becomes validation videos.")
    order = draw_order(split.train, seed=seed, purpose="val")
    num_val = _share(len(order), VAL_SHARE, leave=1)
    return Split(tuple(sorted(order[num_val:])), tuple(sorted(order[:num_val])), tuple(sorted(split.test)))


def _require_videos(number: int) -> None:
    if number < MIN_VIDEOS:
        raise TooFewVideosError(
            f"{counted(number, 'video')}, but train, val and test need at least one each: {MIN_VIDEOS} or more."
        )


def check_no_leak(split: Split) -> None:
    """Refuse a split in which one video is on two sides."""
    for first, second in (("train", "val"), ("train", "test"), ("val", "test")):
        shared = sorted(set(getattr(split, first)) & set(getattr(split, second)))
        if shared:
            raise SplitError(
                f"{counted(len(shared), 'video')} both in {first} and in {second} ({listed(shared)}). "
                f"A video must be on one side only: remove them from one, or use --split video."
            )


def _share(total: int, share: float, *, leave: int) -> int:
    """A share of the total: at least one, and leaving at least `leave`."""
    return min(max(1, round(total * share)), total - leave)


ActionSequences = tuple[tuple[int, ...], ...]
_VideoActions = tuple[str, list[int]]  # a video and consecutive actions of it


@dataclass(frozen=True)
class WindowSets:
    """The windows of each side, with notes that belong to every figure on them."""

    train: tuple[Window, ...]
    val: tuple[Window, ...]
    test: tuple[Window, ...]
    notes: tuple[str, ...] = ()
    train_sequences: ActionSequences = ()  # actions of whole training videos, including those too short for a window
    val_sequences: ActionSequences = ()
    train_sequence_videos: tuple[str, ...] = ()  # the video of every training sequence

    def side(self, name: Side) -> tuple[Window, ...]:
        return {"train": self.train, "val": self.val, "test": self.test}[name]


def curate_windows(
    videos: Sequence[Video], vocabulary: Vocabulary, settings: CurationSettings, *, release_split: Split | None = None
) -> WindowSets:
    """Cut the windows and split them; only the split by window has videos on several sides."""
    windows = cut_windows(videos, vocabulary, settings)
    if settings.split == "window":
        sets = _split_windows(windows, settings.split_seed, TEST_SHARE[settings.protocol])
        covered, val_covered = _covered(sets.train), _covered(sets.val)
        return replace(
            sets,
            train_sequences=_ids_of(covered),
            val_sequences=_ids_of(val_covered),
            train_sequence_videos=_videos_of(covered),
        )
    split, notes = choose_split(tasks_of(videos), settings, release_split=release_split)
    sequences = _sequences(videos, vocabulary, split.train)
    return WindowSets(
        train=_of_videos(windows, split.train),
        val=_of_videos(windows, split.val),
        test=_of_videos(windows, split.test),
        notes=notes,
        train_sequences=_ids_of(sequences),
        val_sequences=_ids_of(_sequences(videos, vocabulary, split.val)),
        train_sequence_videos=_videos_of(sequences),
    )


def note_untimed(videos: Sequence[Video], settings: CurationSettings) -> Iterator[str]:
    """Name the videos without times that give no window at this horizon."""
    lengths = [horizon + (settings.window == "after-start") for horizon in settings.horizons]
    unused = [video.id for video in videos if not video.is_timed and len(video.steps) not in lengths]
    if unused:
        allowed = f"{lengths[0]} to {lengths[-1]}" if len(lengths) > 1 else lengths[0]
        yield (
            f"{counted(len(unused), 'video')} whose steps have no times cannot be used: without times, all steps of a "
            f"video form one window, and these do not have {allowed} steps: {listed(unused)}"
        )


def cut_windows(videos: Sequence[Video], vocabulary: Vocabulary, settings: CurationSettings) -> list[Window]:
    """Every window of every video (protocol 1), or one random window per video, by the split seed (protocol 2).

    If plans have several lengths, the shortest windows come first.
    """
    lead = settings.window == "after-start"
    cut = [_windows_of(video, vocabulary, horizon, lead=lead) for horizon in settings.horizons for video in videos]
    if settings.protocol == 2:
        cut = [
            [windows[draw_number(windows[0].video, seed=settings.split_seed, purpose="window") % len(windows)]]
            for windows in cut
            if windows
        ]
    return [window for windows in cut for window in windows]


def tasks_of(videos: Iterable[Video]) -> dict[str, str]:
    """The task of every video."""
    return {video.id: video.task for video in videos}


def fold_name(number: int, num_folds: int, *, num_halvings: int = 0) -> str:
    """The kind of split of one fold, counted from 1.

    >>> fold_name(2, 5), fold_name(2, 5, num_halvings=1)
    ('fold-2-of-5', 'fold-2-of-5-keep-50')
    """
    return f"fold-{number}-of-{num_folds}{('', '-keep-50', '-keep-25')[num_halvings]}"


def refit_name(split: str) -> str:
    """The same fold with its validation videos among the training videos."""
    return f"{split}-refit"


def is_fold(split: str) -> bool:
    """Whether a split is that of one fold."""
    return _FOLD.fullmatch(split) is not None


def sides_of(split: str) -> tuple[Side, ...]:
    """The sides that have videos."""
    if split == ALL_VIDEOS:
        return ("train",)
    fold = _FOLD.fullmatch(split)
    return ("train", "test") if fold and fold[4] else SIDES


def is_split_kind(name: str) -> bool:
    """Whether a split has no file: it is computed, or part of the dataset."""
    return name in (*SPLIT_KINDS, ALL_VIDEOS) or _FOLD.fullmatch(name) is not None


def choose_split(
    task_of: TaskOf, settings: CurationSettings, *, release_split: Split | None
) -> tuple[Split, tuple[str, ...]]:
    """Choose the split by video, check it for leaks, and note the videos that it leaves out."""
    videos = list(task_of)
    if settings.split == ALL_VIDEOS:
        return Split(tuple(sorted(videos)), (), ()), ()
    if settings.split == "video":
        split = split_by_video(videos, seed=settings.split_seed, protocol=settings.protocol)
    elif settings.split == "stratified":
        split = split_stratified(task_of, seed=settings.split_seed, protocol=settings.protocol)
    elif fold := _FOLD.fullmatch(settings.split):
        return _split_as_fold(task_of, fold, seed=settings.split_seed), ()
    elif settings.split == "release":
        if release_split is None:
            raise SplitError("This dataset has no split.json. Use --split video, or --split FILE.")
        split = release_split
    else:
        split = _split_from_file(settings.split)
    check_no_leak(split)
    split, notes = restrict_split(split, videos)
    split = complete_split(split, seed=settings.split_seed)
    check_no_leak(split)
    return split, notes


def _split_as_fold(task_of: TaskOf, fold: re.Match[str], *, seed: int) -> Split:
    """The split that the name of a fold describes."""
    number, num_folds = int(fold[1]), int(fold[2])
    if number > num_folds:
        raise SplitError(f"split={fold[0]}, but there are {num_folds} folds.")
    num_halvings = {None: 0, "50": 1, "25": 2}[fold[3]]
    split = split_fold(task_of, number, num_folds, seed=seed, num_halvings=num_halvings)
    return Split(tuple(sorted((*split.train, *split.val))), (), split.test) if fold[4] else split


def restrict_split(split: Split, videos: Iterable[str]) -> tuple[Split, tuple[str, ...]]:
    """Keep the split's videos that exist; the notes name those that do not, and the videos that are on no side."""
    known = set(videos)
    named = {*split.train, *split.val, *split.test}
    kept = Split(*(tuple(v for v in side if v in known) for side in (split.train, split.val, split.test)))
    if not kept.train or not kept.test:
        raise SplitError(_why_unusable(kept, named, known))
    notes = []
    if unknown := sorted(named - known):
        notes.append(f"{counted(len(unknown), 'video')} of the split not in the dataset: {listed(unknown)}")
    if unused := sorted(known - named):
        notes.append(f"{counted(len(unused), 'video')} on no side of the split, so not used: {listed(unused)}")
    return kept, tuple(notes)


def _why_unusable(kept: Split, named: set[str], known: set[str]) -> str:
    """Explain why a split is unusable; unknown ids are listed beside the dataset's to show differences in spelling."""
    what = (
        f"The split leaves {counted(len(kept.train), 'training video')} and {counted(len(kept.test), 'test video')} "
        f"of this dataset's {len(known)}, but each side needs at least one."
    )
    if unknown := sorted(named - known):
        what += f" It names {listed(unknown)}, but the dataset has {listed(sorted(known))}."
    return what


def _split_from_file(name: str) -> Split:
    path = Path(name)
    if not path.exists():
        raise SplitError(f"split={shown(name)}: not a file that exists, and not {one_of(path.name, SPLIT_KINDS)}")
    return read_split(path)


def _windows_of(video: Video, vocabulary: Vocabulary, num_actions: int, *, lead: bool) -> list[Window]:
    """All windows of one video; with `lead`, the start observation is that of the action before the predicted ones.

    Without times of the steps, only the first and the last moment of the video are known: the video gives one window,
    if it has as many steps as the horizon.
    """
    ids = [vocabulary.id_of[step.action] for step in video.steps]
    offset = 1 if lead else 0
    if not video.is_timed:
        whole = Window(video.id, offset, tuple(ids[offset:]), start_s=0.0, goal_s=math.inf)
        return [whole] if len(whole.action_ids) == num_actions else []
    return [
        Window(
            video=video.id,
            first_step=first,
            action_ids=tuple(ids[first : first + num_actions]),
            start_s=video.steps[first - offset].start_s,
            goal_s=video.steps[first + num_actions - 1].end_s,
        )
        for first in range(offset, len(ids) - num_actions + 1)
    ]


def _sequences(videos: Iterable[Video], vocabulary: Vocabulary, wanted: Iterable[str]) -> list[_VideoActions]:
    chosen = set(wanted)
    return [(video.id, [vocabulary.id_of[s.action] for s in video.steps]) for video in videos if video.id in chosen]


def _covered(windows: Sequence[Window]) -> list[_VideoActions]:
    """The consecutive actions that windows cover: with a split by window, training knows only these of a video."""
    sequences: list[_VideoActions] = []
    video, end = "", 0  # of the last sequence
    for window in sorted(windows, key=lambda w: (w.video, w.first_step)):
        ids = list(window.action_ids)
        if window.video == video and window.first_step < end:
            sequences[-1][1].extend(ids[end - window.first_step :])
        else:
            sequences.append((window.video, ids))
        video, end = window.video, window.first_step + len(ids)
    return sequences


def _ids_of(sequences: Sequence[_VideoActions]) -> ActionSequences:
    return tuple(tuple(ids) for _, ids in sequences)


def _videos_of(sequences: Sequence[_VideoActions]) -> tuple[str, ...]:
    return tuple(video for video, _ in sequences)


def _of_videos(windows: Iterable[Window], videos: Iterable[str]) -> tuple[Window, ...]:
    wanted = set(videos)
    return tuple(window for window in windows if window.video in wanted)


def _split_windows(windows: Sequence[Window], seed: int, test_share: float) -> WindowSets:
    """Split windows instead of videos, as published for CrossTask: test videos are in train too."""
    by_key = {f"{window.video}\0{window.first_step}": window for window in windows}
    order = [by_key[key] for key in draw_order(by_key, seed=seed, purpose="window split")]
    num_test = round(len(order) * test_share)
    num_val = round((len(order) - num_test) * VAL_SHARE)
    test, val, train = order[:num_test], order[num_test : num_test + num_val], order[num_test + num_val :]
    tested = {window.video for window in test}
    leaked = len(tested & {window.video for window in train})
    note = (
        f"split by window: {leaked} of {len(tested)} test videos are also in train. "
        f"Scores on this split are inflated; it exists to compare with published figures."
    )
    return WindowSets(tuple(train), tuple(val), tuple(test), (note,))
