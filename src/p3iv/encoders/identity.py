"""The identity of an encoder: what dataset.yaml and checkpoints keep of it, and when two are the same.

The fingerprint is a hash of the weights and of everything else that decides a row: frames, cropping, scaling, output.
Backend and precision are kept beside it, because the same network gives the same rows up to rounding elsewhere.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import asdict, fields
from typing import Annotated, Any, Final, TypeAlias

from pydantic import AfterValidator, BeforeValidator, ConfigDict, Field, ValidationError
from pydantic.dataclasses import dataclass as model

from p3iv.errors import ConfigError
from p3iv.types import listed
from p3iv.validation import PlainText, check_plain, explain, shown

IMPORTED: Final = "imported"  # the name of features by an encoder that the user did not name
ONNX: Final = "onnx"  # the backend of encoders that `p3iv export` wrote
PRECOMPUTED: Final = "precomputed"  # the same, of `extract --encoder precomputed`

_FINGERPRINT: Final = re.compile("[0-9a-f]{64}")
_HUB_NAME: Final = re.compile(r"[A-Za-z0-9][\w.-]*/[A-Za-z0-9][\w.-]*", re.ASCII)


def _check_fingerprint(text: str) -> str:
    if not _FINGERPRINT.fullmatch(text):
        raise ValueError(f"{shown(text)}, expected 64 hexadecimal digits")
    return text


Text: TypeAlias = Annotated[PlainText, Field(min_length=1)]
Fingerprint: TypeAlias = Annotated[str, AfterValidator(_check_fingerprint)]


@model(frozen=True, config=ConfigDict(extra="forbid"))
class EncoderIdentity:
    """Which encoder made the features of a dataset, or the embeddings of its steps."""

    name: Text  # one of p3iv's encoders, or any name for features that were made elsewhere
    weights: Text | None = None  # a file's or a folder's name, or a name on the hub; None: packaged, or not known
    fingerprint: Fingerprint | None = None  # None: made elsewhere
    backend: Text | None = None
    precision: Text | None = None

    def __str__(self) -> str:
        return f"{self.name}:{self.weights}" if self.weights else self.name

    @property
    def long(self) -> str:
        """All that is known, on one line."""
        parts = [
            f"weights {self.weights}" if self.weights else "packaged weights" if self.fingerprint else "",
            f"encoder fingerprint {self.fingerprint[:12]}" if self.fingerprint else "no fingerprint",
            " ".join(part for part in (self.backend, self.precision) if part),
        ]
        return f"{self.name} ({', '.join(part for part in parts if part)})"

    def to_plain(self) -> str | dict[str, str]:
        """For dataset.yaml: the name if nothing else is known, else the known fields."""
        known: dict[str, str] = {field: value for field, value in asdict(self).items() if value is not None}
        return self.name if known.keys() == {"name"} else known

    @property
    def is_hub_name(self) -> bool:
        """Whether the weights have a name as on the hub, OWNER/MODEL, which leads to no other folder."""
        return self.weights is not None and _HUB_NAME.fullmatch(self.weights) is not None


def name_encoder(name: str) -> EncoderIdentity:
    """The identity of an encoder of which a user gives the name alone.

    Raises:
        ConfigError: it is not a name.
    """
    try:
        return EncoderIdentity(name)
    except ValidationError as error:
        raise ConfigError(f"The name of an encoder: {explain(error)}.") from error


def as_identity(value: Any) -> Any:
    """A plain text as an identity: dataset.yaml files that were written by hand, and older files, have only a name."""
    if isinstance(value, Mapping):
        known = [field.name for field in fields(EncoderIdentity)]
        if unknown := [shown(key) for key in value if key not in known]:
            raise ValueError(f"{listed(unknown)} is not known, expected {', '.join(known)}")
    elif not isinstance(value, str | EncoderIdentity | None):
        what = f"{shown(value)}, expected a name, or name, weights and fingerprint"
        raise ValueError(what)  # noqa: TRY004 pydantic explains no TypeError
    if not isinstance(value, str):
        return value
    name, _, weights = check_plain(value).partition(":")
    if name == "clip" and weights:  # older files
        return EncoderIdentity(name, weights)
    return EncoderIdentity(value) if value else None


IdentityOrNone: TypeAlias = Annotated[EncoderIdentity | None, BeforeValidator(as_identity)]


def find_difference(found: EncoderIdentity | None, expected: EncoderIdentity | None) -> str | None:
    """Why two encoders cannot be the same, for the end of a sentence; None if they can."""
    if found is None or expected is None:
        return None
    if found.fingerprint and expected.fingerprint:
        if found.fingerprint == expected.fingerprint:
            return None
        return f"the fingerprint is {found.fingerprint[:12]}, not {expected.fingerprint[:12]}"
    if found.name != expected.name and not {found.name, expected.name} & {IMPORTED, PRECOMPUTED}:
        return f"the encoder is {found.name}, not {expected.name}"
    if found.weights and expected.weights and found.weights != expected.weights:
        return f"the weights are {found.weights}, not {expected.weights}"
    return None


def note_comparison(found: EncoderIdentity | None, expected: EncoderIdentity | None) -> Iterator[str]:
    """What may still differ between two encoders without a difference."""
    if found is None or expected is None or not (found.fingerprint and expected.fingerprint):
        yield (
            f"it cannot be checked that {found or 'unnamed'} features here and {expected or 'unnamed'} features of the "
            f"planner are of the same encoder: only one with a fingerprint can be recognised"
        )
        return
    for what in ("backend", "precision"):
        have, want = getattr(found, what), getattr(expected, what)
        if have != want:
            yield f"the encoder's {what} is {have}, in training it was {want}: features differ by rounding"
