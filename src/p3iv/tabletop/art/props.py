"""Tools and ingredients that hands bring into the picture; each is held at its anchor or points to it."""

from __future__ import annotations

from p3iv.tabletop.art.brush import (
    BLACK,
    CRUMB,
    RGB,
    SOIL,
    STEEL,
    WATER,
    WHITE,
    Brush,
    arc,
    bottle,
    leaf,
    mix,
    rounded,
    scatter,
    shifted,
    tint,
    vessel,
)
from p3iv.tabletop.art.drinks import JUICE, lemon_slice
from p3iv.tabletop.art.food import LETTUCE, cucumber_slice, lettuce_leaf, tomato_slice

Has = frozenset[str]

WOOD: RGB = (190, 140, 84)


def spoon(b: Brush, has: Has) -> None:
    """A spoon with its bowl at the anchor and its handle up to the right."""
    b.stroke([(1, -2), (13, -21)], 2.0, tint(STEEL, 0.8))
    b.stroke([(0.7, -2.2), (12.6, -21.2)], 0.9, WHITE)
    b.ellipse(0, 0, 4.6, 3.4, tint(STEEL, 0.85))
    b.ellipse(0, -0.3, 3.4, 2.3, tint(STEEL, 1.2))
    for name, color in _HEAPS.items():
        if name in has:
            b.polygon([*arc(0, -0.6, 4.0, 1.8, 0, 180), *arc(0, -0.8, 3.8, 3.8, 180, 360)], color)


_HEAPS: dict[str, RGB] = {"coffee": (62, 36, 22), "sugar": (252, 252, 252)}


def whisk(b: Brush, _has: Has) -> None:
    b.stroke([(8, -13), (15, -24)], 3.4, b.paint["handle"])
    for bend in (-5, -2, 2, 5):
        b.stroke([(8, -13), (4 + bend * 0.8, -8 + bend * 0.5), (0, 0)], 0.8, STEEL)
    b.stroke([(8, -13), (7, -5), (0, 0), (-1, -8), (8, -13)], 0.8, tint(STEEL, 0.8))


def fork(b: Brush, _has: Has) -> None:
    b.stroke([(5, -8), (14, -23)], 2.0, tint(STEEL, 0.8))
    b.polygon([(2, -7), (5, -10), (8, -7), (4, -4)], STEEL)
    for dx, dy in ((0, 0), (2.0, 1.2), (4.0, 2.4)):
        b.stroke([(2.6 + dx, -6.5 + dy), (-1.2 + dx, -0.6 + dy)], 1.0, tint(STEEL, 0.9))


def knife(b: Brush, has: Has) -> None:
    """A knife with its tip at the anchor; it carries what it spreads."""
    b.polygon([(-4, 1.5), (12, -14), (15, -11), (3, 2.4)], tint(STEEL, 0.85))
    b.polygon([(-4, 1.5), (13.6, -12.6), (15, -11), (3, 2.4)], tint(STEEL, 1.2))
    b.stroke([(14, -13), (21, -20.5)], 4.0, b.paint["handle"])
    for name, color in (("butter", (250, 220, 96)), ("jam", (178, 24, 48))):
        if name in has:
            b.ellipse(2, -0.6, 5, 3, color)


def scissors(b: Brush, has: Has) -> None:
    spread = 3.6 if "open" in has else 1.2
    b.polygon([(-2, -spread), (12, -10), (13.5, -8)], tint(STEEL, 1.1))
    b.polygon([(-spread, 2), (11, -8), (13.5, -9.5)], tint(STEEL, 0.85))
    for x, y in ((16, -14), (19, -8)):
        b.stroke(arc(x, y, 3.6, 3.2, 0, 360), 1.8, b.paint["handle"])


def spatula(b: Brush, _has: Has) -> None:
    b.polygon([(-5, 0), (3, 3), (7, -6), (2, -8)], tint(WOOD, 1.1))
    b.stroke([(4, -7), (15, -24)], 2.6, WOOD)


def salad_spoons(b: Brush, _has: Has) -> None:
    """Two wooden spoons, one from each side."""
    for sign in (-1, 1):
        b.stroke([(sign * 5, -3), (4 + sign * 9, -24)], 2.4, tint(WOOD, 0.92))
        b.ellipse(sign * 5, -1.5, 4.4, 3.6, WOOD)
        b.ellipse(sign * 5, -1.9, 3.0, 2.2, tint(WOOD, 0.78))


def trowel(b: Brush, has: Has) -> None:
    b.polygon([(-6, 1), (-2, -6), (7, -8), (5, 1), (-1, 4)], STEEL)
    b.stroke([(5, -7), (10, -14)], 1.6, tint(STEEL, 0.7))
    b.stroke([(10, -14), (16, -22)], 4.0, b.paint["handle"])
    if "soil" in has:
        b.polygon([*arc(0, -2.5, 6.4, 3, 0, 180), *arc(0, -3, 6, 5, 180, 360)], SOIL)


