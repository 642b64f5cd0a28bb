"""How hands carry out every step: a kind of gesture, what is held, where it starts and where it acts."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from p3iv.tabletop.art.brush import RGB
from p3iv.tabletop.art.drinks import COFFEE, JUICE, MILK, SMOOTHIE
from p3iv.tabletop.art.garden import STONES
from p3iv.tabletop.art.shapes import SOIL, WATER
from p3iv.tabletop.tasks import Facts

Kind = Literal[
    "place", "remove", "carry", "pour", "sprinkle", "stir", "cut", "spread", "press", "write", "squeeze", "swirl"
]

_WHITE: RGB = (250, 250, 250)
_OIL: RGB = (226, 190, 40)
_YOLK: RGB = (246, 176, 30)
_GREEN: RGB = (60, 140, 50)


@dataclass(frozen=True)
class Gesture:
    """One step's motion. Names are of things on the table or of props; empty means from or to outside the picture."""

    kind: Kind
    target: str = ""
    source: str = ""
    item: str = ""  # what the hand holds
    loaded: str = ""  # how the item looks while it carries something
    color: RGB = _WHITE  # of what flows or falls
    grain: float = 1.1  # size of what falls
    spots: tuple[str, str] = ("mouth", "mouth")  # where on source and target
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
