"""Single pictures of the tabletop: the table at rest, and a step in progress."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

from p3iv.tabletop.art.brush import Pixels
from p3iv.tabletop.look import make_look
from p3iv.tabletop.render import Camera, Scene
from p3iv.tabletop.stage import Stage
from p3iv.tabletop.tasks import Facts
from p3iv.tabletop.world import Execution


def draw_state(facts: Facts, *, seed: Sequence[int], noise: bool = False, other_camera: bool = False) -> Pixels:
    """The table at rest, as in the video with this seed."""
    stage = cached_stage(tuple(seed), other_camera=other_camera)
    picture = Scene(stage, Execution("", (), (facts,)), ()).draw(0.0, stage.middle)
    return Camera(stage.look, seed).expose(picture, 0.0) if noise else picture


def draw_moment(before: Facts, step: str, after: Facts, phase: float, *, seed: Sequence[int]) -> Pixels:
    """A step in progress, without noise; `phase` runs from 0 to 1."""
    stage = cached_stage(tuple(seed))
    scene = Scene(stage, Execution("", (step,), (before, after)), ((0.0, 1.0),))
    return scene.draw(min(phase, 0.999), stage.middle)


@lru_cache(maxsize=2)
def cached_stage(seed: tuple[int, ...], *, other_camera: bool = False) -> Stage:
    """A stage that keeps its drawings for the next picture of the same look."""
    return Stage(make_look(seed, other_camera=other_camera))
