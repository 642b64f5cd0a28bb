"""Bowl, stove, pan, eggs and blender."""

from __future__ import annotations

from p3iv.tabletop.art.brush import (
    BLACK,
    FLAT,
    RGB,
    STEEL,
    WHITE,
    Brush,
    arc,
    mix,
    rounded,
    scatter,
    shifted,
    side,
    slab,
    tint,
    vessel,
)
from p3iv.tabletop.art.drinks import MILK
from p3iv.tabletop.art.food import (
    BERRY,
    BUTTER,
    EGG,
    FLESH,
    LETTUCE,
    MANGO,
    cucumber_slice,
    lettuce_leaf,
    scrambled,
    tomato_slice,
)

Has = frozenset[str]


def bowl(b: Brush, has: Has) -> None:
    vessel(b, 10, 20, 17, b.paint["bowl"])
    if "egg" in has:
        _eggs_in_bowl(b, has)
    greens = has & {"lettuce", "tomato", "cucumber"}
    if greens:
        _salad(b, has, greens)
    if "cheese" in has:
        for x, y in shifted(scatter(9, 14, 4.5, 2.0), 0, -20):
            b.polygon(rounded(x, y, 1.7, 1.4, 0.6), WHITE)
    if "oil" in has:
        for x, y in ((-11, -17), (-3, -21), (6, -16), (12, -20), (1, -14)):
            b.ellipse(x, y, 2.8, 1.5, (250, 214, 60))
            b.ellipse(x - 0.8, y - 0.5, 0.9, 0.5, WHITE)
    if "sour" in has:
        for x, y in ((-14, -19), (-6, -15), (2, -18.5), (9, -22), (14, -17), (-2, -24), (5, -13)):
            b.ellipse(x, y, 1.9, 1.9, (246, 252, 214))
            b.ellipse(x, y, 1.0, 1.0, (255, 255, 255))


def _eggs_in_bowl(b: Brush, has: Has) -> None:
    if "beaten" in has:
        b.disc(0, -16.4, 18, EGG)
        b.stroke(arc(0, -16.4, 12, 12 * FLAT, 100, 380), 1.2, mix(EGG, WHITE, 0.6))
        b.dots(((-10, -18), (9, -13), (4, -20), (-4, -14)), 1.0, mix(EGG, WHITE, 0.75))
    else:
        b.disc(0, -16.4, 18, (226, 224, 196))
        for x, y in ((-7, -16), (3, -19), (7, -14.5)):
            b.ellipse(x, y, 5, 3.2, (246, 168, 20))
            b.ellipse(x - 1.4, y - 1, 1.4, 0.8, WHITE)
    if "salt" in has:
        dark = b.paint["pepper"]
        b.dots(shifted(scatter(20, 14, 5), 0, -16.4), 0.75, WHITE)
        b.dots(shifted(scatter(12, 14, 5, 1.7), 0, -16.0), 0.7, dark)


def _salad(b: Brush, has: Has, greens: Has) -> None:
    if "tossed" in has:
        _tossed(b, greens)
        return
    if "lettuce" in greens:
        for x, y, size, shade in (
            (-9.0, -18.0, 9, 0.9),
            (8.0, -19.0, 9, 0.95),
            (0.0, -15.0, 10, 1.0),
            (-1.0, -21.0, 8, 0.86),
        ):
            lettuce_leaf(b, x, y, size, tint(LETTUCE, shade))
    if "tomato" in greens:
        for x, y in ((-12.0, -18.5), (-7.0, -14.0), (-5.0, -20.0)):
            tomato_slice(b, x, y, 4.8)
    if "cucumber" in greens:
        for x, y in ((12.0, -18.5), (7.0, -14.0), (5.0, -20.5)):
            cucumber_slice(b, x, y, 4.8)


def _tossed(b: Brush, greens: Has) -> None:
    """The mixed salad."""
    draw = {
        "lettuce": lambda x, y: lettuce_leaf(b, x, y, 5.6),
        "tomato": lambda x, y: tomato_slice(b, x, y, 3.4),
        "cucumber": lambda x, y: cucumber_slice(b, x, y, 3.6),
    }
    b.polygon([*arc(0, -17, 18, 6.5, 0, 180), *arc(0, -18, 17, 11, 180, 360)], tint(LETTUCE, 0.62))
    kinds = sorted(greens)
    for i, (x, y) in enumerate(sorted(scatter(18, 15, 7), key=lambda p: p[1])):
        draw[kinds[i % len(kinds)]](x, y - 20.5)


