"""Fit step embeddings to the visual features of a dataset: the supplement's "native" features.

Embeddings of texts alone do not know how the steps look in these videos. A small network on top of them is trained by
contrastive learning, so that the embedding of a step is close to the features of the seconds in which it is done.
"""

from __future__ import annotations

import math
import shutil
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional

from p3iv.config import CurationSettings
from p3iv.data.folder import LANGUAGE_FILE, UNALIGNED_FILE, Dataset, exclusive_dataset, open_dataset, require_features
from p3iv.data.windows import choose_split, tasks_of
from p3iv.encoders.identity import EncoderIdentity
from p3iv.errors import ConfigError, DatasetError
from p3iv.features.language import LanguageTable, read_language, write_language
from p3iv.features.store import FeatureStore
from p3iv.files import atomic_file
from p3iv.types import Array
from p3iv.validation import make_plain

_HIDDEN: Final = 512
_DROPOUT: Final = 0.2
_TEMPERATURE: Final = 0.07
_MAX_BATCH: Final = 128  # actions, each with one of its steps
_RATE, _DECAY = 1e-3, 1e-2
_ALIGNED: Final = " aligned to "


@dataclass(frozen=True)
class AlignmentRequest:
    """Which folder, and which split: only its training videos are used, so it must be the planner's split."""

    folder: Path
    split: str = "video"
    split_seed: int = 0
    protocol: int = 1
    seed: int = 0
    steps: int = 400  # of the optimiser

    def __post_init__(self) -> None:
        if self.split == "window":
            raise ConfigError("--split window shares videos between sides; align by video, release or a split file.")
        if self.steps < 1:
            raise ConfigError(f"--steps {self.steps}, but it must be at least 1.")


@dataclass(frozen=True)
class Retrieval:
    """How often the text of an action is nearest to a validation step of that action."""

    first: float  # the nearest step is one
    five: float  # one of the five nearest steps is one


@dataclass(frozen=True)
class AlignmentReport:
    """What was fitted, on which data, and how well texts find steps before and after."""

    folder: Path
    num_videos: int  # training videos
    num_steps: int
    num_actions: int
    num_val_steps: int
    width: int
    before: Retrieval  # of the untrained network
    after: Retrieval
    chance: float  # of `first`


@dataclass(frozen=True)
class _Steps:
    """The visual features of the steps of some videos."""

    visual: Tensor  # (N, F)
    action_ids: Tensor  # (N,)


class AlignedTower(nn.Module):
    """Maps text embeddings (A, F_l) into the space of the visual features, (A, F), each of length 1."""

    def __init__(self, language_width: int, feature_width: int) -> None:
        super().__init__()
        self.layers = nn.Sequential(
            nn.Linear(language_width, _HIDDEN), nn.ReLU(), nn.Dropout(_DROPOUT), nn.Linear(_HIDDEN, feature_width)
        )

    def forward(self, embedding: Tensor) -> Tensor:
        return functional.normalize(self.layers(embedding), dim=-1)


def align_dataset(request: AlignmentRequest) -> AlignmentReport:
    """Fit the network on the training videos and write its embeddings of the steps as language.npz.

    The embeddings of the texts stay beside it, and a second alignment starts from them again.
    """
    with exclusive_dataset(request.folder):
        return _align(open_dataset(request.folder), request)


def _align(dataset: Dataset, request: AlignmentRequest) -> AlignmentReport:
    store, table = _require_both(dataset)
    settings = CurationSettings(protocol=request.protocol, split=request.split, split_seed=request.split_seed)
    split, _ = choose_split(tasks_of(dataset.videos), settings, release_split=dataset.split)
    train, val = (_steps_of(dataset, store, side) for side in (split.train, split.val))
    if not len(train.action_ids) or not len(val.action_ids):
        raise DatasetError(
            f"{request.folder}: no step with times and features among the training or validation videos."
        )
    mean, deviation = train.visual.mean(dim=0), train.visual.std(dim=0).clamp_min(1e-6)
    train, val = (replace(side, visual=_unit((side.visual - mean) / deviation)) for side in (train, val))
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(request.seed)
        text = _standardised(torch.tensor(table.embedding))
        tower = AlignedTower(text.shape[1], store.width)
        before = _retrieve(tower, text, val)
        _fit(tower, text, train, request.steps)
    after = _retrieve(tower, text, val)
    _write(dataset, table, tower, text, request)
    return AlignmentReport(
        folder=request.folder,
        num_videos=len(split.train),
        num_steps=len(train.action_ids),
        num_actions=len(train.action_ids.unique()),
        num_val_steps=len(val.action_ids),
        width=store.width,
        before=before,
        after=after,
        chance=_chance(val),
    )


