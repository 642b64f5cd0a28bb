"""The dataset folder that every later stage reads: card, videos, vocabulary, split, language, features and truth."""

from p3iv.dataset.card import DatasetCard, read_card, unknown_keys
from p3iv.dataset.destination import refuse_to_overwrite
from p3iv.dataset.folder import (
    VIDEO_SUFFIXES,
    Dataset,
    extend_vocabulary,
    open_dataset,
    open_unfinished,
    refuse_leftover,
)
from p3iv.dataset.truth import TRUTH_FILE, TrueWindow, TruthReader

__all__ = [
    "TRUTH_FILE",
    "VIDEO_SUFFIXES",
    "Dataset",
    "DatasetCard",
    "TrueWindow",
    "TruthReader",
    "extend_vocabulary",
    "open_dataset",
    "open_unfinished",
    "read_card",
    "refuse_leftover",
    "refuse_to_overwrite",
    "unknown_keys",
]
