"""The rules of the tabletop world: what every step needs and changes, and the nine procedures made of the steps.

A fact is an object on the table ("mug") or a property of one ("mug.water"). A step requires some facts, forbids others,
adds some and removes some. A procedure is a partial order of slots. A slot holds one step, or alternatives of which
exactly one is taken; each has a weight, which is how much people prefer it when it is possible.
"""

from __future__ import annotations

from dataclasses import dataclass

Facts = frozenset[str]

# People mostly follow the order of a recipe: the weight of a possible required step is multiplied by this number once
# for every possible required step before it.
HABIT = 0.25


@dataclass(frozen=True)
class Rule:
    """When a step is possible and what it changes."""

    needs: Facts
    lacks: Facts
    adds: Facts
    removes: Facts

    def allows(self, facts: Facts) -> bool:
        return self.needs <= facts and not (self.lacks & facts)

    def apply(self, facts: Facts) -> Facts:
        return (facts - self.removes) | self.adds


@dataclass(frozen=True)
class Slot:
    """One position in a procedure: a step, or alternatives, with their weights."""

    weights: dict[str, float]
    after: tuple[str, ...] = ()  # steps whose slots must be done first, with any of their alternatives
    optional: bool = False


@dataclass(frozen=True)
class Procedure:
    """A partial order of slots, the tables that it may start from, and the weight of stopping when it is complete."""

    name: str
    starts: dict[Facts, float]
    slots: tuple[Slot, ...]
    stop_weight: float = 1.0


def _facts(words: str) -> Facts:
    return frozenset(words.split())


def _rule(*, needs: str = "", lacks: str = "", adds: str = "", removes: str = "") -> Rule:
    return Rule(_facts(needs), _facts(lacks), _facts(adds), _facts(removes))


def _once(step: str, weight: float = 1.0, *, after: tuple[str, ...] = ()) -> Slot:
    return Slot({step: weight}, after)


def _maybe(step: str, weight: float) -> Slot:
    return Slot({step: weight}, optional=True)


def _either(weights: dict[str, float], *, after: tuple[str, ...] = ()) -> Slot:
    return Slot(weights, after)


