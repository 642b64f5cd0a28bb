"""Bread and spreads, cheese, vegetables, fruit and oil."""

from __future__ import annotations

from p3iv.tabletop.art.brush import (
    BLACK,
    CRUMB,
    CRUST,
    RGB,
    WHITE,
    Brush,
    Point,
    arc,
    bottle,
    bread_slice,
    drops,
    mix,
    rounded,
    scatter,
    shifted,
    side,
    tint,
    toast_shape,
    vessel,
)

BUTTER: RGB = (250, 220, 96)

JAM: RGB = (178, 24, 48)

HONEY: RGB = (230, 138, 12)

CHEESE: RGB = (248, 196, 52)

EGG: RGB = (252, 212, 70)

TOASTED: RGB = (196, 132, 66)

Has = frozenset[str]


def loaf(b: Brush, has: Has) -> None:
    left = -7.0 if "cut" in has else -18.0
    top = [*arc(left + 6, -16, 8, 8, 180, 270, 6), *arc(12, -16, 7, 8, 270, 360, 6)]
    b.shaded([(left, 0), (left, -16), *top, (19, 0)], CRUST, 0.5)
    for x in (-6, 1, 8, 14):
        if x > left + 5:
            b.stroke([(x, -20), (x - 4, -13)], 1.5, tint(CRUST, 1.45))
    if "cut" in has:
        b.polygon([(x - 9, y - 9.5) for x, y in toast_shape(0, 0, 10.5, 1.05)], tint(CRUST, 0.85))
        b.polygon([(x - 9, y - 9.5) for x, y in toast_shape(0, 0.4, 8.8, 1.05)], CRUMB)
        b.dots(((-20, 1), (-17, 3), (-12, 3.5), (-22, 3), (-6, 4)), 0.9, tint(CRUMB, 0.9))


def slice_of_bread(b: Brush, has: Has) -> None:
    bread_slice(b, 0, -7, 14, flat=0.62, crumb=TOASTED if "toasted" in has else CRUMB)
    b.dots(((-5, -8), (3, -5), (6, -10), (-2, -11)), 0.7, tint(CRUMB, 0.86))


def toaster(b: Brush, has: Has) -> None:
    color = b.paint["toaster"]
    hot = "hot" in has
    b.shaded([*arc(-14, -20, 5, 5, 180, 270, 6), *arc(14, -20, 5, 5, 270, 360, 6), (19, -2), (-19, -2)], color, 0.55)
    b.polygon([(-17, -25), (17, -25), (15, -31), (-15, -31)], tint(color, 1.2))
    for y in (-29.6, -26.8):
        b.polygon([(-13, y - 0.9), (13, y - 0.9), (13, y + 0.9), (-13, y + 0.9)], (255, 112, 20) if hot else BLACK)
    if "bread" in has:
        _bread_in_slot(b, 4.0 if hot else 11.0)
    if hot:
        b.ellipse(0, -29, 17, 6, (255, 130, 30), 0.42)
    b.polygon([(-18, -2), (18, -2), (16, 0), (-16, 0)], BLACK)
    b.polygon(rounded(15, -12, 1.2, 7, 0.8), tint(color, 0.45))
    b.polygon(rounded(15.5, -6.5 if hot else -17.5, 4.2, 2.0, 1.2), BLACK)
    b.ellipse(6.5, -7, 2.4, 2.4, (255, 90, 30) if hot else tint(color, 0.6))


def _bread_in_slot(b: Brush, out: float) -> None:
    """The part of a slice that shows above the slot."""
    back = -26.6
    b.polygon(
        [
            (-10.5, back),
            *shifted(arc(-6, -out, 4.8, 3.6, 180, 290, 6), 0, back + 3.5),
            *shifted(arc(6, -out, 4.8, 3.6, 250, 360, 6), 0, back + 3.5),
            (10.5, back),
        ],
        CRUST,
    )
    b.polygon(
        [
            (-9, back),
            *shifted(arc(-5.4, -out, 3.8, 2.6, 180, 290, 6), 0, back + 4),
            *shifted(arc(5.4, -out, 3.8, 2.6, 250, 360, 6), 0, back + 4),
            (9, back),
        ],
        CRUMB,
    )


