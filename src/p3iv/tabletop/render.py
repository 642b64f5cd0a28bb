"""Render tabletop videos, 160 x 160 pixels at ten frames per second, and a contact sheet of their procedures."""

from __future__ import annotations

import math
import textwrap
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import count

import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageDraw, ImageFont

from p3iv.tabletop.acting import GESTURES, Act, Shot
from p3iv.tabletop.art.brush import Pixels, Point
from p3iv.tabletop.look import FRAME, Look, View, make_look
from p3iv.tabletop.motion import MOTIONS
from p3iv.tabletop.stage import HEADROOM, Layer, Stage, Things
from p3iv.tabletop.tasks import Facts
from p3iv.tabletop.things import things_in
from p3iv.tabletop.world import FRAMES_PER_SECOND, Execution, RandomStream, Script, write_script

_NOISE_MARGIN = 96  # pixels by which the noise tile is larger than a frame

_CLOSE = 1.75  # enlargement of a picture from near
_MIDDLE = 20.0  # about half the height of a thing

# the contact sheet: sizes in pixels, colours, procedures
_CELL, _GAP, _CAPTION, _TITLE = 190, 10, 40, 30
_INK, _FAINT, _PAPER = (40, 40, 44), (120, 120, 126), (255, 255, 255)
_SHEET_PROCEDURES = ("make coffee", "make a sandwich", "repot a plant", "send a card")
_SHEET_PHASE = 0.58  # of a step: the hand is acting


def render_frames(
    execution: Execution,
    times: Sequence[tuple[float, float]],
    length_s: float,
    *,
    seed: Sequence[int],
    other_camera: bool = False,
) -> Iterator[Pixels]:
    """Yield the frames of a video, each (160, 160, 3).

    Args:
        execution: The steps and the tables between them.
        times: (start_s, end_s) of every step, in order; nothing moves between them.
        length_s: Length of the video.
        seed: Seed of the look and the noise; the same seed gives the same pixels.
        other_camera: Whether it is filmed by the camera of `--shift-test`.
    """
    look = make_look(seed, other_camera=other_camera)
    scene, camera = Scene(Stage(look), execution, times), Camera(look, seed)
    for index in range(round(length_s * FRAMES_PER_SECOND)):
        time_s = index / FRAMES_PER_SECOND
        yield camera.expose(scene.draw(time_s, camera.corner(time_s)), time_s)


@dataclass(frozen=True)
class _Effect:
    """Something that moves by itself, at a point of a thing in a certain state."""

    thing: str
    state: str
    prop: str
    at: Point


_EFFECTS = (
    _Effect("stove", "on", "flames", (0, -13)),
    _Effect("kettle", "hot", "steam", (-20, -33)),
)


class Scene:
    """The scene in front of the camera, at any time of the video."""

    def __init__(self, stage: Stage, execution: Execution, times: Sequence[tuple[float, float]]) -> None:
        self._stage = stage
        self._tables = [things_in(facts) for facts in execution.states]
        self._times = list(times)
        self._acts = [
            _act(self._stage, step, before, after)
            for step, before, after in zip(execution.steps, self._tables, self._tables[1:], strict=False)
        ]

    def draw(self, time_s: float, corner: Point) -> Pixels:
        """The picture at a time, without noise; `corner` is where the frame begins on the stage's canvas."""
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

    def focus(self, number: int, phase: float) -> Point:
        """The point of the table to look at during a step: between what is held and what it is for."""
        act = self._acts[number]
        gesture = act.gesture
        target = act.place(gesture.target or gesture.source)
        points = [(target.x, target.y - _MIDDLE)]
        for overlay in MOTIONS[gesture.kind](act, phase).overlays:
            if isinstance(overlay, Layer) and overlay.name == gesture.item:
                points.append((overlay.x, overlay.y - _MIDDLE))
        x, y = (sum(values) / len(points) for values in zip(*points, strict=True))
        return x, y

    def _ground(self, tables: tuple[Things, ...], shot: Shot, remains: Facts | None, corner: Point) -> Pixels:
        """The things on the table, faded from one state of the table to the next."""
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
            for puff in range(4):  # each rises for 1.6 s, 0.4 s after the one before
                age = (time_s / 1.6 + puff / 4) % 1.0
                drift = 2.5 * math.sin(5 * age + puff) + 5 * age
                yield Layer("steam", x + drift, y - 22 * age, frozenset({str(int(age * 6))}), place.scale)


def draw_close_up(execution: Execution, number: int, look: Look, *, phase: float = 0.6) -> Pixels:
    """A step from near, (160, 160, 3), without clutter and noise.

    Args:
        execution: The steps and the tables between them.
        number: Which of its steps.
        look: Everything but the camera.
        phase: How much of the step is done, from 0 to 1.
    """
    times = [(float(place), place + 1.0) for place in range(len(execution.steps))]
    tidy = replace(look, clutter=())
    nearest = FRAME / 2 / _CLOSE  # to the edge of the table
    x, y = (
        min(max(value, nearest), FRAME - nearest) for value in Scene(Stage(tidy), execution, times).focus(number, phase)
    )
    shift = (_CLOSE * (FRAME / 2 - x), _CLOSE * (FRAME / 2 - y))
    stage = Stage(replace(tidy, view=View(_CLOSE, 0.0, shift, mirrored=False)))
    return Scene(stage, execution, times).draw(number + phase, stage.middle)


