"""Distinct plans with counts, and the distribution that a user holds."""

from __future__ import annotations

import base64
import collections
import json
from html.parser import HTMLParser
from xml.etree import ElementTree

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from p3iv.errors import PlanError
from p3iv.metrics.counts import count_plans
from p3iv.plans.distribution import PlanDistribution


@given(
    seed=st.integers(0, 10_000),
    num_actions=st.sampled_from([1, 2, 5, 778]),
    horizon=st.integers(1, 9),
    windows=st.integers(1, 4),
)
def test_counts_equal_a_literal_count(seed: int, num_actions: int, horizon: int, windows: int) -> None:
    samples = torch.randint(num_actions, (windows, 30, horizon), generator=torch.Generator().manual_seed(seed))
    counted = count_plans(samples)
    assert len(counted) == windows
    for number in range(windows):
        literal = collections.Counter(map(tuple, samples[number].tolist()))
        expected = sorted(literal.items(), key=lambda item: (-item[1], item[0]))
        plans, counts = counted.rows(number)
        assert list(zip(map(tuple, plans.tolist()), counts.tolist(), strict=True)) == expected
        assert tuple(counted.modes[number].tolist()) == expected[0][0]
    assert counted.totals.tolist() == [30] * windows


POUR, STIR = ("pour", "öffne <Dose>"), ("stir", "pour")


def test_json_there_and_back() -> None:
    distribution = PlanDistribution((POUR, STIR), (0.5, 0.3), "chain", ((STIR, 7), (POUR, 2)))
    again = PlanDistribution.from_json(distribution.to_json())
    assert again == distribution
    assert again.to_json() == distribution.to_json()
    assert (distribution.plan, distribution.plan_probability, distribution.num_samples) == (POUR, 0.5, 9)
    assert distribution.other_plans == pytest.approx(0.2)
    assert list(distribution.top(1)) == [(POUR, 0.5)]
    assert list(distribution.top(9)) == [(POUR, 0.5), (STIR, 0.3)]


def test_it_is_a_sequence_of_plans_with_their_probabilities() -> None:
    distribution = PlanDistribution((POUR, STIR), (0.5, 0.3), "chain")
    assert len(distribution) == 2
    assert list(distribution) == [(POUR, 0.5), (STIR, 0.3)]
    assert [steps for steps, _ in distribution] == list(distribution.plans)
    assert dict(distribution)[STIR] == 0.3
    assert repr(distribution) == "<PlanDistribution of 2 plans: 50.0% pour -> öffne <Dose>>"
    long = repr(PlanDistribution((("x" * 999,),), (1.0,), "samples"))
    assert long.startswith("<PlanDistribution of 1 plan: 100.0% xx")
    assert len(long) < 300


def test_its_text_names_what_the_probabilities_are_of() -> None:
    distribution = PlanDistribution((POUR, STIR), (0.5, 0.3), "chain", ((STIR, 7), (POUR, 2)))
    assert distribution.to_text() == str(distribution)
    assert str(distribution).splitlines() == [
        "plan (probability 50.0 %):",
        "  1. pour",
        "  2. öffne <Dose>",
        "",
        "most probable plans:",
        "   50.0 %  pour -> öffne <Dose>",
        "   30.0 %  stir -> pour",
        "   20.0 %  all other plans",
        "",
        "2 distinct plans in 9 samples, the most frequent:",
        "   77.8 %  stir -> pour",
        "   22.2 %  pour -> öffne <Dose>",
    ]
    sampled = PlanDistribution((POUR, STIR), (0.9999, 0.0001), "samples")
    assert sampled.to_text(top=1).splitlines() == [
        "plan (100.0 % of the planner's samples):",
        "  1. pour",
        "  2. öffne <Dose>",
        "",
        "this plan, then the most frequent samples:",
        "  100.0 %  pour -> öffne <Dose>",
        "  < 0.1 %  all other plans",
    ]


def test_a_notebook_shows_the_drawing_as_a_picture_so_that_its_style_changes_nothing_else() -> None:
    distribution = PlanDistribution((POUR, STIR), (0.5, 0.3), "chain")
    tags: list[tuple[str, dict[str, str | None]]] = []
    parser = HTMLParser()
    parser.handle_starttag = lambda tag, attrs: tags.append((tag, dict(attrs)))  # type: ignore[method-assign]
    parser.feed(distribution._repr_html_())
    ((tag, attributes),) = tags  # the names of steps add no other
    assert (tag, attributes["alt"]) == ("img", str(distribution))
    kind, _, content = str(attributes["src"]).partition(";base64,")
    assert kind == "data:image/svg+xml"
    picture = base64.b64decode(content).decode()
    assert picture == distribution.to_svg()
    assert "<style>" in picture
    assert ElementTree.fromstring(picture).tag == "{http://www.w3.org/2000/svg}svg"  # noqa: S314 - our own


@pytest.mark.parametrize(
    "change",
    [
        {"plans": []},
        {"plans": None},
        {"plans": [{"steps": ["pour"], "probability": 1.5}]},
        {"plans": [{"steps": ["pour"], "probability": float("nan")}]},
        {"plans": [{"steps": ["pour"], "probability": 0.2}] * 2},
        {"plans": [{"steps": ["pour"], "probability": 0.6}, {"steps": ["stir"], "probability": 0.6}]},
        {"samples": [{"steps": ["pour", "stir"], "count": 1}]},
        {"samples": [{"steps": ["pour"], "count": 0}]},
        {"samples": [{"steps": ["pour"], "count": 2.7}]},
        {"samples": [{"steps": ["pour"], "count": True}]},
        {"samples": [{"steps": ["pour"], "count": 1}] * 2},
        {"source": "a guess"},
    ],
)
def test_an_invalid_distribution_is_refused(change: dict[str, object]) -> None:
    good = {"plans": [{"steps": ["pour"], "probability": 0.5}], "source": "samples", "samples": []}
    assert PlanDistribution.from_json(json.dumps(good)).plan == ("pour",)
    with pytest.raises(PlanError):
        PlanDistribution.from_json(json.dumps({**good, **change}))
