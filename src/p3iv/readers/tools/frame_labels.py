"""One label per frame, as MS-TCN reads Breakfast, GTEA and 50Salads: groundTruth/VIDEO.txt and mapping.txt."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import groupby
from pathlib import Path

from p3iv.readers.files import UnusableError, is_folder, read_text
from p3iv.readers.rows import LEFT_OUT, parse_name, place
from p3iv.readers.tools.spans import BACKGROUND, Span, ToolFile, ToolOptions, VideoSpans, video_of
from p3iv.types import listed
from p3iv.validation import ProblemLog, shown

GROUND_TRUTH = "groundTruth"

MAPPING = "mapping.txt"

_MAX_LABEL_BYTES = 16 * 2**20  # of one video: some hours at 30 frames per second

_MAX_LABELS = 5000  # in mapping.txt


def recognise_frame_labels(path: Path) -> bool:
    """A folder with groundTruth/ or mapping.txt, the folder groundTruth itself, or a file in it."""
    if not is_folder(path):
        return path.parent.name == GROUND_TRUTH
    return path.name == GROUND_TRUTH or is_folder(path / GROUND_TRUTH) or (path / MAPPING).is_file()


def _labels_folder(path: Path) -> Path:
    inner = path / GROUND_TRUTH
    return inner if is_folder(inner) else path


def read_frame_labels(file: ToolFile, _: ToolOptions, log: ProblemLog) -> Iterator[VideoSpans]:
    """A step is a run of frames with one label; background is left out."""
    folder = _labels_folder(file.path) if is_folder(file.path) else file.path.parent
    paths = _label_files(file.path, folder)
    names = _read_mapping(folder)
    for path in paths:
        where = f"{place(path.name)}: frames"
        try:
            spans, num_skipped = _read_spans(path, names)
            video = video_of(path.stem)
        except UnusableError as error:
            log.add(where, str(error), LEFT_OUT)
            continue
        skipped = {"background interval": num_skipped} if num_skipped else {}
        yield VideoSpans(where, video, spans, in_frames=True, skipped=skipped)


def _label_files(path: Path, folder: Path) -> list[Path]:
    if not is_folder(path):
        return [path]
    try:
        found = sorted(one for one in folder.iterdir() if one.suffix == ".txt" and one.name != MAPPING)
    except OSError as error:
        raise UnusableError(f"the folder cannot be listed ({error.strerror})") from error
    if not found:
        raise UnusableError(f"no .txt file in it or in {GROUND_TRUTH}/, expected one per video with a label per frame")
    return found


def _read_mapping(folder: Path) -> dict[str, str]:
    """Names by number, from the lines `NUMBER NAME` of mapping.txt, here or in the folder above; none without it."""
    path = next((one for one in (folder / MAPPING, folder.parent / MAPPING) if one.is_file()), None)
    if path is None:
        return {}
    lines = [line.split(maxsplit=1) for line in read_text(path, 2**20).split("\n") if line.strip()]
    if len(lines) > _MAX_LABELS or any(len(parts) != 2 or not parts[0].isdigit() for parts in lines):
        raise UnusableError(f"{MAPPING} has other lines than NUMBER NAME, one per label")
    return {number: parse_name(name, "the label") for number, name in lines}


def _read_spans(path: Path, names: dict[str, str]) -> tuple[list[Span], int]:
    labels = [line.strip() for line in read_text(path, _MAX_LABEL_BYTES).rstrip().split("\n")]
    known = set(names.values())
    if known and (unknown := sorted({names.get(label, label) for label in labels} - known)):
        raise UnusableError(f"labels that {MAPPING} does not have: {listed([shown(label) for label in unknown])}")
    spans, frame, num_skipped = [], 0, 0
    for label, run in groupby(labels):
        end = frame + sum(1 for _ in run)
        name = parse_name(names.get(label, label), f"the label of frame {frame}")
        if name.casefold() in BACKGROUND:
            num_skipped += 1
        else:
            spans.append(Span(name, frame, end))
        frame = end
    return spans, num_skipped
