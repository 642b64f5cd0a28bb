"""Hot drinks: mug, kettle, tea, coffee, milk, sugar, biscuits; and the drinking glass."""

from __future__ import annotations

from p3iv.tabletop.art.brush import (
    BLACK,
    FLAT,
    RGB,
    WATER,
    WHITE,
    Brush,
    arc,
    clear,
    leaf,
    mix,
    rounded,
    scatter,
    shifted,
    side,
    slab,
    tint,
    vessel,
)

TEA: RGB = (172, 92, 30)
COFFEE: RGB = (58, 34, 22)
MILK: RGB = (246, 244, 236)
JUICE: RGB = (244, 152, 34)
SMOOTHIE: RGB = (234, 140, 118)

Has = frozenset[str]


def mug(b: Brush, has: Has) -> None:
    color = b.paint["mug"]
    b.stroke(arc(13, -12, 8, 7.5, -80, 90), 3.6, tint(color, 0.8))
    vessel(b, 11, 14, 23, color)
    b.polygon([(-10, -15), (10, -13.5), (10, -10.5), (-10, -12)], tint(color, 1.3), 0.5)
    if "water" in has:
        _drink(b, has)
    elif "coffee" in has:
        b.ellipse(0.5, -21.6, 9.5, 3.4, COFFEE)
        b.dots(shifted(scatter(9, 7, 2), 0.5, -22.4), 0.9, tint(COFFEE, 1.7))
    if "teabag" in has:
        _teabag_over_rim(b, "water" not in has)
    if "lemon" in has:
        lemon_slice(b, -12, -27)


def _drink(b: Brush, has: Has) -> None:
    strong = (
        COFFEE if "coffee" in has else TEA if "brewed" in has else mix(WATER, TEA, 0.35 if "teabag" in has else 0.0)
    )
    mixed = {"milk", "stirred"} <= has
    b.disc(0, -22.6, 12.6, mix(strong, MILK, 0.55) if mixed else strong)
    b.stroke(arc(0, -22.6, 10.5, 4.5, 200, 300), 0.8, mix(strong, WHITE, 0.5))
    if "milk" in has and not mixed:
        for x, y, r in ((-3, -23, 5), (3, -21.6, 4.4), (5.5, -24, 3)):
            b.disc(x, y, r, MILK)
    if "stirred" in has:
        foam = mix(strong, WHITE, 0.86)
        for radius in (9.6, 5.4):
            b.stroke(arc(0, -22.6, radius, radius * FLAT, 150, 395), 1.5, foam)
        b.disc(0, -22.6, 1.8, foam)
    if "cocoa" in has:
        b.disc(0, -22.8, 9.5, mix(strong, WHITE, 0.8))
        b.dots(shifted(scatter(22, 8.4, 3.2), 0, -22.8), 0.8, (72, 38, 20))


def _teabag_over_rim(b: Brush, dry: bool) -> None:
    if dry:
        b.polygon([(-5, -25), (4, -26), (6, -20.5), (-4, -20)], (226, 208, 172))
    b.stroke([(2, -22), (5, -17.5), (5, -10)], 0.8, WHITE)
    b.polygon(rounded(5, -7.5, 3.4, 3.4, 0.8), WHITE)
    leaf(b, 3, -7, 4.4, -20, (84, 150, 66))


def teabag(b: Brush, has: Has) -> None:
    """A tea bag on its string, held at the anchor."""
    b.stroke([(0, 0), (0, 10)], 0.7, WHITE)
    b.polygon(rounded(0, 0, 3.0, 3.0, 0.8), (240, 240, 230))
    b.shaded([(-4.5, 11), (4.5, 11), (5, 20), (-5, 20)], (120, 74, 36) if "wet" in has else (214, 190, 150))


