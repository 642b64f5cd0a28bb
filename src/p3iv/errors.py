"""The one family of exceptions: a user's mistake gets a sentence, never a traceback."""

from __future__ import annotations


class P3ivError(Exception):
    """Base of everything that this project raises on purpose; the command line prints it and exits with 1."""


class SourceError(P3ivError):
    """A release, a step list or a language table that cannot be read at all."""


class FeatureError(P3ivError):
    """A feature file or a feature store that cannot be used."""


class DatasetError(P3ivError):
    """A dataset folder that is missing, half there or at odds with itself."""


class SplitError(P3ivError):
    """A split that cannot be made, or that puts one video on two sides."""


class ConfigError(P3ivError):
    """A setting outside what is allowed."""


class MissingExtraError(P3ivError):
    """A feature whose optional dependency is not installed."""

    def __init__(self, module: str, extra: str, purpose: str, *, command: str | None = None) -> None:
        command = command or f"pip install 'p3iv[{extra}]'"
        super().__init__(f"{purpose} needs {module}, which is not installed. Type: {command}")


class CheckpointError(P3ivError):
    """A checkpoint that is missing, damaged, or made for something else."""


class TrainingError(P3ivError):
    """A run that cannot go on."""


class BusyError(P3ivError):
    """A folder that another process is writing."""


class PlanError(P3ivError):
    """Plans or predictions that cannot be what they say they are."""
