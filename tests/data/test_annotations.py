"""Annotations on the disk: versions, steps.csv beside them, and what a process leaves that is killed."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from p3iv.data.annotations import MAIN, AnnotatedStep, Annotation, AnnotationStore, ChangedError
from p3iv.errors import DatasetError
from p3iv.readers.edit_steps import replace_video_rows
from p3iv.readers.folder import read_folder
from p3iv.types import Step, Video

OTHER_ROWS = 'tea-0,make tea,"boil, water",1,4,kettle\r\n\r\nbad row\ntea-1,make tea,pour,2.50,3,\n'
NAMES = st.text(st.characters(codec="utf-8", exclude_categories=["C", "Z"]), min_size=1, max_size=8)
TIMES = st.floats(0, 1000, allow_nan=False)


@pytest.fixture
def store(tmp_path: Path) -> AnnotationStore:
    """A folder with two videos and nothing else."""
    (tmp_path / "videos").mkdir()
    for name in ("eggs", "repot"):
        (tmp_path / "videos" / f"{name}.mp4").touch()
    return AnnotationStore(tmp_path)


def annotation(*steps: tuple[str, float, float], task: str = "make eggs") -> Annotation:
    return Annotation(task=task, steps=tuple(AnnotatedStep(step=a, start_s=s, end_s=e) for a, s, e in steps))


EMPTY = Annotation()
ONE = annotation(("crack", 1, 4.5))
TWO = annotation(("crack", 1, 4.5), ("whisk", 5, 9))


def test_what_is_written_is_read_and_is_in_steps_csv(store: AnnotationStore) -> None:
    assert store.read(MAIN, "eggs") == EMPTY
    store.write(MAIN, "eggs", annotation(("whisk", 5, 9), ("crack", 1, 4.5)), EMPTY.tag)
    assert store.read(MAIN, "eggs") == TWO  # in the order of time
    [video] = read_folder(store.folder).videos
    assert video == Video("eggs", "make eggs", (Step("crack", 1.0, 4.5), Step("whisk", 5.0, 9.0)))


def test_a_change_of_an_old_version_is_refused_and_the_same_change_again_is_not(store: AnnotationStore) -> None:
    store.write(MAIN, "eggs", ONE, EMPTY.tag)
    with pytest.raises(ChangedError) as refused:
        store.write(MAIN, "eggs", TWO, EMPTY.tag)
    assert refused.value.current == ONE
    assert store.write(MAIN, "eggs", ONE, EMPTY.tag) == ONE  # sent again, as its answer was lost
    assert store.write(MAIN, "eggs", TWO, ONE.tag) == TWO


def test_annotators_do_not_see_each_other_and_only_the_main_one_is_in_steps_csv(store: AnnotationStore) -> None:
    store.write("anna", "eggs", TWO, EMPTY.tag)
    assert store.read(MAIN, "eggs") == EMPTY
    assert not (store.folder / "steps.csv").exists()
    assert store.annotators() == (MAIN, "anna")
    assert store.vocabulary(["eggs"]).steps == ("crack", "whisk")


@pytest.mark.parametrize("annotator", ["", "..", "a/b", "Anna", "a" * 33, "a\n", "-a", "a.b"])
def test_an_annotator_is_not_a_path(store: AnnotationStore, annotator: str) -> None:
    with pytest.raises(DatasetError, match="an annotator's name has letters"):
        store.write(annotator, "eggs", ONE, EMPTY.tag)
    assert sorted(path.name for path in store.folder.iterdir()) == ["videos"]


def test_other_rows_of_steps_csv_stay_as_they_are(store: AnnotationStore) -> None:
    header = "video,task,step,start_s,end_s,tool\n"
    (store.folder / "steps.csv").write_text(header + "eggs,make eggs,crack,0,2,bowl\n" + OTHER_ROWS, newline="")
    before = store.read(MAIN, "eggs")
    assert before == annotation(("crack", 0, 2))
    store.write(MAIN, "eggs", TWO, before.tag)
    rows = "eggs,make eggs,crack,1.0,4.5,bowl\neggs,make eggs,whisk,5.0,9.0,\n"
    with (store.folder / "steps.csv").open(newline="") as file:
        assert file.read() == header + rows + OTHER_ROWS
    store.write(MAIN, "eggs", EMPTY, TWO.tag)
    with (store.folder / "steps.csv").open(newline="") as file:
        assert file.read() == header + OTHER_ROWS


@given(st.lists(st.tuples(NAMES, TIMES, TIMES), max_size=5), NAMES, NAMES)
def test_any_steps_read_back(steps: list[tuple[str, float, float]], name: str, task: str) -> None:
    ordered = annotation(*((a, min(s, e), max(s, e)) for a, s, e in steps), task=task).in_order()
    text = replace_video_rows(b"", ordered.to_video(name))
    again = replace_video_rows(text.encode("utf-8"), Video(name, task, ()))
    assert again == "video,task,step,start_s,end_s\n"


def test_a_video_is_in_steps_csv_when_its_task_is_known(store: AnnotationStore) -> None:
    unnamed = annotation(("crack", 1, 2), task="")
    store.write(MAIN, "eggs", unnamed, EMPTY.tag)
    assert not (store.folder / "steps.csv").exists()
    assert store.read(MAIN, "eggs") == unnamed
    store.write(MAIN, "eggs", ONE, unnamed.tag)
    assert "eggs,make eggs,crack,1.0,4.5" in (store.folder / "steps.csv").read_text()


def test_rows_that_somebody_changed_count(store: AnnotationStore) -> None:
    store.write(MAIN, "eggs", ONE, EMPTY.tag)
    path = store.folder / "steps.csv"
    path.write_text(path.read_text().replace("4.5", "6.5"))
    assert store.read(MAIN, "eggs") == annotation(("crack", 1, 6.5))
    with pytest.raises(ChangedError):
        store.write(MAIN, "eggs", TWO, ONE.tag)
    path.unlink()
    assert store.read(MAIN, "eggs") == ONE  # there is nothing that could count in its place


def test_what_cannot_be_used_is_said_and_stays(store: AnnotationStore) -> None:
    path = store.folder / "steps.csv"
    path.write_text("video,task,step,start_s,end_s\neggs,make eggs,crack,,\n")
    with pytest.raises(DatasetError, match=r"have no times in steps\.csv"):
        store.write(MAIN, "eggs", ONE, EMPTY.tag)
    path.write_text("name,other\n")
    with pytest.raises(DatasetError, match=r"steps\.csv: no column video, task"):
        store.write(MAIN, "eggs", ONE, EMPTY.tag)
    assert path.read_text() == "name,other\n"
    path.unlink()
    store.write(MAIN, "eggs", ONE, EMPTY.tag)
    (store.folder / "annotations" / MAIN / "repot.json").write_text('{"steps": [{"step": "dig"}]}')
    found = store.read_all(MAIN, ["eggs", "repot"])
    assert found["eggs"] == ONE
    assert "main/repot.json: `steps[0].start_s` is missing" in str(found["repot"])


def test_a_folder_without_videos_is_refused(tmp_path: Path) -> None:
    with pytest.raises(DatasetError, match="has no videos"):
        AnnotationStore(tmp_path)


WRITE = """
import sys
from pathlib import Path
from p3iv.data.annotations import AnnotatedStep, Annotation, AnnotationStore
store = AnnotationStore(Path(sys.argv[1]))
current = store.read("main", "eggs")
while True:
    number = len(current.steps)
    step = AnnotatedStep(step=f"step {number}", start_s=number, end_s=number + 1)
    current = store.write("main", "eggs", Annotation(task="make eggs", steps=(*current.steps, step)), current.tag)
    print(len(current.steps), flush=True)
"""


def test_a_killed_process_loses_nothing_that_it_has_confirmed(store: AnnotationStore) -> None:
    confirmed = 0
    for last in (3, 17, 40):
        with subprocess.Popen([sys.executable, "-c", WRITE, store.folder], stdout=subprocess.PIPE, text=True) as other:
            assert other.stdout is not None
            while confirmed < last:
                confirmed = int(other.stdout.readline())
            other.kill()
            confirmed = max([confirmed, *map(int, other.stdout.read().split())])
        stored = store.read(MAIN, "eggs")
        assert confirmed <= len(stored.steps) <= confirmed + 1
        assert [step.step for step in stored.steps] == [f"step {number}" for number in range(len(stored.steps))]
        confirmed = len(stored.steps)
    last_change = annotation(("crack", 0, 1))
    store.write(MAIN, "eggs", last_change, store.read(MAIN, "eggs").tag)
    files = [path for path in store.folder.rglob("*") if path.is_file() and path.suffix != ".mp4"]
    assert {path.name for path in files} == {"steps.csv", "eggs.json"}  # nothing is left of the killed ones
