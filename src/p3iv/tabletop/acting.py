"""The gesture of every step, and what all gestures share: hands, held items and paths through the picture."""

from __future__ import annotations

import math
from dataclasses import dataclass
from itertools import pairwise
from typing import Literal

from p3iv.tabletop.art.brush import RGB, SOIL, WATER, Point
from p3iv.tabletop.art.desk_garden import STONES
from p3iv.tabletop.art.drinks import COFFEE, JUICE, MILK, SMOOTHIE
from p3iv.tabletop.look import FRAME, Place
from p3iv.tabletop.stage import Layer, Overlay, Stage, Things
from p3iv.tabletop.tasks import Facts
from p3iv.tabletop.things import PROP_GRIPS, THINGS

Kind = Literal[
    "place", "remove", "carry", "pour", "sprinkle", "stir", "cut", "spread", "press", "write", "squeeze", "swirl"
]

_WHITE: RGB = (250, 250, 250)

_OIL: RGB = (226, 190, 40)

_YOLK: RGB = (246, 176, 30)

_GREEN: RGB = (60, 140, 50)


@dataclass(frozen=True)
class Gesture:
    """The motion of one step. Names are things on the table or props; empty means outside the picture."""

    kind: Kind
    target: str = ""
    source: str = ""
    item: str = ""  # what the hand holds
    loaded: str = ""  # how the item looks while it carries something
    color: RGB = _WHITE  # of the liquid or grains
    grain: float = 1.1  # size of the grains
    spots: tuple[str, str] = ("mouth", "mouth")  # points of source and target
    between: Facts | None = None  # how source or target looks while the item is in the air
    hand: Literal["grip", "point", "flat"] = "grip"
    push: float = 2.0  # how far a press goes down
    turn: float = 0.0  # how far a knob turns, in degrees
    shakes: bool = False  # the target trembles


def _place(target: str) -> Gesture:
    return Gesture("place", target)


def _carry(item: str, source: str, target: str, loaded: str = "") -> Gesture:
    return Gesture("carry", target, source, item, loaded)


def _pour(item: str, target: str, color: RGB) -> Gesture:
    return Gesture("pour", target, item=item, color=color)


def _sprinkle(item: str, target: str, color: RGB, *, source: str = "", loaded: str = "", grain: float = 1.1) -> Gesture:
    return Gesture("sprinkle", target, source, item, loaded, color, grain)


def _use(kind: Kind, item: str, target: str, *, source: str = "", loaded: str = "") -> Gesture:
    return Gesture(kind, target, source, item, loaded)


_OPEN_JAR = frozenset({"open", "bare"})