def info_nce(text: Tensor, visual: Tensor, temperature: float = _TEMPERATURE) -> Tensor:
    """The contrastive loss: each text should match its picture and each picture its text; both (B, F), unit length."""
    logits = text @ visual.T / temperature  # (B, B)
    own = torch.arange(len(logits))
    return (functional.cross_entropy(logits, own) + functional.cross_entropy(logits.T, own)) / 2


def _fit(tower: AlignedTower, text: Tensor, train: _Steps, num_steps: int) -> None:
    """Train on batches with one step per action, so that no two pairs of a batch belong together."""
    places = defaultdict(list)
    for place, action in enumerate(train.action_ids.tolist()):
        places[action].append(place)
    actions = torch.tensor(sorted(places))
    optimiser = torch.optim.AdamW(tower.parameters(), lr=_RATE, weight_decay=_DECAY)
    tower.train()
    for _ in range(num_steps):
        chosen = actions[torch.randperm(len(actions))[:_MAX_BATCH]]
        drawn = [places[action][int(torch.randint(len(places[action]), ()))] for action in chosen.tolist()]
        loss = info_nce(tower(text[chosen]), train.visual[drawn])
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
    tower.eval()


@torch.no_grad()
def _retrieve(tower: AlignedTower, text: Tensor, val: _Steps) -> Retrieval:
    tower.eval()
    actions = val.action_ids.unique()
    order = (tower(text[actions]) @ val.visual.T).argsort(dim=1, descending=True)  # (actions, N)
    right = val.action_ids[order] == actions[:, None]
    return Retrieval(right[:, :1].any(dim=1).float().mean().item(), right[:, :5].any(dim=1).float().mean().item())


def _chance(val: _Steps) -> float:
    """The expected value for a random order: an action's share of the steps, averaged over actions."""
    return 1 / len(val.action_ids.unique())


def _require_both(dataset: Dataset) -> tuple[FeatureStore, LanguageTable]:
    store = None if dataset.features is None else require_features(dataset)
    if store is None or dataset.language is None:
        raise DatasetError(
            f"{dataset.folder} needs features and step embeddings to align. "
            f"Make both with `p3iv extract {dataset.folder}`."
        )
    unaligned = dataset.folder / UNALIGNED_FILE
    table = read_language(unaligned if unaligned.exists() else dataset.folder / LANGUAGE_FILE)
    if table.names != dataset.vocabulary.names:
        raise DatasetError(
            f"{unaligned} has other steps than {LANGUAGE_FILE}; delete one of the two, or extract again."
        )
    return store, table


def _steps_of(dataset: Dataset, store: FeatureStore, videos: Sequence[str]) -> _Steps:
    wanted = set(videos)
    looks: list[Array] = []
    action_ids: list[int] = []
    for video in dataset.videos:
        if video.id not in wanted or video.id not in store or not video.is_timed:
            continue
        for step in video.steps:
            places = _places(store, video.id, step.start_s or 0.0, step.end_s or 0.0, dataset.card.features_per_second)
            looks.append(store.rows_at(video.id, places).astype(np.float32).mean(axis=0))
            action_ids.append(dataset.vocabulary.id_of[step.action])
    visual = np.stack(looks) if looks else np.empty((0, store.width), np.float32)
    return _Steps(torch.from_numpy(visual), torch.tensor(action_ids, dtype=torch.int64))


def _places(store: FeatureStore, video: str, start_s: float, end_s: float, per_second: float) -> Array:
    """The extracted rows of a step; after the end of the video, its last row."""
    last = store.num_rows(video) - 1
    first = min(int(start_s * per_second), last)
    places = np.arange(first, min(max(int(end_s * per_second), first), last) + 1)
    kept = store.kept(video)
    return places if kept is None else places[np.isin(places, kept.seconds)]


def _standardised(embedding: Tensor) -> Tensor:
    return _unit(embedding - embedding.mean(dim=0)) * math.sqrt(embedding.shape[1])


def _unit(rows: Tensor) -> Tensor:
    return functional.normalize(rows, dim=1)


def _write(
    dataset: Dataset, table: LanguageTable, tower: AlignedTower, text: Tensor, request: AlignmentRequest
) -> None:
    unaligned = dataset.folder / UNALIGNED_FILE
    if not unaligned.exists():
        with atomic_file(unaligned) as temporary:
            shutil.copyfile(dataset.folder / LANGUAGE_FILE, temporary)
    with torch.no_grad():
        aligned = tower(text).numpy()
    write_language(dataset.folder / LANGUAGE_FILE, table.names, aligned, table.ids)
    source = dataset.card.text_encoder or EncoderIdentity("texts")
    learnt_from = f"split {Path(request.split).name} {request.split_seed}"
    name = source.name.partition(_ALIGNED)[0]
    name += f"{_ALIGNED}{dataset.card.encoder or 'features'} ({learnt_from}, seed {request.seed})"
    replace(dataset.card, text_encoder=replace(source, name=make_plain(name))).write(dataset.folder)
