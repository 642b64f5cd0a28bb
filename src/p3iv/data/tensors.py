"""Windows + features -> tensors, once: what an epoch then touches are rows of these."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from p3iv.config import DataConfig
from p3iv.data.folder import Dataset
from p3iv.data.windows import Sequences, curate, note_untimed
from p3iv.errors import DatasetError
from p3iv.features.store import AROUND, rows_around
from p3iv.types import SIDES, Side, Window, listed

MOST_NEARBY_BYTES = 256 << 20  # above it, there are windows enough without nearby moments


@dataclass(frozen=True)
class WindowTensors:
    """The windows of one side, ready for the network."""

    windows: tuple[Window, ...]
    start: Tensor  # (N, F) float32
    goal: Tensor  # (N, F)
    action_ids: Tensor  # (N, T) int64
    steps: Tensor | None = None  # (N, T, F): what is seen as each step starts; strong supervision only
    task_ids: Tensor | None = None  # (N,) int64: the procedure of each window, numbered by name
    nearby: Tensor | None = None  # (S, 2, N, F): starts and goals some seconds before and after; where asked for

    def __len__(self) -> int:
        return len(self.windows)


@dataclass(frozen=True)
class PlanningData:
    """All that training and evaluation read of a dataset."""

    label: str
    encoder: str | None  # of the features
    names: tuple[str, ...]  # the vocabulary
    language: Tensor | None  # (A, F_l)
    train: WindowTensors
    val: WindowTensors
    test: WindowTensors
    train_sequences: Sequences  # the actions of whole training videos
    val_sequences: Sequences
    train_sequence_videos: tuple[str, ...]  # the video of every training sequence
    notes: tuple[str, ...]
    fingerprint: str  # of features, language and windows: two data of one fingerprint train the same planner

    def side(self, name: Side) -> WindowTensors:
        return {"train": self.train, "val": self.val, "test": self.test}[name]


def load_planning_data(
    dataset: Dataset, config: DataConfig, *, with_steps: bool = False, nearby_s: int = 0
) -> PlanningData:
    """Curate the windows and read their observations; windows that nothing was seen of are left out and counted.

    Args:
        dataset: With features.
        config: Which windows.
        with_steps: Read what is seen as each step of a training window starts.
        nearby_s: Read the ends of training windows as seen up to so many seconds before and after, too.
    """
    if dataset.features is None:
        raise DatasetError(
            f"{dataset.folder} has no features. Make them from its videos with `p3iv extract {dataset.folder}`, "
            f"import it with --features FOLDER, or make stand-ins with `p3iv data simulate {dataset.folder}`."
        )
    if with_steps and not any(video.is_timed for video in dataset.videos):
        raise DatasetError(
            f"{dataset.folder} does not say when its steps happen, so nothing is known of what is seen between start "
            f"and goal, which this planner learns from. Use a dataset with start_s and end_s in steps.csv, or a "
            f"planner that learns from step lists alone: --planner p3iv."
        )
    sets = curate(dataset.videos, dataset.vocabulary, config, release_split=dataset.split)
    reader = _Reader(dataset, config.observation, with_steps=with_steps)
    usable = {side: [w for w in sets.side(side) if reader.has_seen(w)] for side in SIDES}
    lost = {w.video for side in SIDES for w in sets.side(side) if not reader.has_seen(w)}
    notes = [*sets.notes, *note_untimed(dataset.videos, config)]
    if lost:
        what = "features or times of their steps" if with_steps else "features"
        notes.append(f"windows of {len(lost)} videos without {what} are left out: {listed(sorted(lost))}")
    for side in SIDES:
        if not usable[side]:
            longest = max(len(video.steps) for video in dataset.videos)
            raise DatasetError(
                f"{dataset.folder}: no usable {side} window of horizon {config.horizon}; the longest video has "
                f"{longest} steps. {' '.join(notes)}"
            )
    sides = {side: reader.tensors(usable[side], with_steps=with_steps and side == "train") for side in SIDES}
    if nearby_s:
        size = 2 * nearby_s * 8 * sides["train"].start.numel()
        if size > MOST_NEARBY_BYTES:
            notes.append(f"nearby moments of {len(usable['train'])} windows would take {size >> 20} MiB: not used")
        else:
            sides["train"] = replace(sides["train"], nearby=reader.nearby(usable["train"], nearby_s))
    return PlanningData(
        label=dataset.card.label,
        encoder=dataset.card.encoder,
        names=dataset.vocabulary.names,
        language=None if dataset.language is None else torch.tensor(dataset.language, dtype=torch.float32),
        train_sequences=sets.train_sequences,
        val_sequences=sets.val_sequences,
        train_sequence_videos=sets.train_sequence_videos,
        notes=tuple(notes),
        fingerprint=_fingerprint(dataset, usable),
        **sides,
    )


def observe_moments(dataset: Dataset, moments: Sequence[tuple[str, float]], observation: str) -> Tensor:
    """What is seen at moments (video, second) of a dataset's own videos: (N, F), or (N, 3F) side by side."""
    reader = _Reader(dataset, observation)
    for video, second in moments:
        reader.check_moment(video, second)
    return reader.observe(moments)


