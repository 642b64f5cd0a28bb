"""The motion of each kind of gesture: what a phase from 0 to 1 shows on the table, in the air and in the hand."""

from __future__ import annotations

import math
from collections.abc import Callable

from p3iv.tabletop.acting import EMPTY, Act, Kind, Shot, along, arched, errand, ramp, turned
from p3iv.tabletop.art.brush import Point
from p3iv.tabletop.stage import Grains, Layer, Overlay, Stream, Things
from p3iv.tabletop.tasks import Facts
from p3iv.tabletop.things import PROP_LIPS, THINGS

_TILT = -66.0  # degrees; vessels pour to the left


def _place(act: Act, u: float) -> Shot:
    item, hand = _reach(act, u, act.after, stay=(0.58, 0.7), carry=(0.0, 0.58))
    return Shot(arrived=float(u >= 0.6), overlays=(item, hand) if u < 0.6 else (hand,))


def _remove(act: Act, u: float) -> Shot:
    item, hand = _reach(act, u, act.before, stay=(0.32, 0.42), carry=(0.42, 1.0))
    return Shot(arrived=float(u >= 0.4), overlays=(item, hand) if u >= 0.4 else (hand,))


def _reach(
    act: Act, u: float, table: Things, *, stay: tuple[float, float], carry: tuple[float, float]
) -> tuple[Layer, Layer]:
    """A hand that reaches the target's place from outside, and the target in it; two pairs of phases."""
    name = act.gesture.target
    place = act.place(name)
    seat = (place.x, place.y)
    way = along(u, (0.0, act.outside(seat)), (stay[0], seat), (stay[1], seat), (1.0, act.outside(seat)))
    return act.held(arched(u, *carry, way), has=table[name], scale=place.scale)


def _carry(act: Act, u: float) -> Shot:
    gesture = act.gesture
    start = act.spot(gesture.source, gesture.spots[0]) if gesture.source else None
    end = act.spot(gesture.target, gesture.spots[1]) if gesture.target else None
    if gesture.target == gesture.item:  # it moves to another place
        place = act.stage.place(gesture.item, act.after)
        end = (place.x, place.y)
    if end:
        way = arched(u, 0.3, 0.66, errand(act, u, start, end, (0.2, 0.3, 0.66, 0.76)))
    else:  # held up for a while, to drip
        x, y = start or (80.0, 80.0)
        way = errand(act, u, start, (x, y - 24), (0.2, 0.3, 0.48, 0.72))
    has, scale = _carried(act)
    item, hand = act.held(way, has=has, scale=scale)
    airborne = (0.26 if start else 0.0) <= u < (0.72 if end else 1.0)
    return Shot(
        left=ramp(u, 0.25, 0.31),
        arrived=ramp(u, 0.68, 0.76) if end else ramp(u, 0.25, 0.31),
        overlays=(item, hand) if airborne else (hand,),
    )


def _carried(act: Act) -> tuple[Facts, float]:
    """State and scale of a carried item: a thing keeps its own, a prop gets those of the gesture."""
    name = act.gesture.item
    if name in act.before:
        return (act.after if name == act.gesture.target else act.before)[name], act.place(name).scale
    return frozenset(act.gesture.loaded.split()), act.place(act.gesture.target or act.gesture.source).scale


def _pour(act: Act, u: float) -> Shot:
    gesture = act.gesture
    on_table = gesture.item in THINGS or bool(gesture.source)
    owner = gesture.source or gesture.item
    mouth = act.spot(gesture.target, "mouth")
    size = act.place(owner if on_table else gesture.target).scale
    lip = THINGS[owner].lip if gesture.item in THINGS else PROP_LIPS[gesture.item]
    tilt = _TILT * act.side
    dx, dy = turned((act.side * lip[0], lip[1]), tilt)
    sway = 3.5 * math.sin(22 * u) if 0.45 < u < 0.8 else 0.0
    over = (mouth[0] + 1 - size * dx + sway, mouth[1] - 10 - size * dy)
    seat = act.place(owner).at((0, -16) if gesture.source else (0, 0)) if on_table else act.outside(over)
    back = seat if not on_table or owner in act.after else act.outside(over)
    first, last = (0.13, 0.93) if on_table else (0.0, 1.0)
    foot = along(u, (first, seat), (0.42, over), (0.8, over), (last, back))
    angle = tilt * (ramp(u, 0.3, 0.46) - ramp(u, 0.78, 0.88))
    looks = (act.before if u < 0.62 else act.after).get(owner, act.before.get(owner, EMPTY))
    item, hand = act.held(foot, has=looks - {"lid"}, angle=angle, scale=size)
    reach = act.outside((hand.x, hand.y), empty=True)
    if on_table:
        hand = act.hand(along(u, (0.0, reach), (0.12, (hand.x, hand.y)), (0.93, (hand.x, hand.y)), (1.0, reach)))
    in_air = not on_table or 0.1 <= u < 0.94
    falls = _falling(act, u, (mouth[0] + 1 + sway, mouth[1] - 10)) if 0.47 < u < 0.78 else ()
    return Shot(
        left=float(in_air),
        arrived=ramp(u, 0.5, 0.78) if in_air or u > 0.5 else 0.0,
        lifted=owner if in_air and on_table else "",
        overlays=(*falls, item, hand) if in_air else (hand,),
    )


