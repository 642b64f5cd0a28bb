"""The table of readers; to add one, write its module and one entry here."""

from __future__ import annotations

from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, cast

from p3iv.errors import ConfigError, one_of
from p3iv.readers.tools.registry import ANNOTATION_FILES

if TYPE_CHECKING:
    from p3iv.types import Annotations


@dataclass(frozen=True)
class Reader:
    """Reads the annotations of one kind of release."""

    location: str  # MODULE:FUNCTION in p3iv.readers; imported when it reads, so that `p3iv --help` does not wait for it
    source: str  # the help text of SOURCE
    options: tuple[str, ...] = ()  # keyword arguments of the function that a user may set to True


READERS = {
    "crosstask": Reader("crosstask:read_crosstask", "the release folder or its zip", ("keep_tasks_apart",)),
    "coin": Reader("coin:read_coin", "the JSON file, or a released training list with its test list beside it"),
    "niv": Reader("niv:read_niv", "the folder of csv files"),
    "lists": Reader(
        "lists:read_lists", "a list of training windows that a successor released, with its test list beside it"
    ),
    "folder": Reader("folder:read_folder", "a folder with steps.csv (columns video,task,step,start_s,end_s[,text])"),
}

SOURCE_HELP = ". ".join(f"{name}: {reader.source}" for name, reader in READERS.items()) + "."


def read_annotations(kind: str, source: Path, **options: bool) -> Annotations:
    """Read `source` with the reader of that name and the options that are True.

    Raises:
        ConfigError: there is no such reader, or it does not take an option.
        SourceError: the source cannot be used.
    """
    if kind not in READERS:
        raise ConfigError(f"KIND {kind}, but it must be {one_of(kind, (*READERS, ANNOTATION_FILES))}")
    chosen = {name: True for name, value in options.items() if value}
    for name in chosen:
        if name not in READERS[kind].options:
            able = [other for other, reader in READERS.items() if name in reader.options]
            raise ConfigError(f"--{name.replace('_', '-')} is for {', '.join(able)}, not for {kind}.")
    module, _, function = READERS[kind].location.partition(":")
    return cast("Annotations", getattr(import_module(f"p3iv.readers.{module}"), function)(source, **chosen))
