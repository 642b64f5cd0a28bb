"""What the card of an imported dataset says, and above all that simulated features stay known as simulated."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

from p3iv.dataset import DatasetCard, read_card
from p3iv.features import FeatureStore, PackedFeatures
from p3iv.importing.request import ImportRequest
from p3iv.types import Annotations


def card_of(request: ImportRequest, annotations: Annotations, packed: PackedFeatures | None) -> DatasetCard:
    """The source's own card as far as its parts were taken, and what the options say."""
    card = DatasetCard(name=annotations.name, source=f"{request.kind} from {request.source.name}")
    if request.kind == "folder" and os.path.lexists(request.source / "dataset.yaml"):
        card = read_card(request.source)
    card = replace(card, text_encoder=_text_encoder(request, card))
    if request.features is None or packed is None:
        return replace(card, encoder=None, simulated=False, feature_fingerprint=None)
    origins = _cards_beside(request.features)
    origin = origins[0] if origins else replace(card, encoder=None)
    return replace(
        card,
        encoder=request.encoder or origin.encoder or "imported",
        simulated=request.simulated or any(beside.simulated for beside in origins),
        features_per_second=origin.features_per_second,
        feature_fingerprint=packed.fingerprint,
    )


def _text_encoder(request: ImportRequest, card: DatasetCard) -> str | None:
    if request.language is None:
        return None
    own = request.source / "language.npz"
    is_own = request.kind == "folder" and own.exists() and request.language.samefile(own)
    return request.text_encoder or (card.text_encoder if is_own else None) or request.language.name


def _cards_beside(features: Path) -> list[DatasetCard]:
    """The cards of the dataset folders that features are part of: as they are named, and where links lead to."""
    if features.name != "features" and not FeatureStore.is_at(features):
        return []  # a folder of raw files beside somebody's dataset.yaml need not be part of that dataset
    folders = dict.fromkeys((features.resolve().parent, features.absolute().parent))
    return [read_card(folder) for folder in folders if os.path.lexists(folder / "dataset.yaml")]
