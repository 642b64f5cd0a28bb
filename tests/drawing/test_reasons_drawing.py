from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import pairwise
from typing import NamedTuple
from xml.etree import ElementTree

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from p3iv.drawing.graph_drawing import text_width
from p3iv.drawing.reasons_drawing import COLOURS, WIDTH, Row, draw_reasons, round_values
from p3iv.plans.reasons import SOURCES

NAMES = (
    "stir",
    "pour hot water into the mug & wait",
    "X" * 70,
    "混ぜ合わせた材料を鍋に入れる",
    "a b c d e f g h i j k l m",
)


@st.composite
def any_rows(draw: st.DrawFn) -> list[Row]:
    sources = draw(st.lists(st.sampled_from(SOURCES), unique=True, min_size=1))
    scale = draw(st.sampled_from([0.01, 1.0, 5000.0]))
    values = st.fixed_dictionaries(dict.fromkeys(sources, st.floats(-1, 1).map(lambda value: scale * value)))
    return draw(st.lists(st.tuples(st.sampled_from(NAMES), values), min_size=1, max_size=6))


class Part(NamedTuple):
    """A part of a bar, as it is drawn."""

    title: str
    left: float
    right: float
    top: float
    words: str
    colour: str


def parts_in(picture: str) -> Iterator[Part]:
    for group in ElementTree.fromstring(picture).iter("g"):  # noqa: S314 - our own
        title, *rest = list(group)
        if title.tag == "title" and rest[0].tag == "rect":
            x, y, width = (float(rest[0].attrib[name]) for name in ("x", "y", "width"))
            words = "".join(str(each.text) for each in rest[1:])
            yield Part(str(title.text), x, x + width, y, words, rest[0].attrib["fill"])


@given(any_rows())
def test_parts_lie_on_their_side_of_one_line_and_are_as_long_as_they_say(rows: list[Row]) -> None:
    picture = draw_reasons(rows, "A headline.")
    parts = list(parts_in(picture))
    values = [(source, value) for _, addends in rows for source, value in addends.items()]
    assert len(parts) == len(values)
    longest = max(values, key=lambda item: abs(item[1]))
    assume(abs(longest[1]) > 0.001)  # with smaller ones, the rounding of coordinates counts
    zero = float(re.findall(r'x1="([\d.]+)"[^>]*class="axis"', picture)[0])
    first = parts[values.index(longest)]
    unit = (first.right - first.left) / abs(longest[1])
    for part, (source, value) in zip(parts, values, strict=True):
        assert part.title.startswith(f"{source} ")
        assert part.colour == COLOURS[source]
        assert part.right - part.left == pytest.approx(unit * abs(value), abs=0.05)
        assert part.left >= zero - 0.02 if value > 0 else part.right <= zero + 0.02
        assert 0 <= part.left <= part.right <= WIDTH


@given(any_rows())
def test_the_parts_of_a_bar_touch_and_contain_their_words(rows: list[Row]) -> None:
    bars: dict[float, list[Part]] = {}
    for part in parts_in(draw_reasons(rows, "A headline.")):
        bars.setdefault(part.top, []).append(part)
        assert text_width(part.words, 11.0) <= part.right - part.left or not part.words
    assert len(bars) == len(rows)
    for bar in bars.values():
        inside = sorted(bar, key=lambda part: (part.left, part.right))
        assert all(one.right == pytest.approx(other.left, abs=0.03) for one, other in pairwise(inside))
    assert all(other - one >= 24 for one, other in pairwise(bars))  # bars do not overlap


@given(any_rows(), st.lists(st.text(max_size=300), max_size=3))
def test_every_text_is_inside_of_the_drawing(rows: list[Row], notes: list[str]) -> None:
    picture = draw_reasons(rows, "A headline that is long. " * 5, notes=notes, footnotes=["In nats."])
    root = ElementTree.fromstring(picture)  # noqa: S314 - our own
    height = float(root.attrib["height"])
    assert root.attrib["viewBox"].split()[2:] == [root.attrib["width"], root.attrib["height"]]
    for words in root.iter("text"):
        size = 12.5 if words.attrib["class"] == "panel" else 11.0
        width = text_width(str(words.text or ""), size, bold=words.attrib["class"] in ("panel", "label bold"))
        share = {"start": 0.0, "middle": 0.5, "end": 1.0}[words.attrib.get("text-anchor", "start")]
        left = float(words.attrib["x"]) - share * width
        assert left >= 0
        assert left + width <= WIDTH
        assert 8 <= float(words.attrib["y"]) <= height - 4


def test_a_screen_reader_gets_every_number_and_names_are_complete_in_the_tooltip() -> None:
    name = " ".join(["grate"] * 25)
    picture = draw_reasons([(name, {"goal": 1.26, "start": -0.04})], "Because of -1.5.", notes=["a -> b (-2)"])
    assert f'aria-label="Reasons for every step. {name}: goal +1.3, start 0.0."' in picture
    assert f"<title>1. {name}</title>" in picture
    assert "…</text>" in picture
    assert ">Because of −1.5.<" in picture  # noqa: RUF001 - the minus of print
    assert ">a → b (−2)<" in picture  # noqa: RUF001


def test_all_sources_have_a_colour_of_their_own_on_which_dark_words_can_be_read() -> None:
    assert tuple(COLOURS) == SOURCES
    assert len(set(COLOURS.values())) == len(COLOURS)
    assert all((luminance(colour) + 0.05) / (luminance("#1b1b1b") + 0.05) >= 7 for colour in COLOURS.values())


def luminance(colour: str) -> float:
    """Relative luminance, as WCAG defines it."""
    shares = [int(colour[place : place + 2], 16) / 255 for place in (1, 3, 5)]
    linear = [share / 12.92 if share <= 0.04045 else ((share + 0.055) / 1.055) ** 2.4 for share in shares]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


@given(st.floats(-1e6, 0), st.floats(0.01, 1e6))
def test_round_values_are_inside_with_equal_steps_and_0_among_them(low: float, high: float) -> None:
    values = round_values(low, high)
    assert 0.0 in values
    assert 2 <= len(values) <= 9
    assert all(low - 1e-6 * (high - low) <= value <= high + 1e-6 * (high - low) for value in values)
    steps = [other - one for one, other in pairwise(values)]
    assert steps == pytest.approx([steps[0]] * len(steps), rel=1e-6)
