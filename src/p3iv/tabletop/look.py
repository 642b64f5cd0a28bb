"""The random look of one video: where things are, camera, light, colours, table and wall.

The other camera is that of `--shift-test`: nearer and tilted, with the colours and the lamplight of another room. The
ranges of its view, light, noise and blur do not overlap with the usual ones.
"""

from __future__ import annotations

import colorsys
import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from p3iv.tabletop.art.brush import RGB, Point
from p3iv.tabletop.art.clutter import CLUTTER
from p3iv.tabletop.world import RandomStream

FRAME = 160  # width and height in pixels; a table unit is one pixel if the camera is not rotated or scaled
NUM_SEATS = 8


@dataclass(frozen=True)
class Paint:
    """The range of colours of one kind of thing, in hue (modulo 1), saturation and value."""

    hue: tuple[float, float] = (0.0, 1.0)
    saturation: tuple[float, float] = (0.2, 0.75)
    value: tuple[float, float] = (0.45, 0.95)

    def draw(self, rng: np.random.Generator) -> RGB:
        hue, saturation, value = (float(rng.uniform(*span)) for span in (self.hue, self.saturation, self.value))
        r, g, b = (round(255 * channel) for channel in colorsys.hsv_to_rgb(hue % 1.0, saturation, value))
        return r, g, b


_ANY = Paint()
_PALE = Paint(saturation=(0.02, 0.3), value=(0.82, 0.98))
_WOOD = Paint((0.05, 0.11), (0.3, 0.62), (0.3, 0.85))
_VIVID = Paint(saturation=(0.55, 0.9), value=(0.5, 0.9))

PAINTS: dict[str, Paint] = {
    "mug": _ANY,
    "kettle": Paint(saturation=(0.0, 0.7), value=(0.4, 0.95)),
    "tea": Paint(saturation=(0.35, 0.8), value=(0.4, 0.85)),
    "label": _PALE,
    "lid": Paint(saturation=(0.1, 0.8), value=(0.25, 0.75)),
    "milk": _VIVID,
    "sugar": _ANY,
    "plate": Paint(saturation=(0.02, 0.45), value=(0.72, 0.98)),
    "dish": Paint(saturation=(0.05, 0.5), value=(0.6, 0.95)),
    "toaster": Paint(saturation=(0.0, 0.6), value=(0.5, 0.92)),
    "cloth": _VIVID,
    "bowl": _ANY,
    "pepper": Paint((0.05, 0.1), (0.3, 0.5), (0.12, 0.25)),
    "stove": Paint(saturation=(0.0, 0.3), value=(0.5, 0.92)),
    "pan": Paint(saturation=(0.0, 0.5), value=(0.25, 0.6)),
    "carton": Paint(saturation=(0.05, 0.35), value=(0.5, 0.85)),
    "shell": Paint((0.05, 0.12), (0.05, 0.4), (0.8, 0.98)),
    "blender": Paint(saturation=(0.0, 0.7), value=(0.3, 0.9)),
    "leaf": Paint((0.24, 0.4), (0.45, 0.75), (0.5, 0.8)),
    "pot": Paint(saturation=(0.2, 0.7), value=(0.4, 0.9)),
    "bag": _VIVID,
    "can": Paint(saturation=(0.1, 0.75), value=(0.45, 0.9)),
    "card": Paint(saturation=(0.0, 0.2), value=(0.9, 1.0)),
    "envelope": Paint(saturation=(0.08, 0.4), value=(0.75, 0.97)),
    "stamp": _VIVID,
    "ribbon": _VIVID,
    "pen": _VIVID,
    "handle": Paint(saturation=(0.1, 0.7), value=(0.2, 0.6)),
    "sleeve": Paint(saturation=(0.05, 0.7), value=(0.2, 0.9)),
    "clutter1": _ANY,
    "clutter2": _ANY,
    "table": Paint(saturation=(0.03, 0.4), value=(0.35, 0.92)),
    "wall": Paint(saturation=(0.02, 0.35), value=(0.35, 0.95)),
    "decoration": _ANY,
}
_SKINS: tuple[RGB, ...] = (
    (250, 212, 184),
    (236, 188, 152),
    (214, 162, 120),
    (176, 120, 82),
    (130, 84, 58),
    (96, 62, 44),
)
_NATURAL = frozenset({"skin", "leaf", "shell", "pepper"})  # what has the same colour in every room