def jug(b: Brush, _has: Has) -> None:
    """A glass jug of water; its lip points left."""
    b.stroke(arc(10, -15, 8, 9, -90, 90), 2.4, tint(WATER, 0.8))
    b.polygon([(-10, -26), (-16, -28), (-10, -20)], (200, 222, 234))
    vessel(b, 10, 11, 26, (196, 220, 234))
    b.shaded([(-9.6, -4), (-10.2, -18), (10.2, -18), (9.6, -4), *arc(0, -4, 9.6, 4, 0, 180)], WATER, 0.5)
    b.disc(0, -25, 9, mix(WATER, WHITE, 0.2))


def carton(b: Brush, _has: Has) -> None:
    """A carton of juice."""
    b.shaded([(-9, 0), (9, 0), (9, -26), (-9, -26)], (250, 236, 210), 0.35)
    b.shaded([(-9, -26), (9, -26), (6, -34), (-6, -34)], (240, 222, 190), 0.35)
    b.ellipse(-4.5, -31, 2.8, 2.0, (60, 130, 60))
    b.ball(0, -12, 6.6, 6.6, JUICE)
    leaf(b, 0, -18, 5, -40, (72, 146, 60))


def honey(b: Brush, _has: Has) -> None:
    bottle(b, 8, 27, (226, 146, 24), cap=(250, 210, 60), neck=3.2)
    b.shaded(rounded(0, -9, 6.4, 4.4, 1), (250, 238, 196), 0.3)
    b.ellipse(0, -9, 2.6, 2.0, (240, 180, 30))
    b.stroke([(0, -11), (0, -7)], 0.8, BLACK)


def vinegar(b: Brush, _has: Has) -> None:
    bottle(b, 7.5, 34, (96, 26, 30), cap=(190, 160, 60), neck=2.6)
    b.shaded([(-7.2, -7), (7.2, -7), (7.2, -17), (-7.2, -17)], (236, 226, 206), 0.3)
    b.ellipse(0, -12, 2.6, 2.6, (120, 30, 40))


def shaker(b: Brush, has: Has) -> None:
    """A shaker held upside down: holes at the anchor."""
    body = (246, 246, 246) if "salt" in has else (120, 74, 44)
    b.shaded([(-5, -4), (5, -4), (6.5, -18), (-6.5, -18)], body)
    b.shaded([(-5, -4), (5, -4), (4, 1), (-4, 1)], STEEL)
    b.dots(((-2, -0.5), (0, 0), (2, -0.5)), 0.6, BLACK)


def chives(b: Brush, _has: Has) -> None:
    for x in (-3.5, -2, -0.5, 1, 2.5):
        b.stroke([(x * 1.3, 4), (x * 0.4, -5), (x * 2 + 2, -15)], 1.2, (52 + int(x * 6), 136, 52))


def scoop(b: Brush, _has: Has) -> None:
    """A scoop of ice cubes."""
    b.stroke([(7, -8), (15, -20)], 2.6, tint(STEEL, 0.75))
    b.polygon([*arc(0, -2, 9, 6, 0, 180)], STEEL)
    for x, y in ((-4, -4), (3, -4), (0, -8)):
        b.polygon(rounded(x, y, 3.2, 3.0, 0.7), (196, 228, 246))
        b.polygon(rounded(x - 0.7, y - 0.7, 1.4, 1.2, 0.4), WHITE)


def feta(b: Brush, _has: Has) -> None:
    b.polygon(rounded(0, 0, 6.4, 4.6, 1.6), (226, 224, 214))
    b.polygon(rounded(-0.4, -0.7, 5.8, 3.8, 1.4), (250, 250, 244))


def pebble_handful(b: Brush, _has: Has) -> None:
    for x, y in shifted(scatter(6, 5, 3.6), 0, 1):
        b.ball(x, y, 2.8, 2.3, (150, 148, 146))


def lemon_wheel(b: Brush, _has: Has) -> None:
    lemon_slice(b)


def lettuce_leaves(b: Brush, _has: Has) -> None:
    lettuce_leaf(b, -3, 0, 10)
    lettuce_leaf(b, 5, 3, 9, tint(LETTUCE, 0.9))


def tomato_slices(b: Brush, _has: Has) -> None:
    for x, y in ((-5, 2), (4, 3), (-1, -3)):
        tomato_slice(b, x, y, 6.4)


def cucumber_slices(b: Brush, _has: Has) -> None:
    for x, y in ((-5, 2), (4, 3), (-1, -3)):
        cucumber_slice(b, x, y, 6)


def peel(b: Brush, _has: Has) -> None:
    b.stroke([(0, 0), (-4, 8), (-2, 14)], 4.4, (214, 176, 40))
    b.stroke([(0, 1), (-4, 8), (-2, 13)], 2.2, (252, 238, 180))


def ribbon_end(b: Brush, _has: Has) -> None:
    b.stroke([(0, 0), (-7, 6), (-3, 12), (-11, 17)], 2.6, b.paint["ribbon"])


def scrap(b: Brush, _has: Has) -> None:
    """The strip torn from a bag."""
    b.polygon([(-9, -2), (7, -3), (9, 2), (-7, 3)], b.paint["bag"])


def crumb(b: Brush, _has: Has) -> None:
    b.ellipse(0, 0, 1.2, 1.0, CRUMB)
