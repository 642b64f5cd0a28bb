"""The exceptions of this project: a user's mistake is answered with a sentence, not a traceback."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Collection, Iterable, Sequence
from importlib.util import find_spec

_TITLES = {"av": "PyAV", "PIL": "Pillow"}  # of modules whose project has another name


class P3ivError(Exception):
    """Base class of all errors that a user can cause; the command line prints them and exits with 1.

    Example:
        >>> try:
        ...     p3iv.stats("nowhere")
        ... except p3iv.P3ivError as error:
        ...     print(error)
        nowhere/steps.csv: there is no such file. Give a dataset folder whose steps.csv begins with ...
    """


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
    """An optional dependency is not installed.

    Args:
        module: what is missing.
        extra: the extras that have it, separated by commas; the message names the command that installs them.
        purpose: what needs it.
        otherwise: how to do without it.
    """

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


def require_modules(names: Sequence[str], extra: str, purpose: str, otherwise: str = "") -> None:
    """Raise MissingExtraError now if one of these modules would be missing in the middle of the work."""
    missing = [_TITLES.get(name, name) for name in names if find_spec(name) is None]
    if missing:
        shown = f"{', '.join(missing[:-1])} and {missing[-1]}" if len(missing) > 1 else missing[0]
        raise MissingExtraError(shown, extra, purpose, otherwise)


def one_of(name: object, known: Collection[str]) -> str:
    """The end of a message about a name that does not exist: all names, and the one that was probably meant.

    Example:
        >>> one_of("p3ivplus", ["p3iv", "p3iv-plus", "random"])
        'one of p3iv, p3iv-plus, random. Did you mean p3iv-plus?'
    """
    nearest = near_misses(name, known, most=1)
    return f"one of {', '.join(known)}." + (f" Did you mean {nearest[0]}?" if nearest else "")


def near_misses(name: object, known: Iterable[str], *, most: int = 3) -> list[str]:
    """The known names that resemble a name, the most similar first.

    Neither upper case nor the signs between words count. Of dotted names, the parts after the last dot are compared.
    """
    from difflib import SequenceMatcher  # takes time to import

    wanted = _letters(str(name)[:100])
    likeness = {each: SequenceMatcher(None, wanted, _letters(each)).ratio() for each in known}
    ranked = sorted(likeness, key=lambda each: -likeness[each])
    least = max(0.7, max(likeness.values(), default=0) - 0.1)
    return [each for each in ranked if likeness[each] >= least][:most]


def _letters(text: str) -> str:
    """The last part of a name without case and signs: plus.Label-smoothing -> labelsmoothing."""
    last = text.rpartition(".")[2]
    return "".join(letter for letter in last.lower() if letter.isalnum()) or text


def warn_caller(text: str) -> None:
    """Warn, as if the warning came from the line outside of p3iv that called it."""
    frame, level = sys._getframe(1), 2
    while frame.f_back is not None and str(frame.f_globals.get("__name__")).partition(".")[0] == "p3iv":
        frame, level = frame.f_back, level + 1
    warnings.warn(text, stacklevel=level)