class Camera:
    """A camera that shakes a little and adds noise and flicker."""

    def __init__(self, look: Look, seed: Sequence[int]) -> None:
        self._look = look
        self._rng = np.random.default_rng([*seed, RandomStream.CAMERA])
        side = FRAME + _NOISE_MARGIN
        limit = HEADROOM - math.ceil(look.light.flicker)
        noise = np.rint(self._rng.normal(0.0, look.noise, (side, side, 3))).clip(-limit, limit)
        self._noise = noise.astype(np.int8).view(np.uint8)

    def corner(self, time_s: float) -> Point:
        """Position of the frame on the stage's canvas, rounded to half a pixel."""
        size, rate, one, other = self._look.drift
        turn = 2 * math.pi * rate * time_s
        x = size * (math.sin(turn + one) + 0.4 * math.sin(2.7 * turn + other))
        y = size * (math.cos(1.3 * turn + other) + 0.4 * math.sin(3.1 * turn + one))
        margin = self._look.view.margin
        return margin + round(2 * x) / 2, margin + round(2 * y) / 2

    def expose(self, picture: Pixels, time_s: float) -> Pixels:
        """Add noise and flicker; call it once per frame, in order."""
        light = self._look.light
        offset = round(light.flicker * math.sin(2 * math.pi * light.flicker_rate * time_s))
        x, y = (int(v) for v in self._rng.integers(0, _NOISE_MARGIN, 2))
        # unsigned bytes wrap around, which adds negative numbers; HEADROOM keeps the true sums within a byte
        recorded = picture + self._noise[y : y + FRAME, x : x + FRAME]
        recorded += np.uint8(offset % 256)
        return recorded


def _act(stage: Stage, step: str, before: Things, after: Things) -> Act:
    """The step's gesture, with the table while the item is in the air."""
    gesture = GESTURES[step]
    between = dict(before)
    if gesture.between is not None:
        between[gesture.source] = gesture.between
    elif gesture.source and gesture.source != gesture.target:
        between.pop(gesture.source)
        if gesture.source in after:
            between[gesture.source] = after[gesture.source]
    elif gesture.item and gesture.item == gesture.source:  # a thing that moves to another place
        between.pop(gesture.item)
    return Act(stage, gesture, before, between, after)


def _without(things: Things, lifted: str, remains: Facts | None) -> Things:
    """The table while a hand holds one of its things; `remains` is the part that stays."""
    left = {name: has for name, has in things.items() if name != lifted}
    return left if remains is None else {**left, lifted: remains}


def _fade(one: Pixels, other: Pixels, share: float) -> Pixels:
    """Blend two pictures that differ in a small part."""
    out = one.copy()
    rows = np.flatnonzero((one != other).any(axis=(1, 2)))
    if not rows.size:
        return out
    band = slice(int(rows[0]), int(rows[-1]) + 1)
    weight = np.uint16(round(256 * share))
    mixed: NDArray[np.uint16] = one[band] * (np.uint16(256) - weight) + other[band] * weight
    out[band] = mixed >> 8
    return out


def contact_sheet(*, seed: int = 0, procedures: Sequence[str] = _SHEET_PROCEDURES, columns: int = 7) -> Image.Image:
    """Draw an overview with one row per procedure, from its first video in the dataset with this seed.

    A row shows the table before the first step, some of the steps in order, and the table after the last step.
    """
    row = _TITLE + _CELL + _CAPTION
    size = (columns * (_CELL + _GAP) + _GAP, len(procedures) * row + _GAP)
    page = Image.new("RGB", size, _PAPER)
    for number, procedure in enumerate(procedures):
        scripts = (write_script(seed, index) for index in count())
        script = next(script for script in scripts if script.execution.procedure == procedure)
        _draw_row(page, script, columns, _GAP + number * row)
    return page


def _draw_row(page: Image.Image, script: Script, columns: int, top: int) -> None:
    pen = ImageDraw.Draw(page)
    pen.text((_GAP, top), script.execution.procedure, _INK, font=ImageFont.load_default(19))
    moments = _moments(script, columns)
    for column, (picture, (_, caption)) in enumerate(zip(_pictures(script, moments), moments, strict=True)):
        x, y = _GAP + column * (_CELL + _GAP), top + _TITLE
        page.paste(Image.fromarray(picture).resize((_CELL, _CELL), Image.Resampling.LANCZOS), (x, y))
        faint = column in (0, columns - 1)
        text = "\n".join(textwrap.wrap(caption, 28))
        pen.multiline_text(
            (x, y + _CELL + 3), text, _FAINT if faint else _INK, font=ImageFont.load_default(13), spacing=2
        )


def _moments(script: Script, columns: int) -> list[tuple[float, str]]:
    """Times in seconds, with captions."""
    steps = script.execution.steps
    chosen = [round(i * (len(steps) - 1) / (columns - 3)) for i in range(columns - 2)]
    acting = [(start + _SHEET_PHASE * (end - start), steps[i]) for i in chosen for start, end in [script.times[i]]]
    return [(0.0, "before"), *acting, (script.length_s - 1 / FRAMES_PER_SECOND, "after")]


def _pictures(script: Script, moments: Sequence[tuple[float, str]]) -> list[Pixels]:
    """The video frames nearest to the moments."""
    wanted = [round(time_s * FRAMES_PER_SECOND) for time_s, _ in moments]
    frames = render_frames(script.execution, script.times, script.length_s, seed=script.seed)
    kept = {number: frame for number, frame in enumerate(frames) if number in set(wanted)}
    return [kept[number] for number in wanted]
