"""The table of readers; to add one, write its module and one entry here."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from p3iv.errors import ConfigError
from p3iv.readers.coin import read_coin
from p3iv.readers.crosstask import read_crosstask
from p3iv.readers.folder import read_folder
from p3iv.readers.niv import read_niv
from p3iv.types import Annotations


@dataclass(frozen=True)
class Reader:
    """Reads the annotations of one kind of release."""

    read: Callable[..., Annotations]  # (source, **options)
    source: str  # the help text of SOURCE
    options: tuple[str, ...] = ()  # keyword arguments of `read` that a user may set to True


READERS = {
    "crosstask": Reader(read_crosstask, "the release folder or its zip", ("keep_tasks_apart",)),
    "coin": Reader(read_coin, "the JSON file"),
    "niv": Reader(read_niv, "the folder of csv files"),
    "folder": Reader(read_folder, "a folder with steps.csv (columns video,task,step,start_s,end_s[,text])"),
}

SOURCE_HELP = ". ".join(f"{name}: {reader.source}" for name, reader in READERS.items()) + "."


def read_annotations(kind: str, source: Path, **options: bool) -> Annotations:
    """Read `source` with the reader of that name and the options that are True.

    Raises:
        ConfigError: there is no such reader, or it does not take an option.
        SourceError: the source cannot be used.
    """
    if kind not in READERS:
        raise ConfigError(f"KIND {kind}, but it must be one of {', '.join(READERS)}.")
    chosen = {name: True for name, value in options.items() if value}
    for name in chosen:
        if name not in READERS[kind].options:
            able = [other for other, reader in READERS.items() if name in reader.options]
            raise ConfigError(f"--{name.replace('_', '-')} is for {', '.join(able)}, not for {kind}.")
    return READERS[kind].read(source, **chosen)
