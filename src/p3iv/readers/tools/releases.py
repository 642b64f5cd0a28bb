"""Annotations of published datasets, and their likes: ActivityNet, GoalStep, CaptainCook4D, Vidat, EPIC-KITCHENS."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice

from p3iv.readers.files import JsonObject, UnusableError
from p3iv.readers.rows import LEFT_OUT, csv_rows, parse_name, parse_times, place, usable_rows
from p3iv.readers.steps import STEPS_FILE, parse_steps
from p3iv.readers.tools.spans import (
    BACKGROUND,
    Span,
    ToolFile,
    ToolOptions,
    VideoSpans,
    as_list,
    as_object,
    base_name,
    clean_extra,
    log_repeated,
    optional_name,
    parse_clock,
    parse_span,
    video_of,
)
from p3iv.readers.variants import NoteLog, find_header
from p3iv.validation import ProblemLog, shown

_EPIC_COLUMNS = ("video_id", "start_timestamp", "stop_timestamp", "verb", "noun")


def recognise_activitynet(content: object) -> bool:
    """Videos by id, each with annotations that have a segment and a label."""
    return any(
        isinstance(one, JsonObject) and {"segment", "label"} <= one.keys()
        for video in _first_entries(_database(content))
        for one in islice(_annotations_of(video), 5)
    )


def _database(content: object) -> object:
    return content["database"] if isinstance(content, JsonObject) and "database" in content else content


def _first_entries(content: object) -> list[JsonObject]:
    entries = islice(content.values(), 20) if isinstance(content, JsonObject) else ()
    return [one for one in entries if isinstance(one, JsonObject)]


def _annotations_of(video: JsonObject) -> list[object]:
    found = video.get("annotations", video.get("annotation"))
    return found if isinstance(found, list) else []


def read_activitynet(file: ToolFile, _: ToolOptions, log: ProblemLog) -> Iterator[VideoSpans]:
    """Segments in seconds; the task is the video's class, where it has one."""
    database = as_object(_database(file.content), "the file")
    log_repeated(database, file.name, log)
    for video, value in database.items():
        where = f"{file.name}: video {place(video)}"
        if not isinstance(value, JsonObject) or not isinstance(value.get("annotations", value.get("annotation")), list):
            log.add(where, "no list of annotations, expected one", LEFT_OUT)
            continue
        rows = [(f"{where}, annotation {n}", one) for n, one in enumerate(_annotations_of(value), start=1)]
        spans = usable_rows(rows, lambda _, one: _segment(one), log)
        yield from _video(where, video, log, _without_background(spans), task=optional_name(value.get("class")))


def _segment(one: object) -> Span:
    entry = as_object(one, "the annotation")
    segment = as_list(entry.get("segment"), "the segment")
    if len(segment) != 2:
        raise UnusableError(f"{len(segment)} times in the segment, expected [start, end]")
    return parse_span(entry.get("label"), segment[0], segment[1])


def _without_background(spans: list[Span]) -> tuple[list[Span], dict[str, int]]:
    """The steps, and how many intervals are marked as background."""
    kept = [span for span in spans if span.step.casefold() not in BACKGROUND]
    return kept, {"background interval": len(spans) - len(kept)} if len(kept) < len(spans) else {}


def _video(
    where: str,
    video: object,
    log: ProblemLog,
    found: tuple[list[Span], dict[str, int]],
    *,
    task: str | None = None,
    aliases: tuple[str, ...] = (),
) -> Iterator[VideoSpans]:
    """The spans of one video; nothing if its id cannot be used."""
    try:
        name = parse_name(video, "the video's id")
    except UnusableError as error:
        log.add(where, str(error), LEFT_OUT)
    else:
        yield VideoSpans(where, name, found[0], task=task, aliases=aliases, skipped=found[1])


def recognise_goalstep(content: object) -> bool:
    """A list of videos with uids."""
    videos = content.get("videos") if isinstance(content, JsonObject) else None
    return isinstance(videos, list) and any(isinstance(one, JsonObject) and "video_uid" in one for one in videos)


