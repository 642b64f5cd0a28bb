"""Draws the table of one video. Drawings are cached, so a frame is a few pastes over a finished picture."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from p3iv.tabletop.art.brush import RGB, Brush, Pixels, Point, Sprite, mix, tint
from p3iv.tabletop.art.clutter import CLUTTER
from p3iv.tabletop.art.room import ARM, HANDS, draw_room
from p3iv.tabletop.look import FRAME, Look, Place
from p3iv.tabletop.tasks import Facts
from p3iv.tabletop.things import PROPS, THINGS

Things = Mapping[str, Facts]
_RIM_OF_OLD_POT: Point = (0.0, -17.0)
_TOP_OF_STOVE: Point = (0.0, -14.0)
_GLOW = frozenset({"steam", "flames"})  # no outline
HEADROOM = 10  # grey levels kept free at both ends: noise and flicker must not overflow a byte
_SMOOTH = Image.Resampling.BICUBIC
_ANGLES, _ARM_ANGLES = (
    11.0,
    6.0,
)  # angles are rounded to multiples of this many degrees; arms are long, so theirs are finer


@dataclass(frozen=True)
class Layer:
    """An object or a prop drawn over the table: its position, scale and rotation."""

    name: str
    x: float
    y: float
    has: Facts = frozenset()
    scale: float = 1.0
    angle: float = 0.0
    flip: bool = False


@dataclass(frozen=True)
class Stream:
    """Liquid that falls from (x, y)."""

    x: float
    y: float
    length: float
    color: RGB


@dataclass(frozen=True)
class Grains:
    """Small things that fall."""

    points: tuple[Point, ...]
    color: RGB
    size: float


Overlay = Layer | Stream | Grains


class Stage:
    """Draws pictures of the table in one look."""

    def __init__(self, look: Look) -> None:
        self.look = look
        self.size = FRAME + 2 * look.view.margin
        self._sprites: dict[tuple[object, ...], Sprite] = {}
        self._pictures: dict[tuple[object, ...], Pixels] = {}
        self._composed: dict[object, NDArray[np.uint16]] = {}
        self._light = _light_map(look, self.size)
        self._room = self._draw_room()

    @property
    def middle(self) -> Point:
        """The corner of a frame in the middle of the canvas."""
        return float(self.look.view.margin), float(self.look.view.margin)

    def place(self, name: str, things: Things) -> Place:
        """Where a thing is: a pan is on the stove, a potted plant in its pot."""
        seats = self.look.seats
        if name == "pan":
            stove = seats[THINGS["stove"].seat]
            return Place(*stove.at(_TOP_OF_STOVE), stove.scale)
        if name == "plant" and "out" not in things.get("plant", ()):
            pot = seats[THINGS["oldpot"].seat]
            return Place(*pot.at(_RIM_OF_OLD_POT), pot.scale)
        return seats[THINGS[name].seat]

    def picture(self, things: Things, half: tuple[int, int] = (0, 0)) -> Pixels:
        """The table at rest, slightly blurred, shifted left and up by zero or half a pixel. Do not modify it."""
        key = (frozenset(things.items()), half)
        if key not in self._pictures:
            sharp = self._sharp(things)
            blur = self.look.blur
            self._pictures[key] = _soften(_soften(sharp, blur, half[1], 0), blur, half[0], 1).astype(np.uint8)
        return self._pictures[key]

    def _sharp(self, things: Things) -> NDArray[np.uint16]:
        key = frozenset(things.items())
        if key not in self._composed:
            self._composed[key] = self._compose(things)
        return self._composed[key]

    def draw(self, canvas: Pixels, overlay: Overlay, corner: Point) -> None:
        """Draw an overlay on a canvas whose top left corner is at this pixel of the picture."""
        if isinstance(overlay, Grains):
            sprite = self._drop(overlay.color, overlay.size)
            for x, y in overlay.points:
                self._paste(canvas, sprite, (x, y), corner)
        elif isinstance(overlay, Stream):
            sprite = self._stream(overlay.color, max(1, round(overlay.length / 3)))
            self._paste(canvas, sprite, (overlay.x, overlay.y), corner)
        else:
            self._paste(canvas, self._layer(overlay), (overlay.x, overlay.y), corner)

    def _paste(self, canvas: Pixels, sprite: Sprite, point: Point, corner: Point) -> None:
        x, y = self.look.view.pixel(*point)
        sprite.paste(canvas, x - corner[0], y - corner[1])

    def _compose(self, things: Things) -> NDArray[np.uint16]:
        canvas = self._room.copy()
        standing = [(self.place(name, things), name, has) for name, has in things.items()]
        standing += [(place, name, frozenset()) for name, place in self.look.clutter]
        # things in or on another thing are drawn after it, although their foot is higher in the picture
        above = {"pan": 30.0, "plant": 30.0}
        standing.sort(key=lambda entry: (entry[0].y + above.get(entry[1], 0.0), entry[1]))
        for place, name, has in standing:
            self._shadow(canvas, name, place)
            sprite = self._layer(Layer(name, place.x, place.y, has, place.scale), lit=False)
            self._paste(canvas, sprite, (place.x, place.y), (0.0, 0.0))
        lit: NDArray[np.float32] = np.minimum(canvas * self._light, 255) * (1 - 2 * HEADROOM / 255) + HEADROOM
        return lit.astype(np.uint16)

    def _layer(self, layer: Layer, *, lit: bool = True) -> Sprite:
        step = _ARM_ANGLES if layer.name in HANDS else _ANGLES
        angle = round(layer.angle / step) * step
        scale = round(layer.scale * 50) / 50
        key = (layer.name, layer.has, scale, angle, layer.flip, lit)
        if key not in self._sprites:
            b = self._brush(layer.name, scale, angle, layer.flip)
            _draw_named(b, layer.name, layer.has)
            # things at rest are lit later, together with the whole picture
            self._sprites[key] = self._finish(b, outline=layer.name not in _GLOW, lit=lit)
        return self._sprites[key]

    def _brush(self, name: str, scale: float, angle: float, flip: bool) -> Brush:
        view = self.look.view
        reach = (24.0, 12.0, 24.0, ARM) if name in HANDS else (31.0, 66.0, 31.0, 20.0)
        return Brush(self.look.paint, scale=view.scale * scale, angle=view.angle + angle, flip=flip, reach=reach)

    def _finish(self, b: Brush, *, outline: bool = True, lit: bool = True) -> Sprite:
        gain = self.look.light.gain if lit else (1.0, 1.0, 1.0)
        sprite = b.sprite(outline=outline, gain=gain, headroom=HEADROOM if lit else 0)
        return sprite.mirrored() if self.look.view.mirrored else sprite

    def _drop(self, color: RGB, size: float) -> Sprite:
        key = ("drop", color, size)
        if key not in self._sprites:
            b = Brush(self.look.paint, scale=self.look.view.scale, reach=(6, 6, 6, 6))
            b.ellipse(0, 0, size, size * 1.15, tint(color, 0.85))
            b.ellipse(-0.2 * size, -0.25 * size, 0.6 * size, 0.6 * size, mix(color, (255, 255, 255), 0.3))
            self._sprites[key] = self._finish(b)
        return self._sprites[key]

    def _stream(self, color: RGB, length: int) -> Sprite:
        key = ("stream", color, length)
        if key not in self._sprites:
            b = Brush(self.look.paint, scale=self.look.view.scale, reach=(8, 4, 8, 3.0 * length + 4))
            b.stroke([(0, 0), (-0.8, 1.5 * length), (-0.8, 3.0 * length)], 3.0, tint(color, 0.9))
            b.stroke([(-0.4, 0), (-1.2, 1.5 * length), (-1.2, 3.0 * length)], 1.1, mix(color, (255, 255, 255), 0.45))
            self._sprites[key] = self._finish(b)
        return self._sprites[key]

    def _shadow(self, canvas: Pixels, name: str, place: Place) -> None:
        width = THINGS[name].width if name in THINGS else 13.0
        if name == "plant" and place.y != self.look.seats[THINGS["plant"].seat].y:
            return
        key = ("shadow", round(width * place.scale))
        if key not in self._sprites:
            self._sprites[key] = _soft_disc(width * place.scale * self.look.view.scale * 1.25)
        dx, dy = self.look.light.shadow
        self._paste(canvas, self._sprites[key], (place.x + dx, place.y - 3 + dy), (0.0, 0.0))

    def _draw_room(self) -> Pixels:
        view, look = self.look.view, self.look
        b = Brush(look.paint, scale=view.scale, angle=view.angle, reach=(112, 112, 112, 112))
        rng = np.random.default_rng(look.texture_seed)
        draw_room(b, look.table, look.wall, look.horizon, rng)
        canvas = np.zeros((self.size, self.size, 3), np.uint8)
        self._paste(canvas, self._finish(b, outline=False, lit=False), (FRAME / 2, FRAME / 2), (0.0, 0.0))
        worn = Image.fromarray(rng.normal(1.0, 0.06, (9, 9)).astype(np.float32)).resize((self.size, self.size), _SMOOTH)
        pixels: Pixels = np.clip(canvas * np.asarray(worn)[..., None], 0, 255).astype(np.uint8)
        return pixels


def _draw_named(b: Brush, name: str, has: Facts) -> None:
    if name in THINGS:
        THINGS[name].draw(b, has)
    elif name in PROPS:
        PROPS[name](b, has)
    else:
        CLUTTER[name](b)


def _light_map(look: Look, size: int) -> NDArray[np.float32]:
    """Brightness of every pixel and channel of the canvas: a vignette, a slope and the colour of the light."""
    y, x = (np.mgrid[:size, :size] - size / 2) / (size / 2)
    light = look.light
    fall = 1 - light.vignette * (x**2 + y**2) / 1.4
    fall += light.slope * (x * math.cos(light.slope_angle) + y * math.sin(light.slope_angle))
    per_channel: NDArray[np.float32] = (fall[..., None] * np.asarray(light.gain)).astype(np.float32)
    return per_channel


def _soft_disc(radius: float) -> Sprite:
    """A soft shadow on the table, darkest in the middle."""
    half = math.ceil(radius)
    y, x = np.mgrid[-half : half + 1, -half : half + 1] / radius
    strength = 0.55 * np.clip(1.0 - (x**2 + (y / 0.48) ** 2), 0, 1) ** 0.7
    veil = np.rint(256 * (1 - strength))[..., None].astype(np.uint16)
    ink = np.zeros((*veil.shape[:2], 3), np.uint16)
    return Sprite(ink, veil, -half, -half)


def _soften(pixels: NDArray[np.uint16], blur: int, half: int, axis: int) -> NDArray[np.uint16]:
    """Blur along an axis with three taps; with `half`, shift by half a pixel instead."""
    weights = (0, 128, 128) if half else (blur, 256 - 2 * blur, blur)
    mixed = np.zeros_like(pixels)
    for weight, step in zip(weights, (1, 0, -1), strict=True):
        if weight:
            mixed += np.roll(pixels, step, axis=axis) * np.uint16(weight)
    mixed >>= 8
    return mixed