@dataclass(frozen=True)
class Place:
    """A position on the table, and the scale of things there: near things look larger."""

    x: float
    y: float
    scale: float

    def at(self, offset: Point) -> Point:
        """The point at `offset` from the foot of a thing in this place."""
        return self.x + self.scale * offset[0], self.y + self.scale * offset[1]


@dataclass(frozen=True)
class View:
    """The camera: maps table units to pixels of a canvas that has a margin on every side."""

    scale: float
    angle: float  # degrees
    shift: Point
    mirrored: bool
    margin: int = 8

    def pixel(self, x: float, y: float) -> Point:
        c, s = math.cos(math.radians(self.angle)) * self.scale, math.sin(math.radians(self.angle)) * self.scale
        dx, dy = x - FRAME / 2, y - FRAME / 2
        middle = FRAME / 2 + self.margin
        across, down = middle + self.shift[0] + c * dx - s * dy, middle + self.shift[1] + s * dx + c * dy
        return 2 * middle - 1 - across if self.mirrored else across, down


@dataclass(frozen=True)
class Light:
    """Brightness and colour of the light, how it changes over the picture and time, and where shadows fall."""

    gain: tuple[float, float, float]
    vignette: float
    slope: float
    slope_angle: float
    shadow: Point
    flicker: float  # amplitude, in grey levels
    flicker_rate: float  # Hz


@dataclass(frozen=True)
class Look:
    """Everything that can differ between two videos of the same steps."""

    paint: dict[str, RGB]
    seats: tuple[Place, ...]  # by Thing.seat; the last one is for clutter
    clutter: tuple[tuple[str, Place], ...]
    table: str
    wall: str
    horizon: float
    view: View
    light: Light
    shoulder: Point  # where the right arm comes from
    left_handed_from: float  # the left hand acts on things to the right of this x
    drift: tuple[float, float, float, float]  # amplitude in pixels, rate in Hz, two phases
    noise: float  # standard deviation, in grey levels
    blur: int  # weight of each neighbouring pixel, in 1/256
    texture_seed: int


TABLES = ("planks", "grain", "checks", "tiles", "speckle", "stripes")
WALLS = ("plain", "tiles", "stripes", "panel", "window", "shelf")


def make_look(seed: Sequence[int], *, other_camera: bool = False) -> Look:
    """Draw the look of the video with this seed; things have the same places before either camera."""
    rng = np.random.default_rng([*seed, RandomStream.LOOK])
    paint = {name: paint.draw(rng) for name, paint in PAINTS.items()}
    if rng.random() < 0.5:  # half of all tables are wooden
        paint["table"] = _WOOD.draw(rng)
    paint["skin"] = _SKINS[int(rng.integers(len(_SKINS)))]
    seats = _seats(rng)
    around = math.radians(rng.uniform(8, 72))
    look = Look(
        paint=paint,
        seats=seats,
        clutter=_clutter(rng, seats[NUM_SEATS - 1]),
        table=str(rng.choice(TABLES)),
        wall=str(rng.choice(WALLS)),
        horizon=float(rng.uniform(34, 50)),
        view=_view(rng),
        light=_light(rng),
        shoulder=(80 + 270 * math.sin(around), 80 + 270 * math.cos(around)),
        left_handed_from=float(rng.uniform(75, 125)),
        drift=_drift(rng),
        noise=float(rng.uniform(0.8, 2.2)),
        blur=int(rng.integers(8, 44)),
        texture_seed=int(rng.integers(2**31)),
    )
    return _from_other_camera(look, rng) if other_camera else look


