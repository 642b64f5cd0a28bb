"""Agreement of two annotators, against figures that are computed by hand."""

from __future__ import annotations

from pathlib import Path

import pytest

from p3iv.data.annotations import AnnotatedStep, Annotation, AnnotationStore
from p3iv.metrics.agreement import AnnotatedPair, cohen_kappa, compare_annotators, measure_agreement
from p3iv.types import Step

FIRST = (Step("crack", 0, 4), Step("whisk", 4, 8))
SECOND = (Step("crack", 0, 3), Step("whisk", 5, 8))


def test_seconds_kappa_and_boundaries() -> None:
    found = measure_agreement([AnnotatedPair(FIRST, SECOND, 8)])
    # Seconds: crack x4, whisk x4 against crack x3, none x2, whisk x3; six of eight are the same.
    by_chance = (4 * 3 + 4 * 3) / 64
    assert (found.seconds, found.same_share) == (8, 0.75)
    assert found.kappa == pytest.approx((0.75 - by_chance) / (1 - by_chance))
    # Boundaries 0, 4, 8 against 0, 3, 5, 8: distances 0 1 0 and 0 1 1 0.
    assert found.boundary_s == pytest.approx(3 / 7)


def test_the_same_steps_agree_and_a_single_label_has_no_kappa() -> None:
    same = measure_agreement([AnnotatedPair(FIRST, FIRST, 8)])
    assert (same.same_share, same.kappa, same.boundary_s) == (1.0, 1.0, 0.0)
    assert cohen_kappa(["a"] * 5, ["a"] * 5) is None
    nothing = measure_agreement([])
    assert (nothing.seconds, nothing.same_share, nothing.kappa, nothing.boundary_s) == (0, None, None, None)


def test_kappa_of_labels_that_are_opposite() -> None:
    assert cohen_kappa(["a", "b"], ["b", "a"]) == -1.0


def test_only_videos_that_both_have_annotated_count(tmp_path: Path) -> None:
    (tmp_path / "videos").mkdir()
    for name in ("eggs", "repot", "tea"):
        (tmp_path / "videos" / f"{name}.mp4").touch()
    store = AnnotationStore(tmp_path)

    def write(annotator: str, video: str, end: float) -> None:
        step = AnnotatedStep(step="stir", start_s=0, end_s=end)
        store.write(annotator, video, Annotation(steps=(step,)), Annotation().tag)

    for annotator, video, end in (("main", "eggs", 4), ("anna", "eggs", 2), ("main", "repot", 4), ("anna", "tea", 4)):
        write(annotator, video, end)
    compared = compare_annotators(store, "main", "anna", ["eggs", "repot", "tea"])
    assert list(compared.videos) == ["eggs"]
    assert compared.overall == compared.videos["eggs"]
    assert (compared.overall.seconds, compared.overall.same_share) == (4, 0.5)
    assert compared.overall.boundary_s == pytest.approx((0 + 2 + 0 + 2) / 4)
