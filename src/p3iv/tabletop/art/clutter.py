"""Things that no procedure uses; they only make the pictures harder to read."""

from __future__ import annotations

from collections.abc import Callable

from p3iv.tabletop.art.brush import (
    BLACK,
    FLAT,
    STEEL,
    WHITE,
    Brush,
    arc,
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


def vase(b: Brush) -> None:
    color = b.paint["clutter1"]
    for x, y in ((-7, -38), (0, -43), (7, -37)):
        b.stroke([(0, -24), (x * 0.6, -31), (x, y)], 1.0, (70, 120, 60))
        for px, py in arc(x, y, 2.6, 2.6, 0, 288, 5):
            b.ellipse(px, py, 2.2, 2.2, b.paint["clutter2"])
        b.ellipse(x, y, 1.7, 1.7, (250, 214, 80))
    b.shaded(
        [
            *arc(0, -4, 7, 3, 180, 0),
            *arc(0, -13, 10, 8, 0, -50, 4),
            (4, -25),
            (-4, -25),
            *arc(0, -13, 10, 8, 230, 180, 4),
        ],
        color,
    )
    b.disc(0, -25, 4.2, tint(color, 0.6))


def phone(b: Brush) -> None:
    b.polygon([(-8, 0), (8, -1), (9, -20), (-6, -20)], BLACK)
    b.polygon([(-6.6, -1.8), (6.8, -2.8), (7.6, -18), (-5, -18)], (52, 66, 96))
    b.polygon([(-5.6, -10), (-4.8, -18), (3, -18)], (110, 130, 170))


def keys(b: Brush) -> None:
    b.stroke(arc(-3, -7, 5, 4, 0, 360), 1.4, STEEL)
    for end in ((9, -9), (8, -2), (1, 2)):
        b.stroke([(-1, -5), end], 2.2, tint(STEEL, 0.8))
        b.ellipse(*end, 2.6, 2.0, (200, 170, 80))
    b.polygon(rounded(-10, -9, 3.2, 4.4, 1.4), b.paint["clutter1"])


def pencils(b: Brush) -> None:
    for x, tall, color in (
        (-5, -31, (230, 170, 40)),
        (-1, -36, (60, 120, 190)),
        (3, -33, (200, 60, 60)),
        (6, -29, (80, 150, 80)),
    ):
        b.stroke([(x * 0.5, -14), (x * 1.3, tall)], 2.2, color)
        b.ellipse(x * 1.3, tall, 0.9, 1.4, (60, 50, 40))
    b.shaded(side(8, 8.6, 17), b.paint["clutter2"])
    b.stroke(arc(0, -17, 8.6, 8.6 * FLAT, 0, 180), 0.8, tint(b.paint["clutter2"], 1.4))


def napkin(b: Brush) -> None:
    color = mix(b.paint["clutter1"], WHITE, 0.55)
    b.polygon([(-16, 0), (14, 1), (16, -12), (-12, -14)], tint(color, 0.88))
    b.polygon([(-16, -1), (12, 0), (14, -12), (-12, -15)], color)
    b.stroke([(-13, -3), (11, -2), (12.6, -11), (-10, -13), (-13, -3)], 0.7, b.paint["clutter2"])


def apple(b: Brush) -> None:
    color = mix((190, 40, 40), (150, 190, 70), b.paint["clutter1"][0] / 255)
    b.ball(0, -9, 10, 9.5, color)
    b.stroke([(0, -17), (2, -22)], 1.3, (90, 60, 40))
    leaf(b, 1.5, -20, 6, -20, (90, 150, 70))


def pear(b: Brush) -> None:
    color = (196, 200, 84)
    b.ball(0, -8, 9, 8.4, color)
    b.shaded([(-7, -11), (-4, -20), (0, -22), (4, -20), (7, -11)], color, 0.6)
    b.stroke([(0, -21), (2, -26)], 1.3, (90, 60, 40))


def book(b: Brush) -> None:
    slab(b, 17, 9, 5, b.paint["clutter1"])
    b.polygon([(-15, -1), (17, -1), (17, -4), (-15, -4)], (240, 234, 218))
    b.polygon(rounded(0, -9.5, 8, 2, 0.6), b.paint["clutter2"])


def clock(b: Brush) -> None:
    b.ball(0, -12, 11.5, 11.5, b.paint["clutter2"])
    b.ellipse(0, -12, 9, 9, WHITE)
    b.stroke([(0, -12), (0, -18)], 1.0, BLACK)
    b.stroke([(0, -12), (4, -10)], 1.0, BLACK)


def candle(b: Brush) -> None:
    b.disc(0, -3, 9, STEEL)
    b.shaded(shifted(side(5, 5, 17), 0, -2), mix(b.paint["clutter1"], WHITE, 0.5))
    b.stroke([(0, -19), (0.4, -23)], 0.9, BLACK)


def glasses(b: Brush) -> None:
    for x in (-7, 7):
        b.ellipse(x, -6, 5.6, 4.2, (200, 220, 230), 0.4)
        b.stroke(arc(x, -6, 5.8, 4.4, 0, 360, 20), 1.3, BLACK)
    b.stroke([(-1.4, -7), (1.4, -7)], 1.2, BLACK)
    b.stroke([(12.6, -7), (17, -13)], 1.2, BLACK)


def tissues(b: Brush) -> None:
    slab(b, 15, 8, 11, b.paint["clutter2"])
    b.polygon([(-5, -15), (-7, -24), (-1, -21), (4, -26), (5, -15)], (248, 248, 250))


def ball_of_wool(b: Brush) -> None:
    color = b.paint["clutter1"]
    b.ball(0, -10, 11, 10, color)
    for k in (-6, -2, 2, 6):
        b.stroke(arc(k, -10, 8, 9, 210, 320, 8), 0.8, tint(color, 0.7))
    b.stroke([(8, -4), (14, -1), (18, -3)], 1.0, tint(color, 0.9))


def dice(b: Brush) -> None:
    for x, y in ((-6, 0), (6, 2)):
        b.polygon(rounded(x, y - 5, 5, 5, 1.2), (244, 240, 232))
        b.dots(((x - 2.4, y - 7.4), (x, y - 5), (x + 2.4, y - 2.6)), 1.0, BLACK)


def toy_car(b: Brush) -> None:
    color = b.paint["clutter2"]
    b.shaded([(-15, -3), (-15, -9), (-8, -10), (-5, -16), (6, -16), (9, -10), (15, -8), (15, -3)], color)
    b.polygon([(-6, -10), (-4, -14.6), (5, -14.6), (7, -10)], (200, 224, 236))
    for x in (-9, 9):
        b.ellipse(x, -3, 3.6, 3.6, BLACK)
        b.ellipse(x, -3, 1.5, 1.5, STEEL)


def buttons(b: Brush) -> None:
    vessel(b, 8, 10, 5, b.paint["clutter1"])
    for i, (x, y) in enumerate(scatter(6, 7, 2.4)):
        b.disc(x, y - 5.5, 2.6, b.paint["clutter2"] if i % 2 else STEEL)


CLUTTER: dict[str, Callable[[Brush], None]] = {
    "vase": vase,
    "phone": phone,
    "keys": keys,
    "pencils": pencils,
    "napkin": napkin,
    "apple": apple,
    "pear": pear,
    "book": book,
    "clock": clock,
    "candle": candle,
    "glasses": glasses,
    "tissues": tissues,
    "ball of wool": ball_of_wool,
    "dice": dice,
    "toy car": toy_car,
    "buttons": buttons,
}