def _from_other_camera(look: Look, rng: np.random.Generator) -> Look:
    shift = (_jitter(rng, 3), -6.0)
    return replace(
        look,
        paint={name: color if name in _NATURAL else _in_other_room(color) for name, color in look.paint.items()},
        view=View(float(rng.uniform(1.06, 1.12)), float(rng.uniform(8, 12)), shift, look.view.mirrored),
        light=_lamplight(rng, look.light),
        noise=float(rng.uniform(2.6, 3.4)),
        blur=int(rng.integers(56, 76)),
    )


def _in_other_room(color: RGB) -> RGB:
    """The colour of the thing that has this one in the usual room: another hue, darker and more vivid."""
    hue, saturation, value = colorsys.rgb_to_hsv(*(channel / 255 for channel in color))
    turned = colorsys.hsv_to_rgb((hue + 1 / 3) % 1.0, min(1.0, 0.15 + 1.2 * saturation), 0.85 * value)
    r, g, b = (round(255 * channel) for channel in turned)
    return r, g, b


def _lamplight(rng: np.random.Generator, usual: Light) -> Light:
    """Yellow, from one side, dark at the edges of the picture."""
    brightness = float(rng.uniform(1.0, 1.1))
    return replace(
        usual,
        gain=(1.12 * brightness, 0.88 * brightness, 0.58 * brightness),
        vignette=float(rng.uniform(0.32, 0.44)),
        slope=float(rng.uniform(0.24, 0.32)),
        slope_angle=float(rng.uniform(-0.5, 0.5)),
    )


def _view(rng: np.random.Generator) -> View:
    shift = (_jitter(rng, 3), _jitter(rng, 4))
    return View(float(rng.uniform(0.93, 1.04)), float(rng.uniform(-4, 4)), shift, mirrored=bool(rng.random() < 0.5))


def _drift(rng: np.random.Generator) -> tuple[float, float, float, float]:
    size, rate, one, other = (float(v) for v in rng.uniform((0.6, 0.04, 0, 0), (2.2, 0.09, 6.28, 6.28)))
    return size, rate, one, other


def _jitter(rng: np.random.Generator, size: float) -> float:
    return float(rng.uniform(-size, size))


def _seats(rng: np.random.Generator) -> tuple[Place, ...]:
    """The places on the table, two rows of four, in random order."""
    stagger = _jitter(rng, 3)
    rows = ((84.0, 0.97, -stagger), (141.0, 1.08, stagger))
    places = [
        Place(26.5 + 35.7 * column + push + _jitter(rng, 2), y + _jitter(rng, 4), size)
        for y, size, push in rows
        for column in range(4)
    ]
    return tuple(places[i] for i in rng.permutation(NUM_SEATS))


def _clutter(rng: np.random.Generator, free: Place) -> tuple[tuple[str, Place], ...]:
    """Place three to six unused things: on the free seat, along the back edge and in the near corners."""
    names = [str(name) for name in rng.choice(list(CLUTTER), size=int(rng.integers(3, 7)), replace=False)]
    back = [Place(14 + 26 * i + _jitter(rng, 7), 55 + _jitter(rng, 4), 0.72) for i in rng.permutation(6)]
    near = [Place(-2.0, 160.0, 1.1), Place(163.0, 161.0, 1.1), Place(80 + _jitter(rng, 30), 172.0, 1.1)]
    spots = [free, near[int(rng.integers(3))], *back]
    return tuple(zip(names, spots, strict=False))


def _light(rng: np.random.Generator) -> Light:
    brightness, warmth = float(rng.uniform(0.84, 1.14)), _jitter(rng, 0.13)
    return Light(
        gain=(brightness * (1 + warmth), brightness * (1 + 0.2 * _jitter(rng, 0.2)), brightness * (1 - warmth)),
        vignette=float(rng.uniform(0.0, 0.3)),
        slope=float(rng.uniform(0.0, 0.22)),
        slope_angle=float(rng.uniform(0, 6.28)),
        shadow=(_jitter(rng, 5), float(rng.uniform(-1, 2))),
        flicker=float(rng.uniform(0.5, 4.0)),
        flicker_rate=float(rng.uniform(0.03, 0.3)),
    )
