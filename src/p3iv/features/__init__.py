"""Features: one row per second of video in a packed store, one row per step in a language table."""

from p3iv.features.arrays import read_rows
from p3iv.features.index import KeptSeconds
from p3iv.features.language import LanguageTable, read_language, write_language
from p3iv.features.matching import MatchedLanguage, match_language, read_rename
from p3iv.features.pack import copy_store, import_features
from p3iv.features.simulate import DEFAULT_NOISE, simulate_features
from p3iv.features.store import FeatureStore, PackedFeatures, StoreWriter

__all__ = [
    "DEFAULT_NOISE",
    "FeatureStore",
    "KeptSeconds",
    "LanguageTable",
    "MatchedLanguage",
    "PackedFeatures",
    "StoreWriter",
    "copy_store",
    "import_features",
    "match_language",
    "read_language",
    "read_rename",
    "read_rows",
    "simulate_features",
    "write_language",
]
