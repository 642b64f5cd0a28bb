"""dataset.yaml: where a dataset came from and who made its numbers."""

from __future__ import annotations

import os
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any

import yaml

from p3iv.atomic import write_text
from p3iv.errors import DatasetError

CARD_FILE = "dataset.yaml"
MADE_TABLETOP = "p3iv data make tabletop"  # how the source of a tabletop begins, whatever its name becomes
MOST_FEATURES_PER_SECOND = 1000
ALLOWED: dict[str, tuple[type, ...]] = {
    "name": (str,),
    "source": (str,),
    "encoder": (str, type(None)),
    "text_encoder": (str, type(None)),
    "features_per_second": (int, float),
    "simulated": (bool,),
    "feature_fingerprint": (str, type(None)),
}


@dataclass(frozen=True)
class DatasetCard:
    """What `dataset.yaml` says."""

    name: str
    source: str = "unknown"
    encoder: str | None = None  # of the features; None where there are none
    text_encoder: str | None = None
    features_per_second: float = 1.0
    simulated: bool = False  # stand-in features: figures on them speak about code, not about the world
    feature_fingerprint: str | None = None

    @property
    def label(self) -> str:
        """The name to print beside any figure, with what its numbers are."""
        encoder = f"{self.encoder} features" if self.encoder else "no features"
        is_renamed = self.source.startswith(MADE_TABLETOP) and "tabletop" not in self.name.casefold()
        return f"{self.name} ({'tabletop, ' if is_renamed else ''}{'SIMULATED ' if self.simulated else ''}{encoder})"

    def write(self, folder: Path) -> None:
        write_text(folder / CARD_FILE, yaml.safe_dump(asdict(self), sort_keys=False, allow_unicode=True))


def read_card(folder: Path) -> DatasetCard:
    """Read `dataset.yaml`; a folder without one is named after itself."""
    path = folder / CARD_FILE
    if not os.path.lexists(path):
        return DatasetCard(name=Path(os.path.realpath(folder)).name)
    content = _read_mapping(path)
    if not isinstance(content.get("name"), str):
        raise DatasetError(f"{path} must be a mapping with at least `name: TEXT`.")
    known = {field.name: content[field.name] for field in fields(DatasetCard) if field.name in content}
    for key, value in known.items():
        _check_value(path, key, value)
    return DatasetCard(**known)


def unknown_keys(folder: Path) -> list[str]:
    """The keys of `dataset.yaml` that mean nothing, such as a misspelt one."""
    path = folder / CARD_FILE
    return [str(key) for key in _read_mapping(path) if key not in ALLOWED] if os.path.lexists(path) else []


def _read_mapping(path: Path) -> dict[Any, Any]:
    try:
        content = yaml.safe_load(path.read_text(encoding="utf-8-sig"))
    except (yaml.YAMLError, OSError, ValueError, OverflowError, RecursionError) as error:
        reason = (error.strerror if isinstance(error, OSError) else " ".join(str(error).split())) or type(error)
        raise DatasetError(f"{path} is not YAML that can be read: {reason}") from error
    if not isinstance(content, dict):
        raise DatasetError(f"{path} must be a mapping with at least `name: TEXT`.")
    return content


def _check_value(path: Path, key: str, value: object) -> None:
    is_bool = isinstance(value, bool) and bool not in ALLOWED[key]  # Python counts True among the integers
    if is_bool or not isinstance(value, ALLOWED[key]):
        expected = " or ".join("null" if kind is type(None) else kind.__name__ for kind in ALLOWED[key])
        raise DatasetError(f"{path}: {key} is {value!r}, but must be {expected}.")
    if key == "features_per_second" and not 0 < value <= MOST_FEATURES_PER_SECOND:  # type: ignore[operator]
        raise DatasetError(
            f"{path}: {key} is {str(value)[:20]}, but must be above 0 and at most {MOST_FEATURES_PER_SECOND}."
        )
