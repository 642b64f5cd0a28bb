"""Wall, table and hands. A hand acts at its anchor; its arm points down before the hand is rotated."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from p3iv.tabletop.art.brush import RGB, WHITE, Brush, Point, mix, tint

_FAR = 130.0  # outside the picture in every view; the anchor is the middle of the picture

Pattern = Callable[[Brush, float, np.random.Generator], None]  # (brush, y of the table's far edge, random numbers)


def draw_room(b: Brush, table: str, wall: str, horizon: float, rng: np.random.Generator) -> None:
    """Draw wall and table; `horizon` is the y of the table's far edge."""
    far = horizon - 80.0
    b.polygon([(-_FAR, -_FAR), (_FAR, -_FAR), (_FAR, far), (-_FAR, far)], b.paint["wall"])
    _WALLS[wall](b, far, rng)
    color = b.paint["table"]
    b.polygon([(-_FAR, far), (_FAR, far), (_FAR, _FAR), (-_FAR, _FAR)], color)
    _TABLES[table](b, far, rng)
    b.polygon([(-_FAR, far - 2.5), (_FAR, far - 2.5), (_FAR, far), (-_FAR, far)], tint(color, 0.62))
    b.polygon([(-_FAR, far), (_FAR, far), (_FAR, far + 1), (-_FAR, far + 1)], tint(color, 1.2))


def _deep(x: float, y: float, far: float) -> Point:
    """A point of the table top, in perspective."""
    return x * (0.72 + 0.5 * (y - far) / 120.0), y


def _lanes(b: Brush, edges: list[float], far: float, colors: list[RGB]) -> None:
    """Strips that run away from the camera."""
    for left, right, color in zip(edges, edges[1:], colors, strict=False):
        near = [_deep(right, _FAR, far), _deep(left, _FAR, far)]
        b.polygon([_deep(left, far, far), _deep(right, far, far), *near], color)


def _planks(b: Brush, far: float, rng: np.random.Generator) -> None:
    edges = [float(x) for x in np.arange(-170, 171, rng.uniform(16, 34))]
    shades = [tint(b.paint["table"], float(k)) for k in rng.uniform(0.86, 1.12, len(edges))]
    _lanes(b, edges, far, shades)
    for x in edges:
        b.stroke([_deep(x, far, far), _deep(x, _FAR, far)], 0.8, tint(b.paint["table"], 0.6))


def _grain(b: Brush, far: float, rng: np.random.Generator) -> None:
    for y in np.arange(far + 2, _FAR, 3.4):
        wave = [(float(x), float(y) + float(rng.uniform(-1.6, 1.6))) for x in range(-130, 131, 26)]
        b.stroke(wave, float(rng.uniform(0.4, 1.2)), tint(b.paint["table"], float(rng.uniform(0.78, 1.1))))


def _checks(b: Brush, far: float, rng: np.random.Generator) -> None:
    step = float(rng.uniform(14, 26))
    light = mix(b.paint["table"], WHITE, 0.4)
    edges = [float(x) for x in np.arange(-176, 177, step)]
    _lanes(b, edges, far, [light if i % 2 else b.paint["table"] for i in range(len(edges))])
    for y in np.arange(far, _FAR, 2 * step * 0.7):
        b.polygon([(-_FAR, y), (_FAR, y), (_FAR, y + step * 0.7), (-_FAR, y + step * 0.7)], b.paint["decoration"], 0.28)


def _tiles(b: Brush, far: float, rng: np.random.Generator) -> None:
    step = float(rng.uniform(24, 40))
    line = tint(b.paint["table"], 0.7 if rng.random() < 0.5 else 1.3)
    for x in np.arange(-180, 181, step):
        b.stroke([_deep(x, far, far), _deep(x, _FAR, far)], 1.1, line)
    y, gap = far, step * 0.5
    while y < _FAR:
        b.stroke([(-_FAR, y), (_FAR, y)], 1.0, line)
        y, gap = y + gap, gap * 1.12


