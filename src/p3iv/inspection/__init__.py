"""Looking into a dataset folder: is it sound, and what is in it."""

from p3iv.inspection.checking import check_dataset
from p3iv.inspection.findings import Finding
from p3iv.inspection.statistics import DatasetStats, HorizonStats, describe_dataset

__all__ = ["DatasetStats", "Finding", "HorizonStats", "check_dataset", "describe_dataset"]
