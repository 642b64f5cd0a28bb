"""Every annotation format: a small file of it gives the right steps, and its traps are refused with a remedy."""

from __future__ import annotations

import json
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest

from p3iv.errors import ConfigError, SourceError
from p3iv.readers.tools.reading import ToolReading, read_tool_files
from p3iv.readers.tools.registry import FORMATS
from p3iv.readers.tools.spans import Clock, ToolOptions, VideoFacts, video_of
from soak.annotation_examples import CLOCK, ELAN, EXAMPLES, OPTIONS, STEPS, VIDAT

FILES = [name for name, (_, form) in EXAMPLES.items() if form]


@pytest.fixture(scope="module")
def examples(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("tools")
    for name, (text, _) in EXAMPLES.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(text.encode())
    return folder


def read(path: Path, *, fps: float | None = 25, length_s: int = 6, **options: Any) -> ToolReading:
    """Read a file with a video at hand, unless `fps` is None."""
    facts = None if fps is None else VideoFacts("kitchen.mp4", Fraction(str(fps)), Fraction(length_s))
    return read_tool_files([path], Clock(replace(OPTIONS, **options), lambda _: facts))


def rows(reading: ToolReading) -> list[tuple[str, float | None, float | None]]:
    (video,) = reading.annotations.videos
    assert video.id == "kitchen"
    return [(step.action, step.start_s, step.end_s) for step in video.steps]


def write(folder: Path, name: str, content: object) -> Path:
    path = folder / name
    path.write_text(content if isinstance(content, str) else json.dumps(content), encoding="utf-8")
    return path


def timeline(*ranges: tuple[object, object], **task: Any) -> list[Any]:
    """A Label Studio export of one task."""
    values = [{"ranges": [{"start": start, "end": end}], "timelinelabels": ["stir"]} for start, end in ranges]
    results = [{"type": "timelinelabels", "value": value} for value in values]
    return [{"data": {"video": "kitchen.mp4"} | task, "annotations": [{"result": results}]}]


def test_every_format_has_an_example() -> None:
    assert {form for _, form in EXAMPLES.values() if form} == set(FORMATS)


@pytest.mark.parametrize("name", FILES)
def test_an_example_is_recognised_and_its_times_are_right(examples: Path, name: str) -> None:
    reading = read_tool_files([examples / name], CLOCK)
    form = EXAMPLES[name][1]
    found = [row for row in rows(reading) if row[0] in ("boil water", "pour water")]
    assert found == list(STEPS)
    assert len(found) == len(rows(reading)) - (2 if form == "chapters" else 0)
    assert reading.annotations.problems == ()
    assert reading.notes[0].startswith(f"{Path(name).name}: {FORMATS[form].title}, 1 video; ")
    forced = read_tool_files([examples / name], CLOCK, format_name=form)
    assert forced == reading


def test_a_folder_stands_for_the_files_in_it(examples: Path, tmp_path: Path) -> None:
    assert rows(read(examples / "mstcn")) == list(STEPS)
    assert rows(read(examples / "mstcn" / "groundTruth")) == list(STEPS)
    reading = read(examples / "via")  # two files of one video
    assert rows(reading) == list(STEPS)
    assert "was already read" in str(reading.annotations.problems[0])
    with pytest.raises(SourceError, match="has no annotation file"):
        read(write(tmp_path, "notes.md", "").parent)


@pytest.mark.parametrize(
    ("fps", "in_file", "at_hand", "said"),
    [
        (None, None, 25, "frames at 25 per second, from kitchen.mp4"),
        (None, None, "30000/1001", "frames at 29.97 per second, from kitchen.mp4"),
        (24, None, 25, "frames at 24 per second, from --fps"),
        (24, 10, None, "frames at 24 per second, from --fps"),
        (None, 10, 25, "frames at 10 per second, from the file"),
        (50, None, None, "frames at 50 per second, from --fps"),
    ],
)
def test_how_frames_are_counted(
    tmp_path: Path, fps: int | None, in_file: int | None, at_hand: int | str | None, said: str
) -> None:
    task = {} if in_file is None else {"fps": in_file}
    path = write(tmp_path, "labels.json", timeline((26, 75), **task))
    facts = None if at_hand is None else VideoFacts("kitchen.mp4", Fraction(at_hand), Fraction(60))
    options = replace(OPTIONS, fps=None if fps is None else Fraction(fps))
    reading = read_tool_files([path], Clock(options, lambda _: facts))
    assert said in reading.notes[0]
    rate = Fraction(fps or in_file or at_hand or 0)
    assert rows(reading) == [("stir", float(25 / rate), float(75 / rate))]


@pytest.mark.parametrize("name", ["ls/kitchen.json", "cvat/kitchen.xml", "mstcn/groundTruth/kitchen.txt"])
def test_frames_without_a_rate_are_one_clear_error(examples: Path, name: str) -> None:
    with pytest.raises(SourceError, match=r"pass --videos FOLDER, where the video is, or --fps N"):
        read(examples / name, fps=None)


@pytest.mark.parametrize("name", ["ls/kitchen.json", "cvat/kitchen.xml", "mstcn/groundTruth/kitchen.txt"])
def test_frames_beyond_the_end_of_the_video_are_refused(examples: Path, name: str) -> None:
    with pytest.raises(SourceError, match=r"frame 150 is 6.0 s at 25 per second, but kitchen.mp4 ends at 3.0 s"):
        read(examples / name, length_s=3)


@pytest.mark.parametrize(
    ("start", "end", "said"),
    [
        (0, 9, "counts frames from 1: are these seconds"),
        (1.5, 9, "the start is 1.5, expected a frame"),
        (5, 4, "before the start"),
        (True, 4, "the start is true"),
        ("x", 4, "the start is 'x'"),
        (1, 10**12, "the end is 1000000000000"),
    ],
)
def test_ranges_that_are_no_frames(tmp_path: Path, start: object, end: object, said: str) -> None:
    reading = read(write(tmp_path, "labels.json", timeline((1, 5), (start, end))))
    assert rows(reading) == [("stir", 0.0, 0.2)]
    assert said in str(reading.annotations.problems[0])
    assert "labels.json: task 1, result 2" in str(reading.annotations.problems[0])


def test_label_studio_names_of_videos(tmp_path: Path) -> None:
    def video_of(url: str) -> tuple[str, tuple[str, ...]]:
        content = timeline((1, 5))
        content[0]["data"] = {"film": url, "task": "tea"}
        (video,) = read(write(tmp_path, "labels.json", content)).annotations.videos
        return video.id, video.aliases

    assert video_of("/data/upload/1/0f0f0f0f-my%20film.mp4") == ("my film", ("0f0f0f0f-my film",))
    assert video_of("https://x.org/0f0f0f0f-film.webm?token=a") == ("0f0f0f0f-film", ())
    assert video_of("/data/local-files/?d=a/b/film.MOV") == ("film", ())
    assert video_of(r"C:\films\film.avi") == ("film", ())
    assert video_of("s3://bucket/a/film.v2.mkv") == ("film.v2", ())


def test_label_studio_of_texts_and_of_several_annotators(tmp_path: Path) -> None:
    words = {"type": "labels", "value": {"start": 204443, "end": 205641, "labels": ["Recipe"]}}
    text = [{"data": {"text": "Boil the water."}, "annotations": [{"result": [words]}]}]
    with pytest.raises(SourceError, match="data names no video or audio file"):
        read(write(tmp_path, "text.json", text))
    several = timeline((1, 5))
    several[0]["annotations"] += timeline((7, 9))[0]["annotations"]
    reading = read(write(tmp_path, "labels.json", several))
    assert rows(reading) == [("stir", 0.0, 0.2)]
    assert "2 annotations of one video, expected one; the first one is used" in str(reading.annotations.problems[0])


@pytest.mark.parametrize("name", ["kitchen.en.vtt", "kitchen.srt", "whisper/kitchen.json"])
def test_speech_is_refused_with_the_remedy(examples: Path, name: str) -> None:
    with pytest.raises(SourceError, match="pass --cues-are-steps"):
        read(examples / name, cues_are_steps=False)


def test_rolling_captions_are_merged(tmp_path: Path) -> None:
    cues = [
        "00:00:00.000 --> 00:00:02.000\n \nboil<00:00:00.500><c> the</c><00:00:01.000><c> water</c>",
        "00:00:02.000 --> 00:00:02.010\nboil the water\n ",
        "00:00:02.010 --> 00:00:05.000\nboil the water\nnow<00:00:03.000><c> pour it</c>",
    ]
    text = "\n\n".join(["WEBVTT", *cues])
    found = rows(read(write(tmp_path, "kitchen.vtt", text)))
    assert found == [("boil the water", 0.0, 2.01), ("now pour it", 2.01, 5.0)]


@pytest.mark.parametrize(("start", "mark"), [("WEBVTT\n\n", "."), ("1\n", ",")])
def test_cues_without_an_empty_line_between_them(tmp_path: Path, start: str, mark: str) -> None:
    number = "" if start.startswith("WEBVTT") else "2\n"
    text = f"{start}00:00:01.000 --> 00:00:02.000\nboil water\n{number}00:00:03.000 --> 00:00:04.000\npour water\n"
    name = "kitchen.vtt" if start.startswith("WEBVTT") else "kitchen.srt"
    found = rows(read(write(tmp_path, name, text.replace(".000", f"{mark}000"))))
    assert found == [("boil water", 1.0, 2.0), ("pour water", 3.0, 4.0)]


REPEATED = ("stir", "stir", "stir & taste", "stir")


def test_repeated_steps_are_not_taken_for_rolling_captions(tmp_path: Path) -> None:
    cues = [f"00:0{second}.000 --> 00:0{second + 1}.000\n{step}" for second, step in enumerate(REPEATED)]
    text = "\n\n".join(["WEBVTT", *cues]).replace("&", "&amp;")
    found = rows(read(write(tmp_path, "kitchen.vtt", text)))
    assert [step for step, *_ in found] == list(REPEATED)


def test_the_last_chapter_needs_the_video(examples: Path, tmp_path: Path) -> None:
    with pytest.raises(SourceError, match="its last step ends with the video"):
        read(examples / "kitchen.txt", fps=None)
    bracketed = write(tmp_path, "kitchen.txt", "[0:00] boil\n[1:02:45] pour\n")
    assert rows(read(bracketed, length_s=4000)) == [("boil", 0.0, 3765.0), ("pour", 3765.0, 4000.0)]
    with pytest.raises(SourceError, match=r"but kitchen.mp4 ends at 6.0 s"):
        read(bracketed)


@pytest.mark.parametrize(
    "text",
    [
        '<!DOCTYPE x [<!ENTITY a "b">]><ANNOTATION_DOCUMENT>&a;</ANNOTATION_DOCUMENT>',
        '<!DOCTYPE x SYSTEM "file:///etc/passwd"><ANNOTATION_DOCUMENT/>',
        '<!DOCTYPE x [<!ENTITY % a SYSTEM "http://localhost:9/"> %a;]><annotations><meta/></annotations>',
    ],
)
def test_document_types_and_entities_are_refused(tmp_path: Path, text: str) -> None:
    for form in (None, "elan", "cvat"):
        with pytest.raises(SourceError, match="XML with a document type"):
            read_tool_files([write(tmp_path, "kitchen.eaf", text)], CLOCK, format_name=form)


def test_xml_that_is_nested_deeply(tmp_path: Path) -> None:
    with pytest.raises(SourceError, match="nested more than 50 levels"):
        read(write(tmp_path, "kitchen.eaf", "<a>" * 10_000 + "</a>" * 10_000))


REFERRING = """<TIER TIER_ID="detail" PARENT_REF="actions">
 <ANNOTATION><REF_ANNOTATION ANNOTATION_ID="a3" ANNOTATION_REF="a2"><ANNOTATION_VALUE>slowly</ANNOTATION_VALUE>
 </REF_ANNOTATION></ANNOTATION>
 <ANNOTATION><ALIGNABLE_ANNOTATION ANNOTATION_ID="a4" TIME_SLOT_REF1="ts4" TIME_SLOT_REF2="ts5">
 <ANNOTATION_VALUE>later</ANNOTATION_VALUE></ALIGNABLE_ANNOTATION></ANNOTATION>
 <ANNOTATION><REF_ANNOTATION ANNOTATION_ID="a5" ANNOTATION_REF="a5"><ANNOTATION_VALUE>x</ANNOTATION_VALUE>
 </REF_ANNOTATION></ANNOTATION></TIER><LINGUISTIC_TYPE"""


def test_tiers_of_elan(tmp_path: Path) -> None:
    path = write(tmp_path, "kitchen.eaf", ELAN.replace("<LINGUISTIC_TYPE", REFERRING, 1))
    with pytest.raises(SourceError, match=r"2 tiers with times \(actions, detail\), expected --tier NAME"):
        read(path)
    with pytest.raises(SourceError, match="no tier 'empty' with times"):
        read(path, tier="empty")
    assert rows(read(path, tier="actions")) == list(STEPS)
    reading = read(path, tier="detail")
    assert rows(reading) == [("slowly", 4.0, 6.0)]
    said = " ".join(map(str, reading.annotations.problems))
    assert "its time slots have no times" in said
    assert "refer to one another" in said


def test_attributes_of_via(examples: Path, tmp_path: Path) -> None:
    project = json.loads((examples / "via" / "kitchen.json").read_text())
    project["metadata"]["1_1"]["av"]["2"] = "cup"
    path = write(tmp_path, "project.json", project)
    with pytest.raises(SourceError, match=r"2 attributes with times \(step, object\), expected --tier NAME"):
        read(path)
    assert rows(read(path, tier="object")) == [("cup", 4.0, 6.0)]
    project["metadata"]["1_0"]["av"] = {"1": "1,0"}  # check boxes
    project["metadata"]["1_1"]["av"] = {"1": "drink, if you like"}  # a text
    steps = [step for step, *_ in rows(read(write(tmp_path, "project.json", project)))]
    assert steps == ["pour water", "boil water", "drink, if you like"]


def test_a_via_project_without_segments(examples: Path, tmp_path: Path) -> None:
    project = json.loads((examples / "via" / "kitchen.json").read_text())
    project["metadata"] = {}
    with pytest.raises(SourceError, match="no temporal segment in it"):
        read(write(tmp_path, "project.json", project))


def test_cvat_of_images_and_of_projects(examples: Path, tmp_path: Path) -> None:
    text = (examples / "cvat" / "kitchen.xml").read_text()
    two = write(tmp_path, "two.xml", text.replace("</meta>", "<task/></meta>"))
    with pytest.raises(SourceError, match="export one task at a time"):
        read(two)
    with pytest.raises(SourceError, match="no track, but images; export it as CVAT for video"):
        read(write(tmp_path, "images.xml", '<annotations><meta/><image id="0"/></annotations>'))
    again = text.replace('outside="1"', 'outside="1" z_order="0"').replace(
        '<track id="1"', '<track id="2" label="stir"><box frame="1" outside="1"/></track><track id="1"'
    )
    assert "it is never visible" in str(read(write(tmp_path, "never.xml", again)).annotations.problems[0])


def test_cvat_counts_the_frames_of_the_video(tmp_path: Path) -> None:
    """As CVAT exports a task with start_frame=10 and step=3: its frames 0, 1, 2 are written as 10, 13, 16."""
    meta = "<start_frame>10</start_frame><stop_frame>19</stop_frame><frame_filter>step=3</frame_filter>"
    points = '<points label="hand" outside="{}"/><points label="elbow" outside="1"/>'
    tracks = (
        '<track label="boil water"><box frame="10" outside="0"/><box frame="13" outside="1"/></track>'
        '<track label="pour water"><box frame="13" outside="0"/><box frame="16" outside="0"/></track>'
        f'<track label="wave"><skeleton frame="10">{points.format(0)}</skeleton>'
        f'<skeleton frame="16">{points.format(1)}</skeleton></track>'
    )
    text = f"<annotations><meta><task>{meta}<source>kitchen.mp4</source></task></meta>{tracks}</annotations>"
    found = rows(read(write(tmp_path, "job.xml", text), fps=10))
    assert found == [("boil water", 1.0, 1.3), ("wave", 1.0, 1.6), ("pour water", 1.3, 1.9)]


def test_vidat_without_actions_or_names(tmp_path: Path) -> None:
    empty: Any = json.loads(json.dumps(VIDAT))
    empty["annotation"]["actionAnnotationList"] = []
    with pytest.raises(SourceError, match="its list of actions is empty"):
        read(write(tmp_path, "kitchen.json", empty))
    unnamed: Any = json.loads(json.dumps(VIDAT))
    unnamed["config"]["actionLabelData"].pop()
    reading = read(write(tmp_path, "kitchen.json", unnamed))
    assert rows(reading) == [STEPS[0]]
    assert "its action is 4, expected an id" in str(reading.annotations.problems[0])


def test_levels_of_goalstep(examples: Path, tmp_path: Path) -> None:
    substeps = rows(read(examples / "goalstep" / "kitchen.json", level=2))
    assert substeps == [("begin to boil water", 1.0, 2.0), ("begin to pour water", 4.0, 5.0)]
    test_file = {"videos": [{"video_uid": "a", "step_segments": [{"step_description": "stir", "segment_count": 1}]}]}
    with pytest.raises(SourceError, match="steps without times"):
        read(write(tmp_path, "goalstep_test.json", test_file))


def test_further_facts_are_kept_beside_the_steps(examples: Path) -> None:
    def extra_of(name: str) -> dict[str, str]:
        (video,) = read(examples / name).annotations.videos
        return dict(video.steps[0].extra)

    assert extra_of("goalstep/kitchen.json")["goal"] == "Makes tea"
    assert extra_of("epic/kitchen.csv") == {"narration": "boil the water"}
    assert extra_of("captaincook/kitchen.json") == {"has_errors": "0"}


def test_labels_that_the_mapping_lacks(tmp_path: Path) -> None:
    (tmp_path / "groundTruth").mkdir()
    write(tmp_path, "mapping.txt", "0 stir\n1 pour\n")
    write(tmp_path / "groundTruth", "kitchen.txt", "0\n0\n1\n")  # numbers stand for names
    write(tmp_path / "groundTruth", "other.txt", "stir\nfry\n")
    reading = read(tmp_path, fps=1)
    assert rows(reading) == [("stir", 0.0, 2.0), ("pour", 2.0, 3.0)]
    assert "labels that mapping.txt does not have: 'fry'" in str(reading.annotations.problems[0])


def test_a_missing_task_is_one_problem_of_the_file(tmp_path: Path) -> None:
    videos = {f"v{number}": {"annotations": [{"segment": [0, 1], "label": "stir"}]} for number in range(9)}
    with pytest.raises(SourceError) as error:
        read(write(tmp_path, "all.json", videos), task=None)
    assert str(error.value).count("pass --task NAME") == 1
    assert "9 videos left out: v0, v1, v2 and 6 more" in str(error.value)


def test_one_bad_file_does_not_stop_the_others(examples: Path, tmp_path: Path) -> None:
    files = [write(tmp_path, "bad.json", "{"), write(tmp_path, "other.json", [1]), tmp_path / "gone.json"]
    reading = read_tool_files([*files, examples / "kitchen.srt"], CLOCK)
    assert rows(reading) == list(STEPS)
    said = [str(problem) for problem in reading.annotations.problems]
    assert [text.partition(":")[0] for text in said] == ["bad.json", "other.json", "gone.json"]
    assert "not a format that is known; if it is one of label-studio, via" in said[1]


def test_an_unknown_format_is_named() -> None:
    with pytest.raises(ConfigError, match=r"Did you mean elan\?"):
        read_tool_files([Path("x")], Clock(ToolOptions(), lambda _: None), format_name="elam")


def test_a_video_has_no_ending_even_if_its_file_has_two() -> None:
    assert [video_of(name) for name in ("a.mp4", "a.MP4.mp4", "a.b.mkv", ".mp4", "a.txt")] == [
        "a",
        "a",
        "a.b",
        ".mp4",
        "a.txt",
    ]
