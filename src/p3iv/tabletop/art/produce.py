"""Vegetables and fruit: lettuce, tomato, cucumber, lemon, banana, berries, mango; oil."""

from __future__ import annotations

from p3iv.tabletop.art.brush import BLACK, RGB, WHITE, Brush, Point, arc, mix, tint
from p3iv.tabletop.art.shapes import bottle, drops, scatter, vessel

LETTUCE: RGB = (116, 186, 62)
TOMATO: RGB = (216, 44, 32)
CUCUMBER: RGB = (48, 112, 48)
BANANA: RGB = (250, 214, 62)
FLESH: RGB = (252, 240, 200)
MANGO: RGB = (246, 150, 40)
BERRY: RGB = (96, 40, 120)
LEMON: RGB = (248, 220, 50)

Has = frozenset[str]


def lettuce_leaf(b: Brush, x: float, y: float, size: float, color: RGB = LETTUCE) -> None:
    """A curly leaf with a pale rib."""
    curls = [(x + r * size * c, y + r * size * 0.5 * s) for (c, s), r in zip(_RING, _CURL, strict=True)]
    b.polygon(curls, tint(color, 0.82))
    b.polygon([(x + (px - x) * 0.86, y - 0.5 + (py - y) * 0.86) for px, py in curls], color)
    b.stroke([(x - size * 0.4, y + size * 0.14), (x + size * 0.45, y - size * 0.12)], 0.9, mix(color, WHITE, 0.6))


_RING = arc(0, 0, 1, 1, 0, 337.5, 16)
_CURL = (1.0, 0.82) * 8


def lettuce(b: Brush, has: Has) -> None:
    wet = "wet" in has
    color = (96, 196, 70) if wet else (118, 176, 64)
    if wet:
        b.disc(0, -1, 22, (150, 204, 236), 0.75)
        b.disc(-5, -2, 9, WHITE, 0.35)
    b.shaded([(x * 17, -13 + y * 14) for (x, y) in _ruffled()], tint(color, 0.7), 0.6)
    for x, y, r, k in ((-8, -11, 10, 0.9), (8, -11, 10, 0.82), (0, -6, 11, 1.0), (-3, -17, 9, 1.05), (5, -18, 8, 0.95)):
        b.polygon([(x + r * px, y + r * py * 0.85) for px, py in _ruffled()], tint(color, k))
        b.stroke([(x, y + r * 0.7), (x + 0.5, y - r * 0.4)], 1.0, mix(color, WHITE, 0.55))
    if wet:
        drops(b, ((-10, -14), (-4, -8), (3, -13), (9, -9), (0, -20), (11, -17), (-7, -3), (5, -4)))


def _ruffled() -> list[Point]:
    return [(c * r, s * r) for (c, s), r in zip(_RING, (1.0, 0.86) * 8, strict=True)]


def tomato_slice(b: Brush, x: float, y: float, size: float) -> None:
    """A round slice with its seeds."""
    b.ellipse(x, y, size, size * 0.62, TOMATO)
    b.ellipse(x, y - 0.2, size * 0.76, size * 0.45, (240, 110, 84))
    b.dots(((x - size * 0.35, y), (x + size * 0.35, y), (x, y - size * 0.2)), size * 0.13, (252, 222, 150))


def tomato(b: Brush, has: Has) -> None:
    if "sliced" in has:
        for x, y in ((-13, -4), (-6, -5.5), (1, -4.5), (8, -6), (-9, -10), (5, -11.5), (13, -3.5)):
            b.ellipse(x, y + 1.3, 7, 4.4, tint(TOMATO, 0.7))
            tomato_slice(b, x, y, 7)
        return
    b.ball(0, -11, 12.5, 11.5, TOMATO)
    for x, y in ((-6, -20), (6, -20), (0, -17), (-3, -23), (4, -23)):
        b.polygon([(0, -22), (x * 0.5 + 1.4, (y - 22) / 2), (x, y), (x * 0.5 - 1.4, (y - 20) / 2)], (64, 128, 46))
    b.stroke([(0, -21), (1, -25.5)], 1.6, (58, 110, 40))


def cucumber_slice(b: Brush, x: float, y: float, size: float) -> None:
    """A round slice, pale inside."""
    b.ellipse(x, y, size, size * 0.66, CUCUMBER)
    b.ellipse(x, y - 0.2, size * 0.8, size * 0.5, (206, 230, 158))
    b.dots(
        [(x + dx * size, y + dy * size) for dx, dy in ((-0.3, 0), (0.3, 0), (0, 0.2), (0, -0.22))], 0.5, (150, 186, 96)
    )