RULES: dict[str, Rule] = {
    # hot drinks
    "set out a mug": _rule(lacks="mug", adds="mug"),
    "fill the kettle with water": _rule(needs="kettle", lacks="kettle.full", adds="kettle.full"),
    "switch on the kettle": _rule(needs="kettle.full", lacks="kettle.hot", adds="kettle.hot"),
    "put a tea bag in the mug": _rule(needs="mug tea", lacks="mug.water", adds="mug.teabag"),
    "pour hot water into the mug": _rule(
        needs="kettle.hot mug", lacks="mug.water", adds="mug.water", removes="kettle.full kettle.hot"
    ),
    "take the tea bag out of the mug": _rule(needs="mug.water mug.teabag", adds="mug.brewed", removes="mug.teabag"),
    "add sugar to the mug": _rule(needs="mug.water sugar", lacks="mug.stirred", adds="sugar.open"),
    "pour milk into the mug": _rule(needs="mug.water milk", lacks="mug.stirred", adds="mug.milk"),
    "put a slice of lemon on the mug": _rule(needs="mug.water", lacks="mug.stirred", adds="mug.lemon"),
    "stir the mug with a spoon": _rule(needs="mug.water", lacks="mug.teabag", adds="mug.stirred"),
    "swirl the mug by hand": _rule(needs="mug.water", lacks="mug.teabag", adds="mug.stirred"),
    "set out biscuits": _rule(lacks="biscuits", adds="biscuits"),
    "open the coffee jar": _rule(needs="coffee", lacks="coffee.open", adds="coffee.open"),
    "spoon coffee into the mug": _rule(needs="coffee.open mug", lacks="mug.water", adds="mug.coffee"),
    "close the coffee jar": _rule(needs="coffee.open mug.coffee", removes="coffee.open"),
    "sprinkle cocoa on top": _rule(needs="mug.stirred", adds="mug.cocoa"),
    # bread
    "cut a slice of bread": _rule(needs="loaf", lacks="slice", adds="slice loaf.cut"),
    "put the bread in the toaster": _rule(needs="toaster slice", adds="toaster.bread", removes="slice"),
    "push down the toaster lever": _rule(needs="toaster.bread", adds="toaster.hot"),
    "set out a plate": _rule(lacks="plate", adds="plate"),
    "put the toast on the plate": _rule(
        needs="toaster.hot plate", adds="plate.bread bread.toasted", removes="toaster.bread toaster.hot"
    ),
    "put the bread on the plate": _rule(needs="slice plate", adds="plate.bread", removes="slice"),
    "spread butter on the bread": _rule(needs="plate.bread butter", adds="bread.butter"),
    "spread jam on the bread": _rule(needs="bread.butter jam", adds="bread.jam"),
    "drizzle honey on the bread": _rule(needs="bread.butter", adds="bread.honey"),
    "lay cheese on the bread": _rule(needs="bread.butter cheese", adds="bread.cheese cheese.cut"),
    "wash the lettuce": _rule(needs="lettuce", lacks="lettuce.wet", adds="lettuce.wet"),
    "lay lettuce on the bread": _rule(needs="bread.butter lettuce.wet", adds="bread.lettuce"),
    "slice the tomato": _rule(needs="tomato", lacks="tomato.sliced", adds="tomato.sliced"),
    "lay tomato on the bread": _rule(
        needs="bread.butter tomato.sliced", adds="bread.tomato", removes="tomato tomato.sliced"
    ),
    "close the sandwich": _rule(needs="bread.cheese bread.lettuce bread.tomato", adds="bread.closed"),
    "cut the bread in half": _rule(needs="bread.butter", lacks="bread.halved", adds="bread.halved"),
    "set out a glass": _rule(lacks="glass", adds="glass"),
    "pour juice into the glass": _rule(needs="glass", lacks="glass.smoothie", adds="glass.juice"),
    # salad
    "set out a bowl": _rule(lacks="bowl", adds="bowl"),
    "tear the lettuce into the bowl": _rule(
        needs="bowl lettuce.wet", adds="bowl.lettuce", removes="lettuce lettuce.wet"
    ),
    "put the tomato in the bowl": _rule(needs="bowl tomato.sliced", adds="bowl.tomato", removes="tomato tomato.sliced"),
    "slice the cucumber": _rule(needs="cucumber", lacks="cucumber.sliced", adds="cucumber.sliced"),
    "put the cucumber in the bowl": _rule(
        needs="bowl cucumber.sliced", adds="bowl.cucumber", removes="cucumber cucumber.sliced"
    ),
    "pour oil over the salad": _rule(needs="bowl.lettuce oil", lacks="bowl.oil", adds="bowl.oil"),
    "squeeze lemon over the salad": _rule(needs="bowl.lettuce lemon", adds="bowl.sour", removes="lemon"),
    "pour vinegar over the salad": _rule(needs="bowl.lettuce", adds="bowl.sour"),
    "crumble cheese over the salad": _rule(needs="bowl.lettuce", lacks="bowl.tossed", adds="bowl.cheese"),
    "toss the salad with two spoons": _rule(needs="bowl.lettuce", adds="bowl.tossed"),
    "toss the salad by hand": _rule(needs="bowl.lettuce", adds="bowl.tossed"),
    # scrambled eggs
    "put the pan on the stove": _rule(needs="stove", lacks="pan", adds="pan"),
    "turn on the stove": _rule(needs="stove", lacks="stove.on", adds="stove.on"),
    "melt butter in the pan": _rule(needs="pan stove.on butter", lacks="pan.egg", adds="pan.butter"),
    "crack eggs into the bowl": _rule(needs="bowl eggs", adds="bowl.egg eggs.cracked"),
    "add salt to the eggs": _rule(needs="bowl.egg", adds="bowl.salt"),
    "whisk the eggs": _rule(needs="bowl.egg", lacks="bowl.beaten", adds="bowl.beaten"),
    "beat the eggs with a fork": _rule(needs="bowl.egg", lacks="bowl.beaten", adds="bowl.beaten"),
    "pour the eggs into the pan": _rule(
        needs="bowl.beaten bowl.salt pan.butter", adds="pan.egg", removes="bowl.egg bowl.beaten bowl.salt pan.butter"
    ),
    "stir the eggs in the pan": _rule(needs="pan.egg stove.on", adds="pan.cooked"),
    "turn off the stove": _rule(needs="stove.on", removes="stove.on"),
    "slide the eggs onto the plate": _rule(needs="pan.cooked plate", adds="plate.egg", removes="pan.egg pan.cooked"),
    "sprinkle chives on the eggs": _rule(needs="plate.egg", adds="plate.chives"),
    # smoothie
    "peel the banana": _rule(needs="banana", lacks="banana.peeled", adds="banana.peeled"),
    "put the banana in the blender": _rule(
        needs="blender banana.peeled", lacks="blender.lid", adds="blender.banana", removes="banana banana.peeled"
    ),
    "put berries in the blender": _rule(
        needs="blender berries", lacks="blender.lid", adds="blender.berries", removes="berries"
    ),
    "put mango in the blender": _rule(
        needs="blender mango", lacks="blender.lid", adds="blender.mango", removes="mango"
    ),
    "pour milk into the blender": _rule(needs="blender milk", lacks="blender.lid", adds="blender.milk"),
    "add ice to the blender": _rule(needs="blender", lacks="blender.lid glass.smoothie", adds="blender.ice"),
    "put the lid on the blender": _rule(needs="blender.banana blender.milk", adds="blender.lid"),
    "run the blender": _rule(
        needs="blender.lid",
        adds="blender.blended",
        removes="blender.banana blender.milk blender.ice",
    ),
    "pour the smoothie into the glass": _rule(
        needs="blender.blended glass",
        adds="glass.smoothie",
        removes="blender.blended blender.lid blender.berries blender.mango",
    ),
    "put a straw in the glass": _rule(needs="glass", adds="glass.straw"),
    # repotting a plant
    "set out a big pot": _rule(lacks="pot", adds="pot"),
    "put pebbles in the pot": _rule(needs="pot pebbles", lacks="pot.soil", adds="pot.pebbles"),
    "open the bag of soil": _rule(needs="soil", adds="soil.open"),
    "scoop soil into the pot": _rule(needs="soil.open pot.pebbles", adds="pot.soil"),
    "take the plant out of its old pot": _rule(needs="plant oldpot", adds="plant.out"),
    "loosen the roots": _rule(needs="plant.out", adds="plant.loose"),
    "put the plant in the big pot": _rule(
        needs="plant.loose pot.soil", adds="pot.plant", removes="plant plant.out plant.loose plant.trimmed"
    ),
    "top up the soil": _rule(needs="pot.plant soil.open", adds="pot.full"),
    "fill the watering can": _rule(needs="can", lacks="can.full", adds="can.full"),
    "water the plant": _rule(needs="can.full pot.plant", adds="pot.wet", removes="can.full"),
    "trim the dead leaves": _rule(needs="plant", lacks="plant.trimmed pot.plant", adds="plant.trimmed"),
    "clear away the old pot": _rule(needs="oldpot plant.out", removes="oldpot"),
    # a card
    "take out a card": _rule(lacks="card", adds="card"),
    "draw a heart on the card": _rule(needs="card pen", lacks="envelope.card", adds="card.heart"),
    "draw a flower on the card": _rule(needs="card pen", lacks="envelope.card", adds="card.flower"),
    "write a message in the card": _rule(needs="card pen", lacks="envelope.card", adds="card.written"),
    "take out an envelope": _rule(lacks="envelope", adds="envelope"),
    "put the card in the envelope": _rule(
        needs="envelope card.written", adds="envelope.card", removes="card card.written card.heart card.flower"
    ),
    "write the address on the envelope": _rule(needs="envelope pen", adds="envelope.address"),
    "stick a stamp on the envelope": _rule(needs="envelope stamps", adds="envelope.stamp"),
    "seal the envelope": _rule(needs="envelope.card", adds="envelope.sealed"),
    "tie a ribbon round the envelope": _rule(needs="envelope.sealed ribbon", adds="envelope.ribbon"),
    "put the cap on the pen": _rule(needs="pen", lacks="pen.capped", adds="pen.capped"),
}

