"""The stage directions that all gestures share: what one moment shows, which hand acts, the ways it takes."""

from __future__ import annotations

import math
from dataclasses import dataclass
from itertools import pairwise

from p3iv.tabletop.art.brush import Point
from p3iv.tabletop.gestures import Gesture
from p3iv.tabletop.look import FRAME, Place
from p3iv.tabletop.stage import Layer, Overlay, Stage, Things
from p3iv.tabletop.tasks import Facts
from p3iv.tabletop.things import PROP_GRIPS, THINGS

_HANDLED = frozenset({"kettle", "pan", "can", "blender jar"})  # held by their handles, which are on the right
_NEAR_THE_EDGE = 108.0  # there one turns them round, or they would pour from outside the picture
_HIDDEN = 24.0  # how far beyond the edge a hand is out of sight
_HIDDEN_ITEM = 62.0  # and whatever it holds, too
EMPTY: Facts = frozenset()


@dataclass(frozen=True)
class Shot:
    """One moment of a step. The table goes from `before` over `between` to `after`."""

    left: float = 0.0  # 0 ... 1 from before to between
    arrived: float = 0.0  # 0 ... 1 from between to after
    lifted: str = ""  # the thing that is not on the table
    overlays: tuple[Overlay, ...] = ()


@dataclass(frozen=True)
class Act:
    """One step on one stage."""

    stage: Stage
    gesture: Gesture
    before: Things
    between: Things
    after: Things

    def place(self, name: str) -> Place:
        """Where a thing stands before the step or, if it comes with the step, after it."""
        return self.stage.place(name, self.before if name in self.before else self.after)

    def spot(self, name: str, spot: str) -> Point:
        """A point of a thing, such as its mouth."""
        place = self.place(name)
        return place.at(_ON_PAPER[spot] if spot in _ON_PAPER else getattr(THINGS[name], spot))

    @property
    def side(self) -> int:
        """1 for the right hand, which holds things on their right; -1 for the left one."""
        edge = _NEAR_THE_EDGE if self.gesture.item in _HANDLED else self.stage.look.left_handed_from
        return -1 if self.place(self.gesture.target or self.gesture.source).x > edge else 1

    @property
    def shoulder(self) -> Point:
        x, y = self.stage.look.shoulder
        return (x if self.side > 0 else FRAME - x), y

    def outside(self, point: Point, *, empty: bool = False) -> Point:
        """Where a hand that acts at this point comes from: just out of sight, towards the shoulder."""
        beyond = _HIDDEN if empty else _HIDDEN_ITEM
        dx, dy = self.shoulder[0] - point[0], self.shoulder[1] - point[1]
        edge = FRAME + beyond if dx > 0 else -beyond
        across = (edge - point[0]) / dx if abs(dx) > 1 else math.inf
        down = (FRAME + beyond - point[1]) / dy if dy > 1 else math.inf
        reach = max(0.0, min(across, down))
        return point[0] + dx * reach, point[1] + dy * reach

    def hand(self, point: Point, turn: float = 0.0) -> Layer:
        """The hand at a point, its arm towards the shoulder."""
        angle = -math.degrees(math.atan2(self.shoulder[0] - point[0], self.shoulder[1] - point[1]))
        return Layer(self.gesture.hand, *point, angle=angle + turn, flip=self.side < 0)

    def held(self, at: Point, *, has: Facts = EMPTY, angle: float = 0.0, scale: float = 1.0) -> tuple[Layer, Layer]:
        """An item with its anchor at a point, and the hand that holds it."""
        name = self.gesture.item or self.gesture.target
        grip = THINGS[name].grip if name in THINGS else PROP_GRIPS.get(name, (5.0, 4.0))
        dx, dy = turned((self.side * grip[0], grip[1]), angle)
        item = Layer(name, *at, has, scale, angle, flip=self.side < 0 and (name not in THINGS or name in _HANDLED))
        return item, self.hand((at[0] + scale * dx, at[1] + scale * dy))


_ON_PAPER: dict[str, Point] = {
    "foot": (0.0, 0.0),
    "left": (-9.0, -16.0),
    "right": (8.0, -14.0),
    "low": (-8.0, -7.0),
    "corner": (13.4, -18.5),
}


def turned(point: Point, angle: float) -> Point:
    c, s = math.cos(math.radians(angle)), math.sin(math.radians(angle))
    return c * point[0] - s * point[1], s * point[0] + c * point[1]


def ramp(u: float, first: float, last: float) -> float:
    """0 before `first`, 1 after `last`, smooth between."""
    t = min(1.0, max(0.0, (u - first) / (last - first)))
    return t * t * (3 - 2 * t)


def along(u: float, *stations: tuple[float, Point]) -> Point:
    """The point at phase u of a way through stations, each with its phase; in at full speed, out at full speed."""
    for leg, ((first, a), (last, b)) in enumerate(pairwise(stations)):
        if u <= last:
            t = min(1.0, max(0.0, (u - first) / (last - first)))
            t = t * (2 - t) if leg == 0 else t * t if leg == len(stations) - 2 else ramp(u, first, last)
            return a[0] + (b[0] - a[0]) * t, a[1] + (b[1] - a[1]) * t
    return stations[-1][1]


def errand(act: Act, u: float, start: Point | None, end: Point, phases: tuple[float, float, float, float]) -> Point:
    """Where the hand is that comes in, takes something at the start if there is one, acts at the end and leaves."""
    reach, leave, arrive, part = phases
    out = act.outside(end)
    if start is None:
        return along(u, (0.0, out), (0.75 * arrive, end), (part, end), (1.0, out))
    return along(u, (0.0, act.outside(start)), (reach, start), (leave, start), (arrive, end), (part, end), (1.0, out))


def arched(u: float, first: float, last: float, point: Point, height: float = 16.0) -> Point:
    """Higher in the middle of a way, as one carries things."""
    t = min(1.0, max(0.0, (u - first) / (last - first)))
    return point[0], point[1] - height * math.sin(math.pi * t)