def _speckle(b: Brush, far: float, rng: np.random.Generator) -> None:
    for _ in range(150):
        x, y = float(rng.uniform(-_FAR, _FAR)), float(rng.uniform(far, _FAR))
        b.ellipse(x, y, float(rng.uniform(0.5, 2)), 0.8, tint(b.paint["table"], float(rng.uniform(0.7, 1.3))))


def _stripes(b: Brush, far: float, rng: np.random.Generator) -> None:
    edges = [float(x) for x in np.cumsum(rng.uniform(4, 22, 60)) - 260]
    pair = (b.paint["table"], mix(b.paint["table"], b.paint["decoration"], 0.4))
    _lanes(b, edges, far, [pair[i % 2] for i in range(len(edges))])


def _plain_wall(b: Brush, far: float, rng: np.random.Generator) -> None:
    del rng
    b.polygon([(-_FAR, far - 12), (_FAR, far - 12), (_FAR, far), (-_FAR, far)], tint(b.paint["wall"], 0.92))


def _tiled_wall(b: Brush, far: float, rng: np.random.Generator) -> None:
    step = float(rng.uniform(11, 22))
    line = tint(b.paint["wall"], 0.82)
    for y in np.arange(far, -_FAR, -step):
        b.stroke([(-_FAR, float(y)), (_FAR, float(y))], 0.9, line)
    for x in np.arange(-_FAR, _FAR, step * 1.4):
        b.stroke([(float(x), far), (float(x), -_FAR)], 0.9, line)


def _striped_wall(b: Brush, far: float, rng: np.random.Generator) -> None:
    step = float(rng.uniform(7, 18))
    for x in np.arange(-_FAR, _FAR, 2 * step):
        b.polygon(
            [(x, far), (x + step, far), (x + step, -_FAR), (x, -_FAR)], mix(b.paint["wall"], b.paint["decoration"], 0.2)
        )


def _panel_wall(b: Brush, far: float, rng: np.random.Generator) -> None:
    x, w = float(rng.uniform(-60, 40)), float(rng.uniform(18, 34))
    b.polygon([(x, far - 12), (x + w, far - 12), (x + w, -_FAR), (x, -_FAR)], tint(b.paint["decoration"], 0.7))
    b.polygon(
        [(x + 3, far - 15), (x + w - 3, far - 15), (x + w - 3, -_FAR), (x + 3, -_FAR)],
        mix(b.paint["decoration"], WHITE, 0.5),
    )


def _window_wall(b: Brush, far: float, rng: np.random.Generator) -> None:
    x = float(rng.uniform(-80, 20))
    b.polygon([(x, far - 8), (x + 60, far - 8), (x + 60, -_FAR), (x, -_FAR)], (240, 238, 232))
    for left in (x + 3, x + 32):
        b.polygon([(left, far - 11), (left + 25, far - 11), (left + 25, -_FAR), (left, -_FAR)], (168, 206, 236))


def _shelf_wall(b: Brush, far: float, rng: np.random.Generator) -> None:
    y = far - 24
    b.polygon([(-_FAR, y), (_FAR, y), (_FAR, y + 3), (-_FAR, y + 3)], tint(b.paint["decoration"], 0.6))
    x = -90.0
    while x < 90:
        width = float(rng.uniform(4, 10))
        if rng.random() < 0.7:
            shade = mix(b.paint["clutter1"], b.paint["clutter2"], float(rng.random()))
            b.shaded([(x, y), (x + width, y), (x + width, y - rng.uniform(9, 22)), (x, y - 20)], shade)
        x += width + 1.0


_TABLES: dict[str, Pattern] = {
    "planks": _planks,
    "grain": _grain,
    "checks": _checks,
    "tiles": _tiles,
    "speckle": _speckle,
    "stripes": _stripes,
}

_WALLS: dict[str, Pattern] = {
    "plain": _plain_wall,
    "tiles": _tiled_wall,
    "stripes": _striped_wall,
    "panel": _panel_wall,
    "window": _window_wall,
    "shelf": _shelf_wall,
}

ARM = 200.0  # long enough to leave the picture from anywhere


def grip(b: Brush, _has: frozenset[str]) -> None:
    """Thumb and fingers closed around the anchor."""
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
    """An open hand with its fingertips at the anchor."""
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
