"""A release, or a folder of one's own, becomes a dataset folder: all of it, or nothing."""

from p3iv.importing.build import import_dataset
from p3iv.importing.request import ImportReport, ImportRequest
from p3iv.importing.simulation import simulate_dataset

__all__ = ["ImportReport", "ImportRequest", "import_dataset", "simulate_dataset"]
