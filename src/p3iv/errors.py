"""The exceptions of this project: a user's mistake is answered with a sentence, not a traceback."""

from __future__ import annotations


class P3ivError(Exception):
    """Base class of all errors that a user can cause; the command line prints them and exits with 1."""


class SourceError(P3ivError):
    """A release, a step list or a language table cannot be read."""


class FeatureError(P3ivError):
    """A feature file or a feature store cannot be used."""


class DatasetError(P3ivError):
    """A dataset folder is missing, incomplete or inconsistent."""


class SplitError(P3ivError):
    """A split cannot be made, or has one video on two sides."""


class ConfigError(P3ivError):
    """A setting has a value that is not allowed."""


class MissingExtraError(P3ivError):
    """An optional dependency is not installed."""

    def __init__(self, module: str, extra: str, purpose: str, otherwise: str = "") -> None:
        super().__init__(module, extra, purpose, otherwise)  # from which pickle makes it again in another process

    def __str__(self) -> str:
        from p3iv.environment import install_command  # reads metadata, which takes time

        module, extra, purpose, otherwise = self.args
        are = "are" if " and " in module else "is"
        advice = f" ({otherwise})" if otherwise else ""
        return f"{purpose} needs {module}, which {are} not installed. Type: {install_command(extra)}{advice}"


class CheckpointError(P3ivError):
    """A checkpoint is missing, damaged, or does not fit the request."""


class TrainingError(P3ivError):
    """A training run cannot continue."""


class BusyError(P3ivError):
    """Another process is writing the same folder."""


class PlanError(P3ivError):
    """Plans or prediction files are invalid."""


class HubError(P3ivError):
    """A planner cannot be fetched from the hub, or not be pushed to it."""
