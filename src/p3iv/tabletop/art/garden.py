"""Repotting: plant, old pot, big pot, soil, pebbles, watering can."""

from __future__ import annotations

from p3iv.tabletop.art.brush import BLACK, FLAT, RGB, WHITE, Brush, arc, mix, tint
from p3iv.tabletop.art.shapes import SOIL, WATER, drops, leaf, scatter, shifted, vessel

TERRACOTTA: RGB = (190, 100, 62)
DEAD: RGB = (186, 140, 50)
STONES: tuple[RGB, ...] = ((168, 166, 160), (132, 130, 128), (198, 190, 176), (110, 108, 112))

Has = frozenset[str]


def foliage(b: Brush, y: float, *, dead: bool) -> None:
    """Stems and leaves that rise from (0, y)."""
    green = b.paint["leaf"]
    for x, top, color in ((-9, -17, 0.75), (9, -18, 0.7), (0, -24, 0.85), (-5, -22, 0.9), (6, -23, 0.95)):
        b.stroke([(0, y), (x * 0.45, y + top * 0.55), (x, y + top)], 1.2, tint(green, 0.6))
        leaf(b, x * 0.7, y + top * 0.65, 11, -90 + x * 7, tint(green, color), 0.3)
        leaf(b, x * 0.4, y + top * 0.35, 10, -90 + x * 11, tint(green, color + 0.2), 0.3)
    if dead:
        for x, angle in ((-3, 165), (3, 12), (-2, 140), (3, 40)):
            leaf(b, x, y - 2.5, 13, angle, tint(DEAD, 1.0 if x < 0 else 0.86), 0.28)


def plant(b: Brush, has: Has) -> None:
    """The plant, its stem at the anchor while it is potted, on its root ball once it is out."""
    if "out" not in has:
        foliage(b, 0, dead="trimmed" not in has)
        return
    b.shaded([(-9, -13), (9, -13), (6.5, 0), (-6.5, 0)], SOIL, 0.6)
    b.disc(0, -13, 9, tint(SOIL, 1.3))
    pale: RGB = (214, 190, 148)
    if "loose" in has:
        for x in (-8, -5, -2, 1, 4, 7):
            b.stroke([(x * 0.8, -10), (x * 1.2, -3), (x * 1.9, 2), (x * 2.3, 6)], 1.1, pale)
        b.dots(((-14, 4), (-9, 7), (10, 7), (15, 4), (0, 8)), 1.1, SOIL)
    else:
        b.stroke([(-6, -10), (-4, -5), (3, -7), (6, -2)], 0.7, pale)
    foliage(b, -13, dead="trimmed" not in has)


def oldpot(b: Brush, _has: Has) -> None:
    vessel(b, 9, 12.5, 17, TERRACOTTA)
    b.shaded([*arc(0, -14, 13, 13 * FLAT, 180, 0), *arc(0, -17, 13, 13 * FLAT, 0, 180)], tint(TERRACOTTA, 1.1))
    b.disc(0, -17.2, 11, tint(SOIL, 0.9))


def pot(b: Brush, has: Has) -> None:
    color = b.paint["pot"]
    if "wet" in has:
        b.disc(0, -4, 20, (120, 178, 220), 0.8)
    vessel(b, 13, 19, 24, color)
    b.stroke(arc(0, -15, 16.5, 16.5 * FLAT, 165, 15), 1.6, tint(color, 1.35))
    if "soil" in has:
        _potted_soil(b, has)
    elif "pebbles" in has:
        for i, (x, y) in enumerate(sorted(scatter(16, 13.5, 4.6), key=lambda p: p[1])):
            b.ball(x, y - 22.4, 2.6, 2.0, STONES[i % 4])
    if "plant" in has:
        foliage(b, -25 if "full" in has else -22, dead=False)
    if "wet" in has:
        drops(b, ((-12, -25), (-6, -21), (8, -22), (13, -26), (-9, -38), (8, -40), (1, -34)))


def _potted_soil(b: Brush, has: Has) -> None:
    soil = (48, 30, 22) if "wet" in has else SOIL
    if "full" in has:
        b.polygon([*arc(0, -24, 17.6, 7.6, 0, 180), *arc(0, -24.5, 17, 10.5, 180, 360)], tint(soil, 1.15))
        b.dots(shifted(scatter(14, 14, 5), 0, -26), 1.0, tint(soil, 1.6))
        return
    b.ellipse(0, -22.4, 15.6, 5.2, soil)
    b.dots(shifted(scatter(10, 12, 3.4), 0, -22.4), 0.9, tint(soil, 1.6))


def soil(b: Brush, has: Has) -> None:
    color = b.paint["bag"]
    opened = "open" in has
    top = [(-15, -30), (-8, -27), (0, -29), (8, -27), (15, -30)] if opened else [(-13, -36), (13, -36), (15, -32)]
    b.shaded([(-15, -2), (-10, 0), (10, 0), (15, -2), (16, -16), *reversed(top), (-16, -16)], color, 0.55)
    if opened:
        b.ellipse(0, -30, 14.5, 5.6, tint(color, 0.6))
        b.polygon([*arc(0, -30, 13, 4.6, 0, 180), *arc(0, -30.5, 12, 7, 180, 360)], SOIL)
        b.dots(shifted(scatter(10, 10, 4), 0, -32), 1.0, tint(SOIL, 1.7))
    else:
        b.stroke([(-13, -34), (13, -34)], 1.4, tint(color, 0.6))
    b.ellipse(0, -14, 9.5, 9, (240, 234, 214))
    leaf(b, 0, -9, 9, -125, (66, 142, 58))
    leaf(b, 0, -9, 9, -55, (96, 166, 70))
    b.polygon([(-8, -9), (8, -9), (5, -6), (-5, -6)], SOIL)


def pebbles(b: Brush, _has: Has) -> None:
    for i, (x, y) in enumerate(sorted(scatter(20, 17, 6.5), key=lambda p: p[1])):
        b.ball(x, y - 7 - max(0.0, 5 - abs(x) * 0.5), 3.6, 2.9, STONES[i % 4])


def can(b: Brush, has: Has) -> None:
    color = b.paint["can"]
    b.stroke(arc(9, -16, 11, 11, -95, 85), 2.6, tint(color, 0.75))
    b.stroke([(-10, -7), (-20, -24)], 3.4, tint(color, 0.9))
    b.ellipse(-21, -25, 4.6, 2.6, tint(color, 0.7))
    b.dots(((-23, -25.5), (-21, -25), (-19, -25.4)), 0.6, BLACK)
    vessel(b, 12, 12, 20, color)
    if "full" in has:
        b.disc(0, -20, 10.6, (70, 160, 232))
        b.stroke(arc(0, -20, 7, 3, 190, 290), 1.0, mix(WATER, WHITE, 0.8))
    else:
        b.shaded(arc(0, -20, 12, 12 * FLAT, 0, 180), tint(color, 1.0))
        b.disc(0, -20.4, 10.4, tint(color, 0.4))
