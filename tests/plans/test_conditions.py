"""Conditions in words, in JSON, and why impossible ones are refused."""

from __future__ import annotations

import doctest
import json
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import p3iv.plans.conditions
import p3iv.plans.lengths
from p3iv.errors import PlanError
from p3iv.plans.chain import Chain
from p3iv.plans.conditions import Conditions, restrict_chains, smallest_impossible
from plans.test_conditioned import NAMES, problems, some_conditions, written_out


def test_conditions_are_for_one_window() -> None:
    with pytest.raises(PlanError, match="2 windows, but conditions restrict one"):
        Conditions(first="boil").rules(NAMES).restrict(Chain(np.zeros((2, 3, 5)), np.zeros((5, 5))))


@given(conditions=st.integers(1, 5).flatmap(lambda number: some_conditions(number, 4)))
def test_json_has_everything(conditions: Conditions) -> None:
    written = conditions.to_dict()
    assert Conditions.from_dict(json.loads(json.dumps(written))) == conditions
    assert all(written.values())
    assert bool(written) == bool(conditions)
    assert Conditions.join(conditions.split()) == conditions
    assert hash(conditions) == hash(Conditions.join(conditions.split()))


def test_conditions_in_words_and_in_json() -> None:
    conditions = Conditions(
        without=["salt", "salt"], including=["stir"], first="boil", last="wait", at=[(2, "pour")],
        before=[("boil", "pour")], done=["cut"],
    )  # fmt: skip
    assert conditions.to_dict() == {
        "without": ["salt"], "with": ["stir"], "first": "boil", "last": "wait", "at": [[2, "pour"]],
        "before": [["boil", "pour"]], "done": ["cut"],
    }  # fmt: skip
    expected = "without 'salt', with 'stir', first 'boil', last 'wait', 'pour' at 2, 'boil' before 'pour', done 'cut'"
    assert str(conditions) == expected
    assert not Conditions()
    assert str(Conditions()) == ""


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (["boil"], r'conditions=a list, but they must be an object such as {"with": \["a step"\]}'),
        ({"widthout": ["salt"]}, "'widthout' is not a condition, .* Did you mean without?"),
        ({"including": ["salt"]}, "'including' is not a condition"),
        ({"with": "salt"}, "with='salt', but it must be a list of steps"),
        ({"with": [3]}, "with has the entry 3, but it must be a list of steps"),
        ({"done": ["x"] * 1001}, "done has 1001 entries, but at most 1000 are allowed"),
        ({"first": ""}, "first='', but it must be one step"),
        ({"done": None}, "done=null, but it must be a list of steps"),
        ({"first": ["boil"]}, "first=a list, but it must be one step"),
        ({"at": [[0, "boil"]]}, r"at has the entry \(0, 'boil'\), but .* a position from 1 and a step"),
        ({"at": [[True, "boil"]]}, r"at has the entry \(true, 'boil'\)"),
        ({"at": [["boil", 1]]}, r"at has the entry \('boil', 1\)"),
        ({"at": [2, "boil"]}, "at has the entry 2"),
        ({"before": [["boil", "boil"]]}, r"before has the entry \('boil', 'boil'\), but .* two different steps"),
        ({"before": ["ab"]}, "before has the entry 'ab'"),
    ],
)  # fmt: skip
def test_what_is_not_a_condition_is_refused(content: Any, message: str) -> None:
    with pytest.raises(PlanError, match=message):
        Conditions.from_dict(content)


@given(content=st.recursive(st.none() | st.integers() | st.text(max_size=3), lambda inner: st.lists(inner, max_size=3) |
       st.dictionaries(st.sampled_from([*p3iv.plans.conditions.KEYS.values(), "x"]), inner, max_size=3)))  # fmt: skip
def test_any_json_is_read_or_refused_with_a_sentence(content: Any) -> None:
    try:
        assert isinstance(Conditions.from_dict(content).to_dict(), dict)
    except PlanError as error:
        assert str(error).endswith((".", "?"))


def test_an_unknown_step_is_refused_with_similar_ones() -> None:
    with pytest.raises(PlanError, match=r"'slat' is not one of the 5 actions of this planner\. Similar: 'salt'."):
        Conditions(without=["slat"]).rules(NAMES)


def equal_chains(*lengths: int) -> list[Chain]:
    return [Chain(np.zeros((1, length, 5)), np.zeros((5, 5))) for length in lengths]