def lemon_slice(b: Brush, x: float = 0.0, y: float = 0.0) -> None:
    """A slice of lemon with its segments."""
    b.ellipse(x, y, 7, 7, (232, 190, 20))
    b.ellipse(x, y, 5.8, 5.8, (252, 246, 204))
    for px, py in arc(x, y, 3.2, 3.2, 0, 300, 6):
        b.ellipse(px, py, 1.6, 1.6, (246, 214, 62))


def kettle(b: Brush, has: Has) -> None:
    color = b.paint["kettle"]
    b.stroke([(9, -32), (19, -31), (20, -20), (15, -9)], 4.0, BLACK)
    b.shaded([(-9, -32), (-20, -31), (-19, -27), (-12, -18)], tint(color, 0.92))
    b.shaded([*arc(0, -6, 16, 6, 180, 0), *arc(0, -34, 10, 4, 0, -180)], color, 0.7)
    b.shaded(side(16.5, 16.5, 5), BLACK)
    b.disc(0, -35, 10, tint(color, 0.8))
    b.ball(0, -39, 3, 2.6, BLACK)
    b.polygon(rounded(-1, -19, 4.6, 9.5, 2.4), (56, 58, 64))
    if "full" in has:
        b.polygon(rounded(-1, -17.6, 3.6, 7.4, 1.8), (66, 158, 232))
        b.polygon(rounded(-1, -24.4, 3.6, 0.8, 0.4), WHITE, 0.8)
    b.polygon(rounded(10, -4, 3.6, 2.2, 1.0), (255, 74, 30) if "hot" in has else (120, 120, 124))
    if "hot" in has:
        b.ellipse(10, -4, 6.5, 4.4, (255, 120, 40), 0.35)


def tea(b: Brush, _has: Has) -> None:
    color = b.paint["tea"]
    slab(b, 13, 7, 19, color)
    b.polygon([(-11, -19.5), (11, -19.5), (9.5, -25), (-9.5, -25)], tint(color, 0.5))
    for x in (-7, -2.5, 2, 6.5):
        b.polygon(rounded(x, -23.5, 2.0, 3.0, 0.5), WHITE)
    b.ellipse(0, -9.5, 8.5, 7.5, (244, 240, 222))
    leaf(b, -5, -6, 11, -35, (70, 140, 58))
    leaf(b, -4, -6.5, 6, 10, (104, 168, 80))


def coffee(b: Brush, has: Has) -> None:
    b.shaded(side(11, 11, 24), (92, 58, 38), 0.6)
    b.polygon([(-8.5, -23), (-6, -23), (-6, -3), (-8.5, -3)], WHITE, 0.4)
    b.shaded(rounded(1, -11, 9.8, 6.2, 1), b.paint["label"], 0.3)
    b.ellipse(1, -11, 3.8, 4.6, COFFEE)
    b.stroke([(1.8, -14.5), (0.2, -11), (1.4, -7.6)], 0.9, b.paint["label"])
    if "open" in has:
        b.disc(0, -24, 11, (206, 222, 226))
        b.disc(0, -23.6, 9.4, tint(COFFEE, 0.8))
        b.dots(shifted(scatter(9, 7, 2.4), 0, -23.8), 0.8, tint(COFFEE, 2.0))
        if "bare" not in has:
            jar_lid(b, 17, 4)
    else:
        jar_lid(b, 0, -19.5)


def jar_lid(b: Brush, x: float = 0.0, y: float = 0.0, color: RGB | None = None) -> None:
    """The lid of a jar, with its foot at the anchor."""
    color = color or b.paint["lid"]
    b.shaded(shifted(side(11.6, 11.6, 10), x, y), color)
    b.disc(x, y - 10, 11.4, tint(color, 1.25))


