"""Annotation files become dataset folders and come out of them again."""

from __future__ import annotations

import json
from fractions import Fraction
from pathlib import Path
from tempfile import TemporaryDirectory
from xml.etree import ElementTree

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from clips import write_clip
from p3iv import export_annotations, import_annotations
from p3iv.data.annotation_files import VideoFolder
from p3iv.data.folder import open_dataset
from p3iv.errors import ConfigError, DatasetError, SourceError
from p3iv.readers.files import UnusableError
from p3iv.readers.folder import read_folder
from p3iv.readers.steps import write_steps
from p3iv.readers.tools.registry import WRITERS
from p3iv.readers.tools.spans import VideoFacts
from p3iv.types import UNFIT, Action, Annotations, Step, Video, Vocabulary
from soak.annotation_examples import CHAPTERS, EXAMPLES

LENGTH_S, FPS = 6, 25


@pytest.fixture(scope="module")
def videos(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A video of six seconds with 25 frames per second, and a file that is no video."""
    folder = tmp_path_factory.mktemp("videos")
    write_clip(folder / "kitchen.mp4", range(0, 1000 * LENGTH_S, 1000 // FPS))
    (folder / "broken.mp4").write_bytes(b"no video")
    return folder


@pytest.fixture
def labels(tmp_path: Path) -> Path:
    path = tmp_path / "labels.json"
    path.write_text(EXAMPLES["ls/kitchen.json"][0])
    return path


def test_frames_are_counted_by_the_video(labels: Path, videos: Path, tmp_path: Path) -> None:
    report = import_annotations(labels, tmp_path / "tea", videos=videos, task="make tea")
    assert (report.num_videos, report.num_steps, report.num_tasks, report.problems) == (1, 2, 1, ())
    assert report.notes[0] == "labels.json: Label Studio, 1 video; frames at 25 per second, from kitchen.mp4"
    dataset = open_dataset(tmp_path / "tea")
    assert [(step.start_s, step.end_s) for step in dataset.videos[0].steps] == [(1.0, 3.0), (4.0, 6.0)]
    assert dataset.card.name == "tea"
    assert (tmp_path / "tea" / "videos" / "kitchen.mp4").is_file()


def test_the_rate_and_length_of_a_video_file(videos: Path) -> None:
    files = VideoFolder(videos)
    facts = files.find(["kitchen"])
    assert facts is not None
    assert facts == VideoFacts("kitchen.mp4", Fraction(FPS), Fraction(LENGTH_S))
    assert files.find(["nothing"]) is None
    assert files.find(["1a2b3c4d-kitchen", "kitchen"]) is facts
    with pytest.raises(UnusableError, match=r"broken.mp4"):
        files.find(["broken"])


def test_a_video_that_cannot_be_read_does_not_hide_the_remedy(videos: Path, tmp_path: Path) -> None:
    path = tmp_path / "labels.json"
    path.write_text(EXAMPLES["ls/kitchen.json"][0].replace("1a2b3c4d-kitchen.mp4", "broken.mp4"))
    with pytest.raises(SourceError, match=r"broken.mp4"):
        import_annotations(path, tmp_path / "tea", videos=videos, task="tea")
    report = import_annotations(path, tmp_path / "tea", videos=videos, task="tea", fps=25)
    assert report.num_steps == 2


def test_the_last_chapter_ends_with_the_video(videos: Path, tmp_path: Path) -> None:
    (tmp_path / "kitchen.txt").write_text(CHAPTERS)
    import_annotations(tmp_path / "kitchen.txt", tmp_path / "tea", videos=videos, task="tea")
    last = open_dataset(tmp_path / "tea").videos[0].steps[-1]
    assert last == Step("pour water", 4.0, float(LENGTH_S))


def test_a_dry_run_writes_nothing(labels: Path, videos: Path, tmp_path: Path) -> None:
    report = import_annotations(labels, tmp_path / "tea", videos=videos, task="tea", dry_run=True)
    assert not (tmp_path / "tea").exists()
    assert report.first_rows == (
        ("kitchen", "tea", "boil water", 1.0, 3.0),
        ("kitchen", "tea", "pour water", 4.0, 6.0),
    )
    assert import_annotations(labels, tmp_path / "tea", videos=videos, task="tea").first_rows == ()


def test_guarantees_of_every_import(labels: Path, videos: Path, tmp_path: Path) -> None:
    bad = tmp_path / "bad.json"
    bad.write_text("{}")
    with pytest.raises(SourceError, match=r"--strict: 1 problem, so nothing was written"):
        import_annotations([labels, bad], tmp_path / "tea", videos=videos, task="tea", strict=True)
    import_annotations([labels, bad], tmp_path / "tea", videos=videos, task="tea")
    with pytest.raises(DatasetError, match="pass --overwrite"):
        import_annotations(labels, tmp_path / "tea", videos=videos, task="tea")
    (tmp_path / "tea" / "labels.json").write_bytes(labels.read_bytes())
    with pytest.raises(DatasetError, match="would be replaced"):
        import_annotations([labels, tmp_path / "tea" / "labels.json"], tmp_path / "tea", task="tea", overwrite=True)
    with pytest.raises(SourceError, match="is not a folder"):
        import_annotations(labels, tmp_path / "other", videos=tmp_path / "nothing", task="tea")
    for wrong in ({"fps": 0.0}, {"fps": 1e9}, {"level": 3}):
        with pytest.raises(ConfigError, match="must be"):
            import_annotations(labels, tmp_path / "other", task="tea", **wrong)
    with pytest.raises(ConfigError, match="No annotation file"):
        import_annotations([], tmp_path / "other")
    assert not (tmp_path / "other").exists()


NAMES = st.text(st.characters(codec="utf-8", exclude_categories=("Cs", "Cc")), min_size=1, max_size=12).filter(
    lambda name: name.strip() == name and not UNFIT.search(name) and "\ufffe" not in name and "\uffff" not in name
)
IDS = st.text("abcXYZ019 _-.%&#é水", min_size=1, max_size=10).filter(
    lambda name: name.strip() == name and not name.startswith(".")
)
TIMES = st.integers(0, 90_000_000).map(lambda tenths: tenths / 10_000)
SPANS = st.tuples(TIMES, TIMES).map(sorted)


@st.composite
def datasets(draw: st.DrawFn) -> Annotations:
    steps = draw(st.lists(NAMES, min_size=1, max_size=4, unique=True))
    videos = []
    for name in draw(st.lists(IDS, min_size=1, max_size=3, unique_by=str.casefold)):
        spans = sorted(draw(st.lists(SPANS, min_size=1, max_size=5)))
        found = tuple(Step(draw(st.sampled_from(steps)), start, end) for start, end in spans)
        videos.append(Video(name, draw(NAMES), found))
    return Annotations("x", tuple(videos), Vocabulary(tuple(Action(step, step) for step in sorted(steps))))


# Frames are rounded, and a step gets at least one of them.
TOLERANCE_S = {"label-studio": 1.5 / FPS, "elan": 0.0011, "webvtt": 0.0006, "via": 0.0, "csv": 0.0}


@pytest.mark.parametrize("form", WRITERS)
@given(annotations=datasets())
@settings(deadline=None, max_examples=25)
def test_what_is_exported_is_imported_the_same(form: str, annotations: Annotations) -> None:
    with TemporaryDirectory() as place:
        folder = Path(place)
        (folder / "data").mkdir()
        write_steps(folder / "data" / "steps.csv", annotations)
        export = export_annotations(folder / "data", folder / "out", format=form, fps=FPS)
        assert (export.problems, export.num_videos) == ((), len(annotations.videos))
        import_annotations(folder / "out", folder / "again", cues_are_steps=True)
        again = {video.id: video for video in read_folder(folder / "again").videos}
    assert set(again) == {video.id for video in annotations.videos}
    for video in annotations.videos:
        assert again[video.id].task == video.task
        assert_same_steps(again[video.id], video, TOLERANCE_S[form])


def assert_same_steps(found: Video, expected: Video, tolerance_s: float) -> None:
    """Of every step, the same starts and ends within a tolerance; rounding may swap steps that start together."""
    assert sorted(step.action for step in found.steps) == sorted(step.action for step in expected.steps)
    for name in {step.action for step in expected.steps}:
        assert times_of(found, name) == pytest.approx(times_of(expected, name), abs=tolerance_s + 1e-9)


def times_of(video: Video, action: str) -> list[float]:
    """All starts of an action, then all its ends, each in order."""
    steps = [step for step in video.steps if step.action == action]
    starts, ends = [step.start_s or 0.0 for step in steps], [step.end_s or 0.0 for step in steps]
    return sorted(starts) + sorted(ends)


def test_files_as_the_tools_expect_them(tmp_path: Path, videos: Path) -> None:
    (tmp_path / "kitchen.srt").write_text(EXAMPLES["kitchen.srt"][0])
    data = tmp_path / "tea"
    import_annotations(tmp_path / "kitchen.srt", data, videos=videos, task="tea", cues_are_steps=True)

    export_annotations(data, tmp_path / "ls.json", format="label-studio")  # the rate is that of the video
    (task,) = json.loads((tmp_path / "ls.json").read_text())
    assert task["data"] == {"video": "/data/local-files/?d=kitchen.mp4", "task": "tea", "fps": 25.0}
    assert task["annotations"][0]["result"][0]["value"] == {
        "ranges": [{"start": 26, "end": 75}],
        "timelinelabels": ["boil water"],
    }

    export_annotations(data, tmp_path / "elan", format="elan")
    root = ElementTree.parse(tmp_path / "elan" / "kitchen.eaf").getroot()  # noqa: S314 - our own file
    assert [slot.get("TIME_VALUE") for slot in root.iter("TIME_SLOT")] == ["1000", "3000", "4000", "6000"]

    export_annotations(data, tmp_path / "vtt", format="webvtt")
    assert "00:00:04.000 --> 00:00:06.000\npour water" in (tmp_path / "vtt" / "kitchen.vtt").read_text()


def test_videos_that_cannot_be_exported_are_listed(tmp_path: Path) -> None:
    rows = ["a,tea,stir,1,2", "b,tea,stir,,", "c/d,tea,stir,1,2"]
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "steps.csv").write_text("\n".join(["video,task,step,start_s,end_s", *rows]) + "\n")
    export = export_annotations(tmp_path / "data", tmp_path / "out", format="via")
    assert (export.num_videos, export.num_steps) == (1, 1)
    assert [problem.what for problem in export.problems] == ["its steps have no times", "its id cannot be a file name"]
    assert export_annotations(tmp_path / "data", tmp_path / "out.csv", format="csv").num_videos == 3
    with pytest.raises(DatasetError, match=r"video a: Label Studio counts frames, and .*pass --fps N"):
        export_annotations(tmp_path / "data", tmp_path / "ls.json", format="label-studio")


def test_an_export_replaces_nothing_by_accident(tmp_path: Path) -> None:
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "steps.csv").write_text("video,task,step,start_s,end_s\na,tea,stir,1,2\n")
    for form, out in (("via", "out.json"), ("elan", "out")):
        export_annotations(tmp_path / "data", tmp_path / out, format=form)
        with pytest.raises(DatasetError, match="pass --overwrite"):
            export_annotations(tmp_path / "data", tmp_path / out, format=form)
        export_annotations(tmp_path / "data", tmp_path / out, format=form, overwrite=True)
    with pytest.raises(DatasetError, match=r"has other files, such as steps.csv"):
        export_annotations(tmp_path / "data", tmp_path / "data", format="elan", overwrite=True)
    with pytest.raises(DatasetError, match="is a folder; name a file"):
        export_annotations(tmp_path / "data", tmp_path / "data", format="via", overwrite=True)
    with pytest.raises(DatasetError, match="is a file; name a folder"):
        export_annotations(tmp_path / "data", tmp_path / "out.json", format="webvtt", overwrite=True)
    with pytest.raises(ConfigError, match="must be one of label-studio, elan, via, webvtt, csv"):
        export_annotations(tmp_path / "data", tmp_path / "x", format="xml")