_HOT_DRINKS_TABLE = _facts("kettle tea coffee milk sugar")

PROCEDURES: tuple[Procedure, ...] = (
    Procedure(
        "make tea",
        {_HOT_DRINKS_TABLE: 0.7, _HOT_DRINKS_TABLE | {"kettle.full"}: 0.3},
        (
            _once("fill the kettle with water", 3.0),
            _once("switch on the kettle", 2.0),
            _once("set out a mug", 2.0),
            _once("put a tea bag in the mug"),
            _once("pour hot water into the mug", 2.0, after=("put a tea bag in the mug",)),
            _once("take the tea bag out of the mug"),
            _either({"pour milk into the mug": 1.2, "put a slice of lemon on the mug": 0.5}),
            _maybe("add sugar to the mug", 0.6),
            _either(
                {"stir the mug with a spoon": 2.0, "swirl the mug by hand": 0.7},
                after=("pour milk into the mug", "take the tea bag out of the mug"),
            ),
            _maybe("set out biscuits", 0.25),
        ),
        stop_weight=0.5,
    ),
    Procedure(
        "make coffee",
        {_HOT_DRINKS_TABLE: 0.7, _HOT_DRINKS_TABLE | {"kettle.full"}: 0.3},
        (
            _once("fill the kettle with water", 2.0),
            _once("switch on the kettle", 2.0),
            _once("set out a mug", 3.0),
            _once("open the coffee jar"),
            _once("spoon coffee into the mug", 2.0),
            _once("close the coffee jar"),
            _once("pour hot water into the mug", 2.0, after=("spoon coffee into the mug",)),
            _maybe("pour milk into the mug", 1.0),
            _maybe("add sugar to the mug", 0.7),
            _either(
                {"stir the mug with a spoon": 2.0, "swirl the mug by hand": 0.5},
                after=("pour hot water into the mug",),
            ),
            _maybe("sprinkle cocoa on top", 1.0),
            _maybe("set out biscuits", 0.25),
        ),
    ),
    Procedure(
        "make toast",
        {_facts("loaf toaster butter jam"): 0.8, _facts("loaf toaster butter jam plate"): 0.2},
        (
            _once("cut a slice of bread", 3.0),
            _once("put the bread in the toaster", 2.0),
            _once("push down the toaster lever", 3.0),
            _once("set out a plate"),
            _once("put the toast on the plate", 2.0),
            _once("spread butter on the bread"),
            _either({"spread jam on the bread": 1.5, "drizzle honey on the bread": 0.8}),
            _maybe("cut the bread in half", 0.4),
            _once("set out a glass", 0.5),
            _once("pour juice into the glass", 1.5),
        ),
    ),
    Procedure(
        "make a sandwich",
        {_facts("loaf butter cheese tomato lettuce"): 1.0},
        (
            _once("cut a slice of bread", 2.0),
            _once("set out a plate", 2.0),
            _once("put the bread on the plate", 3.0),
            _once("spread butter on the bread", 2.0),
            _once("wash the lettuce"),
            _once("lay lettuce on the bread", 2.0),
            _once("slice the tomato"),
            _once("lay tomato on the bread"),
            _once("lay cheese on the bread", 1.5),
            _once("close the sandwich", 2.0),
            _maybe("cut the bread in half", 0.05),
        ),
        stop_weight=0.03,
    ),
    Procedure(
        "make a salad",
        {_facts("lettuce tomato cucumber lemon oil"): 0.8, _facts("lettuce tomato cucumber lemon oil bowl"): 0.2},
        (
            _once("set out a bowl", 2.0),
            _once("wash the lettuce", 3.0),
            _once("tear the lettuce into the bowl", 2.0),
            _once("slice the tomato", 1.5),
            _once("put the tomato in the bowl", 2.0),
            _once("slice the cucumber"),
            _once("put the cucumber in the bowl", 2.0),
            _once("pour oil over the salad", 0.5),
            _either({"squeeze lemon over the salad": 0.4, "pour vinegar over the salad": 0.2}),
            _maybe("crumble cheese over the salad", 0.2),
            _either(
                {"toss the salad with two spoons": 1.5, "toss the salad by hand": 1.0},
                after=(
                    "put the tomato in the bowl",
                    "put the cucumber in the bowl",
                    "pour oil over the salad",
                    "squeeze lemon over the salad",
                ),
            ),
        ),
    ),
    Procedure(
        "scramble eggs",
        {_facts("stove eggs butter"): 0.6, _facts("stove eggs butter pan"): 0.4},
        (
            _once("set out a bowl", 2.0),
            _once("crack eggs into the bowl", 2.0),
            _once("add salt to the eggs"),
            _either({"whisk the eggs": 1.5, "beat the eggs with a fork": 1.0}),
            _once("put the pan on the stove"),
            _once("turn on the stove"),
            _once("melt butter in the pan", 2.0),
            _once("pour the eggs into the pan", 3.0),
            _once("stir the eggs in the pan", 3.0),
            _once("set out a plate", 0.6),
            _once("turn off the stove", 2.0, after=("stir the eggs in the pan",)),
            _once("slide the eggs onto the plate"),
            _maybe("sprinkle chives on the eggs", 0.8),
        ),
    ),
    Procedure(
        "make a smoothie",
        {_facts("blender banana berries mango milk"): 0.7, _facts("blender banana berries mango milk glass"): 0.3},
        (
            _once("peel the banana", 2.0),
            _once("put the banana in the blender", 2.0),
            _either({"put berries in the blender": 1.2, "put mango in the blender": 0.8}),
            _once("pour milk into the blender", 0.8),
            _maybe("add ice to the blender", 0.5),
            _once(
                "put the lid on the blender",
                1.5,
                after=("put the banana in the blender", "put berries in the blender", "pour milk into the blender"),
            ),
            _once("run the blender", 3.0),
            _once("set out a glass", 0.5),
            _once("pour the smoothie into the glass"),
            _maybe("put a straw in the glass", 0.7),
        ),
    ),
    Procedure(
        "repot a plant",
        {_facts("plant oldpot soil can pebbles"): 0.75, _facts("plant oldpot soil can pebbles can.full"): 0.25},
        (
            _once("set out a big pot", 2.0),
            _once("put pebbles in the pot", 1.5),
            _once("open the bag of soil"),
            _once("scoop soil into the pot", 2.0),
            _once("take the plant out of its old pot"),
            _once("loosen the roots", 2.0),
            _once("put the plant in the big pot", 2.0),
            _once("top up the soil", 2.0),
            _once("fill the watering can", 0.6),
            _once("water the plant", after=("top up the soil",)),
            _maybe("trim the dead leaves", 0.5),
            _maybe("clear away the old pot", 0.4),
        ),
        stop_weight=0.3,
    ),
    Procedure(
        "send a card",
        {_facts("pen stamps ribbon"): 0.6, _facts("pen stamps ribbon envelope"): 0.4},
        (
            _once("take out a card", 2.0),
            _either({"draw a heart on the card": 1.5, "draw a flower on the card": 1.0}),
            _once("write a message in the card", 1.5),
            _once("take out an envelope"),
            _once(
                "put the card in the envelope",
                2.0,
                after=("draw a heart on the card", "write a message in the card"),
            ),
            _once("write the address on the envelope"),
            _once("stick a stamp on the envelope", 0.7),
            _once("seal the envelope", 1.5),
            _maybe("tie a ribbon round the envelope", 0.5),
            Slot(
                {"put the cap on the pen": 0.7}, ("write the address on the envelope", "put the card in the envelope")
            ),
        ),
    ),
)
