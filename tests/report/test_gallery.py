from __future__ import annotations

import base64
import io
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image

from clips import number_of, write_clip
from p3iv.report.gallery import Candidate, FrameSource, choose_cases, read_frame

facts = st.tuples(st.floats(0, 1), st.booleans(), st.integers(0, 3), st.integers(0, 5))


def candidates(found: list[tuple[float, bool, int, int]]) -> list[Candidate]:
    return [
        Candidate(offset, p, right, f"t{task}", f"v{video}") for offset, (p, right, task, video) in enumerate(found)
    ]


@given(st.lists(facts, max_size=60).map(candidates), st.integers(0, 12))
def test_the_requested_number_of_cases_is_chosen_with_both_kinds_if_possible(
    found: list[Candidate], number: int
) -> None:
    chosen = choose_cases(found, number)
    assert len(set(chosen)) == len(chosen) == min(number, len(found))
    if number >= 2:
        assert {case.is_right for case in chosen} == {case.is_right for case in found}
    if all(sum(case.is_right is kind for case in found) >= number for kind in (True, False)):
        assert sum(case.is_right for case in chosen) == (number + 1) // 2


@given(st.lists(facts, min_size=1, max_size=60).map(candidates), st.integers(1, 12))
def test_right_plans_come_first_and_each_kind_is_sorted_by_confidence(found: list[Candidate], number: int) -> None:
    chosen = choose_cases(found, number)
    assert chosen == sorted(chosen, key=lambda case: (not case.is_right, -case.probability, case.offset))
    assert chosen == choose_cases(list(reversed(found)), number)


def test_the_most_and_the_least_confident_plans_are_near_the_ends() -> None:
    found = candidates([(number / 1000, False, number % 4, number % 6) for number in range(1000)])
    probabilities = [case.probability for case in choose_cases(found, 4)]
    assert probabilities[0] > 0.85
    assert probabilities[-1] < 0.15
    assert len({case.task for case in choose_cases(found, 4)}) == 4


@pytest.fixture
def dataset(tmp_path: Path) -> Path:
    (tmp_path / "data" / "videos").mkdir(parents=True)
    write_clip(tmp_path / "data" / "videos" / "clip.mp4", range(0, 4000, 100))
    (tmp_path / "data" / "videos" / "broken.mp4").write_bytes(b"no video")
    (tmp_path / "secret.mp4").write_bytes((tmp_path / "data" / "videos" / "clip.mp4").read_bytes())
    return tmp_path / "data"


def test_the_picture_is_the_frame_of_its_moment(dataset: Path) -> None:
    address = FrameSource(dataset).data_uri("clip", 2.35)
    assert address is not None
    image = Image.open(io.BytesIO(base64.b64decode(address.removeprefix("data:image/jpeg;base64,"))))
    assert number_of(np.asarray(image.convert("RGB"))) == 23


def test_pictures_are_turned_as_they_were_filmed(tmp_path: Path) -> None:
    write_clip(tmp_path / "turned.mp4", [0, 100], rotation=90)
    picture = read_frame(tmp_path / "turned.mp4", 0)
    assert picture is not None
    assert Image.open(io.BytesIO(picture)).size == (32, 128)


def test_a_broken_video_loses_only_its_own_picture(dataset: Path) -> None:
    frames = FrameSource(dataset)
    assert frames.data_uri("broken", 1.0) is None
    assert frames.data_uri("clip", 1.0) is not None
    assert frames.data_uri("clip", None) is None
    assert (frames.num_read, frames.num_broken) == (1, 1)


@pytest.mark.parametrize("video", ["../../secret", "../secret", "/etc/hostname", ""])
def test_an_id_cannot_lead_out_of_the_folder(dataset: Path, video: str) -> None:
    frames = FrameSource(dataset)
    assert frames.data_uri(video, 1.0) is None
    assert frames.num_broken == 0


def test_without_videos_there_is_a_reason(tmp_path: Path) -> None:
    assert "--data" in str(FrameSource(None).why_empty)
    assert "--data" in str(FrameSource(tmp_path / "gone").why_empty)
    assert FrameSource(tmp_path).why_empty == "the dataset folder has no videos"