GESTURES: dict[str, Gesture] = {
    # hot drinks
    "set out a mug": _place("mug"),
    "fill the kettle with water": _pour("jug", "kettle", WATER),
    "switch on the kettle": Gesture("press", "kettle", hand="point"),
    "put a tea bag in the mug": _carry("tea bag", "tea", "mug"),
    "pour hot water into the mug": _pour("kettle", "mug", WATER),
    "take the tea bag out of the mug": _carry("tea bag", "mug", "", "wet"),
    "add sugar to the mug": _sprinkle("spoon", "mug", _WHITE, source="sugar", loaded="sugar"),
    "pour milk into the mug": _pour("milk", "mug", MILK),
    "put a slice of lemon on the mug": _carry("lemon slice", "", "mug"),
    "stir the mug with a spoon": _use("stir", "spoon", "mug"),
    "swirl the mug by hand": Gesture("swirl", "mug"),
    "set out biscuits": _place("biscuits"),
    "open the coffee jar": Gesture(
        "carry", "coffee", "coffee", "jar lid", spots=("mouth", "beside"), between=_OPEN_JAR
    ),
    "spoon coffee into the mug": _sprinkle("spoon", "mug", COFFEE, source="coffee", loaded="coffee"),
    "close the coffee jar": Gesture(
        "carry", "coffee", "coffee", "jar lid", spots=("beside", "mouth"), between=_OPEN_JAR
    ),
    "sprinkle cocoa on top": _sprinkle("shaker", "mug", (96, 54, 30), grain=0.9),
    # bread
    "cut a slice of bread": _use("cut", "knife", "loaf"),
    "put the bread in the toaster": _carry("slice of bread", "slice", "toaster"),
    "push down the toaster lever": Gesture("press", "toaster", hand="point", push=11.0),
    "set out a plate": _place("plate"),
    "put the toast on the plate": _carry("slice of bread", "toaster", "plate", "toasted"),
    "put the bread on the plate": _carry("slice of bread", "slice", "plate"),
    "spread butter on the bread": _use("spread", "knife", "plate", source="butter", loaded="butter"),
    "spread jam on the bread": _use("spread", "knife", "plate", source="jam", loaded="jam"),
    "drizzle honey on the bread": _pour("honey", "plate", (230, 150, 20)),
    "lay cheese on the bread": _carry("cheese slice", "cheese", "plate"),
    "wash the lettuce": _pour("jug", "lettuce", WATER),
    "lay lettuce on the bread": _carry("lettuce leaves", "lettuce", "plate"),
    "slice the tomato": _use("cut", "knife", "tomato"),
    "lay tomato on the bread": _carry("tomato slices", "tomato", "plate"),
    "close the sandwich": _carry("slice of bread", "loaf", "plate"),
    "cut the bread in half": _use("cut", "knife", "plate"),
    "set out a glass": _place("glass"),
    "pour juice into the glass": _pour("carton", "glass", JUICE),
    # salad
    "set out a bowl": _place("bowl"),
    "tear the lettuce into the bowl": _sprinkle("lettuce", "bowl", (116, 186, 62), grain=2.6),
    "put the tomato in the bowl": _carry("tomato slices", "tomato", "bowl"),
    "slice the cucumber": _use("cut", "knife", "cucumber"),
    "put the cucumber in the bowl": _carry("cucumber slices", "cucumber", "bowl"),
    "pour oil over the salad": _pour("oil", "bowl", _OIL),
    "squeeze lemon over the salad": Gesture("squeeze", "bowl", "lemon", "half lemon", color=(250, 240, 150)),
    "pour vinegar over the salad": _pour("vinegar", "bowl", (150, 60, 50)),
    "crumble cheese over the salad": _sprinkle("feta", "bowl", _WHITE, grain=1.7),
    "toss the salad with two spoons": _use("stir", "salad spoons", "bowl"),
    "toss the salad by hand": Gesture("stir", "bowl", hand="flat"),
    # scrambled eggs
    "put the pan on the stove": _place("pan"),
    "turn on the stove": Gesture("press", "stove", turn=24.0, push=0.0),
    "melt butter in the pan": _carry("butter pat", "butter", "pan"),
    "crack eggs into the bowl": Gesture("squeeze", "bowl", "eggs", "egg", color=_YOLK, grain=2.8),
    "add salt to the eggs": _sprinkle("shaker", "bowl", _WHITE, loaded="salt", grain=0.9),
    "whisk the eggs": _use("stir", "whisk", "bowl"),
    "beat the eggs with a fork": _use("stir", "fork", "bowl"),
    "pour the eggs into the pan": _pour("bowl", "pan", (250, 206, 70)),
    "stir the eggs in the pan": _use("stir", "spatula", "pan"),
    "turn off the stove": Gesture("press", "stove", turn=-24.0, push=0.0),
    "slide the eggs onto the plate": _pour("pan", "plate", (252, 212, 70)),
    "sprinkle chives on the eggs": _sprinkle("chives", "plate", _GREEN),
    # smoothie
    "peel the banana": _use("spread", "peel", "banana"),
    "put the banana in the blender": _carry("peeled banana", "banana", "blender"),
    "put berries in the blender": Gesture("pour", "blender", item="berries", color=(110, 44, 120), grain=2.4),
    "put mango in the blender": _carry("mango", "mango", "blender"),
    "pour milk into the blender": _pour("milk", "blender", MILK),
    "add ice to the blender": _sprinkle("scoop", "blender", (206, 234, 250), grain=2.2),
    "put the lid on the blender": _carry("blender lid", "", "blender"),
    "run the blender": Gesture("press", "blender", hand="point", shakes=True),
    "pour the smoothie into the glass": Gesture(
        "pour", "glass", "blender", "blender jar", color=SMOOTHIE, between=frozenset({"away"})
    ),
    "put a straw in the glass": _carry("straw", "", "glass"),
    # repotting a plant
    "set out a big pot": _place("pot"),
    "put pebbles in the pot": _sprinkle("handful of pebbles", "pot", STONES[0], source="pebbles", grain=2.2),
    "open the bag of soil": _use("spread", "bag strip", "soil"),
    "scoop soil into the pot": _sprinkle("trowel", "pot", SOIL, source="soil", loaded="soil", grain=1.7),
    "take the plant out of its old pot": Gesture("carry", "plant", "plant", "plant", spots=("foot", "foot")),
    "loosen the roots": Gesture("swirl", "plant"),
    "put the plant in the big pot": Gesture("carry", "pot", "plant", "plant", spots=("foot", "mouth")),
    "top up the soil": _sprinkle("trowel", "pot", SOIL, source="soil", loaded="soil", grain=1.7),
    "fill the watering can": _pour("jug", "can", WATER),
    "water the plant": _pour("can", "pot", WATER),
    "trim the dead leaves": _use("cut", "scissors", "plant"),
    "clear away the old pot": Gesture("remove", "oldpot"),
    # a card
    "take out a card": _place("card"),
    "draw a heart on the card": Gesture("write", "card", item="writing pen", spots=("", "left")),
    "draw a flower on the card": Gesture("write", "card", item="writing pen", spots=("", "left")),
    "write a message in the card": Gesture("write", "card", item="writing pen", spots=("", "right")),
    "take out an envelope": _place("envelope"),
    "put the card in the envelope": Gesture("carry", "envelope", "card", "card", spots=("foot", "mouth")),
    "write the address on the envelope": Gesture("write", "envelope", item="writing pen", spots=("", "low")),
    "stick a stamp on the envelope": Gesture("carry", "envelope", "stamps", "stamp", spots=("mouth", "corner")),
    "seal the envelope": Gesture("spread", "envelope", hand="flat"),
    "tie a ribbon round the envelope": _use("spread", "ribbon end", "envelope", source="ribbon"),
    "put the cap on the pen": Gesture(
        "carry", "pen", "pen", "pen cap", spots=("beside", "mouth"), between=frozenset({"bare"})
    ),
}