def stove(b: Brush, has: Has) -> None:
    lit = "on" in has
    slab(b, 20, 15, 9, b.paint["stove"])
    b.polygon([(-18, -10), (18, -10), (16, -23), (-16, -23)], BLACK)
    b.disc(0, -16.5, 13.5, (255, 92, 24) if lit else (84, 84, 88))
    b.disc(0, -16.5, 11, (120, 34, 20) if lit else BLACK)
    b.disc(0, -16.5, 8, (255, 130, 40) if lit else (84, 84, 88))
    b.disc(0, -16.5, 5.4, (150, 40, 20) if lit else BLACK)
    b.ellipse(-11, -4.6, 3.2, 3.2, STEEL)
    b.stroke([(-11, -4.6), (-8.8, -2.6) if lit else (-11, -7.4)], 1.2, BLACK)
    b.ellipse(11, -4.6, 1.8, 1.8, (255, 60, 30) if lit else (90, 60, 60))
    if lit:
        b.disc(0, -16.5, 20, (255, 120, 40), 0.3)


def flames(b: Brush, has: Has) -> None:
    """Flames around the foot of the pan, in one of three shapes."""
    turn = next((int(name) for name in has), 0)
    for i, x in enumerate((-15, -10, -5, 0, 5, 10, 15)):
        tall = 5.2 + 2.2 * ((i * 2 + turn) % 3)
        y = 3.0 - abs(x) * 0.16
        b.polygon([(x - 2.4, y), (x, y - tall), (x + 2.4, y)], (70, 130, 250), 0.9)
        b.polygon([(x - 1.4, y), (x, y - tall * 0.62), (x + 1.4, y)], (255, 190, 80), 0.95)


def pan(b: Brush, has: Has) -> None:
    color = b.paint["pan"]
    b.stroke([(15, -6), (30, -11)], 4.0, BLACK)
    b.shaded(side(14, 18, 7), color, 0.6)
    b.disc(0, -7, 18, tint(color, 1.35))
    b.disc(0, -6.6, 16.2, tint(color, 0.62))
    if "cooked" in has:
        scrambled(b, 0, -7.5, 13.5, 5.2)
    elif "egg" in has:
        b.disc(0, -6.4, 15.4, mix(EGG, (236, 176, 30), 0.3))
        b.disc(-4, -7.6, 5, mix(EGG, WHITE, 0.35))
    elif "butter" in has:
        b.disc(0, -6.4, 11, (226, 178, 52))
        b.polygon(rounded(1, -7.6, 4.6, 2.4, 1), BUTTER)
        b.dots(((-7, -6), (7, -4.6), (-3, -3.6), (6, -9)), 0.9, WHITE)


def eggs(b: Brush, has: Has) -> None:
    b.shaded([(-19, 0), (19, 0), (17, -7), (-17, -7)], b.paint["carton"], 0.4)
    b.polygon([(-17, -7), (17, -7), (15, -15), (-15, -15)], tint(b.paint["carton"], 0.75))
    shell = b.paint["shell"]
    for i, x in enumerate((-11.0, 0.0, 11.0)):
        if "cracked" in has and i != 0:
            b.polygon(
                [
                    (x - 5, -9),
                    (x - 3, -13),
                    (x - 1, -10.5),
                    (x + 1, -13.5),
                    (x + 3, -10.5),
                    (x + 5, -13),
                    (x + 5, -8),
                    *arc(x, -8, 5, 4, 0, 180, 8),
                ],
                shell,
            )
            b.ellipse(x, -9.4, 3.4, 1.3, tint(shell, 0.62))
        else:
            b.ball(x, -12, 5.2, 6.8, shell)


