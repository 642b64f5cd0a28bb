"""Shapes that many drawings share: round vessels, boxes, bottles, leaves, slices."""

from __future__ import annotations

import math
from collections.abc import Sequence

from p3iv.tabletop.art.brush import FLAT, RGB, WHITE, Brush, Point, arc, mix, tint

WATER: RGB = (122, 184, 226)
STEEL: RGB = (186, 190, 196)
SOIL: RGB = (74, 50, 36)
CRUST: RGB = (158, 98, 46)
CRUMB: RGB = (242, 222, 178)


def side(foot: float, mouth: float, height: float) -> list[Point]:
    """The outline of a round vessel that stands on the anchor: both sides, the foot's front and the mouth's back."""
    return arc(0, -foot * FLAT, foot, foot * FLAT, 180, 0) + arc(0, -height, mouth, mouth * FLAT, 0, -180)


def vessel(b: Brush, foot: float, mouth: float, height: float, color: RGB, *, wall: float = 1.6) -> None:
    """A round vessel, open at the top, empty."""
    b.shaded(side(foot, mouth, height), color)
    b.disc(0, -height, mouth, tint(color, 1.25))
    b.disc(0, -height, mouth - wall, tint(color, 0.55))


def clear(b: Brush, foot: float, mouth: float, height: float, filled: float = 0.0, color: RGB = WATER) -> None:  # noqa: PLR0917 - a shape
    """A glass vessel, filled up to a share of its height."""
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
    """Points spread evenly over an ellipse about the origin, like seeds of a sunflower."""
    rings = [math.sqrt((i + 0.5) / count) for i in range(count)]
    return [(rx * r * math.cos(turn * i), ry * r * math.sin(turn * i)) for i, r in enumerate(rings)]


def shifted(points: Sequence[Point], x: float, y: float) -> list[Point]:
    return [(px + x, py + y) for px, py in points]


def drops(b: Brush, points: Sequence[Point], color: RGB = (206, 234, 250)) -> None:
    """Drops of water with a shine."""
    for x, y in points:
        b.ellipse(x, y, 1.3, 1.6, color)
        b.ellipse(x - 0.4, y - 0.5, 0.5, 0.5, WHITE)
