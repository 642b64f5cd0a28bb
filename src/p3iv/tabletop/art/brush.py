"""The brush, and shapes that many drawings share: round vessels, boxes, bottles, leaves, slices."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from p3iv.errors import MissingExtraError

try:
    from PIL import Image, ImageDraw
except ImportError as error:
    raise MissingExtraError("pillow", "video", "Drawing the tabletop") from error

RGB = tuple[int, int, int]

Point = tuple[float, float]

Pixels = NDArray[np.uint8]

SUPERSAMPLE = 3

WHITE: RGB = (250, 250, 246)

BLACK: RGB = (34, 32, 34)

FLAT = 0.44  # height over width of a circle that lies on the table, seen from the camera

_CIRCLE = [(math.cos(2 * math.pi * i / 26), math.sin(2 * math.pi * i / 26)) for i in range(26)]

_ACROSS = np.linspace(0.0, 1.0, 24)

_LIGHT = 0.32 - 1.15 * np.abs(_ACROSS - 0.28) ** 1.2  # a highlight left of the middle, the dark side on the right

_OUTLINE = 0.42


def tint(color: RGB, factor: float) -> RGB:
    """Darken a colour with a factor below 1, lighten it with one above."""
    r, g, b = (min(255, max(0, round(channel * factor))) for channel in color)
    return r, g, b


def mix(one: RGB, other: RGB, share: float) -> RGB:
    """Blend two colours; `share` is the weight of `other`."""
    r, g, b = (round(x + (y - x) * share) for x, y in zip(one, other, strict=True))
    return r, g, b


def arc(x: float, y: float, rx: float, ry: float, first: float, last: float, count: int = 14) -> list[Point]:  # noqa: PLR0917 - a shape
    """Points along an ellipse from one angle to another, in degrees, clockwise from the right."""
    angles = [math.radians(first + (last - first) * i / (count - 1)) for i in range(count)]
    return [(x + rx * math.cos(a), y + ry * math.sin(a)) for a in angles]


@dataclass(frozen=True)
class Sprite:
    """A picture with soft edges; `left` and `top` locate its corner relative to the point where it is pasted."""

    ink: NDArray[np.uint16]  # (h, w, 3), already multiplied by its opacity
    veil: NDArray[np.uint16]  # (h, w, 1), weight of the background: 0 ... 256
    left: int
    top: int

    def paste(self, canvas: Pixels, x: float, y: float) -> None:
        """Draw the sprite on the canvas, in place; parts outside the canvas are clipped."""
        x0, y0 = round(x) + self.left, round(y) + self.top
        height, width = self.veil.shape[:2]
        top, left = max(0, -y0), max(0, -x0)
        bottom, right = min(height, canvas.shape[0] - y0), min(width, canvas.shape[1] - x0)
        if top >= bottom or left >= right:
            return
        ground = canvas[y0 + top : y0 + bottom, x0 + left : x0 + right]
        blend = ground * self.veil[top:bottom, left:right]
        blend >>= 8
        blend += self.ink[top:bottom, left:right]
        ground[...] = blend

    def mirrored(self) -> Sprite:
        """The sprite with left and right exchanged."""
        width = self.veil.shape[1]
        ink, veil = (np.ascontiguousarray(array[:, ::-1]) for array in (self.ink, self.veil))
        return Sprite(ink, veil, 1 - self.left - width, self.top)


class Brush:
    """Draws in table units around an anchor, the foot of an object; y points down.

    `paint` holds the colours of this video by name. `angle` rotates the drawing clockwise, in degrees; `flip`
    exchanges left and right before the rotation.
    """

    def __init__(
        self,
        paint: Mapping[str, RGB],
        *,
        scale: float = 1.0,
        angle: float = 0.0,
        flip: bool = False,
        reach: tuple[float, float, float, float] = (26.0, 60.0, 26.0, 13.0),  # left, up, right, down
    ) -> None:
        self.paint = paint
        self._unit = scale * SUPERSAMPLE
        self._sign = -1.0 if flip else 1.0
        self._cos, self._sin = math.cos(math.radians(angle)), math.sin(math.radians(angle))
        left, up, right, down = reach
        self._x = self._y = 0.0
        corners = self._map([(-left, -up), (right, -up), (right, down), (-left, down)])
        self._left = math.floor(min(x for x, _ in corners) / SUPERSAMPLE) - 2  # in pixels of the picture
        self._top = math.floor(min(y for _, y in corners) / SUPERSAMPLE) - 2
        self._x, self._y = -self._left * SUPERSAMPLE, -self._top * SUPERSAMPLE
        width = math.ceil(max(x for x, _ in corners) / SUPERSAMPLE) + 2 - self._left
        height = math.ceil(max(y for _, y in corners) / SUPERSAMPLE) + 2 - self._top
        self._image = Image.new("RGBA", (width * SUPERSAMPLE, height * SUPERSAMPLE))
        self._draw = ImageDraw.Draw(self._image)

    def polygon(self, points: Iterable[Point], color: RGB, opacity: float = 1.0) -> None:
        """Fill a shape with one colour."""
        mapped = self._map(points)
        if opacity >= 1.0:
            self._draw.polygon(mapped, fill=(*color, 255))
            return
        tile, corner = _tile(mapped, "RGBA", self._image.size)
        if tile is None:
            return
        moved = [(x - corner[0], y - corner[1]) for x, y in mapped]
        ImageDraw.Draw(tile).polygon(moved, fill=(*color, round(255 * opacity)))
        self._image.alpha_composite(tile, corner)

    def shaded(self, points: Iterable[Point], color: RGB, depth: float = 0.5) -> None:
        """Fill a convex shape that is lit from the left and dark on the right."""
        mapped = self._map(points)
        mask, corner = _tile(mapped, "L", self._image.size)
        if mask is None:
            return
        ImageDraw.Draw(mask).polygon([(x - corner[0], y - corner[1]) for x, y in mapped], fill=255)
        row = np.clip(np.outer(1.0 + depth * _LIGHT, color), 0, 255).astype(np.uint8)
        across = Image.fromarray(row[None]).resize(mask.size, Image.Resampling.BILINEAR)
        self._image.paste(across, corner, mask)

    def ellipse(self, x: float, y: float, rx: float, ry: float, color: RGB, opacity: float = 1.0) -> None:  # noqa: PLR0917 - a shape
        """Fill an ellipse with one colour."""
        self.polygon([(x + rx * c, y + ry * s) for c, s in _CIRCLE], color, opacity)

    def disc(self, x: float, y: float, radius: float, color: RGB, opacity: float = 1.0) -> None:
        """Fill a circle that lies flat on the table."""
        self.ellipse(x, y, radius, radius * FLAT, color, opacity)

    def ball(self, x: float, y: float, rx: float, ry: float, color: RGB) -> None:
        """Draw a round thing with a highlight."""
        self.shaded([(x + rx * c, y + ry * s) for c, s in _CIRCLE], color, 0.75)
        self.ellipse(x - 0.35 * rx, y - 0.4 * ry, 0.28 * rx, 0.2 * ry, WHITE, 0.55)

    def stroke(self, points: Sequence[Point], width: float, color: RGB) -> None:
        """Draw a line with round ends."""
        mapped = self._map(points)
        thick = max(1.0, width * self._unit)
        self._draw.line(mapped, fill=(*color, 255), width=round(thick), joint="curve")
        for x, y in (mapped[0], mapped[-1]):
            r = thick / 2
            self._draw.ellipse((x - r, y - r, x + r, y + r), fill=(*color, 255))

    def dots(self, points: Iterable[Point], radius: float, color: RGB, opacity: float = 1.0) -> None:
        """Draw small dots."""
        for x, y in points:
            self.ellipse(x, y, radius, radius, color, opacity)

    def sprite(self, *, outline: bool = True, gain: Sequence[float] = (1.0, 1.0, 1.0), headroom: int = 0) -> Sprite:
        """The finished drawing at the size of the picture, lit with `gain` per channel, with a thin dark outline.

        All values stay at least `headroom` away from 0 and 255.
        """
        box = self._image.getbbox() or (0, 0, SUPERSAMPLE, SUPERSAMPLE)
        x0, y0 = (v // SUPERSAMPLE - 1 for v in box[:2])  # one more pixel for the outline
        x1, y1 = (-(-v // SUPERSAMPLE) + 1 for v in box[2:])
        cut = self._image.crop(tuple(SUPERSAMPLE * v for v in (x0, y0, x1, y1)))  # type: ignore[arg-type]
        small = np.asarray(cut.convert("RGBa").reduce(SUPERSAMPLE)).astype(np.float32)
        ink, alpha = small[..., :3] * np.asarray(gain, np.float32), small[..., 3:] / 255.0
        if outline:
            rim = (_spread(alpha) - alpha) * np.float32(_OUTLINE)
            ink, alpha = ink + rim * np.asarray((38, 30, 28), np.float32), alpha + rim
        ink = np.minimum(ink, 255.0 * alpha) * (1 - 2 * headroom / 255) + headroom * alpha
        veil = np.rint(256.0 * (1.0 - alpha)).astype(np.uint16)
        # ink + ground * veil / 256 must stay within a byte
        inked = np.minimum(np.rint(ink), 255 - ((255 * veil) >> 8)).astype(np.uint16)
        return Sprite(inked, veil, self._left + x0, self._top + y0)

    def _map(self, points: Iterable[Point]) -> list[Point]:
        c, s = self._cos * self._unit, self._sin * self._unit
        cf, sf = c * self._sign, s * self._sign
        return [(self._x + cf * x - s * y, self._y + sf * x + c * y) for x, y in points]


def _tile(points: list[Point], mode: str, size: tuple[int, int]) -> tuple[Image.Image | None, tuple[int, int]]:
    """An empty picture just large enough for the shape, and its position in an image of this size."""
    left, top = max(0, int(min(x for x, _ in points))), max(0, int(min(y for _, y in points)))
    right = min(size[0], int(max(x for x, _ in points)) + 2)
    bottom = min(size[1], int(max(y for _, y in points)) + 2)
    if right <= left or bottom <= top:
        return None, (left, top)
    return Image.new(mode, (right - left, bottom - top)), (left, top)


def _spread(alpha: NDArray[np.float32]) -> NDArray[np.float32]:
    """The largest opacity among a pixel and its four neighbours."""
    wide = alpha.copy()
    np.maximum(wide[1:], alpha[:-1], out=wide[1:])
    np.maximum(wide[:-1], alpha[1:], out=wide[:-1])
    np.maximum(wide[:, 1:], alpha[:, :-1], out=wide[:, 1:])
    np.maximum(wide[:, :-1], alpha[:, 1:], out=wide[:, :-1])
    return wide


WATER: RGB = (122, 184, 226)

STEEL: RGB = (186, 190, 196)

SOIL: RGB = (74, 50, 36)

CRUST: RGB = (158, 98, 46)

CRUMB: RGB = (242, 222, 178)


def side(foot: float, mouth: float, height: float) -> list[Point]:
    """The outline of a round vessel with its foot at the anchor."""
    return arc(0, -foot * FLAT, foot, foot * FLAT, 180, 0) + arc(0, -height, mouth, mouth * FLAT, 0, -180)


def vessel(b: Brush, foot: float, mouth: float, height: float, color: RGB, *, wall: float = 1.6) -> None:
    """A round vessel, open at the top, empty."""
    b.shaded(side(foot, mouth, height), color)
    b.disc(0, -height, mouth, tint(color, 1.25))
    b.disc(0, -height, mouth - wall, tint(color, 0.55))


def clear(b: Brush, foot: float, mouth: float, height: float, filled: float = 0.0, color: RGB = WATER) -> None:  # noqa: PLR0917 - a shape
    """A glass vessel; `filled` is the share of its height that is full."""
    b.polygon(side(foot, mouth, height), (214, 230, 236), 0.4)
    if filled > 0:
        level = height * filled
        width = foot + (mouth - foot) * filled
        b.shaded(side(foot - 1, width - 1, level), color, 0.35)
        b.disc(0, -level, width - 1, mix(color, WHITE, 0.3))
    b.stroke(arc(0, -height, mouth, mouth * FLAT, 0, 360, 28), 0.9, (236, 244, 248))
    b.polygon(
        [(-mouth * 0.7, -height * 0.85), (-mouth * 0.5, -height * 0.85), (-foot * 0.5, -3), (-foot * 0.7, -3)],
        WHITE,
        0.5,
    )


def slab(b: Brush, half: float, depth: float, height: float, color: RGB, skew: float = 0.0) -> None:  # noqa: PLR0917 - a shape
    """A box seen from above and in front: its front face and its top."""
    b.shaded([(-half, 0), (half, 0), (half, -height), (-half, -height)], color, 0.3)
    b.polygon(
        [(-half, -height), (half, -height), (half - 2 + skew, -height - depth), (-half + 2 + skew, -height - depth)],
        tint(color, 1.2),
    )


def rounded(x: float, y: float, half: float, tall: float, corner: float) -> list[Point]:
    """A rectangle with round corners about its middle."""
    w, h = half - corner, tall - corner
    corners = ((w, h, 0.0), (-w, h, 90.0), (-w, -h, 180.0), (w, -h, 270.0))
    return [p for cx, cy, first in corners for p in arc(x + cx, y + cy, corner, corner, first, first + 90, 5)]


def bottle(b: Brush, width: float, height: float, color: RGB, *, cap: RGB, neck: float = 3.0) -> None:
    """A bottle with shoulders, a neck and a cap."""
    foot = arc(0, -width * FLAT, width, width * FLAT, 180, 0)
    shoulder = -height * 0.62
    outline = [*foot, (width, shoulder), (neck, shoulder - 7), (neck, -height), (-neck, -height), (-neck, shoulder - 7)]
    b.shaded([*outline, (-width, shoulder)], color, 0.6)
    b.shaded(
        [(-neck - 0.8, -height), (neck + 0.8, -height), (neck + 0.8, -height - 4), (-neck - 0.8, -height - 4)], cap
    )
    b.polygon(
        [(-width * 0.7, -6), (-width * 0.45, -6), (-width * 0.45, shoulder), (-width * 0.7, shoulder)], WHITE, 0.45
    )


def leaf(b: Brush, x: float, y: float, length: float, angle: float, color: RGB, width: float = 0.36) -> None:  # noqa: PLR0917 - a shape
    """A pointed leaf from its stem at (x, y), with its midrib; angle in degrees, 0 to the right, 90 down."""
    a = math.radians(angle)
    c, s = math.cos(a), math.sin(a)
    local = [(t * length, w * width * length) for t, w in ((0, 0), (0.25, 0.8), (0.55, 1), (0.85, 0.45), (1, 0))]
    both = [*local, *((px, -py) for px, py in reversed(local[1:-1]))]
    b.polygon([(x + c * px - s * py, y + s * px + c * py) for px, py in both], color)
    b.stroke([(x, y), (x + c * length * 0.85, y + s * length * 0.85)], 0.5, tint(color, 0.75))


def toast_shape(x: float, y: float, size: float, flat: float = 1.0) -> list[Point]:
    """The outline of a slice of bread about its middle: a square with two round shoulders."""
    s, f = size, size * flat
    return [
        (x - 0.85 * s, y + 0.9 * f),
        (x - 0.85 * s, y - 0.25 * f),
        *arc(x - 0.55 * s, y - 0.5 * f, 0.45 * s, 0.4 * f, 170, 290, 6),
        *arc(x + 0.55 * s, y - 0.5 * f, 0.45 * s, 0.4 * f, 250, 370, 6),
        (x + 0.85 * s, y - 0.25 * f),
        (x + 0.85 * s, y + 0.9 * f),
    ]


def bread_slice(b: Brush, x: float, y: float, size: float, *, flat: float = 1.0, crumb: RGB = CRUMB) -> None:
    """A slice of bread: a dark crust round a pale crumb, with some thickness below."""
    b.polygon(toast_shape(x, y + 2.2, size, flat), tint(CRUST, 0.8))
    b.polygon(toast_shape(x, y, size, flat), CRUST)
    b.polygon(toast_shape(x, y + 0.3, size * 0.84, flat * 0.98), crumb)


def scatter(count: int, rx: float, ry: float, turn: float = 2.4) -> list[Point]:
    """Points spread evenly over an ellipse around the origin, like the seeds of a sunflower."""
    rings = [math.sqrt((i + 0.5) / count) for i in range(count)]
    return [(rx * r * math.cos(turn * i), ry * r * math.sin(turn * i)) for i, r in enumerate(rings)]


def shifted(points: Sequence[Point], x: float, y: float) -> list[Point]:
    return [(px + x, py + y) for px, py in points]


def drops(b: Brush, points: Sequence[Point], color: RGB = (206, 234, 250)) -> None:
    """Drops of water with a shine."""
    for x, y in points:
        b.ellipse(x, y, 1.3, 1.6, color)
        b.ellipse(x - 0.4, y - 0.5, 0.5, 0.5, WHITE)
