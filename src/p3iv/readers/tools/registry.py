"""The table of annotation formats; to add one, write its two functions and one entry here."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

ANNOTATION_FILES = "annotations"  # the kind of `p3iv data import` that reads these formats

Content = Literal["json", "xml", "text", "folder"]


@dataclass(frozen=True)
class Format:
    """One annotation format."""

    title: str
    module: str  # in p3iv.readers.tools; imported when a file is read, so that `p3iv --help` does not wait for it
    recognise: str  # its function that says whether a content is of this format
    read: str  # its function from a file to the steps of videos
    content: Content
    times: str  # in which unit, for the notes; frames are followed by their rate


FORMATS = {
    "label-studio": Format(
        "Label Studio", "label_studio", "recognise_label_studio", "read_label_studio", "json", "seconds"
    ),
    "via": Format("VIA 3 project", "via", "recognise_via_project", "read_via_project", "json", "seconds"),
    "vidat": Format("Vidat", "releases", "recognise_vidat", "read_vidat", "json", "seconds"),
    "goalstep": Format("Ego4D GoalStep", "releases", "recognise_goalstep", "read_goalstep", "json", "seconds"),
    "yt-dlp": Format("chapters of yt-dlp", "cues", "recognise_ytdlp", "read_ytdlp", "json", "seconds"),
    "whisper": Format("Whisper JSON", "cues", "recognise_whisper", "read_whisper", "json", "seconds"),
    "activitynet": Format(
        "ActivityNet JSON", "releases", "recognise_activitynet", "read_activitynet", "json", "seconds"
    ),
    "captaincook4d": Format(
        "CaptainCook4D", "releases", "recognise_captaincook", "read_captaincook", "json", "seconds"
    ),
    "elan": Format("ELAN", "elan", "recognise_elan", "read_elan", "xml", "milliseconds"),
    "cvat": Format("CVAT for video", "cvat", "recognise_cvat", "read_cvat", "xml", "frames"),
    "webvtt": Format("WebVTT", "cues", "recognise_webvtt", "read_subtitles", "text", "h:mm:ss"),
    "via-csv": Format("VIA 3 CSV", "via", "recognise_via_csv", "read_via_csv", "text", "seconds"),
    "epic-kitchens": Format(
        "EPIC-KITCHENS-100", "releases", "recognise_epic_kitchens", "read_epic_kitchens", "text", "h:mm:ss"
    ),
    "csv": Format("steps.csv", "releases", "recognise_steps_table", "read_steps_table", "text", "seconds"),
    "srt": Format("SRT", "cues", "recognise_srt", "read_subtitles", "text", "h:mm:ss"),
    "chapters": Format("chapters of YouTube", "cues", "recognise_chapters", "read_chapters", "text", "h:mm:ss"),
    "frame-labels": Format(
        "frame labels", "frame_labels", "recognise_frame_labels", "read_frame_labels", "folder", "frames"
    ),
}


@dataclass(frozen=True)
class Writer:
    """Writes annotations in one format."""

    location: str  # MODULE:FUNCTION in p3iv.readers.tools
    suffix: str
    is_per_video: bool  # a folder of one file per video, or one file
    needs_rate: bool = False


WRITERS = {
    "label-studio": Writer("label_studio:render_label_studio", ".json", False, needs_rate=True),
    "elan": Writer("elan:render_elan", ".eaf", True),
    "via": Writer("via:render_via", ".json", False),
    "webvtt": Writer("cues:render_webvtt", ".vtt", True),
    "csv": Writer("", ".csv", False),  # the format of steps.csv, which readers/folder.py writes
}