def read_goalstep(file: ToolFile, options: ToolOptions, log: ProblemLog) -> Iterator[VideoSpans]:
    """Steps (level 1) or substeps (level 2), named by their category; the description is kept beside it."""
    videos = as_list(as_object(file.content, "the file").get("videos"), "videos")
    if any(isinstance(one, JsonObject) and "step_segments" in one for one in videos):
        raise UnusableError("steps without times (the test file of the challenge), expected segments")
    for number, value in enumerate(videos, start=1):
        where = f"{file.name}: video {number}"
        try:
            video = as_object(value, "the video")
            segments = _segments_at(options.level, video)
        except UnusableError as error:
            log.add(where, str(error), LEFT_OUT)
            continue
        goal = video.get("goal_description")
        rows = [(f"{where}, segment {n}", one) for n, one in enumerate(segments, start=1)]
        spans = usable_rows(rows, lambda _, one, goal=goal: _goal_step(one, goal), log)  # type: ignore[misc]
        yield from _video(
            where, video.get("video_uid"), log, (spans, {}), task=optional_name(video.get("goal_category"))
        )


def _segments_at(level: int, video: JsonObject) -> list[object]:
    segments = as_list(video.get("segments"), "segments")
    for _ in range(level - 1):
        inner = [one.get("segments") for one in segments if isinstance(one, JsonObject)]
        segments = [each for some in inner if isinstance(some, list) for each in some]
    return segments


def _goal_step(one: object, goal: object) -> Span:
    entry = as_object(one, "the segment")
    step = entry.get("step_category") or entry.get("step_description")
    extra = (("description", entry.get("step_description")), ("goal", goal), ("relevant", entry.get("is_relevant")))
    return parse_span(step, entry.get("start_time"), entry.get("end_time"), extra)


def recognise_captaincook(content: object) -> bool:
    """Recordings by id, each with steps that have a description."""
    return any(
        isinstance(step, JsonObject) and {"description", "start_time", "end_time"} <= step.keys()
        for video in _first_entries(content)
        if isinstance(steps := video.get("steps"), list)
        for step in steps[:5]
    )


def read_captaincook(file: ToolFile, _: ToolOptions, log: ProblemLog) -> Iterator[VideoSpans]:
    """Steps in seconds; those with negative times were left out by the cook."""
    recordings = as_object(file.content, "the file")
    log_repeated(recordings, file.name, log)
    for video, value in recordings.items():
        where = f"{file.name}: recording {place(video)}"
        if not isinstance(value, JsonObject) or not isinstance(value.get("steps"), list):
            log.add(where, "no list of steps, expected one", LEFT_OUT)
            continue
        steps = as_list(value["steps"], "steps")
        done = [one for one in steps if not _is_omitted(one)]
        rows = [(f"{where}, step {n}", one) for n, one in enumerate(done, start=1)]
        spans = usable_rows(rows, lambda _, one: _cooked(one), log)
        skipped = {"omitted step": len(steps) - len(done)} if len(done) < len(steps) else {}
        activity = optional_name(value.get("activity_name"))
        yield from _video(where, video, log, (spans, skipped), task=activity, aliases=(f"{video}_360p",))


def _is_omitted(one: object) -> bool:
    start = one.get("start_time") if isinstance(one, JsonObject) else None
    return isinstance(start, int | float) and start < 0


def _cooked(one: object) -> Span:
    entry = as_object(one, "the step")
    extra = (("has_errors", entry.get("has_errors")),)
    return parse_span(entry.get("description"), entry.get("start_time"), entry.get("end_time"), extra)


def recognise_vidat(content: object) -> bool:
    """A list of actions in its annotation."""
    annotation = content.get("annotation") if isinstance(content, JsonObject) else None
    return isinstance(annotation, JsonObject) and "actionAnnotationList" in annotation


