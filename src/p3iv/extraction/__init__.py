"""Videos become features, and step texts embeddings, in a dataset folder."""

from p3iv.extraction.align import AlignmentReport, AlignmentRequest, align_dataset
from p3iv.extraction.extract import extract_features
from p3iv.extraction.request import ENGINES, ExtractionReport, ExtractionRequest
from p3iv.extraction.worker import encode_moment, encode_picture, encode_seconds

__all__ = [
    "ENGINES",
    "AlignmentReport",
    "AlignmentRequest",
    "ExtractionReport",
    "ExtractionRequest",
    "align_dataset",
    "encode_moment",
    "encode_picture",
    "encode_seconds",
    "extract_features",
]
