"""Executions of the tabletop world as video: frames of 160 x 160 pixels, ten a second."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from p3iv.tabletop.acting import GESTURES, Act, Shot
from p3iv.tabletop.art.brush import Pixels, Point
from p3iv.tabletop.look import FRAME, Look, make_look
from p3iv.tabletop.motion import MOTIONS
from p3iv.tabletop.stage import HEADROOM, Layer, Stage, Things
from p3iv.tabletop.tasks import Facts
from p3iv.tabletop.things import things_in
from p3iv.tabletop.world import FRAMES_PER_SECOND, Execution

_NOISE = 4  # what the random generator is for, beside those of the script, the features and the look
_NOISE_ROOM = 96  # pixels that the noise tile is larger than a frame


def render_frames(
    execution: Execution, times: Sequence[tuple[float, float]], length_s: float, *, seed: Sequence[int]
) -> Iterator[Pixels]:
    """Yield the video's frames, each (160, 160, 3).

    Args:
        execution: The steps and the tables between them.
        times: (start_s, end_s) of every step, in order; between them the table rests.
        length_s: How long the video is.
        seed: Tells this video from all others; the same seed gives the same pixels.
    """
    look = make_look(seed)
    film, camera = _Film(Stage(look), execution, times), _Camera(look, seed)
    for index in range(round(length_s * FRAMES_PER_SECOND)):
        yield camera.expose(
            film.shoot(index / FRAMES_PER_SECOND, camera.corner(index / FRAMES_PER_SECOND)), index / FRAMES_PER_SECOND
        )


def draw_state(facts: Facts, *, seed: Sequence[int], noise: bool = False) -> Pixels:
    """A picture of the table at rest, as the video with this seed shows it; noise-free unless asked for."""
    stage = _kept_stage(tuple(seed))
    picture = _Film(stage, Execution("", (), (facts,)), ()).shoot(0.0, stage.middle)
    return _Camera(stage.look, seed).expose(picture, 0.0) if noise else picture


def draw_moment(before: Facts, step: str, after: Facts, phase: float, *, seed: Sequence[int]) -> Pixels:
    """A noise-free picture of a step under way; `phase` runs from 0 to 1."""
    stage = _kept_stage(tuple(seed))
    film = _Film(stage, Execution("", (step,), (before, after)), ((0.0, 1.0),))
    return film.shoot(min(phase, 0.999), stage.middle)


@lru_cache(maxsize=2)
def _kept_stage(seed: tuple[int, ...]) -> Stage:
    """Single pictures of one look in a row need not draw the same things again."""
    return Stage(make_look(seed))


@dataclass(frozen=True)
class _Effect:
    """Something that moves by itself, from a point of a thing for which a state holds."""

    thing: str
    state: str
    prop: str
    at: Point


_EFFECTS = (
    _Effect("stove", "on", "flames", (0, -13)),
    _Effect("kettle", "hot", "steam", (-20, -33)),
)


class _Film:
    """What the camera looks at, at any time."""

    def __init__(self, stage: Stage, execution: Execution, times: Sequence[tuple[float, float]]) -> None:
        self._stage = stage
        self._tables = [things_in(facts) for facts in execution.states]
        self._times = list(times)
        self._acts = [
            _act(self._stage, step, before, after)
            for step, before, after in zip(execution.steps, self._tables, self._tables[1:], strict=False)
        ]

    def shoot(self, time_s: float, corner: Point) -> Pixels:
        """The clean picture at a time, from this corner of the stage's canvas on; corners lie at half pixels."""
        number = sum(end <= time_s for _, end in self._times)
        if number < len(self._times) and self._times[number][0] <= time_s:
            start, end = self._times[number]
            act = self._acts[number]
            shot = MOTIONS[act.gesture.kind](act, (time_s - start) / (end - start))
            tables, remains = (act.before, act.between, act.after), act.gesture.between
        else:
            shot, tables, remains = Shot(), (self._tables[number],) * 3, None
        canvas = self._ground(tables, shot, remains, corner)
        effects = self._effects(tables[2] if shot.arrived > 0.5 else tables[0], shot.lifted, time_s)
        for overlay in (*effects, *shot.overlays):
            self._stage.draw(canvas, overlay, corner)
        return canvas

    def _ground(self, tables: tuple[Things, ...], shot: Shot, remains: Facts | None, corner: Point) -> Pixels:
        """The resting things, faded from one table to the next."""
        changing = shot.arrived > 0
        first, second = tables[1:] if changing else tables[:2]
        if shot.lifted:
            first, second = (_without(table, shot.lifted, remains) for table in (first, second))
        share = shot.arrived if changing else shot.left
        half = (round(2 * corner[0]) % 2, round(2 * corner[1]) % 2)
        x, y = int(corner[0]), int(corner[1])
        window = (slice(y, y + FRAME), slice(x, x + FRAME))
        if share in (0.0, 1.0):
            return self._stage.picture(second if share else first, half)[window].copy()
        return _fade(self._stage.picture(first, half)[window], self._stage.picture(second, half)[window], share)

    def _effects(self, things: Things, lifted: str, time_s: float) -> Iterator[Layer]:
        for effect in _EFFECTS:
            if effect.state not in things.get(effect.thing, ()) or effect.thing == lifted:
                continue
            place = self._stage.place(effect.thing, things)
            x, y = place.at(effect.at)
            if effect.prop == "flames":
                yield Layer("flames", x, y, frozenset({str(int(time_s * 5) % 3)}), place.scale)
                continue
            for puff in range(4):  # each rises for 1.6 s, the next one 0.4 s behind
                age = (time_s / 1.6 + puff / 4) % 1.0
                drift = 2.5 * math.sin(5 * age + puff) + 5 * age
                yield Layer("steam", x + drift, y - 22 * age, frozenset({str(int(age * 6))}), place.scale)