def butter(b: Brush, _has: Has) -> None:
    b.disc(0, -5.5, 18, tint(b.paint["dish"], 0.8))
    b.disc(0, -7, 18, b.paint["dish"])
    slab_at(b, 0, -5.5, 11.5, 6, 8, BUTTER)
    b.stroke([(-4, -5.8), (-4, -13.2)], 0.6, tint(BUTTER, 0.8))
    b.polygon([(11.5, -5.5), (14, -5), (14, -12), (11.5, -13.5)], mix(b.paint["dish"], WHITE, 0.7))


def slab_at(b: Brush, x: float, y: float, half: float, depth: float, height: float, color: RGB) -> None:  # noqa: PLR0917 - a shape
    """A block on something: front and top."""
    b.shaded(shifted([(-half, 0), (half, 0), (half, -height), (-half, -height)], x, y), color, 0.3)
    top: list[Point] = [(-half, -height), (half, -height), (half - 2, -height - depth), (-half + 2, -height - depth)]
    b.polygon(shifted(top, x, y), mix(color, WHITE, 0.35))


def butter_pat(b: Brush, _has: Has) -> None:
    slab_at(b, 0, 3, 5, 3.5, 4, BUTTER)


def jam(b: Brush, _has: Has) -> None:
    b.shaded(side(10.5, 10.5, 19), JAM, 0.7)
    b.polygon([(-8, -18), (-5.6, -18), (-5.6, -3), (-8, -3)], WHITE, 0.45)
    b.shaded(rounded(1.5, -9, 7.5, 5.2, 1), (248, 242, 226), 0.3)
    for x, y in ((-0.5, -9.4), (3.4, -9.4), (1.5, -6.8)):
        b.ellipse(x, y, 2.2, 2.2, JAM)
    b.stroke([(1.5, -11), (2.5, -13)], 0.8, (60, 120, 50))
    color = b.paint["cloth"]
    b.shaded(
        [(-12.5, -17), (-8, -15.6), (-3, -17), (3, -15.6), (8, -17), (12.5, -16), *arc(0, -22, 11, 4, 0, -180)], color
    )
    b.dots(shifted(scatter(9, 8, 3), 0, -22), 0.9, WHITE)


def cheese(b: Brush, has: Has) -> None:
    right = 8.0 if "cut" in has else 17.0
    b.shaded([(-17, 0), (right, 0), (right, -13), (-17, -6)], CHEESE, 0.3)
    b.polygon([(-17, -6), (right, -13), (right - 3, -20), (-11, -11)], mix(CHEESE, WHITE, 0.35))
    for x, y, r in ((-9, -3.4, 1.6), (-2, -6, 2.2), (4, -3, 1.5), (2, -12.5, 1.3)):
        b.ellipse(x, y, r, r * 0.85, tint(CHEESE, 0.72))
    if "cut" in has:
        b.polygon([(9, 4), (22, 4), (20, -1), (10, -1)], mix(CHEESE, WHITE, 0.3))
        b.ellipse(14, 2, 1.4, 0.8, tint(CHEESE, 0.72))
    else:
        b.ellipse(11, -6, 2.4, 2.2, tint(CHEESE, 0.72))


def cheese_slice(b: Brush, _has: Has) -> None:
    b.polygon([(-10, 3), (9, 4), (11, -3), (-8, -4)], CHEESE)
    b.dots(((-4, 0), (4, 1)), 1.4, tint(CHEESE, 0.75))


def plate(b: Brush, has: Has) -> None:
    color = b.paint["plate"]
    b.disc(0, -7.5, 20, tint(color, 0.72))
    b.disc(0, -9, 20, color)
    b.disc(0, -9, 14.5, tint(color, 0.9))
    b.disc(0, -8.4, 13.6, tint(color, 1.04))
    if "bread" in has:
        _bread_on_plate(b, has)
    if "egg" in has:
        scrambled(b, 0, -10, 13, 5.0)
    if "chives" in has:
        for x, y in shifted(scatter(16, 11, 4), 0, -11):
            b.stroke([(x - 1.1, y), (x + 1.1, y - 0.8)], 0.9, (36, 116, 40))


