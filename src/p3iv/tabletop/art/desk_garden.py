"""Card writing (card, envelope, stamps, ribbon, pen) and repotting (plant, pots, soil, pebbles, watering can)."""

from __future__ import annotations

from p3iv.tabletop.art.brush import (
    BLACK,
    FLAT,
    RGB,
    SOIL,
    WATER,
    WHITE,
    Brush,
    Point,
    arc,
    drops,
    leaf,
    mix,
    rounded,
    scatter,
    shifted,
    side,
    tint,
    vessel,
)

HEART: RGB = (214, 30, 60)

INK: RGB = (40, 54, 130)

Has = frozenset[str]


def heart(b: Brush, x: float, y: float, size: float) -> None:
    b.polygon(
        [
            *arc(x - size * 0.5, y, size * 0.55, size * 0.5, 150, 360, 8),
            *arc(x + size * 0.5, y, size * 0.55, size * 0.5, 180, 390, 8),
            (x, y + size * 1.15),
        ],
        HEART,
    )


def flower(b: Brush, x: float, y: float, size: float) -> None:
    b.stroke([(x, y), (x + 1, y + size * 1.7)], 1.0, (66, 140, 60))
    leaf(b, x + 0.8, y + size * 1.5, size * 0.9, -30, (66, 140, 60))
    for px, py in arc(x, y, size * 0.62, size * 0.56, 0, 288, 5):
        b.ellipse(px, py, size * 0.42, size * 0.4, (148, 72, 196))
    b.ellipse(x, y, size * 0.36, size * 0.34, (250, 204, 50))


def card(b: Brush, has: Has) -> None:
    """A card that is slightly open: its front and, behind it, its other half."""
    paper = b.paint["card"]
    b.polygon([(-18, -2), (18, -4), (20, -30), (-16, -29)], tint(paper, 0.78))
    b.polygon([(-19, 0), (17, -1), (18, -27), (-18, -27)], paper)
    b.stroke([(-17, -2), (15.5, -2.8)], 0.6, tint(paper, 0.85))
    if "heart" in has:
        heart(b, -9, -19, 7)
    if "flower" in has:
        flower(b, -9, -19, 7)
    if "written" in has:
        for row, width in enumerate((13, 11, 13, 8)):
            scribble(b, 1.5, -22.5 + 5.4 * row, width)


def scribble(b: Brush, x: float, y: float, width: float) -> None:
    """A line of handwriting."""
    points: list[Point] = [(x + i * 1.1, y + (1.1 if i % 2 else -1.1)) for i in range(int(width / 1.1))]
    b.stroke(points, 0.9, INK)


def envelope(b: Brush, has: Has) -> None:
    paper = b.paint["envelope"]
    if "sealed" not in has:
        b.polygon([(-19, -24), (19, -24), (0, -40)], tint(paper, 0.72))
    if "card" in has and "sealed" not in has:
        b.polygon([(-15, -22), (15, -22), (15, -32), (-15, -32)], b.paint["card"])
        heart(b, -8, -29.5, 2.6)
    b.polygon([(-20, 0), (20, 0), (19, -25), (-19, -25)], paper)
    b.polygon([(-20, 0), (20, 0), (19.8, -2), (-19.8, -2)], tint(paper, 0.84))
    for corner in (-19.0, 19.0):
        b.stroke([(corner, -1), (0, -13)], 0.8, tint(paper, 0.84))
    if "sealed" in has:
        b.polygon([(-19, -25), (19, -25), (0, -11)], tint(paper, 0.7))
        b.polygon([(-17, -25), (17, -25), (0, -13)], tint(paper, 0.93))
        b.ellipse(0, -13.4, 3.2, 3.0, (170, 24, 40))
    if "address" in has:
        for row, width in enumerate((13, 15, 10)):
            scribble(b, -16, -9.5 + 3.7 * row, width)
    if "stamp" in has:
        stamp(b, frozenset(), 13.4, -18.5)
    if "ribbon" in has:
        _bow(b, b.paint["ribbon"])