class _Camera:
    """Shakes a little, and adds the noise and the flicker of a real picture."""

    def __init__(self, look: Look, seed: Sequence[int]) -> None:
        self._look = look
        self._rng = np.random.default_rng([*seed, _NOISE])
        side = FRAME + _NOISE_ROOM
        limit = HEADROOM - math.ceil(look.light.flicker)
        noise = np.rint(self._rng.normal(0.0, look.noise, (side, side, 3))).clip(-limit, limit)
        self._noise = noise.astype(np.int8).view(np.uint8)

    def corner(self, time_s: float) -> Point:
        """Where the frame begins on the stage's canvas, in half pixels."""
        size, rate, one, other = self._look.drift
        turn = 2 * math.pi * rate * time_s
        x = size * (math.sin(turn + one) + 0.4 * math.sin(2.7 * turn + other))
        y = size * (math.cos(1.3 * turn + other) + 0.4 * math.sin(3.1 * turn + one))
        margin = self._look.view.margin
        return margin + round(2 * x) / 2, margin + round(2 * y) / 2

    def expose(self, picture: Pixels, time_s: float) -> Pixels:
        """The picture as it is recorded; call it once per frame, in order."""
        light = self._look.light
        offset = round(light.flicker * math.sin(2 * math.pi * light.flicker_rate * time_s))
        x, y = (int(v) for v in self._rng.integers(0, _NOISE_ROOM, 2))
        # bytes wrap round, so a negative offset is a large one; HEADROOM keeps the sums within a byte
        recorded = picture + self._noise[y : y + FRAME, x : x + FRAME]
        recorded += np.uint8(offset % 256)
        return recorded


def _act(stage: Stage, step: str, before: Things, after: Things) -> Act:
    """The step's gesture, with the table as it is while the item is in the air."""
    gesture = GESTURES[step]
    between = dict(before)
    if gesture.between is not None:
        between[gesture.source] = gesture.between
    elif gesture.source and gesture.source != gesture.target:
        between.pop(gesture.source)
        if gesture.source in after:
            between[gesture.source] = after[gesture.source]
    elif gesture.item and gesture.item == gesture.source:  # a thing that changes its place
        between.pop(gesture.item)
    return Act(stage, gesture, before, between, after)


def _without(things: Things, lifted: str, remains: Facts | None) -> Things:
    """The table while a hand holds one of its things, or the part of it that comes off."""
    left = {name: has for name, has in things.items() if name != lifted}
    return left if remains is None else {**left, lifted: remains}


def _fade(one: Pixels, other: Pixels, share: float) -> Pixels:
    """A mixture of two pictures that differ in a small part."""
    out = one.copy()
    rows = np.flatnonzero((one != other).any(axis=(1, 2)))
    if not rows.size:
        return out
    band = slice(int(rows[0]), int(rows[-1]) + 1)
    weight = np.uint16(round(256 * share))
    mixed: NDArray[np.uint16] = one[band] * (np.uint16(256) - weight) + other[band] * weight
    out[band] = mixed >> 8
    return out
