from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from p3iv.errors import DatasetError
from p3iv.readers.crosstask import read_crosstask
from p3iv.readers.folder import read_folder
from p3iv.readers.rows import order_steps
from p3iv.readers.steps import write_steps
from p3iv.types import Action, Annotations, Step, Video, Vocabulary

CELLS = st.text(
    st.one_of(st.sampled_from("a,\"'é\u2028 "), st.characters(codec="utf-8", exclude_categories=["Cc"])), max_size=8
)
NAMES = CELLS.map(str.strip).filter(bool)
VALUES = st.text(st.one_of(st.sampled_from('a,"\r\n\t '), st.characters(codec="utf-8")), max_size=6)
SECONDS = st.floats(min_value=0, max_value=1e300)


@st.composite
def extra_cells(draw: st.DrawFn, columns: list[str]) -> tuple[tuple[str, str], ...]:
    return tuple((column, draw(VALUES)) for column in columns)


@st.composite
def steps_of_a_video(draw: st.DrawFn, columns: list[str]) -> tuple[Step, ...]:
    timed = draw(st.booleans())
    steps = []
    for action in draw(st.lists(st.sampled_from("abc"), min_size=1, max_size=5)):
        start_s, end_s = sorted((draw(SECONDS), draw(SECONDS))) if timed else (None, None)
        steps.append(Step(action, start_s, end_s, draw(extra_cells(columns))))
    return order_steps(steps)


@st.composite
def video_lists(draw: st.DrawFn) -> list[Video]:
    columns = draw(st.lists(st.sampled_from(["note", "a,b", "é"]), unique=True))
    videos = st.builds(Video, NAMES, NAMES, steps_of_a_video(columns))
    return draw(st.lists(videos, min_size=1, max_size=4, unique_by=lambda video: video.id))


def annotations_of(*some: Video, texts: dict[str, str] | None = None) -> Annotations:
    actions = tuple(Action(name, (texts or {}).get(name, name)) for name in "abc")
    return Annotations("made", tuple(some), Vocabulary(actions))


@given(video_lists(), st.fixed_dictionaries({}, optional={"a": NAMES, "b": NAMES}))
@settings(deadline=None, max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_what_was_written_reads_back_the_same(tmp_path: Path, some: list[Video], texts: dict[str, str]) -> None:
    annotations = annotations_of(*some, texts=texts)
    write_steps(tmp_path / "steps.csv", annotations)
    first = (tmp_path / "steps.csv").read_bytes()
    again = read_folder(tmp_path)
    assert again.videos == annotations.videos
    assert again.problems == ()
    assert all(action.text == texts.get(action.name, action.name) for action in again.vocabulary.actions)
    write_steps(tmp_path / "steps.csv", annotations)
    assert (tmp_path / "steps.csv").read_bytes() == first


def test_a_release_reads_back_the_same_but_for_its_aliases(crosstask_folder: Path, tmp_path: Path) -> None:
    annotations = read_crosstask(crosstask_folder, keep_tasks_apart=True)
    write_steps(tmp_path / "out" / "steps.csv", annotations)
    again = read_folder(tmp_path / "out")
    assert again.videos == tuple(replace(video, aliases=()) for video in annotations.videos)
    assert set(again.vocabulary.actions) <= set(annotations.vocabulary.actions)


def test_the_text_column_is_there_only_where_a_text_says_more(tmp_path: Path) -> None:
    steps = (Step("a", 0.1, 1e-07, (("note", "x"),)), Step("b", 2.0, 3.0, (("mood", "y"),)))
    video = Video("v", "t", order_steps(replace(step, end_s=4.0) for step in steps))
    write_steps(tmp_path / "steps.csv", annotations_of(video))
    assert (tmp_path / "steps.csv").read_text(encoding="utf-8") == (
        "video,task,step,start_s,end_s,note,mood\nv,t,a,0.1,4.0,x,\nv,t,b,2.0,4.0,,y\n"
    )
    write_steps(tmp_path / "steps.csv", annotations_of(video, texts={"b": "more"}))
    assert (tmp_path / "steps.csv").read_text(encoding="utf-8").splitlines()[2] == "v,t,b,2.0,4.0,more,,y"


SOUND = Step("a", 1.0, 2.0)


@pytest.mark.parametrize(
    "some",
    [
        [Video("v", "t", ())],
        [Video(" v", "t", (SOUND,))],
        [Video("v", "t\n", (SOUND,))],
        [Video("v", "t", (SOUND, Step("b", 0.0, 1.0)))],
        [Video("v", "t", (SOUND, Step("b")))],
        [Video("v", "t", (Step("a", 1.0, None),))],
        [Video("v", "t", (Step("a", float("nan"), 1.0),))],
        [Video("v", "t", (SOUND,)), Video("v", "t", (SOUND,))],
        [Video("v", "t", (replace(SOUND, extra=(("video", "x"),)),))],
        [Video("v", "t", (replace(SOUND, extra=(("note", "\ud800"),)),))],
    ],
)
def test_what_would_not_read_back_is_refused_and_nothing_written(tmp_path: Path, some: list[Video]) -> None:
    with pytest.raises(DatasetError):
        write_steps(tmp_path / "steps.csv", annotations_of(*some))
    assert list(tmp_path.iterdir()) == []
