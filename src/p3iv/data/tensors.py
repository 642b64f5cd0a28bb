"""Read the observations of all windows into tensors, once per run."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, replace

import numpy as np
import torch
from torch import Tensor

from p3iv.config import DataConfig
from p3iv.data.folder import Dataset, find_videos, require_features
from p3iv.data.observations import ObservationReader
from p3iv.data.padding import pad_plans
from p3iv.data.seconds import FollowData
from p3iv.data.windows import ActionSequences, WindowSets, curate_windows, note_untimed, sides_of
from p3iv.encoders.identity import EncoderIdentity
from p3iv.errors import DatasetError
from p3iv.types import SIDES, Action, Side, Vocabulary, Window, counted, listed

MAX_NEARBY_BYTES = 256 << 20  # datasets above it have enough windows without nearby moments


@dataclass(frozen=True)
class WindowTensors:
    """The windows of one side, ready for the network."""

    windows: tuple[Window, ...]
    start: Tensor  # (N, F) float32
    goal: Tensor  # (N, F)
    action_ids: Tensor  # (N, T) int64; of several lengths, padded as `data.padding` describes
    steps: Tensor | None = None  # (N, T, F): observations at the starts of the steps; for planners that need them
    task_ids: Tensor | None = None  # (N,) int64: the task of each window, numbered in the order of names
    nearby: Tensor | None = None  # (S, 2, n, F): starts and goals of the n shortest windows, some seconds apart
    history: Tensor | None = None  # (N, F): the mean of the video before each start, if requested
    has_history: Tensor | None = None  # (N,) bool: whether there is any video before the start

    def __len__(self) -> int:
        return len(self.windows)

    @property
    def lengths(self) -> Tensor:
        """The number of actions of every window: (N,)."""
        return (self.action_ids >= 0).sum(dim=1)

    def take(self, rows: Tensor) -> WindowTensors:
        """Some of the windows; their actions are padded no further than needed."""
        ids = self.action_ids[rows]
        longest = int((ids >= 0).sum(dim=1).max()) if len(ids) else ids.shape[1]

        def some(part: Tensor | None) -> Tensor | None:
            return None if part is None else part[rows]

        return WindowTensors(
            windows=tuple(self.windows[row] for row in rows.tolist()),
            start=self.start[rows],
            goal=self.goal[rows],
            action_ids=ids[:, :longest],
            task_ids=some(self.task_ids),
            history=some(self.history),
            has_history=some(self.has_history),
        )

    def of_length(self, horizon: int) -> tuple[WindowTensors, Tensor]:
        """The windows of one length, and their rows."""
        rows = (self.lengths == horizon).nonzero()[:, 0]
        return self.take(rows), rows


@dataclass(frozen=True)
class PlanningData:
    """Everything that training and evaluation read from a dataset."""

    label: str
    encoder: EncoderIdentity | None  # of the features
    text_encoder: EncoderIdentity | None  # of the language
    feature_fingerprint: str  # of all rows, those of no window too
    vocabulary: Vocabulary  # the actions that planners know, then those of test videos only
    num_known: int
    language: Tensor | None  # (A, F_l)
    train: WindowTensors
    val: WindowTensors
    test: WindowTensors
    train_sequences: ActionSequences  # the actions of whole training videos
    val_sequences: ActionSequences
    train_sequence_videos: tuple[str, ...]  # the video of every training sequence
    procedures: tuple[str, ...]  # the tasks of all videos, in the order of their ids
    notes: tuple[str, ...]
    fingerprint: str  # equal fingerprints mean identical features, language and windows
    follow: FollowData | None = None  # what following videos is fitted to; `data.following` reads it

    @property
    def names(self) -> tuple[str, ...]:
        """The actions that planners know: their ids are 0 to A - 1."""
        return self.vocabulary.names[: self.num_known]

    def side(self, name: Side) -> WindowTensors:
        return {"train": self.train, "val": self.val, "test": self.test}[name]


def load_planning_data(
    dataset: Dataset,
    config: DataConfig,
    *,
    with_steps: bool = False,
    nearby_s: int = 0,
    with_history: bool = False,
    names: Sequence[str] | None = None,
    trained_on: str | None = None,
) -> PlanningData:
    """Cut the windows and read their observations; windows without features are left out and noted.

    The windows of a side, and so the fingerprint, do not depend on the planner, with one exception: `with_steps` leaves
    out training windows whose steps have no times. Every planner is validated and tested on the same windows.

    Args:
        dataset: With features.
        config: Which windows.
        with_steps: Also read the observation at the start of each step of a training window.
        nearby_s: Also read the starts and goals of training windows up to this many seconds earlier and later.
        with_history: Also read what came before the start of every window in its video.
        names: The actions of a trained planner, which are then numbered as it numbers them.
        trained_on: The fingerprint of the data that this planner was trained on.

    Raises:
        DatasetError: There are no features, no windows, or actions that the planner does not know.
    """
    store = require_features(dataset)
    vocabulary, num_known, sets = _number_actions(dataset, config, names)
    reader = _Reader(dataset, config.observation)
    windows = {side: reader.keep_seen(sets.side(side)) for side in SIDES}
    causes = [*sets.notes, *note_untimed(dataset.videos, config), *_note_lost("features", sets.side, windows)]
    notes: list[str] = []
    fingerprint = _fingerprint(dataset, windows)
    if trained_on in (None, fingerprint):
        learned = {action for sequence in sets.train_sequences for action in sequence}
        notes += _note_unknown(vocabulary, windows["test"], learned, "no training video has, so planners cannot learn")
    else:
        known = set(range(num_known))
        notes += _note_unknown(vocabulary, windows["test"], known, "the planner does not know, so it cannot plan")
    if with_steps:
        _require_times(dataset)
        seen, windows = windows, {**windows, "train": reader.keep_timed(windows["train"])}
        causes += _note_lost("times of their steps", seen.__getitem__, windows)
    needed = sides_of(config.split)
    if not all(windows[side] for side in needed):
        without = {window.video for side in SIDES if not windows[side] for window in sets.side(side)}
        seed = None if names else _find_seed(dataset, config)
        raise DatasetError(_why_no_windows(dataset, config, windows, causes, without=sorted(without), seed=seed))
    notes = [*causes, *notes]
    sides = {side: reader.tensors(windows[side], with_steps=with_steps and side == "train") for side in needed}
    if with_history:
        sides = {side: reader.add_history(tensors) for side, tensors in sides.items()}
    nothing = sides["train"].take(torch.zeros(0, dtype=torch.int64))
    sides = {side: sides.get(side, nothing) for side in SIDES}
    if nearby_s:
        notes += (too_large := _note_too_large(sides["train"], nearby_s))
        shortest = min(len(window.action_ids) for window in windows["train"])
        short = [window for window in windows["train"] if len(window.action_ids) == shortest]  # all moments are theirs
        nearby = None if too_large else reader.nearby(short, nearby_s)
        sides["train"] = replace(sides["train"], nearby=nearby)
    return PlanningData(
        label=dataset.card.label,
        encoder=dataset.card.encoder,
        text_encoder=dataset.card.text_encoder,
        feature_fingerprint=store.fingerprint,
        vocabulary=vocabulary,
        num_known=num_known,
        language=_language(dataset) if vocabulary is dataset.vocabulary else None,
        train_sequences=sets.train_sequences,
        val_sequences=sets.val_sequences,
        train_sequence_videos=sets.train_sequence_videos,
        procedures=reader.tasks,
        notes=tuple(notes),
        fingerprint=fingerprint,
        train=sides["train"],
        val=sides["val"],
        test=sides["test"],
    )


def _number_actions(
    dataset: Dataset, config: DataConfig, names: Sequence[str] | None
) -> tuple[Vocabulary, int, WindowSets]:
    """The actions, how many of them planners know, and the windows with these ids.

    The rows of language.npz are known beforehand. Without it, planners know the actions of training and validation
    videos, so that test videos change neither the ids nor the size of a planner.
    """
    vocabulary = dataset.vocabulary
    sets = curate_windows(dataset.videos, vocabulary, config, release_split=dataset.split)
    if dataset.language is not None and names in (None, vocabulary.names):
        return vocabulary, len(vocabulary), sets
    seen = {vocabulary.names[action] for each in (*sets.train_sequences, *sets.val_sequences) for action in each}
    known = sorted(seen) if names is None else names
    if unknown := sorted(seen.difference(known)):
        raise DatasetError(
            f"{dataset.folder} has another vocabulary than the planner: {counted(len(unknown), 'step')} of {len(seen)} "
            f"cannot be in its plans: {listed(unknown)}. Pass the dataset folder that it was trained on (--data DIR), "
            f"use the planner's names in steps.csv, or train a planner on this one."
        )
    action_of = {action.name: action for action in vocabulary.actions}
    further = sorted(action_of.keys() - set(known))
    vocabulary = Vocabulary(tuple(action_of.get(name, Action(name, name)) for name in (*known, *further)))
    sets = curate_windows(dataset.videos, vocabulary, config, release_split=dataset.split)
    return vocabulary, len(known), sets


def _language(dataset: Dataset) -> Tensor | None:
    return None if dataset.language is None else torch.tensor(dataset.language, dtype=torch.float32)


def _note_unknown(vocabulary: Vocabulary, test: Sequence[Window], known: Set[int], why: str) -> Iterator[str]:
    """Name the actions of test windows that are not among the known ones."""
    unknown = [set(window.action_ids) - known for window in test]
    names = sorted({vocabulary.names[action] for actions in unknown for action in actions})
    if names:
        number = sum(map(bool, unknown))
        verb = "contains" if number == 1 else "contain"
        what, them = ("a step", "it") if len(names) == 1 else (f"steps ({len(names)} different ones)", "them")
        yield f"{number} of {counted(len(test), 'test window')} {verb} {what} that {why} {them}: {listed(names)}"


def _note_lost(
    what: str, before: Callable[[Side], Sequence[Window]], after: Mapping[Side, Sequence[Window]]
) -> Iterator[str]:
    kept = {window for side in SIDES for window in after[side]}
    lost = {window.video for side in SIDES for window in before(side) if window not in kept}
    if lost:
        yield f"windows of {counted(len(lost), 'video')} without {what} are left out: {listed(sorted(lost))}"


def _note_too_large(train: WindowTensors, nearby_s: int) -> list[str]:
    """A note if the nearby moments of training windows would take too much memory."""
    size = 2 * nearby_s * 8 * train.start.numel() // len(train.lengths.unique())  # kept once for all lengths
    if size <= MAX_NEARBY_BYTES:
        return []
    return [f"nearby moments of {len(train)} windows would take {size >> 20} MiB: not used"]


def _require_times(dataset: Dataset) -> None:
    if not any(video.is_timed for video in dataset.videos):
        raise DatasetError(
            f"{dataset.folder} has no times of its steps, but this planner learns from what is seen at each step. Use "
            f"a dataset with start_s and end_s in steps.csv, or a planner that does not need them: --planner p3iv."
        )


def _find_seed(dataset: Dataset, config: DataConfig) -> int | None:
    """One of the next ten seeds of the split with which all sides have windows with features."""
    store = require_features(dataset)
    for seed in range(config.split_seed + 1, config.split_seed + 11):
        other = replace(config, split_seed=seed)
        sets = curate_windows(dataset.videos, dataset.vocabulary, other, release_split=dataset.split)
        if all(any(window.video in store for window in sets.side(side)) for side in SIDES):
            return seed
    return None


def _why_no_windows(
    dataset: Dataset,
    config: DataConfig,
    windows: Mapping[Side, Sequence[Window]],
    causes: Sequence[str],
    *,
    without: Sequence[str],
    seed: int | None,
) -> str:
    """Which sides have no window, why, and what to do: make features of videos `without`, or take another seed."""
    empty = [side for side in SIDES if not windows[side]]
    longest = max(len(video.steps) for video in dataset.videos)
    missing = config.num_actions + (config.window == "after-start") - longest
    found = f"{dataset.folder} has no usable {listed(empty)} window of horizon {config.horizon}."
    if missing > 0:
        shorter = (
            f" Plan fewer steps: --horizon {config.horizon - missing} or less." if config.horizon > missing else ""
        )
        return f"{found} Its longest video has {counted(longest, 'step')}.{shorter}"
    reasons = "".join(f" {cause[0].upper()}{cause[1:]}." for cause in causes)
    other = f"type --split-seed {seed}" if seed is not None else "add videos"
    if not without:
        return f"{found}{reasons} To get some, {other}; `p3iv data stats {dataset.folder}` counts them."
    return f"{found}{reasons} {_advise_features(dataset, without)}; or {other}."


def _advise_features(dataset: Dataset, without: Sequence[str]) -> str:
    """How to get features of videos that have none: by extracting if p3iv made the others, else by importing."""
    encoder, store = dataset.card.encoder, require_features(dataset)
    if encoder is None or encoder.fingerprint is None:
        return f"Import {encoder or 'the'} features of {listed(without)}"
    files = find_videos(dataset.folder / "videos")
    names = listed([f"videos/{files[video].name if video in files else f'{video}.mp4'}" for video in without])
    needed = " --only-needed" if any(store.kept(video) for video in store.videos) else ""
    return f"Repair or add {names} and type: p3iv extract {dataset.folder} --overwrite{needed}"


def _fingerprint(dataset: Dataset, windows: Mapping[Side, Sequence[Window]]) -> str:
    digest = hashlib.sha256(dataset.features.fingerprint.encode() if dataset.features else b"")
    digest.update(b"" if dataset.language is None else np.ascontiguousarray(dataset.language).tobytes())
    for side in SIDES:
        digest.update(repr((side, windows[side])).encode())
    return digest.hexdigest()


class _Reader(ObservationReader):
    """Reads the windows of a dataset."""

    def __init__(self, dataset: Dataset, observation: str) -> None:
        super().__init__(dataset, observation)
        self.tasks = tuple(sorted({video.task for video in dataset.videos}))
        number_of = {task: number for number, task in enumerate(self.tasks)}
        self._task_of = {video.id: number_of[video.task] for video in dataset.videos}
        self._start_of = {video.id: [step.start_s for step in video.steps] for video in dataset.videos}

    def keep_seen(self, windows: Sequence[Window]) -> list[Window]:
        """The windows whose videos have features."""
        return [w for w in windows if w.start_s is not None and w.goal_s is not None and w.video in self._store]

    def keep_timed(self, windows: Sequence[Window]) -> list[Window]:
        """The windows whose steps have times."""
        return [window for window in windows if self._start_of[window.video][0] is not None]

    def tensors(self, windows: Sequence[Window], *, with_steps: bool) -> WindowTensors:
        start, goal = (torch.from_numpy(self.observe(end)) for end in _ends(windows))
        result = WindowTensors(
            windows=tuple(windows),
            start=start,
            goal=goal,
            action_ids=pad_plans([w.action_ids for w in windows]),
            task_ids=torch.tensor([self._task_of[w.video] for w in windows], dtype=torch.int64),
        )
        if not with_steps:
            return result
        horizon = len(windows[0].action_ids)
        moments = [
            (w.video, self._start_of[w.video][step] or 0.0)
            for w in windows
            for step in range(w.first_step, w.first_step + horizon)
        ]
        steps = torch.from_numpy(self.observe(moments))
        return replace(result, steps=steps.unflatten(0, (len(windows), horizon)))

    def add_history(self, tensors: WindowTensors) -> WindowTensors:
        """The same windows with what came before their starts."""
        moments = [(window.video, window.start_s or 0.0) for window in tensors.windows]
        means, is_there = self.observe_before(moments)
        return replace(tensors, history=torch.from_numpy(means), has_history=torch.from_numpy(is_there))

    def nearby(self, windows: Sequence[Window], max_s: int) -> Tensor:
        """Starts and goals of windows, 1 to `max_s` seconds earlier and later: (S, 2, N, F)."""
        ends = _ends(windows)
        shifts = [shift for shift in range(-max_s, max_s + 1) if shift]
        observed = np.stack([[self.observe(end, shift) for end in ends] for shift in shifts])
        return torch.from_numpy(observed)


def _ends(windows: Sequence[Window]) -> tuple[list[tuple[str, float]], list[tuple[str, float]]]:
    """The moments of the starts and of the goals of windows."""
    return [(w.video, w.start_s or 0.0) for w in windows], [(w.video, w.goal_s or 0.0) for w in windows]