def _falling(act: Act, u: float, lip: Point) -> tuple[Overlay, ...]:
    """A stream of liquid, or grains if they are large."""
    if act.gesture.grain > 2.0:
        return (_grains(act, u, lip, 14.0),)
    return (Stream(lip[0], lip[1], 12.0 + 2 * math.sin(40 * u), act.gesture.color),)


def _grains(act: Act, u: float, top: Point, depth: float) -> Grains:
    """Seven falling grains, each with its own phase."""
    points = []
    for i in range(7):
        t = (u * 9.0 + i * 0.37) % 1.0
        points.append((top[0] + 5.0 * math.sin(i * 2.4 + 1.0), top[1] + depth * t * t + 2.0))
    return Grains(tuple(points), act.gesture.color, act.gesture.grain)


def _sprinkle(act: Act, u: float) -> Shot:
    gesture = act.gesture
    mouth = act.spot(gesture.target, "mouth")
    size = act.place(gesture.target).scale
    lifted = gesture.item in THINGS
    shake = 4.0 if 0.46 < u < 0.82 else 0.0
    over = (mouth[0] + shake * math.sin(34 * u), mouth[1] - 13 + 0.4 * shake * math.cos(34 * u))
    source = gesture.item if lifted else gesture.source
    start = act.spot(source, "mouth" if not lifted else "foot") if source else None
    point = errand(act, u, start, over, (0.2, 0.28, 0.45, 0.82))
    full = (0.24 if source else 0.0) <= u < 0.72
    has = act.before[gesture.item] if lifted else frozenset(gesture.loaded.split() if full else ())
    item, hand = act.held(point, has=has, scale=size)
    bare = not full and (lifted or gesture.item == "handful of pebbles")
    grains = (_grains(act, u, (mouth[0], mouth[1] - 12), 14.0),) if 0.48 < u < 0.8 else ()
    return Shot(
        left=ramp(u, 0.22, 0.28),
        arrived=ramp(u, 0.5, 0.78),
        lifted=gesture.item if lifted and u >= 0.24 else "",
        overlays=(*grains, hand) if bare else (*grains, item, hand),
    )


def _stir(act: Act, u: float) -> Shot:
    gesture = act.gesture
    mouth = act.spot(gesture.target, "mouth")
    width = 0.5 * THINGS[gesture.target].width
    on = 0.18 < u < 0.86
    circle = (width * math.cos(36 * u), 0.42 * width * math.sin(36 * u)) if on else (0.0, -6.0)
    tip = (mouth[0] + circle[0], mouth[1] + circle[1])
    point = along(u, (0.0, act.outside(mouth)), (0.2, tip), (0.84, tip), (1.0, act.outside(mouth)))
    hand: tuple[Overlay, ...]
    hand = act.held(point, scale=act.place(gesture.target).scale) if gesture.item else (act.hand(point),)
    return Shot(left=1.0, arrived=ramp(u, 0.35, 0.75), overlays=hand)


def _cut(act: Act, u: float) -> Shot:
    mouth = act.spot(act.gesture.target, "mouth")
    stroke = math.sin(30 * u) if 0.2 < u < 0.85 else 0.0
    tip = (mouth[0] - 2 + 5 * stroke + 4 * (0.5 - u), mouth[1] + 1 - 4 * stroke + 9 * ramp(u, 0.2, 0.8))
    point = along(u, (0.0, act.outside(tip)), (0.22, tip), (0.82, tip), (1.0, act.outside(tip)))
    has = frozenset({"open"}) if stroke > 0 and act.gesture.item == "scissors" else EMPTY
    pair = act.held(point, has=has, scale=act.place(act.gesture.target).scale)
    return Shot(left=1.0, arrived=ramp(u, 0.45, 0.75), overlays=pair)


