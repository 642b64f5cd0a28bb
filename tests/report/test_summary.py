"""The report in plain words: a summary, contents, a warning about small tests, and videos that play."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from p3iv.report.summary import in_a_hundred
from p3iv.report.write import write_report
from report.runs import change, make_run, scores


def page_of(run: Path) -> str:
    write_report(run, num_cases=2)
    return (run / "report.html").read_text()


def test_every_link_of_the_contents_leads_to_a_section(tmp_path: Path) -> None:
    page = page_of(make_run(tmp_path / "run"))
    links = re.findall(r'<li><a href="#([^"]+)">', page)
    assert "results" in links
    assert links == re.findall(r'<section id="([^"]+)">', page)


@pytest.mark.parametrize(
    ("low", "high", "words"),
    [(0.1, 0.3, "is better, and that is not chance"), (-0.1, 0.1, "to say which is better"), (-0.3, -0.1, "is worse")],
)
def test_the_comparison_with_the_best_guess_is_that_of_its_interval(
    tmp_path: Path, low: float, high: float, words: str
) -> None:
    run = make_run(tmp_path / "run")
    difference = {name: {"value": (low + high) / 2, "low": low, "high": high} for name in scores(0.1)}
    change(run, differences={"retrieval": difference})
    assert words in page_of(run)


def test_only_a_small_test_is_warned_about(tmp_path: Path) -> None:
    run = make_run(tmp_path / "run", num_windows=120)
    assert "SMALL TEST" in page_of(run)  # 7 videos
    change(run, num_videos=10)
    assert "SMALL TEST" not in page_of(run)


def test_a_window_plays_from_the_file_of_the_dataset(tmp_path: Path) -> None:
    (tmp_path / "my data" / "videos").mkdir(parents=True)
    for number in range(7):
        (tmp_path / "my data" / "videos" / f"video-{number}.mp4").write_bytes(b"not a video")
    page = page_of(make_run(tmp_path / "runs" / "first", dataset=tmp_path / "my data"))
    address = r'<video src="\.\./\.\./my%20data/videos/video-\d\.mp4#t=\d\.50,\d\.00"'
    assert len(re.findall(address, page)) == 2
    assert "<video" not in page_of(make_run(tmp_path / "runs" / "second"))


@pytest.mark.parametrize(
    ("share", "words"),
    [(0, "none"), (0.004, "fewer than 1 of 100"), (0.374, "37 of 100"), (0.999, "more than 99 of 100"), (1, "all")],
)
def test_shares_are_said_as_counts(share: float, words: str) -> None:
    assert in_a_hundred(share) == words
