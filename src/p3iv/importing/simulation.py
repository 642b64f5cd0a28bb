"""Stand-in features for a dataset that has none."""

from __future__ import annotations

import math
import os
from dataclasses import replace
from pathlib import Path

from p3iv.atomic import whole_folder
from p3iv.dataset import Dataset, open_dataset
from p3iv.errors import ConfigError, DatasetError
from p3iv.features import DEFAULT_NOISE, FeatureStore, PackedFeatures, simulate_features
from p3iv.importing.request import Progress


def simulate_dataset(
    folder: Path,
    *,
    seed: int = 0,
    noise: float = DEFAULT_NOISE,
    overwrite: bool = False,
    progress: Progress | None = None,
) -> PackedFeatures:
    """Give a dataset stand-in features made from its annotations and step embeddings, and mark it simulated."""
    if not 0 <= noise < math.inf:
        raise ConfigError(f"--noise {noise}, but it is a number from 0, such as {DEFAULT_NOISE}.")
    dataset = open_dataset(folder)
    _refuse_to_replace_features(dataset, overwrite=overwrite)
    if dataset.language is None:
        raise DatasetError(f"{folder} has no language.npz; import it with --language FILE: simulation starts from it.")
    with whole_folder(folder / "features") as beside:
        packed = simulate_features(
            dataset.videos, dataset.vocabulary, dataset.language, beside, seed=seed, noise=noise, progress=progress
        )
        # Once the rows are whole, and before they move in: an interruption may call real rows simulated, never the
        # other way round.
        _mark_simulated(dataset, f"stand-in seed {seed} noise {noise:g}", packed)
    return packed


def _refuse_to_replace_features(dataset: Dataset, *, overwrite: bool) -> None:
    features = dataset.folder / "features"
    if not os.path.lexists(features) or (features.is_dir() and not any(features.iterdir())):
        return
    if not FeatureStore.is_at(features):
        raise DatasetError(
            f"{features} is no store that p3iv packed (it has no index.json), so it is never replaced. "
            f"Pack it first: p3iv data import folder {dataset.folder} NEW"
        )
    if not dataset.card.simulated and not overwrite:
        raise DatasetError(
            f"{dataset.folder} has {dataset.card.encoder or 'unnamed'} features. "
            f"Pass --overwrite to put simulated ones in their place."
        )


def _mark_simulated(dataset: Dataset, encoder: str, packed: PackedFeatures) -> None:
    card = replace(dataset.card, encoder=encoder, simulated=True, features_per_second=1.0)
    replace(card, feature_fingerprint=packed.fingerprint).write(dataset.folder)