_HANDLED = frozenset({"kettle", "pan", "can", "blender jar"})  # held by their handles, which are on the right

_NEAR_THE_EDGE = 108.0  # further right the left hand holds them, or they would pour from outside the picture

_HIDDEN = 24.0  # distance beyond the edge at which a hand is out of sight

_HIDDEN_ITEM = 62.0  # the same for a hand that holds something

EMPTY: Facts = frozenset()


@dataclass(frozen=True)
class Shot:
    """One moment of a step, in which the table changes from `before` through `between` to `after`."""

    left: float = 0.0  # 0 ... 1 from before to between
    arrived: float = 0.0  # 0 ... 1 from between to after
    lifted: str = ""  # the thing that is not on the table
    overlays: tuple[Overlay, ...] = ()


@dataclass(frozen=True)
class Act:
    """One step of a video: its gesture and the table before, during and after it."""

    stage: Stage
    gesture: Gesture
    before: Things
    between: Things
    after: Things

    def place(self, name: str) -> Place:
        """Where a thing is before the step or, if the step brings it, after the step."""
        return self.stage.place(name, self.before if name in self.before else self.after)

    def spot(self, name: str, spot: str) -> Point:
        """A point of a thing, such as its mouth."""
        place = self.place(name)
        return place.at(_ON_PAPER[spot] if spot in _ON_PAPER else getattr(THINGS[name], spot))

    @property
    def side(self) -> int:
        """1 for the right hand, which holds things on their right side; -1 for the left hand."""
        edge = _NEAR_THE_EDGE if self.gesture.item in _HANDLED else self.stage.look.left_handed_from
        return -1 if self.place(self.gesture.target or self.gesture.source).x > edge else 1

    @property
    def shoulder(self) -> Point:
        x, y = self.stage.look.shoulder
        return (x if self.side > 0 else FRAME - x), y

    def outside(self, point: Point, *, empty: bool = False) -> Point:
        """The point just outside the picture, towards the shoulder, from which a hand reaches this point."""
        beyond = _HIDDEN if empty else _HIDDEN_ITEM
        dx, dy = self.shoulder[0] - point[0], self.shoulder[1] - point[1]
        edge = FRAME + beyond if dx > 0 else -beyond
        across = (edge - point[0]) / dx if abs(dx) > 1 else math.inf
        down = (FRAME + beyond - point[1]) / dy if dy > 1 else math.inf
        reach = max(0.0, min(across, down))
        return point[0] + dx * reach, point[1] + dy * reach

    def hand(self, point: Point, turn: float = 0.0) -> Layer:
        """The hand at a point, with its arm towards the shoulder."""
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
    """The point at phase u of a path through (phase, point) stations; it starts and ends at full speed."""
    for leg, ((first, a), (last, b)) in enumerate(pairwise(stations)):
        if u <= last:
            t = min(1.0, max(0.0, (u - first) / (last - first)))
            t = t * (2 - t) if leg == 0 else t * t if leg == len(stations) - 2 else ramp(u, first, last)
            return a[0] + (b[0] - a[0]) * t, a[1] + (b[1] - a[1]) * t
    return stations[-1][1]


def errand(act: Act, u: float, start: Point | None, end: Point, phases: tuple[float, float, float, float]) -> Point:
    """Position of a hand that enters, takes something at `start` (if given), acts at `end` and leaves."""
    reach, leave, arrive, part = phases
    out = act.outside(end)
    if start is None:
        return along(u, (0.0, out), (0.75 * arrive, end), (part, end), (1.0, out))
    return along(u, (0.0, act.outside(start)), (reach, start), (leave, start), (arrive, end), (part, end), (1.0, out))


def arched(u: float, first: float, last: float, point: Point, height: float = 16.0) -> Point:
    """Raise a point in the middle of a path, as when carrying things."""
    t = min(1.0, max(0.0, (u - first) / (last - first)))
    return point[0], point[1] - height * math.sin(math.pi * t)