def _bow(b: Brush, color: RGB) -> None:
    b.polygon([(4, 0), (8, 0), (8, -25), (4, -25)], color)
    b.polygon([(-20, -5), (20, -5), (20, -8.5), (-20, -8.5)], color)
    for sign in (-1, 1):
        b.polygon([(6, -7), (6 + 9 * sign, -13), (6 + 9 * sign, -3)], tint(color, 0.85))
        b.polygon([(6 + 2 * sign, -7), (6 + 7.5 * sign, -10.5), (6 + 7.5 * sign, -5)], tint(color, 1.2))
    b.ellipse(6, -7, 2.6, 2.6, tint(color, 0.7))


def stamp(b: Brush, _has: Has, x: float = 0.0, y: float = 0.0) -> None:
    b.polygon(rounded(x, y, 4.6, 5.4, 0.4), WHITE)
    b.polygon(rounded(x, y, 3.6, 4.4, 0.3), b.paint["stamp"])
    b.ellipse(x, y - 0.8, 1.7, 2.0, WHITE)
    b.polygon([(x - 2.4, y + 3.6), (x, y), (x + 2.4, y + 3.6)], WHITE)


def stamps(b: Brush, _has: Has) -> None:
    """A sheet of stamps."""
    b.polygon([(-17, 0), (17, 0), (15, -22), (-15, -22)], (250, 250, 250))
    for row, y in enumerate((-5.0, -11.5, -18.0)):
        for x in (-11.5, -4, 3.6, 11):
            b.polygon(rounded(x * (1 - 0.05 * row), y, 3.0, 2.5, 0.3), b.paint["stamp"])
            b.ellipse(x * (1 - 0.05 * row), y, 1.2, 1.1, WHITE)


def ribbon(b: Brush, _has: Has) -> None:
    """A spool of ribbon with a loose end."""
    color = b.paint["ribbon"]
    b.stroke([(8, -3), (15, -1), (18, 3), (22, 2)], 2.6, tint(color, 0.9))
    b.shaded(side(13, 13, 7.5), (206, 186, 150))
    b.shaded([*side(10.5, 10.5, 12)], color, 0.8)
    for y in (-5.5, -8.5):
        b.stroke(arc(0, y, 10, 4, 175, 5), 0.6, tint(color, 0.7))
    b.disc(0, -13, 13, (206, 186, 150))
    b.disc(0, -14.5, 13, (236, 218, 182))
    b.disc(0, -14.5, 4.5, tint((206, 186, 150), 0.5))


def pen(b: Brush, has: Has) -> None:
    """A fountain pen that lies on the table, its cap on it or beside it."""
    color = b.paint["pen"]
    b.stroke([(-6, -5), (17, -10)], 5.0, tint(color, 0.7))
    b.stroke([(-6, -5.8), (17, -10.8)], 3.2, color)
    if "capped" in has:
        cap(b, has, -9, -4.6)
        return
    _nib(b, -8, -4.8)
    if "bare" not in has:
        cap(b, has, 2, 3)


def _nib(b: Brush, x: float, y: float) -> None:
    b.polygon([(x + 1, y - 2.2), (x + 2, y + 2.2), (x - 9, y + 2)], (214, 178, 70))
    b.stroke([(x, y), (x - 8.4, y + 1.8)], 0.5, BLACK)


def cap(b: Brush, _has: Has, x: float = 0.0, y: float = 0.0) -> None:
    color = mix(b.paint["pen"], BLACK, 0.55)
    b.stroke([(x - 7, y + 1.6), (x + 6, y - 1.2)], 6.4, color)
    b.stroke([(x - 7, y - 0.6), (x + 6, y - 3.4)], 1.4, (222, 190, 90))


def writing_pen(b: Brush, _has: Has) -> None:
    """The pen in a writing hand: its tip at the anchor."""
    color = b.paint["pen"]
    b.stroke([(3, -6), (11, -22)], 4.4, tint(color, 0.7))
    b.stroke([(2.6, -6.4), (10.6, -22.4)], 2.6, color)
    b.polygon([(0, 0), (1.0, -6.5), (4.6, -4.6)], (214, 178, 70))


TERRACOTTA: RGB = (190, 100, 62)

DEAD: RGB = (186, 140, 50)

STONES: tuple[RGB, ...] = ((168, 166, 160), (132, 130, 128), (198, 190, 176), (110, 108, 112))


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
