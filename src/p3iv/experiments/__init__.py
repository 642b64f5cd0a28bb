"""Many runs, one table."""

from p3iv.experiments.compare import Cell, CompareRequest, Comparison, compare

__all__ = ["Cell", "CompareRequest", "Comparison", "compare"]
