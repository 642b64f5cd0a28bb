"""Steps that are found and named as they are marked in other videos."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from p3iv.plans.step_finder import (
    MarkedStep,
    MarkedVideo,
    PartFinder,
    PartNamer,
    can_learn,
    videos_like,
)
from p3iv.types import Array

WIDTH = 40
LOOKS = dict(zip(("pause", "chop", "stir", "pour"), np.random.default_rng(0).normal(size=(4, WIDTH)), strict=True))


def film(steps: list[tuple[str, int]], seed: int, pause: int = 1, task: str = "soup") -> MarkedVideo:
    """A video with a pause before every step and at its end; a step is a look that moves while it lasts."""
    random = np.random.default_rng(seed)
    rows, marked = [LOOKS["pause"]] * pause, []
    for name, seconds in steps:
        marked.append(MarkedStep(name, float(len(rows)), float(len(rows) + seconds)))
        rows += [(LOOKS[name.split()[0]] + random.normal(size=WIDTH) / 2) for _ in range(seconds)]
        rows += [LOOKS["pause"]] * pause
    return MarkedVideo(task, tuple(marked), np.stack(rows) + random.normal(size=(len(rows), WIDTH)) / 20)


MARKED = [
    film([("chop", 4), ("stir", 3), ("pour", 5)], 1),
    film([("chop", 3), ("pour", 4), ("stir", 4)], 2),
]
NEW = film([("pour", 4), ("chop", 3), ("stir", 5), ("pour", 3)], 3)


def spans(video: MarkedVideo) -> list[tuple[int, int]]:
    return [(int(step.start_s), int(step.end_s)) for step in video.steps]


@pytest.mark.parametrize("scale", [1e-3, 1.0, 1e3])
def test_steps_are_found_and_named_at_any_scale(scale: float) -> None:
    marked = [replace(video, rows=scale * video.rows) for video in MARKED]
    parts = PartFinder(marked)(scale * NEW.rows)
    assert parts == spans(NEW)
    names = PartNamer(marked)(scale * NEW.rows, parts)
    assert [name and name[0] for name in names] == ["pour", "chop", "stir", "pour"]
    assert all(0.7 <= name[1] <= 1 for name in names if name)


def test_steps_without_pauses_are_told_apart_by_their_beginnings() -> None:
    marked = [film([("chop", 4), ("stir", 4), ("pour", 4)] * 3, seed, pause=0) for seed in range(4)]
    new = film([("stir", 4), ("pour", 5), ("chop", 3), ("stir", 4)], 9, pause=0)
    assert PartFinder(marked)(new.rows) == spans(new)


def test_what_comes_after_the_last_marked_step_is_not_taken_for_a_pause() -> None:
    """A video that is marked in its first half only teaches the same as that half."""

    def cut(video: MarkedVideo, extra: Array) -> MarkedVideo:
        end = int(video.steps[-1].end_s) + 2
        return replace(video, rows=np.concatenate([np.pad(video.rows, ((0, 2), (0, 0)), mode="edge")[:end], extra]))

    parts = [
        PartFinder([cut(video, extra) for video in MARKED])(NEW.rows)
        for extra in (np.empty((0, WIDTH)), np.tile(LOOKS["chop"], (50, 1)))
    ]
    assert parts[0] == parts[1]


def test_the_order_of_steps_tells_those_apart_that_look_alike() -> None:
    order = [("chop one", 3), ("stir", 3), ("chop two", 3)]
    marked, new = [film(order, seed) for seed in range(8)], film(order, 9)
    names = PartNamer(marked)(new.rows, spans(new))
    assert [name and name[0] for name in names] == ["chop one", "stir", "chop two"]


def test_a_name_that_is_a_guess_is_left_out() -> None:
    marked = [film([("chop one", 3)], 1), film([("chop two", 3)], 2), film([("chop three", 3)], 3)]
    new = film([("chop one", 3)], 4)
    assert PartNamer(marked)(new.rows, spans(new)) == [None]


def test_names_come_from_videos_of_the_same_procedure() -> None:
    tea = film([("stir", 3)], 5, task="tea")
    assert videos_like([*MARKED, tea], "tea") == [tea]
    assert videos_like([*MARKED, tea], "cake") == videos_like([*MARKED, tea], "") == []
    assert videos_like(MARKED, "") == MARKED


def test_a_few_steps_must_be_marked() -> None:
    assert can_learn(MARKED)
    assert not can_learn(MARKED[:1])
    assert not can_learn([])
    assert PartNamer(MARKED)(NEW.rows, []) == []