def _spread(act: Act, u: float) -> Shot:
    gesture = act.gesture
    mouth = act.spot(gesture.target, "mouth")
    width = 0.55 * THINGS[gesture.target].width
    slide = (mouth[0] + width * math.sin(24 * u), mouth[1] + 6 * math.cos(11 * u)) if 0.38 < u < 0.86 else mouth
    start = act.spot(gesture.source, "mouth") if gesture.source else slide
    point = errand(act, u, start, slide, (0.18, 0.26, 0.42, 0.84))
    has = frozenset(gesture.loaded.split()) if 0.22 < u < 0.75 else EMPTY
    size = act.place(gesture.target).scale
    overlays: tuple[Overlay, ...]
    overlays = act.held(point, has=has, scale=size) if gesture.item else (act.hand(point),)
    return Shot(left=ramp(u, 0.2, 0.26), arrived=ramp(u, 0.46, 0.78), overlays=overlays)


def _press(act: Act, u: float) -> Shot:
    gesture = act.gesture
    knob = act.spot(gesture.target, "knob")
    down = (knob[0], knob[1] + gesture.push)
    out = act.outside(knob, empty=True)
    point = along(u, (0.0, out), (0.35, knob), (0.5, down), (0.6, down), (1.0, out))
    turn = gesture.turn * (ramp(u, 0.38, 0.55) - ramp(u, 0.7, 0.95))
    shaking: tuple[Overlay, ...] = ()
    if gesture.shakes and u > 0.5:
        place = act.place(gesture.target)
        mixed = act.after if u > 0.72 else act.before
        jolt = 1.6 * math.sin(91 * u)
        shaking = (Layer(gesture.target, place.x + jolt, place.y, mixed[gesture.target], place.scale),)
    return Shot(
        left=1.0,
        arrived=ramp(u, 0.45, 0.55) if not shaking else float(u > 0.72),
        lifted=gesture.target if shaking and u < 0.95 else "",
        overlays=(*(shaking if u < 0.95 else ()), act.hand(point, turn)),
    )


def _write(act: Act, u: float) -> Shot:
    gesture = act.gesture
    pen, spot = act.spot("pen", "foot"), act.spot(gesture.target, gesture.spots[1])
    scribble = (spot[0] + 6 * math.sin(31 * u) + 3 * math.sin(9 * u), spot[1] + 4 * math.cos(17 * u) - 2 + 4 * u)
    at = scribble if 0.34 < u < 0.8 else spot
    way = ((0.0, act.outside(pen)), (0.14, pen), (0.18, pen), (0.34, at), (0.8, at), (0.92, pen))
    point = along(u, *way, (1.0, act.outside(pen)))
    holds = 0.16 < u < 0.92
    pair = act.held(point, scale=act.place(gesture.target).scale)
    return Shot(
        left=1.0,
        arrived=ramp(u, 0.4, 0.78),
        lifted="pen" if holds else "",
        overlays=pair if holds else pair[1:],
    )


def _squeeze(act: Act, u: float) -> Shot:
    gesture = act.gesture
    mouth = act.spot(gesture.target, "mouth")
    over = (mouth[0], mouth[1] - 16)
    start = act.spot(gesture.source, "mouth")
    point = errand(act, u, start, over, (0.18, 0.26, 0.45, 0.82))
    pulse = 1 - 0.16 * max(0.0, math.sin(30 * u)) if 0.45 < u < 0.82 else 1.0
    pair = act.held(point, scale=act.place(gesture.target).scale * pulse)
    grains = (_grains(act, u, (mouth[0], mouth[1] - 13), 14.0),) if 0.48 < u < 0.8 else ()
    return Shot(
        left=ramp(u, 0.2, 0.28),
        arrived=ramp(u, 0.5, 0.76),
        overlays=(*grains, *pair) if u > 0.22 else pair[1:],
    )


def _swirl(act: Act, u: float) -> Shot:
    name = act.gesture.target
    place = act.place(name)
    on = ramp(u, 0.25, 0.35) - ramp(u, 0.75, 0.85)
    at = (place.x + 4 * on * math.cos(32 * u), place.y - 7 * on + 2.5 * on * math.sin(32 * u))
    looks = (act.before if u < 0.55 else act.after)[name]
    item, hand = act.held(at, has=looks, angle=9 * on * math.sin(32 * u), scale=place.scale)
    reach = act.outside((hand.x, hand.y), empty=True)
    hand = act.hand(along(u, (0.0, reach), (0.2, (hand.x, hand.y)), (0.86, (hand.x, hand.y)), (1.0, reach)))
    held = 0.22 < u < 0.86
    overlays = (item, hand) if held else (hand,)
    return Shot(left=1.0, arrived=float(u > 0.55), lifted=name if held else "", overlays=overlays)


MOTIONS: dict[Kind, Callable[[Act, float], Shot]] = {
    "place": _place,
    "remove": _remove,
    "carry": _carry,
    "pour": _pour,
    "sprinkle": _sprinkle,
    "stir": _stir,
    "cut": _cut,
    "spread": _spread,
    "press": _press,
    "write": _write,
    "squeeze": _squeeze,
    "swirl": _swirl,
}
