"""Steps as people write them: every safe variation reads as the same table, and the others are named with a remedy."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from p3iv.errors import P3ivError, SourceError
from p3iv.readers.folder import read_folder, read_split
from p3iv.readers.steps import parse_steps
from p3iv.readers.variants import edit_distance, join_spellings, near_names, parse_seconds, spelling_key
from p3iv.types import Action, Annotations, Video

QUIET = settings(deadline=None, max_examples=80, suppress_health_check=[HealthCheck.function_scoped_fixture])
HEADER = ("video", "task", "step", "start_s", "end_s")
OTHER_HEADERS = (
    HEADER,
    ("Video", "TASK", " Step ", "Start_S", "end_s"),
    ("file", "Recipe", "Action", "start", "end"),
    ("Video ID", "procedure", "label", "Start (s)", "End [s]"),
    ("filename", "activity", "step name", "begin", "stop"),
    ("clip", "task", "step", "Start time", "End time"),
)
STEPS = ("boil water", "pour the crème", "flip it", "wait; then stir", "add 1,5 cups")
TASKS = ("make tea", "crêpes")
ENCODINGS = ("utf-8", "utf-8-sig", "utf-16", "cp1252")


@dataclass(frozen=True)
class Row:
    video: str
    task: str
    step: str
    start_ms: int
    end_ms: int


@st.composite
def tables(draw: st.DrawFn) -> list[Row]:
    """Rows of one to three videos, in which every step is spelled as in STEPS at least as often as otherwise."""
    rows = []
    for number in range(draw(st.integers(1, 3))):
        task = draw(st.sampled_from(TASKS))
        for _ in range(draw(st.integers(1, 4))):
            start, length = draw(st.integers(0, 4 * 3_600_000)), draw(st.integers(0, 90_000))
            rows.append(Row(f"day {number}", task, draw(st.sampled_from(STEPS)), start, start + length))
    return rows


def write_time(draw: st.DrawFn, milliseconds: int, separator: str) -> str:
    """One of the ways to write a time; a comma before three digits is used where it can only be a decimal comma."""
    seconds, rest = divmod(milliseconds, 1000)
    minutes, hours = seconds // 60, seconds // 3600
    comma = draw(st.booleans())
    fraction = f"{',' if comma else '.'}{rest:03d}" if rest or draw(st.booleans()) else ""
    clocks = [f"{minutes}:{seconds % 60:02d}{fraction}", f"{hours:02d}:{minutes % 60:02d}:{seconds % 60:02d}{fraction}"]
    plain = f"{seconds}.{rest:03d}"
    with_comma = f"{seconds},{rest:03d}" if separator == ";" else f"{seconds},{rest:03d}0"
    return draw(st.sampled_from([plain, with_comma, *clocks, f"{plain} s", f" {plain} "]))


def respell(draw: st.DrawFn, name: str) -> str:
    """The name in other letters and blanks."""
    changes = (str, str.upper, str.title, lambda text: text.replace(" ", "  "), lambda text: f" {text} ")
    return str(draw(st.sampled_from(changes))(name))


def quoted(cell: str, separator: str) -> str:
    return f'"{cell}"' if separator in cell or '"' in cell else cell


@st.composite
def written_tables(draw: st.DrawFn) -> tuple[bytes, bytes]:
    """A table as it is documented, and the same table with a mix of safe variations."""
    rows = draw(tables())
    plain = [HEADER] + [(r.video, r.task, r.step, str(r.start_ms / 1000), str(r.end_ms / 1000)) for r in rows]
    separator = draw(st.sampled_from(",;\t"))
    ending = draw(st.sampled_from(["", ".mp4", ".MOV"]))
    lines: list[Sequence[str]] = [draw(st.sampled_from(OTHER_HEADERS))]
    seen: set[str] = set()
    for row in rows:
        names = [name if name not in seen else respell(draw, name) for name in (row.task, row.step)]
        seen |= {row.task, row.step}
        times = [write_time(draw, time, separator) for time in (row.start_ms, row.end_ms)]
        lines.append((row.video + ending, *names, *times))
        if draw(st.booleans()):
            lines.append(("",) * draw(st.sampled_from([0, 5])))
    trailing = separator * draw(st.integers(0, 2))
    text = draw(st.sampled_from(["", f"sep={separator}\r\n"])) if draw(st.booleans()) else ""
    newline = draw(st.sampled_from(["\n", "\r\n"]))
    text += newline.join(separator.join(quoted(cell, separator) for cell in line) + trailing for line in lines)
    documented = "\n".join(",".join(quoted(cell, ",") for cell in line) for line in plain)
    return documented.encode(), text.encode(draw(st.sampled_from(ENCODINGS)))


def same_letters(videos: Sequence[Video]) -> list[Video]:
    """The videos with names in small letters: which spelling is kept depends on which is the most frequent."""
    return [
        replace(
            video,
            aliases=(),
            task=spelling_key(video.task),
            steps=tuple(replace(step, action=spelling_key(step.action)) for step in video.steps),
        )
        for video in videos
    ]


@given(written_tables())
@QUIET
def test_any_mix_of_safe_variations_reads_as_the_same_table(written: tuple[bytes, bytes]) -> None:
    plain, varied = (parse_steps(content) for content in written)
    assert plain.notes == ()
    assert plain.videos.log.problems == varied.videos.log.problems == ()
    videos = [list(table.videos.videos.values()) for table in (plain, varied)]
    assert same_letters(videos[0]) == same_letters(videos[1])
    assert {spelling_key(name) for name in varied.vocabulary.names} == set(plain.vocabulary.names)
    assert len(varied.vocabulary) == len(plain.vocabulary)


def read(folder: Path, content: str | bytes) -> Annotations:
    (folder / "steps.csv").write_bytes(content.encode() if isinstance(content, str) else content)
    return read_folder(folder)


@pytest.mark.parametrize(
    ("content", "note"),
    [
        ("video;task;step;start_s;end_s\nv;t;a;0;1\n", "steps.csv:1: the columns are separated by semicolons"),
        ("video\ttask\tstep\tstart_s\tend_s\nv\tt\ta\t0\t1\n", "steps.csv:1: the columns are separated by tabs"),
        ("video,Task,Action,start_s,end_s\nv,t,a,0,1\n", "Task as task, Action as step"),
        ("video,task,step,start_s,end_s\n\nv,t,a,1:05,1:06\n", "steps.csv:3: times with minutes and seconds"),
        ('video,task,step,start_s,end_s\nv,t,a,"0,5","1,5"\n', "'0,5' is 0.5 s (and 1 more)"),
        ("video,task,step,start_s,end_s\nv.mp4,t,a,0,1\n", "video 'v.mp4' is read as 'v', without the ending"),
        ("video,task,step,start_s,end_s\nv,t,a,0,1\nv,t,A,1,2\n", "steps.csv:3: step 'A' is read as 'a'"),
        ("video,task,step,start_s,end_s\nv,t,a,0,1\nv,T,a,1,2\n", "steps.csv:3: task 'T' is read as 't'"),
        ("video,task,step,start_s,end_s\nv,t,é,0,1\n".encode("utf-16"), "steps.csv: is in UTF-16"),
        ("video,task,step,start_s,end_s\nv,t,crème,0,1\n".encode("latin-1"), "steps.csv:2: not UTF-8, read as Windows"),
    ],
)
def test_what_was_understood_is_noted_with_its_line(tmp_path: Path, content: str | bytes, note: str) -> None:
    annotations = read(tmp_path, content)
    assert annotations.problems == ()
    assert len(annotations.notes) == 1
    assert note in annotations.notes[0]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("v;t;a;0:01;0:02\n", r"line 1 is 'v;t;a;0:01;0:02', not a header\. Write .* video;task;step;start_s;end_s"),
        ("video;task;step;start_ms;end_ms\n", "no column start_s, end_s in its header"),
        ("video,task,step,start,begin,end\n", "columns 'start' and 'begin' may both be start_s; call one of them"),
        (b"PK\x03\x04 and so on", 'an Excel workbook.*choose Save As, "CSV UTF-8"'),
        ("video,task,step,start_s,end_s\nv,t,é,0,1\nv,t,".encode() + b"\xff,0,1\n", r"\(line 3\) is not UTF-8, while"),
        (b"video,task,step,start_s,end_s\nv,t,\x81,0,1\n", r"byte 35 \(line 2\) is not UTF-8, nor Windows-1252; save"),
        ("video,task\n".encode("utf-16") + b"\0", "begins as UTF-16"),
    ],
)
def test_a_table_that_could_mean_two_things_is_refused_with_a_remedy(
    tmp_path: Path, content: str | bytes, message: str
) -> None:
    with pytest.raises(SourceError, match=message):
        read(tmp_path, content)


@pytest.mark.parametrize(
    ("row", "what"),
    [
        ('v,t,b,"1,234",2000', "which may be 1.234 or 1234 seconds; write one of the two"),
        ("v,t,b,1:5,2:00", "the start is '1:5', expected seconds from 0, such as 65.5, or minutes and seconds"),
        ("v,t,b,1:75,2:00", "the start is '1:75'"),
        ("v,t,b,1:75:00,2:00:00", "the start is '1:75:00'"),
        ("v,t,b,1,5,2,5", "7 columns, expected the 5 of the header (a name or a number with a comma needs quotes"),
        ("v.mkv,t,b,1,2", "the video is 'v.mkv', and 'v.mp4' in a row before; give two videos two names"),
    ],
)
def test_a_row_that_could_mean_two_things_is_left_out_with_a_remedy(tmp_path: Path, row: str, what: str) -> None:
    annotations = read(tmp_path, f"video,task,step,start_s,end_s\nv.mp4,t,a,0,1\n{row}\n")
    (problem,) = annotations.problems
    assert (problem.where, problem.done) == ("steps.csv:3", "row left out")
    assert what in problem.what


@pytest.mark.parametrize(
    ("cell", "seconds"),
    [("1:05", 65), ("1:05.25", 65.25), ("01:02:03,5", 3723.5), ("90:00", 5400), ("12 s", 12), ("0,250", 0.25)],
)
def test_times_are_read_to_the_millisecond(cell: str, seconds: float) -> None:
    assert parse_seconds(cell, "start", ",")[0] == seconds


def test_equal_letters_stay_apart_where_the_texts_differ(tmp_path: Path) -> None:
    content = "video,task,step,start_s,end_s,text\nv,t,a,0,1,one\nv,t,A,1,2,two\nv,t,b,2,3,same\nv,t,B,3,4,same\n"
    annotations = read(tmp_path, content)
    assert annotations.vocabulary.actions == (Action("A", "two"), Action("a", "one"), Action("b", "same"))
    assert annotations.problems == ()


def test_the_most_frequent_spelling_is_kept_then_the_first() -> None:
    assert join_spellings(["Boil", "boil", "boil ", "boil", "Pour", "pour"]) == {
        "Boil": "boil",
        "boil ": "boil",
        "pour": "Pour",
    }


def test_a_split_may_have_the_endings_of_the_files(tmp_path: Path) -> None:
    (tmp_path / "split.json").write_text('{"train": ["a.mp4"], "test": ["b"]}')
    assert read_split(tmp_path / "split.json").train == ("a",)


@pytest.mark.parametrize(
    ("one", "two", "near"),
    [
        ("pour mixture", "pour mixutre", True),
        ("flip_the_pancake", "flip the pancake", True),
        ("open the bag", "open the bags", False),  # a short word: bag and bags may be meant
        ("add meringue", "add merigue", True),
        ("turn on the stove", "turn off the stove", False),
        ("add egg 1", "add egg 2", False),
        ("cut banana", "put banana", False),
    ],
)
def test_nearly_equal_names_are_found(one: str, two: str, near: bool) -> None:
    assert near_names([one, "something else", two]) == ([(one, two)] if near else [])


WORDS = st.text("ab", max_size=5)


@given(WORDS, WORDS, WORDS)
def test_the_edit_distance_is_symmetric_and_zero_for_equal_words_only(one: str, two: str, three: str) -> None:
    assert edit_distance(one, two) == edit_distance(two, one)
    assert (edit_distance(one, two) == 0) == (one == two)
    assert edit_distance(one, two) <= max(len(one), len(two))
    assert edit_distance(one + three, two + three) <= edit_distance(one, two)


@given(st.binary(max_size=80), st.sampled_from(["", "video;task;step;start;end\n", "Video\tTask\tStep\tfrom\tto\n"]))
@QUIET
def test_any_bytes_after_a_header_give_errors_of_the_project_only(content: bytes, header: str) -> None:
    try:
        parse_steps(header.encode() + content)
    except P3ivError as error:
        assert str(error)
