"""Tabletop videos: every step changes the picture and moves, and the seed determines the pixels."""

from __future__ import annotations

from functools import cache, partial
from itertools import islice, pairwise

import numpy as np
import pytest

from p3iv.tabletop.acting import GESTURES
from p3iv.tabletop.look import make_look
from p3iv.tabletop.motion import MOTIONS
from p3iv.tabletop.render import contact_sheet, render_frames
from p3iv.tabletop.stage import HEADROOM
from p3iv.tabletop.tasks import RULES, Facts
from p3iv.tabletop.things import PROPS, THINGS, things_in
from p3iv.tabletop.world import FRAMES_PER_SECOND, tabletop_world, write_script
from tabletop.pictures import draw_moment, draw_state

VISIBLE = 25  # grey levels: a difference that is easy to see
MIN_PIXELS = 40  # of 25,600


@cache
def examples() -> dict[str, tuple[Facts, Facts]]:
    """For every step, the tables before and after it in some execution."""
    world, rng = tabletop_world(), np.random.default_rng(0)
    found: dict[str, tuple[Facts, Facts]] = {}
    while len(found) < len(RULES):
        execution = world.sample(rng)
        for step, tables in zip(execution.steps, pairwise(execution.states), strict=True):
            found.setdefault(step, tables)
    return found


def changed(one: np.ndarray, other: np.ndarray) -> int:
    """Number of pixels that differ clearly."""
    return int((np.abs(one.astype(int) - other).max(axis=-1) > VISIBLE).sum())


def test_every_step_has_a_gesture_that_can_be_drawn() -> None:
    assert set(GESTURES) == set(RULES)
    for gesture in GESTURES.values():
        assert gesture.kind in MOTIONS
        assert gesture.target in {"", *THINGS}
        assert gesture.source in {"", *THINGS}
        assert gesture.item in {"", *THINGS, *PROPS}


def test_things_on_the_table_together_have_different_seats() -> None:
    world, rng = tabletop_world(), np.random.default_rng(1)
    for _ in range(100):
        for facts in world.sample(rng).states:
            seats = [THINGS[name].seat for name in things_in(facts) if name != "pan"]  # the pan is on the stove
            assert len(seats) == len(set(seats))


@pytest.mark.parametrize(
    ("seed", "other_camera"), [((0, 0), False), ((0, 1), False), ((0, 1), True), ((0, 3), True)]
)  # coffee in a brown mug is hard to see by either camera
def test_every_step_changes_the_picture(seed: tuple[int, int], *, other_camera: bool) -> None:
    draw = partial(draw_state, seed=seed, other_camera=other_camera)
    counts = {step: changed(draw(before), draw(after)) for step, (before, after) in examples().items()}
    assert not {step: count for step, count in counts.items() if count < MIN_PIXELS}


def test_the_other_camera_fills_its_frame_and_its_look_is_never_a_usual_one() -> None:
    facts = write_script(0, 0).execution.states[0]
    for index in range(20):
        usual, other = (make_look((6, index), other_camera=is_other) for is_other in (False, True))
        assert usual == make_look((6, index))
        assert (usual.seats, usual.clutter, usual.texture_seed) == (other.seats, other.clutter, other.texture_seed)
        assert abs(usual.view.angle) < 5 < abs(other.view.angle)
        assert usual.view.scale < 1.05 < other.view.scale
        assert usual.noise < 2.5 < other.noise
        room = draw_state(frozenset(), seed=(6, index), other_camera=True)
        assert (room.max(axis=-1) > HEADROOM).all()  # a pixel that nothing covers is black
        one, two = (draw_state(facts, seed=(6, index), other_camera=is_other) for is_other in (False, True))
        assert np.abs(one.astype(int) - two).mean() > 20


def test_every_step_moves_in_most_of_its_frames() -> None:
    for step, (before, after) in examples().items():
        frames = [draw_moment(before, step, after, u, seed=(2, 0)) for u in np.linspace(0, 1, 21)]  # as of 2 s
        still = sum(changed(one, other) < MIN_PIXELS / 2 for one, other in pairwise(frames))
        assert still <= 6, step


@pytest.mark.parametrize("seed", [(3, 0), (3, 1), (3, 2)])
def test_a_step_begins_and_ends_with_the_table_at_rest(seed: tuple[int, int]) -> None:
    """The frame at the start of a step must not reveal the step."""
    for step, (before, after) in examples().items():
        assert changed(draw_moment(before, step, after, 0.0, seed=seed), draw_state(before, seed=seed)) == 0, step
        if not {"kettle.hot", "stove.on"} & after:  # steam and flames have moved on by then
            assert changed(draw_moment(before, step, after, 1.0, seed=seed), draw_state(after, seed=seed)) == 0, step


def test_the_seed_determines_the_video() -> None:
    script = write_script(0, 0)

    def frames(seed: tuple[int, int]) -> list[np.ndarray]:
        return list(islice(render_frames(script.execution, script.times, script.length_s, seed=seed), 60))

    one, again, other = frames((0, 0)), frames((0, 0)), frames((0, 1))
    assert all(np.array_equal(a, b) for a, b in zip(one, again, strict=True))
    assert min(np.abs(a.astype(int) - b).mean() for a, b in zip(one, other, strict=True)) > 10


def test_noise_does_not_overflow() -> None:
    facts = write_script(0, 1).execution.states[0]
    for index in range(20):
        for other_camera in (False, True):
            draw = partial(draw_state, facts, seed=(4, index), other_camera=other_camera)
            assert np.abs(draw().astype(int) - draw(noise=True)).max() <= HEADROOM


def test_frames_have_the_length_and_shape_of_the_video() -> None:
    script = write_script(0, 2)
    frames = list(render_frames(script.execution, script.times, script.length_s, seed=script.seed))
    assert len(frames) == round(script.length_s * FRAMES_PER_SECOND)
    assert all(frame.shape == (160, 160, 3) and frame.dtype == np.uint8 for frame in frames)


def test_the_contact_sheet_has_a_row_per_procedure() -> None:
    sheet = contact_sheet(procedures=("make tea", "make toast"))
    assert 1300 < sheet.width < 1500
    assert sheet.height > 400