def _fingerprint(dataset: Dataset, windows: Mapping[Side, Sequence[Window]]) -> str:
    digest = hashlib.sha256(dataset.features.fingerprint.encode() if dataset.features else b"")
    digest.update(b"" if dataset.language is None else np.ascontiguousarray(dataset.language).tobytes())
    for side in SIDES:
        digest.update(repr((side, windows[side])).encode())
    return digest.hexdigest()


class _Reader:
    """Reads observations from the packed store."""

    def __init__(self, dataset: Dataset, observation: str, *, with_steps: bool = False) -> None:
        if dataset.features is None:
            raise DatasetError(f"{dataset.folder} has no features.")
        self._folder = dataset.folder
        self._store = dataset.features
        self._per_second = dataset.card.features_per_second
        self._concat = observation == "concat"
        tasks = {task: number for number, task in enumerate(sorted({video.task for video in dataset.videos}))}
        self._task_of = {video.id: tasks[video.task] for video in dataset.videos}
        self._start_of = {video.id: [step.start_s for step in video.steps] for video in dataset.videos}
        self._with_steps = with_steps

    def check_moment(self, video: str, second: float) -> None:
        """Refuse a moment that nothing was seen of."""
        if video not in self._store:
            raise DatasetError(f"{self._folder} has no features of a video {video!r}.")
        length = self._store.num_rows(video) / self._per_second
        if not 0 <= second <= length:
            raise DatasetError(f"{video}@{second:g}, but the features of this video end at {length:g} seconds.")

    def has_seen(self, window: Window) -> bool:
        is_timed = not self._with_steps or self._start_of[window.video][0] is not None
        return is_timed and window.start_s is not None and window.goal_s is not None and window.video in self._store

    def tensors(self, windows: Sequence[Window], *, with_steps: bool) -> WindowTensors:
        start, goal = (self.observe(end) for end in _ends(windows))
        result = WindowTensors(
            windows=tuple(windows),
            start=start,
            goal=goal,
            action_ids=torch.tensor([w.action_ids for w in windows], dtype=torch.int64),
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
        return replace(result, steps=self.observe(moments).unflatten(0, (len(windows), horizon)))

    def nearby(self, windows: Sequence[Window], most_s: int) -> Tensor:
        """Starts and goals of windows, 1 to `most_s` seconds early and late: (S, 2, N, F)."""
        ends = _ends(windows)
        shifts = [shift for shift in range(-most_s, most_s + 1) if shift]
        return torch.stack([torch.stack([self.observe(end, shift) for end in ends]) for shift in shifts])

    def observe(self, moments: Sequence[tuple[str, float]], shift_s: int = 0) -> Tensor:
        """The rows around each moment, or some seconds from it, clipped to the video: (N, F), or (N, 3F) side by side.

        Where a store has the rows of the moments alone, a shifted one is shown by those of its rows that there are, and
        where there are none, by the moment's own.
        """
        width = self._store.width * (len(AROUND) if self._concat else 1)
        observed = np.empty((len(moments), width), dtype=np.float32)
        for number, (video, second) in enumerate(moments):
            num_rows = self._store.num_rows(video)
            place = num_rows - 1 if second == math.inf else second * self._per_second
            near = rows_around(place, num_rows)
            if shift_s:
                near = self._there(video, rows_around(place + shift_s * self._per_second, num_rows), near)
            seen = self._store.rows_at(video, near).astype(np.float32)
            observed[number] = seen.reshape(-1) if self._concat else seen.mean(axis=0)
        return torch.from_numpy(observed)

    def _there(self, video: str, wanted: NDArray[np.int64], known: NDArray[np.int64]) -> NDArray[np.int64]:
        """As many of the wanted rows as the store has, (3,), the nearest of them for those that it has not."""
        kept = self._store.kept(video)
        if kept is None:
            return wanted
        there = wanted[np.isin(wanted, kept.seconds)]
        return there[np.abs(wanted[:, None] - there).argmin(axis=1)] if len(there) else known


def _ends(windows: Sequence[Window]) -> tuple[list[tuple[str, float]], list[tuple[str, float]]]:
    """The moments at which windows show their starts, and their goals."""
    return [(w.video, w.start_s or 0.0) for w in windows], [(w.video, w.goal_s or 0.0) for w in windows]
