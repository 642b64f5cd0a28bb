"""`p3iv data import annotations` and `p3iv data export`, as a user types them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from clips import write_clip
from commands import RunP3iv
from soak.annotation_examples import EXAMPLES


@pytest.fixture
def films(tmp_path: Path) -> Path:
    """A folder with a video of six seconds, and annotation files beside it."""
    (tmp_path / "films").mkdir()
    write_clip(tmp_path / "films" / "kitchen.mp4", range(0, 6000, 40))
    (tmp_path / "labels.json").write_text(EXAMPLES["ls/kitchen.json"][0])
    (tmp_path / "kitchen.srt").write_text(EXAMPLES["kitchen.srt"][0])
    return tmp_path / "films"


def test_annotations_are_imported_and_exported_again(p3iv: RunP3iv, films: Path) -> None:
    done = p3iv("data", "import", "annotations", "labels.json", "tea", "--videos", films, "--task", "make tea")
    note = "note: labels.json: Label Studio, 1 video; frames at 25 per second, from kitchen.mp4"
    made = "note: no --language was given, so embeddings of 2 steps were made by minilm (language.npz)"
    assert done.stderr.splitlines() == [note, made, "next: p3iv data check tea"]
    assert done.stdout == "1 video, 1 task, 2 actions, 2 steps -> tea\n"
    done = p3iv("data", "export", "tea", "subtitles", "--format", "webvtt")
    assert done.stdout == "1 video, 2 steps -> subtitles (1 file)\n"
    words = done.stderr.removeprefix("next: p3iv ").split()
    assert words[:5] == ["data", "import", "annotations", "subtitles", "tea-again"]
    assert p3iv(*words).returncode == 0  # what it says to type next
    for file in ("steps.csv", "videos/kitchen.mp4"):
        assert (films.parent / "tea-again" / file).read_bytes() == (films.parent / "tea" / file).read_bytes()


def test_a_dry_run_shows_the_first_rows(p3iv: RunP3iv, films: Path) -> None:
    words = ("data", "import", "annotations", "labels.json", "tea", "--videos", films, "--task", "tea", "--dry-run")
    lines = p3iv(*words).stdout.splitlines()
    assert lines[0] == "1 video, 1 task, 2 actions, 2 steps"
    assert lines[2].split() == ["kitchen", "tea", "boil", "water", "1.000", "3.000"]
    assert lines[-1] == "nothing was written"
    assert not (films.parent / "tea").exists()
    report = json.loads(p3iv(*words, "--json").stdout)
    assert report["first_rows"][1] == ["kitchen", "tea", "pour water", 4.0, 6.0]


def test_several_files_and_one_that_is_refused(p3iv: RunP3iv, films: Path) -> None:
    words = ("data", "import", "annotations", "kitchen.srt", "labels.json", "tea", "--task", "tea", "--fps", "25")
    done = p3iv(*words)
    assert done.returncode == 0
    assert "problem: kitchen.srt: its cues are what is said, not steps; pass --cues-are-steps" in done.stderr
    assert "frames at 25 per second, from --fps" in done.stderr
    done = p3iv("data", "import", "annotations", "labels.json", "more", "--task", "tea", "--videos", films.parent)
    assert done.returncode == 1
    assert "pass --videos FOLDER, where the video is, or --fps N" in done.stderr


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("coin", "labels.json", "tea", "--fps", "3"), "--fps is for annotations, not for coin."),
        (("coin", "labels.json", "tea", "--dry-run"), "--dry-run is for annotations, not for coin."),
        (("niv", "a", "b", "tea"), "niv takes one SOURCE and a DIR, but got 3 paths."),
        (("annotations", "labels.json", "tea", "--keep-tasks-apart"), "--keep-tasks-apart is for crosstask"),
        (("annotation", "labels.json", "tea"), "Did you mean annotations?"),
        (("annotations", "labels.json", "tea", "--format", "via3"), "Did you mean via?"),
        (("annotations", "labels.json", "tea", "--encoder", "s3d"), "--encoder has no effect without --features"),
    ],
)
def test_options_that_do_not_fit(p3iv: RunP3iv, films: Path, words: tuple[str, ...], said: str) -> None:
    done = p3iv("data", "import", *words)
    assert done.returncode == 1
    assert said in done.stderr
    assert not (films.parent / "tea").exists()