def scrambled(b: Brush, x: float, y: float, rx: float, ry: float) -> None:
    """A heap of soft yellow lumps."""
    for i, (px, py) in enumerate(sorted(scatter(13, rx * 0.8, ry * 0.8), key=lambda p: p[1])):
        b.ellipse(x + px, y + py + 0.9, 3.6, 2.6, tint(EGG, 0.76))
        b.ellipse(x + px, y + py, 3.4, 2.4, mix(EGG, WHITE, 0.3 if i % 3 else 0.0))


def _bread_on_plate(b: Brush, has: Has) -> None:
    toasted = "toasted" in has
    bread_slice(b, 0, -11, 14.5, flat=0.62, crumb=TOASTED if toasted else CRUMB)
    rise = 0.0
    if "butter" in has:
        b.polygon(toast_shape(0, -11, 11.2, 0.62), BUTTER)
        b.stroke([(-6, -13), (5, -14)], 0.9, mix(BUTTER, WHITE, 0.6))
        b.stroke([(-5, -9), (7, -10)], 0.9, mix(BUTTER, WHITE, 0.6))
    if "jam" in has:
        b.polygon(toast_shape(0, -11.2, 10, 0.6), JAM)
        b.dots(((-4, -12), (3, -9), (5, -14), (-2, -15)), 1.0, tint(JAM, 1.5))
    if "honey" in has:
        zigzag: list[Point] = [(-9, -6.5), (8, -8), (-8, -10.5), (8, -12.5), (-7, -15), (6, -16.5)]
        b.stroke(zigzag, 2.0, HONEY)
    for layer, draw in _LAYERS.items():
        if layer in has:
            draw(b, -12.0 - rise)
            rise += 2.6
    if "closed" in has:
        bread_slice(b, 0, -13 - rise, 14.5, flat=0.62, crumb=tint(CRUST, 1.4))
    if "halved" in has:
        _cut_across(b, -11.0 - (rise + 2.0 if "closed" in has else 0.0))


def _cut_across(b: Brush, y: float) -> None:
    """A diagonal gap through which the plate is visible."""
    b.polygon([(-12.3, y + 6.4), (-8.6, y + 10), (11.8, y - 5), (7.6, y - 8.4)], tint(CRUST, 0.72))
    b.polygon([(-12.3, y + 8), (-10, y + 10), (11.4, y - 6.4), (9.2, y - 8.2)], tint(b.paint["plate"], 0.94))


def _lettuce_layer(b: Brush, y: float) -> None:
    lettuce_leaf(b, -5, y + 1, 11)
    lettuce_leaf(b, 6, y, 10)
    b.stroke([(-12, y + 3.5), (-8, y + 5.5), (-3, y + 4), (3, y + 6), (8, y + 4), (13, y + 4)], 1.6, tint(LETTUCE, 0.9))


def _tomato_layer(b: Brush, y: float) -> None:
    for x, dy in ((-7, 1), (6, 1.5), (0, -1.5)):
        tomato_slice(b, x, y + dy, 5.8)


def _cheese_layer(b: Brush, y: float) -> None:
    b.polygon([(-13, y + 2), (4, y + 6), (13, y - 1), (-3, y - 5)], tint(CHEESE, 0.85))
    b.polygon([(-13, y + 1), (4, y + 5), (13, y - 2), (-3, y - 6)], CHEESE)
    b.dots(((-4, y), (4, y + 1), (3, y - 3)), 1.2, tint(CHEESE, 0.75))


_LAYERS = {"cheese": _cheese_layer, "lettuce": _lettuce_layer, "tomato": _tomato_layer}

LETTUCE: RGB = (116, 186, 62)

TOMATO: RGB = (216, 44, 32)

CUCUMBER: RGB = (48, 112, 48)

BANANA: RGB = (250, 214, 62)

FLESH: RGB = (252, 240, 200)

MANGO: RGB = (246, 150, 40)

BERRY: RGB = (96, 40, 120)

LEMON: RGB = (248, 220, 50)


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