def cucumber(b: Brush, has: Has) -> None:
    if "sliced" in has:
        for x, y in ((-14, -9), (-7, -11), (0, -10), (7, -11.5), (14, -8.5), (-10, -4), (-2, -4), (6, -4.5)):
            b.ellipse(x, y + 1.2, 6.2, 4.1, tint(CUCUMBER, 0.7))
            cucumber_slice(b, x, y, 6.2)
        return
    body = [*arc(-15, -5, 5, 5, 90, 270, 8), *arc(0, -12, 10, 3, 200, 340, 6), *arc(15, -9, 4.6, 4.8, -90, 90, 8)]
    b.polygon([*body, *arc(0, -3, 12, 2, 0, 180, 6)], tint(CUCUMBER, 0.75))
    b.polygon([(x, y * 0.9 - 1.4) for x, y in body], CUCUMBER)
    b.stroke([(-15, -8.5), (-4, -11), (12, -11)], 1.4, tint(CUCUMBER, 1.7))
    b.stroke([(-12, -5.5), (0, -7.5), (14, -7)], 0.8, tint(CUCUMBER, 1.45))
    b.ellipse(19, -9, 1.4, 1.6, (150, 160, 80))


def lemon(b: Brush, _has: Has) -> None:
    b.polygon([(-15, -8), (-10, -13), (-10, -4)], tint(LEMON, 0.95))
    b.polygon([(15, -9), (9, -13), (9, -4)], tint(LEMON, 0.8))
    b.ball(0, -8.5, 12, 8.5, LEMON)
    b.dots(((-3, -6), (4, -4), (7, -8), (1, -11), (-7, -6)), 0.5, tint(LEMON, 0.8))


def half_lemon(b: Brush, _has: Has) -> None:
    """Half a lemon, its cut side down."""
    b.shaded([*arc(0, 2, 9, 10, 180, 360)], LEMON, 0.7)
    b.ellipse(0, 2, 9, 3.2, (252, 246, 204))
    b.ellipse(0, 2, 7, 2.2, (248, 226, 96))


def oil(b: Brush, _has: Has) -> None:
    bottle(b, 8.5, 38, (150, 146, 26), cap=BLACK, neck=2.8)
    b.shaded([(-8.3, -8), (8.3, -8), (8.3, -19), (-8.3, -19)], (240, 232, 200), 0.3)
    b.ellipse(-2, -13, 3, 4, (92, 104, 36))
    b.ellipse(3.2, -14.4, 2.2, 3, (122, 132, 50))


def banana(b: Brush, has: Has) -> None:
    if "peeled" in has:
        for points in (((-10, -9), (-19, -4), (-21, 1)), ((-8, -6), (-10, 0), (-14, 5)), ((-6, -8), (0, -1), (2, 5))):
            b.stroke(points, 5.0, tint(BANANA, 0.8))
            b.stroke(points, 3.0, mix(BANANA, WHITE, 0.55))
        b.stroke(arc(0, -26, 18, 20, 120, 20), 8.0, tint(FLESH, 0.86))
        b.stroke(arc(-0.6, -27, 18, 20, 120, 20), 6.0, FLESH)
        return
    b.stroke(arc(0, -22, 18, 18, 155, 25, 16), 9.0, tint(BANANA, 0.8))
    b.stroke(arc(-0.5, -23.2, 18, 18, 150, 30, 16), 6.2, BANANA)
    b.stroke(arc(0, -20.5, 18.6, 18, 145, 40, 16), 0.8, tint(BANANA, 0.7))
    b.stroke([(16.5, -15), (19, -20)], 3.4, (118, 104, 40))
    b.ellipse(-16.6, -15.4, 2.4, 2.4, (84, 64, 34))


def banana_flesh(b: Brush, _has: Has) -> None:
    b.stroke(arc(0, -8, 11, 11, 160, 20), 8.0, tint(FLESH, 0.86))
    b.stroke(arc(-0.5, -9, 11, 11, 155, 25), 6.0, FLESH)


def berries(b: Brush, _has: Has) -> None:
    vessel(b, 11, 15, 10, b.paint["dish"])
    colors = (BERRY, (60, 62, 140), (176, 28, 66))
    for i, (x, y) in enumerate(sorted(scatter(13, 12, 5), key=lambda p: p[1])):
        b.ball(x, y - 12 - (4 if abs(x) < 8 else 0), 3.4, 3.2, colors[i % 3])


def mango(b: Brush, _has: Has) -> None:
    b.ball(0, -11, 15, 11, MANGO)
    b.ellipse(6, -12, 7.5, 8, (206, 62, 42), 0.5)
    b.ellipse(-8, -7, 6, 5, (120, 166, 62), 0.6)
    b.ellipse(-5, -15.5, 3, 1.6, WHITE, 0.5)
    b.stroke([(11, -19), (13.5, -22.5)], 1.8, (90, 64, 36))
