"""Hands and forearms. A hand acts at the anchor; its arm leaves the picture straight down until it is turned."""

from __future__ import annotations

from collections.abc import Sequence

from p3iv.tabletop.art.brush import RGB, WHITE, Brush, Point, mix, tint

ARM = 200.0  # long enough to leave the picture from anywhere


def grip(b: Brush, _has: frozenset[str]) -> None:
    """Thumb and fingers closed on something at the anchor."""
    _arm(b)
    skin = b.paint["skin"]
    _palm(b, [(-8, 12), (-7, 3), (0, 0), (9, 3), (11, 13), (8, 26), (-6, 26)])
    for x, y in ((8.4, -0.5), (4.8, -2.8), (0.6, -3.6)):
        _finger(b, [(x + 1.2, y + 12), (x, y + 3), (x - 3.4, y)], 4.6, skin)
    _finger(b, [(-6, 13), (-6.6, 6), (-3.6, 0.5)], 5.0, tint(skin, 1.04))


def point(b: Brush, _has: frozenset[str]) -> None:
    """A finger stretched out, its tip at the anchor."""
    _arm(b)
    skin = b.paint["skin"]
    _palm(b, [(-7, 20), (-6, 12), (0, 9), (9, 12), (10, 20), (7, 29), (-5, 29)])
    for x in (9.0, 5.6, 2.0):
        _finger(b, [(x, 18), (x - 0.6, 12), (x - 2, 15)], 4.6, skin)
    _finger(b, [(-3, 18), (-1.6, 8), (0, 1.8)], 4.6, skin)
    _finger(b, [(-6, 22), (-4, 16), (0, 16)], 4.6, tint(skin, 1.04))


def flat(b: Brush, _has: frozenset[str]) -> None:
    """An open hand, its fingertips about the anchor."""
    _arm(b)
    skin = b.paint["skin"]
    _palm(b, [(-8, 14), (-5, 8), (2, 7), (8, 9), (9, 18), (6, 28), (-6, 28)])
    for x, y, tip in ((7.4, 10, 9.6), (4, 8, 4.6), (0.2, 7.6, 0.0), (-3.6, 9, -4.6)):
        _finger(b, [(x, y + 6), ((x + tip) / 2, y - 2), (tip, -2 + abs(tip) * 0.4)], 4.4, skin)
    _finger(b, [(-6, 19), (-10, 13), (-11, 8)], 4.8, tint(skin, 1.04))


def _arm(b: Brush) -> None:
    skin, sleeve = b.paint["skin"], b.paint["sleeve"]
    b.shaded([(-6.2, 22), (8.2, 22), (9, 44), (-7, 44)], tint(skin, 0.96), 0.45)
    b.shaded([(-9, 40), (11, 40), (15, ARM), (-13, ARM)], sleeve, 0.5)
    b.shaded([(-9.6, 38), (11.6, 38), (11.6, 43), (-9.6, 43)], mix(sleeve, WHITE, 0.25), 0.4)


def _palm(b: Brush, points: Sequence[Point]) -> None:
    b.shaded(points, b.paint["skin"], 0.4)


def _finger(b: Brush, points: Sequence[Point], width: float, color: RGB) -> None:
    b.stroke(points, width + 1.1, tint(color, 0.68))
    b.stroke(points, width, color)
    x, y = points[-1]
    b.ellipse(x - 0.3, y - 0.5, width * 0.26, width * 0.26, mix(color, WHITE, 0.35))


HANDS = {"grip": grip, "point": point, "flat": flat}
