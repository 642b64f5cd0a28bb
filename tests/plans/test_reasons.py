"""Reasons as a user gets them: JSON there and back, text, drawing, and what is refused."""

from __future__ import annotations

import copy
import json
import math
from dataclasses import replace
from typing import Any
from xml.etree import ElementTree

import pytest
from hypothesis import given
from hypothesis import strategies as st

from p3iv.errors import PlanError
from p3iv.plans.reasons import SOURCES, Change, Example, PlanReasons, StepReasons

CHANGE = Change("goal", 2, 0.8, 1.25, ("boil", "stir"))
EXAMPLES = (Example("kitchen_1", 12.5, 0.3), Example("kitchen_2", 3.0))


def make_reasons(*rows: dict[str, float], change: Change | None = None, names: tuple[str, ...] = ()) -> PlanReasons:
    """Reasons with these addends, for a log probability of -0.5."""
    names = names or ("boil", "pour <hot> water", "öffne", "stir")
    steps = tuple(StepReasons(name, row) for name, row in zip(names, rows, strict=False))
    total = math.fsum(value for row in rows for value in row.values())
    return PlanReasons(steps, -1.25, 0.5, 0.25 - total, -0.5, change)


TWO = make_reasons({"goal": 2.0, "start": 0.04, "effects": 0.0}, {"goal": 0.5, "start": -1.5, "effects": 0.0})


@st.composite
def any_reasons(draw: st.DrawFn) -> PlanReasons:
    sources = draw(st.lists(st.sampled_from(SOURCES), unique=True))
    row = st.fixed_dictionaries(dict.fromkeys(sources, st.floats(-1e6, 1e6)))
    rows = draw(st.lists(row, min_size=1, max_size=4))
    return make_reasons(*rows, change=draw(st.sampled_from([None, CHANGE])))


@given(any_reasons(), st.booleans())
def test_json_there_and_back(reasons: PlanReasons, has_examples: bool) -> None:
    if has_examples:
        reasons = reasons.with_examples([EXAMPLES, *[()] * (len(reasons.steps) - 1)])
    again = PlanReasons.from_dict(json.loads(json.dumps(reasons.to_dict())))
    assert again == reasons
    assert again.to_dict() == reasons.to_dict()
    assert hash(again) == hash(reasons)


def test_json_has_what_there_is() -> None:
    assert TWO.with_examples([EXAMPLES, ()]).to_dict() == {
        "steps": [
            {
                "step": "boil",
                "addends": {"goal": 2.0, "start": 0.04, "effects": 0.0},
                "examples": [
                    {"video": "kitchen_1", "second": 12.5, "distance": 0.3},
                    {"video": "kitchen_2", "second": 3.0},
                ],
            },
            {"step": "pour <hot> water", "addends": {"goal": 0.5, "start": -1.5, "effects": 0.0}},
        ],
        "length": -1.25,
        "conditions": 0.5,
        "normaliser": TWO.normaliser,
        "log_probability": -0.5,
    }
    change = {"source": "goal", "step": 2, "factor": 0.8, "nats": 1.25, "plan": ["boil", "stir"]}
    assert replace(TWO, change=CHANGE).to_dict()["change"] == change


WRONG: list[tuple[tuple[str | int, ...], object]] = [
    (("steps",), []),
    (("steps",), None),
    (("steps", 0), "boil"),
    (("steps", 0, "step"), 7),
    (("steps", 0, "step"), "boil\x1b[31m"),
    (("steps", 0, "step"), "x" * 501),
    (("steps", 0, "addends"), [2.0]),
    (("steps", 0, "addends", "goal"), "2.0"),
    (("steps", 0, "addends", "goal"), True),
    (("steps", 0, "addends", "goal"), 10**400),
    (("steps", 0, "addends", "goal"), math.nan),
    (("steps", 0, "addends", "goal"), 3.0),  # the sum is another
    (("steps", 0, "addends"), {"goals": 2.0, "start": 0.04, "effects": 0.0}),
    (("steps", 0, "addends"), {"goal": 2.04}),  # other sources than at the next step
    (("steps", 0, "examples"), [{"video": "a"}]),
    (("steps", 0, "examples"), [{"video": "a", "second": -1}]),
    (("steps", 0, "examples"), [{"video": "a", "second": 1, "distance": math.inf}]),
    (("length",), None),
    (("normaliser",), math.inf),
    (("log_probability",), -0.4),
    (("change",), {}),
    (("change", "source"), "weather"),
    (("change", "step"), 3),
    (("change", "step"), 0),
    (("change", "step"), 1.5),
    (("change", "factor"), -0.1),
    (("change", "nats"), -1),
    (("change", "plan"), "boil"),
]


@pytest.mark.parametrize(("place", "value"), WRONG)
def test_invalid_reasons_are_refused(place: tuple[str | int, ...], value: object) -> None:
    content: Any = copy.deepcopy(replace(TWO, change=CHANGE).to_dict())
    assert PlanReasons.from_dict(content).plan == ("boil", "pour <hot> water")
    inner = content
    for key in place[:-1]:
        inner = inner[key]
    inner[place[-1]] = value
    with pytest.raises(PlanError):
        PlanReasons.from_dict(content)