def read_vidat(file: ToolFile, _: ToolOptions, log: ProblemLog) -> Iterator[VideoSpans]:
    """The actions of one video; their names are in its configuration."""
    content = as_object(file.content, "the file")
    annotation = as_object(content.get("annotation"), "annotation")
    names = _action_names(content.get("config"))
    actions = as_list(annotation.get("actionAnnotationList"), "actionAnnotationList")
    if not actions:
        raise UnusableError("its list of actions is empty, expected at least one")
    rows = [(f"{file.name}: action {number}", one) for number, one in enumerate(actions, start=1)]
    spans = usable_rows(rows, lambda _, one: _vidat_action(one, names), log)
    video = annotation.get("video")
    source = video.get("src") if isinstance(video, JsonObject) else None
    name = base_name(source) if isinstance(source, str) and not source.startswith("blob:") else file.path.stem
    yield VideoSpans(f"{file.name}: actions", video_of(name), spans, aliases=(file.path.stem,))


def _action_names(config: object) -> dict[str, object]:
    labels = config.get("actionLabelData") if isinstance(config, JsonObject) else None
    entries = labels if isinstance(labels, list) else []
    return {str(one.get("id")): one.get("name") for one in entries if isinstance(one, JsonObject)}


def _vidat_action(one: object, names: dict[str, object]) -> Span:
    entry = as_object(one, "the action")
    action = entry.get("action")
    if str(action) not in names:
        raise UnusableError(f"its action is {shown(action)}, expected an id of config.actionLabelData")
    extra = (("description", entry.get("description")),)
    return parse_span(names[str(action)], entry.get("start"), entry.get("end"), extra)


def _first_row(text: str) -> list[str]:
    row = next(csv_rows("", text[:5000].partition("\n")[0], ProblemLog()), ("", []))[1]
    return [cell.strip() for cell in row]


def recognise_epic_kitchens(text: str) -> bool:
    return set(_EPIC_COLUMNS) <= set(_first_row(text))


def read_epic_kitchens(file: ToolFile, _: ToolOptions, log: ProblemLog) -> Iterator[VideoSpans]:
    """Actions named by verb and noun; the narration is kept beside it."""
    rows = csv_rows(file.name, file.text, log)
    columns = [cell.strip() for cell in next(rows, ("", []))[1]]
    missing = [column for column in _EPIC_COLUMNS if column not in columns]
    if missing:
        raise UnusableError(f"no column {', '.join(missing)} in its header")
    spans_of: dict[str, list[Span]] = {}

    def take(_: str, row: list[str]) -> None:
        cells = dict(zip(columns, row, strict=False))
        if len(row) != len(columns):
            raise UnusableError(f"{len(row)} columns, expected the {len(columns)} of the header")
        video = parse_name(cells["video_id"], "the video")
        step = parse_name(f"{cells['verb'].strip()} {cells['noun'].strip()}", "the action")
        times = parse_times(parse_clock(cells["start_timestamp"]), parse_clock(cells["stop_timestamp"]))
        extra = clean_extra((("narration", cells.get("narration")),))
        spans_of.setdefault(video, []).append(Span(step, *times, extra))

    usable_rows(rows, take, log)
    for video, spans in spans_of.items():
        yield VideoSpans(f"{file.name}: video {place(video)}", video, spans)


def recognise_steps_table(text: str) -> bool:
    try:
        find_header(STEPS_FILE, text, NoteLog())
    except UnusableError:
        return False
    return True


def read_steps_table(file: ToolFile, _: ToolOptions, log: ProblemLog) -> Iterator[VideoSpans]:
    """A table with the columns of steps.csv."""
    table = parse_steps(file.text.encode("utf-8"), log)
    texts = {action.name: action.text for action in table.vocabulary.actions}
    for video in table.videos.videos.values():
        spans = [Span(step.action, step.start_s, step.end_s, step.extra) for step in video.steps]
        yield VideoSpans(f"{file.name}: video {place(video.id)}", video.id, spans, task=video.task, texts=texts)
