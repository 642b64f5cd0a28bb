"""Whether a planner and a dataset belong together."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from p3iv.catalogue import BASELINES, RETRIEVAL
from p3iv.data.folder import Dataset, require_features
from p3iv.encoders.identity import find_difference, note_comparison
from p3iv.errors import DatasetError
from p3iv.features.observation import AROUND
from p3iv.planners.header import Header

if TYPE_CHECKING:
    from p3iv.data.tensors import PlanningData  # imports torch


def check_features(header: Header, dataset: Dataset) -> Iterator[str]:
    """Refuse features of another width or encoder than a planner was trained on; yields what cannot be checked.

    Raises:
        DatasetError: saying what differs.
    """
    store, expected = require_features(dataset), header.encoder
    if store.fingerprint == header.feature_fingerprint:
        return
    found, per_moment = dataset.card.encoder, len(AROUND) if header.config.data.observation == "concat" else 1
    what = (
        f"{dataset.folder} has {found or 'unnamed'} features, the planner was trained on {expected or 'unnamed'} ones"
    )
    advice = (
        "Plans from them would mean nothing. Pass the dataset folder that it was trained on (--data DIR), one with "
        "features of the same encoder and weights, or train a planner on this one."
    )
    if store.width * per_moment != header.shape.feature_width:
        width = header.shape.feature_width // per_moment
        raise DatasetError(f"{what}: a row has {store.width} values, not {width}. {advice}")
    if difference := find_difference(found, expected):
        raise DatasetError(f"{what}: {difference}. {advice}")
    yield from note_comparison(found, expected)


def note_other_data(header: Header, data: PlanningData, dataset: Dataset) -> Iterator[str]:
    """Notes if the windows are not those that a planner was trained and validated with: a transfer test."""
    if data.fingerprint != header.data_fingerprint:
        yield (
            f"a transfer test: {dataset.folder} is not what the planner was trained on ({header.data_label}): "
            f"features, windows or split differ, so windows that it was trained on may be among those scored"
        )
        yield f"“{BASELINES[RETRIEVAL]}” copies from the training side of {dataset.folder}"