@pytest.mark.parametrize("content", [None, 1, "steps", [], {}, {"steps": []}])
def test_other_json_is_refused_with_what_is_missing(content: object) -> None:
    with pytest.raises(PlanError, match="These are not reasons as `to_dict` makes them: "):
        PlanReasons.from_dict(content)


def test_the_text_says_what_matters_most_then_all_numbers_then_the_change() -> None:
    reasons = replace(TWO, change=CHANGE).with_examples([EXAMPLES, ()])
    assert reasons.to_text().splitlines() == [
        "Mostly the goal (+2.5) speaks for this plan. The start (-1.5) speaks against it.",
        "",
        "  step                 start  goal   sum",
        "  1. boil                0.0  +2.0  +2.0",
        "  2. pour <hot> water   -1.5  +0.5  -1.0",
        "  all steps             -1.5  +2.5  +1.0",
        "",
        "In nats, against an average other step at the same place: +0.7 is twice as",
        "probable, -0.7 half.",
        "Sum +1.0, length -1.2, conditions +0.5, normaliser -0.8: log probability -0.5.",
        "Step 1 resembles kitchen_1 at 12 s, kitchen_2 at 3 s.",
        "If the goal counted 20 % less at step 2, the plan would be: boil -> stir.",
    ]


@pytest.mark.parametrize(
    ("addends", "expected"),
    [
        ({"goal": 4.1, "transitions": 2.3}, "Mostly the goal (+4.1) and transitions (+2.3) speak for this plan."),
        ({"goal": 4.1, "transitions": 1.9, "start": -0.6}, "Mostly the goal (+4.1) speaks for this plan."),
        ({"words": 1.0, "prior": 0.0}, "Mostly the words (+1.0) speak for this plan."),
        (
            {"start": 3.0, "goal": 2.9, "history": 2.8, "prior": 2.7},
            "Mostly the start (+3.0), the goal (+2.9) and the history (+2.8) speak for this plan.",
        ),
        (
            {"goal": -2.0, "effects": -3.0},
            "No source speaks for this plan. Effects (-3.0) and the goal (-2.0) speak against it.",
        ),
        ({"goal": 0.0}, "No source speaks for this plan."),
        ({}, "No source speaks for this plan."),
    ],
)
def test_the_headline_names_the_largest_sources(addends: dict[str, float], expected: str) -> None:
    assert make_reasons(addends).headline() == expected


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        (Change("goal", None, 0.8, 1.0, ("stir",)), "If the goal counted 20 % less, the plan would be: stir."),
        (Change("words", None, 1.0, 0.0, ("stir",)), "If the words counted 1 % less, the plan would be: stir."),
        (
            Change("start", 1, 1.211, 1.0, ("stir",)),
            "If the start counted 22 % more at step 1, the plan would be: stir.",
        ),
        (Change("goal", 1, 0.001, 1.0, ("stir",)), "If the goal did not count at step 1, the plan would be: stir."),
        (Change("history", None, 1.999, 1.0, ("stir",)), "If the history counted twice, the plan would be: stir."),
    ],
)
def test_a_change_is_a_sentence(change: Change, expected: str) -> None:
    assert change.to_text() == expected


@given(any_reasons())
def test_the_table_has_every_number_of_every_step(reasons: PlanReasons) -> None:
    lines = reasons.to_text(200).splitlines()
    for number, step in enumerate(reasons.steps, start=1):
        (row,) = [line for line in lines if line.startswith(f"  {number}. {step.step}")]
        columns = [source for source in reasons.sources if any(each.addends[source] for each in reasons.steps)]
        values = [step.addends[source] for source in columns]
        found = [float(cell) for cell in row.removeprefix(f"  {number}. {step.step}").split()]
        assert found == pytest.approx([*values, math.fsum(values)], abs=0.051)


def test_a_table_of_all_sources_fits_a_terminal_of_100_columns() -> None:
    names = ("wash the big bowl " * 9, "混ぜ合わせた材料を鍋に入れる")
    text = make_reasons(*[dict.fromkeys(SOURCES, -12.34)] * 2, names=names).to_text()
    assert max(len(line) + sum(ord(letter) > 0x3000 for letter in line) for line in text.splitlines()) <= 100
    assert "..." in text  # a long name takes three lines


def test_the_drawing_is_valid_xml_with_title_description_and_every_step() -> None:
    root = ElementTree.fromstring(replace(TWO, change=CHANGE).to_svg())  # noqa: S314 - our own
    parts = {element.tag.partition("}")[2]: element.text for element in list(root)[:2]}
    assert parts == {"title": "Why this plan: boil, then pour <hot> water", "desc": TWO.headline()}
    words = " ".join(root.itertext())
    for word in ("boil", "pour <hot> water", "goal +2.0", "If the goal counted 20 % less", "→ stir"):
        assert word in words
    assert "effects" not in words.partition("against")[0].rpartition("}")[2]  # says nothing, so it is not in the legend