def egg(b: Brush, _has: Has) -> None:
    """A raw egg, open at the bottom."""
    b.ball(0, 0, 5.2, 6.8, b.paint["shell"])
    b.polygon(
        [(-5.2, 2), (-2.6, 0.4), (0, 2.4), (2.6, 0.4), (5.2, 2), (3, 3.6), (-3, 3.6)], tint(b.paint["shell"], 0.6)
    )


def blender(b: Brush, has: Has) -> None:
    color = b.paint["blender"]
    b.shaded([(-15, 0), (15, 0), (12, -15), (-12, -15)], color, 0.6)
    b.disc(0, -15, 12, tint(color, 0.7))
    b.ellipse(0, -6.5, 3.8, 3.8, STEEL)
    b.stroke([(0, -6.5), (2, -8.6)], 1.0, BLACK)
    if "away" not in has:
        jar(b, has, -16)


def jar(b: Brush, has: Has, y: float = 0.0) -> None:
    """The blender's jar and its content, with its foot at `y`."""
    b.stroke([(12, y - 28), (19, y - 26), (18, y - 12), (10, y - 8)], 2.6, BLACK)
    b.polygon(shifted(side(9, 14, 32), 0, y), (210, 228, 236), 0.45)
    if "blended" in has:
        color = _smoothie(has)
        b.shaded(shifted(side(8.4, 12.2, 22), 0, y), color, 0.4)
        b.disc(0, y - 22, 12, mix(color, WHITE, 0.5))
        b.dots(((-5, y - 22), (4, y - 23), (1, y - 20.5)), 1.0, WHITE)
    else:
        _jar_contents(b, has, y)
    b.stroke(shifted(arc(0, -32, 14, 14 * FLAT, 0, 360, 28), 0, y), 0.9, (240, 246, 250))
    b.polygon(shifted([(-10.5, -28), (-8.6, -28), (-6, -4), (-7.6, -4)], 0, y), WHITE, 0.5)
    if "lid" in has:
        lid(b, frozenset(), y - 31)


def _jar_contents(b: Brush, has: Has, y: float) -> None:
    if "milk" in has:
        b.shaded(shifted(side(8.4, 10.6, 12), 0, y), MILK, 0.3)
        b.disc(0, y - 12, 10.4, (255, 255, 255))
    if "banana" in has:
        for dx, dy in ((-4.5, -6.0), (3.5, -5.0), (-1.0, -10.0)):
            b.ellipse(dx, y + dy - 1, 4.4, 3.4, tint(FLESH, 0.78))
            b.ellipse(dx, y + dy - 1.6, 4.0, 2.8, FLESH)
            b.dots(((dx, y + dy - 1.6),), 0.8, (190, 160, 90))
    if "berries" in has:
        for dx, dy in ((-6.5, -14.0), (-1.0, -16.0), (5.0, -14.5), (2.0, -12.0), (-4.0, -18.5)):
            b.ball(dx, y + dy, 2.7, 2.5, BERRY)
    if "mango" in has:
        for dx, dy in ((-6.0, -14.0), (0.0, -16.5), (6.0, -14.0), (2.0, -12.0)):
            b.polygon(rounded(dx, y + dy, 2.9, 2.6, 0.8), MANGO)
    if "ice" in has:
        for dx, dy in ((-6.0, -21.0), (1.0, -23.0), (7.0, -20.5), (-1.0, -19.0)):
            b.polygon(rounded(dx, y + dy, 3.0, 2.7, 0.6), (188, 224, 246))
            b.polygon(rounded(dx - 0.6, y + dy - 0.6, 1.5, 1.2, 0.4), WHITE)


def _smoothie(has: Has) -> RGB:
    return (208, 98, 142) if "berries" in has else (248, 172, 92)


def lid(b: Brush, _has: Has, y: float = 0.0) -> None:
    """The blender's lid, with its foot at the anchor."""
    color = tint(b.paint["blender"], 0.75)
    b.shaded(shifted(side(14.6, 14.6, 10.4), 0, y + 6.4), color)
    b.disc(0, y - 4, 14.2, tint(color, 1.3))
    b.shaded(shifted(side(4.5, 4.5, 5), 0, y - 2), BLACK)
    b.disc(0, y - 7, 4.5, (84, 82, 86))
