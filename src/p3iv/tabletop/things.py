"""The things on the table and the props in the hands: how each is drawn, held, filled and poured from."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from p3iv.tabletop.art import cooking, desk_garden, drinks, food, props, room
from p3iv.tabletop.art.brush import Brush, Point
from p3iv.tabletop.tasks import Facts

Draw = Callable[[Brush, Facts], None]


@dataclass(frozen=True)
class Thing:
    """An object on the table. Points are relative to its foot, in table units, with y pointing down."""

    draw: Draw
    seat: int  # index of its place; things of one procedure have different seats
    width: float  # radius of its shadow
    mouth: Point = (0.0, -10.0)  # where things go in or on
    grip: Point = (12.0, -12.0)  # where a hand holds it
    lip: Point = (-12.0, -20.0)  # where it pours from
    knob: Point = (0.0, -6.0)  # where a finger presses
    beside: Point = (17.0, 1.0)  # where its lid or cap lies


THINGS: dict[str, Thing] = {
    "kettle": Thing(drinks.kettle, 0, 17, (0, -36), (19, -24), (-20, -30), (10, -4)),
    "tea": Thing(drinks.tea, 1, 14, (0, -24), (12, -12)),
    "coffee": Thing(drinks.coffee, 2, 12, (0, -25), (10, -14), beside=(17, 4)),
    "milk": Thing(drinks.milk, 3, 11, (0, -36), (10, -20), (-8, -37)),
    "sugar": Thing(drinks.sugar, 4, 12, (0, -17), (12, -10)),
    "mug": Thing(drinks.mug, 5, 13, (0, -23), (17, -12), (-14, -23)),
    "biscuits": Thing(drinks.biscuits, 6, 18, (0, -10), (14, -6)),
    "loaf": Thing(food.loaf, 0, 19, (-10, -20), (14, -12)),
    "toaster": Thing(food.toaster, 1, 19, (0, -31), (16, -14), knob=(15.5, -16)),
    "butter": Thing(food.butter, 2, 18, (0, -16), (12, -8)),
    "jam": Thing(food.jam, 3, 11, (0, -24), (9, -12)),
    "plate": Thing(food.plate, 4, 20, (0, -12), (17, -7)),
    "slice": Thing(food.slice_of_bread, 5, 13, (0, -7), (9, -5)),
    "glass": Thing(drinks.glass, 6, 9, (0, -28), (9, -16), (-10, -28)),
    "cheese": Thing(food.cheese, 1, 17, (6, -14), (10, -8)),
    "tomato": Thing(food.tomato, 3, 12, (0, -14), (9, -10)),
    "lettuce": Thing(food.lettuce, 6, 16, (0, -20), (12, -11)),
    "cucumber": Thing(food.cucumber, 0, 18, (-2, -12), (13, -7)),
    "lemon": Thing(food.lemon, 1, 12, (0, -10), (8, -8)),
    "oil": Thing(food.oil, 2, 9, (0, -38), (7, -18), (-2, -42)),
    "bowl": Thing(cooking.bowl, 5, 13, (0, -17), (18, -14), (-20, -17)),
    "stove": Thing(cooking.stove, 0, 21, (0, -20), (16, -6), knob=(-11, -4.6)),
    "pan": Thing(cooking.pan, 0, 15, (0, -8), (27, -10), (-18, -7)),
    "eggs": Thing(cooking.eggs, 1, 19, (0, -14), (14, -6)),
    "blender": Thing(cooking.blender, 0, 16, (0, -48), (17, -34), (-14, -48), (0, -6)),
    "banana": Thing(food.banana, 1, 17, (-2, -10), (12, -12)),
    "berries": Thing(food.berries, 2, 13, (0, -14), (13, -8), (-15, -11)),
    "mango": Thing(food.mango, 4, 14, (0, -11), (11, -9)),
    "oldpot": Thing(desk_garden.oldpot, 0, 11, (0, -17), (11, -9)),
    "plant": Thing(desk_garden.plant, 1, 9, (0, -13), (8, -8)),
    "soil": Thing(desk_garden.soil, 2, 15, (0, -32), (13, -14)),
    "can": Thing(desk_garden.can, 3, 14, (0, -20), (19, -17), (-22, -25)),
    "pebbles": Thing(desk_garden.pebbles, 4, 17, (0, -10), (12, -6)),
    "pot": Thing(desk_garden.pot, 5, 15, (0, -24), (16, -12)),
    "card": Thing(desk_garden.card, 4, 17, (0, -16), (14, -6)),
    "envelope": Thing(desk_garden.envelope, 3, 18, (0, -24), (15, -6)),
    "pen": Thing(desk_garden.pen, 0, 15, (-9, -5), (12, -8), beside=(2, 3)),
    "stamps": Thing(desk_garden.stamps, 1, 15, (8, -8), (10, -5)),
    "ribbon": Thing(desk_garden.ribbon, 2, 13, (10, -4), (10, -8)),
}


def _jar(b: Brush, has: Facts) -> None:
    cooking.jar(b, has)


def _lid_of_jar(b: Brush, _has: Facts) -> None:
    drinks.jar_lid(b)


PROPS: dict[str, Draw] = {
    "tea bag": drinks.teabag,
    "lemon slice": props.lemon_wheel,
    "straw": drinks.straw,
    "jar lid": _lid_of_jar,
    "blender lid": cooking.lid,
    "blender jar": _jar,
    "spoon": props.spoon,
    "whisk": props.whisk,
    "fork": props.fork,
    "knife": props.knife,
    "scissors": props.scissors,
    "spatula": props.spatula,
    "salad spoons": props.salad_spoons,
    "trowel": props.trowel,
    "jug": props.jug,
    "carton": props.carton,
    "honey": props.honey,
    "vinegar": props.vinegar,
    "shaker": props.shaker,
    "chives": props.chives,
    "scoop": props.scoop,
    "feta": props.feta,
    "handful of pebbles": props.pebble_handful,
    "lettuce leaves": props.lettuce_leaves,
    "tomato slices": props.tomato_slices,
    "cucumber slices": props.cucumber_slices,
    "slice of bread": food.slice_of_bread,
    "cheese slice": food.cheese_slice,
    "butter pat": food.butter_pat,
    "half lemon": food.half_lemon,
    "egg": cooking.egg,
    "peeled banana": food.banana_flesh,
    "peel": props.peel,
    "bag strip": props.scrap,
    "stamp": desk_garden.stamp,
    "ribbon end": props.ribbon_end,
    "pen cap": desk_garden.cap,
    "writing pen": desk_garden.writing_pen,
    "steam": drinks.steam,
    "flames": cooking.flames,
    **room.HANDS,
}

# Where hands hold a prop, relative to its anchor; other props are held at the anchor.
PROP_GRIPS: dict[str, Point] = {
    "blender jar": (18, -20),
    "blender lid": (6, -5),
    "jar lid": (8, -6),
    "spoon": (11.5, -19),
    "whisk": (13, -21),
    "fork": (13, -21),
    "knife": (18, -17),
    "scissors": (17, -11),
    "spatula": (13, -21),
    "salad spoons": (9, -20),
    "trowel": (14, -19),
    "jug": (17, -15),
    "carton": (9, -16),
    "honey": (7, -13),
    "vinegar": (6, -15),
    "shaker": (4, -11),
    "chives": (1, -9),
    "scoop": (13, -17),
    "writing pen": (5, -10),
    "egg": (7, -2),
    "half lemon": (9, -3),
    "tea bag": (1, 0),
    "slice of bread": (10, -5),
    "cheese slice": (8, 0),
    "lettuce leaves": (7, 0),
    "tomato slices": (6, 0),
    "cucumber slices": (6, 0),
    "peeled banana": (8, -2),
    "feta": (7, 0),
}

PROP_LIPS: dict[str, Point] = {
    "jug": (-16, -28),
    "carton": (-6, -33),
    "honey": (0, -31),
    "vinegar": (0, -38),
    "blender jar": (-14, -32),
}

_PART_OF = {"bread": "plate"}  # toppings of the bread are drawn with the plate


def things_in(facts: Facts) -> dict[str, Facts]:
    """Every object on the table with its properties: {"mug": {"water", "milk"}, ...}."""
    found: dict[str, set[str]] = {fact: set() for fact in facts if "." not in fact}
    for fact in facts:
        owner, _, state = fact.partition(".")
        owner = _PART_OF.get(owner, owner)
        if state and owner in found:
            found[owner].add(state)
    return {name: frozenset(states) for name, states in found.items()}
