"""Readers: a release, or a folder of one's own, becomes videos, a vocabulary and a list of what could not be used."""

from p3iv.annotations.coin import read_coin
from p3iv.annotations.crosstask import read_crosstask
from p3iv.annotations.folder import read_folder, read_split, read_video_column, write_split
from p3iv.annotations.niv import read_niv
from p3iv.annotations.steps_csv import write_steps

__all__ = [
    "read_coin",
    "read_crosstask",
    "read_folder",
    "read_niv",
    "read_split",
    "read_video_column",
    "write_split",
    "write_steps",
]