def milk(b: Brush, _has: Has) -> None:
    b.shaded([(-10, 0), (10, 0), (10, -26), (-10, -26)], MILK, 0.35)
    b.shaded([(-10, -26), (10, -26), (7.5, -35), (-7.5, -35)], tint(MILK, 0.9), 0.35)
    b.shaded([(-8, -35), (8, -35), (8, -39), (-8, -39)], tint(MILK, 0.97), 0.35)
    b.shaded([(-10, -5), (10, -5), (10, -16), (-10, -16)], b.paint["milk"], 0.35)
    for x, y, rx, ry in ((-4, -21, 3.4, 2.2), (3.6, -20, 2.6, 2.6), (5, -24, 1.8, 1.2)):  # a cow's spots
        b.ellipse(x, y, rx, ry, BLACK)
    b.ellipse(0, -10.5, 3.6, 4.2, WHITE)


def sugar(b: Brush, has: Has) -> None:
    color = b.paint["sugar"]
    vessel(b, 8, 13, 14, color)
    b.stroke(arc(-14, -10, 3.5, 3.5, 90, 270), 2.0, tint(color, 0.85))
    b.stroke(arc(14, -10, 3.5, 3.5, -90, 90), 2.0, tint(color, 0.85))
    if "open" in has:
        b.polygon([*arc(0, -14, 11.2, 4.6, 0, 180), (-5, -19), (1, -21.5), (6, -18.5)], (252, 252, 252))
        b.dots(shifted(scatter(8, 7, 2), 0, -16), 0.6, (206, 210, 220))
        b.shaded(shifted(side(9, 9, 6.5), 15, 8), tint(color, 0.9))
        b.disc(15, 1.5, 8.6, tint(color, 1.15))
        b.ball(15, 0, 2.4, 2.2, color)
        return
    b.shaded([*arc(0, -14.5, 13.4, 5.6, 180, 0), *arc(0, -15, 11, 9, 0, -180)], tint(color, 0.95), 0.7)
    b.ball(0, -25, 3, 2.8, tint(color, 0.8))


def biscuits(b: Brush, _has: Has) -> None:
    b.disc(0, -7, 18, tint(b.paint["plate"], 0.8))
    b.disc(0, -8.5, 18, b.paint["plate"])
    for x, y in ((-8, -9), (0, -12), (8, -9), (-1, -6.5), (3, -14.5)):
        b.disc(x, y + 1.8, 7, (142, 90, 38))
        b.disc(x, y, 7, (216, 160, 84))
        b.dots(((x - 3, y - 1), (x + 2.6, y - 0.6), (x, y + 1.4)), 0.9, (84, 44, 22))


def glass(b: Brush, has: Has) -> None:
    color = SMOOTHIE if "smoothie" in has else JUICE
    filled = 0.82 if has & {"smoothie", "juice"} else 0.0
    if "straw" in has:
        _straw(b)
    clear(b, 8, 11, 29, filled, color)
    if "straw" in has:
        b.stroke([(4, -25), (9, -43), (14, -45)], 2.4, (226, 62, 74))
        b.stroke([(6, -32), (6.6, -34.5)], 2.4, WHITE)
        b.stroke([(7.6, -38), (8.3, -40.5)], 2.4, WHITE)


def _straw(b: Brush) -> None:
    b.stroke([(-1, -6), (4, -26)], 2.4, (226, 62, 74))


def straw(b: Brush, _has: Has) -> None:
    """A drinking straw, held near its top."""
    b.stroke([(-7, 24), (-1, 0), (4, -5)], 2.4, (226, 62, 74))
    b.stroke([(-5, 16), (-4.4, 13.5)], 2.4, WHITE)
    b.stroke([(-3, 8), (-2.4, 5.5)], 2.4, WHITE)


def steam(b: Brush, has: Has) -> None:
    """A puff of steam; it becomes thinner and wider with its age, 0 ... 5."""
    age = next((int(name) for name in has), 0)
    size = 3.4 + 0.75 * age
    for x, y, r in ((0, 0, 1.0), (-0.7, 0.5, 0.7), (0.8, 0.4, 0.75), (0.2, -0.7, 0.6)):
        b.ellipse(x * size, y * size, r * size, r * size * 0.9, (252, 252, 254), 0.34 - 0.045 * age)