@pytest.mark.parametrize(
    ("conditions", "message"),
    [
        (
            Conditions(first="pour", without=["pour"]),
            "without 'pour' and first 'pour' cannot hold together in a plan of 3",
        ),
        (Conditions(including=["pour"], done=["pour"]), "with 'pour' and done 'pour' cannot hold together"),
        (Conditions(first="pour", at=[(1, "boil")]), "first 'pour' and 'boil' at 1 cannot hold together"),
        (Conditions(at=[(5, "boil")], without=["salt"]), "'boil' at 5 cannot hold in a plan of 3 steps."),
        (
            Conditions(including=["boil", "pour"], before=[("boil", "pour"), ("pour", "boil"), ("salt", "boil")]),
            "with 'boil', with 'pour', 'boil' before 'pour' and 'pour' before 'boil' cannot hold together",
        ),
        (
            Conditions(including=["boil", "pour"], first="salt", last="wait"),
            r"4 steps must occur \('boil', 'pour', 'salt', 'wait'\), but a plan has 3 steps.",
        ),
        (Conditions(without=NAMES), "without 'boil', .* and without 'wait' cannot hold together"),
    ],
    ids=str,
)
def test_impossible_conditions_are_refused_with_those_that_contradict_each_other(
    conditions: Conditions, message: str
) -> None:
    with pytest.raises(PlanError, match=message):
        restrict_chains(equal_chains(3), conditions, NAMES)


def test_a_length_without_such_plans_is_excluded_and_not_refused() -> None:
    conditions = Conditions(including=["boil", "pour"], at=[(3, "salt")])
    shares = [each.log_share for each in restrict_chains(equal_chains(1, 2, 3, 4), conditions, NAMES)]
    assert [share > -np.inf for share in shares] == [False, False, True, True]
    with pytest.raises(PlanError, match=r"3 steps must occur .*, but a plan has 1 to 2 steps"):
        restrict_chains(equal_chains(1, 2), conditions, NAMES)


def test_what_a_planner_rules_out_is_said_to_be_so() -> None:
    generator = np.random.default_rng(0)
    emissions, transitions = generator.random((1, 3, 5)), generator.random((5, 5))
    transitions[1, 2] = 0  # salt never follows pour
    emissions[0, 0, 4] = 0  # and wait is never first
    chain, adjacent = Chain.of(emissions, transitions), Conditions(at=[(1, "pour"), (2, "salt")], without=["stir"])
    with pytest.raises(PlanError, match="every plan of 3 steps with 'pour' at 1 and 'salt' at 2 the probability 0"):
        restrict_chains([chain], adjacent, NAMES)
    with pytest.raises(PlanError, match="every plan of 3 steps with first 'wait' the probability 0"):
        restrict_chains([chain], Conditions(first="wait", last="boil"), NAMES)
    with pytest.raises(PlanError, match="also without conditions"):
        restrict_chains([Chain.of(emissions, 0 * transitions)], Conditions(last="boil"), NAMES)


@given(problem=problems())
def test_conditions_are_refused_exactly_if_no_plan_satisfies_them(problem: tuple[Chain, Conditions]) -> None:
    chain, conditions = problem
    _, _, share = written_out(chain, conditions)
    names = NAMES[: chain.log_emissions.shape[2]]
    if share > -np.inf:
        assert restrict_chains([chain], conditions, names)[0].log_share == pytest.approx(share, abs=1e-9)
    else:
        with pytest.raises(PlanError, match=r"\.$"):
            restrict_chains([chain], conditions, names)


@given(problem=problems())
def test_none_of_the_conditions_that_cannot_hold_together_can_be_left_out(problem: tuple[Chain, Conditions]) -> None:
    chain, conditions = problem
    names = NAMES[: chain.log_emissions.shape[2]]
    parts = smallest_impossible([chain], conditions, names)
    share = written_out(chain, Conditions.join(parts))[2]
    assert (share == -np.inf) == (written_out(chain, conditions)[2] == -np.inf)
    assert set(parts) <= set(conditions.split())
    for left_out in parts:
        rest = Conditions.join([part for part in parts if part != left_out])
        assert written_out(chain, rest)[2] > -np.inf


@pytest.mark.parametrize("module", [p3iv.plans.conditions, p3iv.plans.lengths])
def test_the_examples_do_what_they_say(module: Any) -> None:
    result = doctest.testmod(module)
    assert result.attempted
    assert not result.failed
