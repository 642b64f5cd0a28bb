"""Change the rows of one video in a steps.csv; all other rows stay as they are."""

from __future__ import annotations

from collections.abc import Sequence

from p3iv.errors import DatasetError
from p3iv.readers.rows import CsvRecord, csv_records
from p3iv.readers.steps import STEPS_FILE, csv_line, parse_steps, parse_video, render_time
from p3iv.readers.variants import COLUMNS, Header, NoteLog, decode_sheet, find_header, spelling_key
from p3iv.types import Step, Video
from p3iv.validation import shown

NEW_FILE = csv_line(COLUMNS)  # with which a steps.csv begins


def replace_video_rows(content: bytes, video: Video) -> str:
    """A steps.csv with other rows of one video.

    The rows stand where the video had its first row, or at the end. A step that the video had already keeps the cells
    of further columns; a new one gets the text that its action has in other rows.

    Args:
        content: of the file; empty if there is none yet.
        video: with its new steps; without steps, its rows are removed.

    Raises:
        UnusableError: the header cannot be used.
        DatasetError: the video would not read back the same.
    """
    text = decode_sheet(STEPS_FILE, content, NoteLog()) if content else NEW_FILE
    header = find_header(STEPS_FILE, text, NoteLog())
    records = list(csv_records(header.text, header.separator))
    kept, old, first = _take_out(records, header, video.id)
    new = _render_rows(header, video, old, _first_texts(records, header))
    if new and not kept[first - 1].endswith(("\n", "\r")):
        kept[first - 1] += "\n"
    declared = text[: len(text) - len(header.text)]  # a `sep=` line
    changed = "".join([declared, *kept[:first], *new, *kept[first:]])
    _check_reads_back(changed.encode("utf-8"), video)
    return changed


def _check_reads_back(content: bytes, video: Video) -> None:
    again = parse_steps(content).videos.videos.get(video.id)
    found = (again.task, again.steps) if again else (video.task, ())
    if _facts(*found) != _facts(video.task, video.steps):
        raise DatasetError(f"video {shown(video.id)} would not read back the same from {STEPS_FILE}.")


def _facts(task: str, steps: Sequence[Step]) -> list[object]:
    """What must stay: names but for capitals and blanks, which get one spelling in the whole file, and times."""
    return [spelling_key(task), *((spelling_key(step.action), step.start_s, step.end_s) for step in steps)]


def _first_texts(records: Sequence[CsvRecord], header: Header) -> dict[str, str]:
    """The first text of every action, where there is a column of texts."""
    texts: dict[str, str] = {}
    for record in records:
        cells = _cells(record, header)
        if cells.get("text", "").strip():
            texts.setdefault(cells["step"].strip(), cells["text"])
    return texts


def _take_out(records: Sequence[CsvRecord], header: Header, video: str) -> tuple[list[str], list[dict[str, str]], int]:
    """The texts of all other records, the cells of a video's rows, and where its first row was."""
    kept: list[str] = []
    old: list[dict[str, str]] = []
    first: int | None = None
    for record in records:
        cells = _cells(record, header)
        if record.fault is None and parse_video(cells) == video and kept:  # the header comes first
            first = len(kept) if first is None else first
            old.append(cells)
        else:
            kept.append(record.text)
    return kept, old, len(kept) if first is None else first


def _render_rows(header: Header, video: Video, old: Sequence[dict[str, str]], texts: dict[str, str]) -> list[str]:
    """The new rows of a video, with the columns of the file."""
    left, lines = list(old), []
    for step in video.steps:
        before = next((cells for cells in left if cells.get("step", "").strip() == step.action), None)
        if before is not None:
            left.remove(before)
        times = {"start_s": render_time(step.start_s), "end_s": render_time(step.end_s)}
        cells = before or {"text": texts.get(step.action, "")}
        cells = {**cells, "video": video.id, "task": video.task, "step": step.action, **times}
        lines.append(csv_line([cells.get(column, "") for column in header.columns], header.separator))
    return lines


def _cells(record: CsvRecord, header: Header) -> dict[str, str]:
    return dict(zip(header.columns, record.cells, strict=False))
