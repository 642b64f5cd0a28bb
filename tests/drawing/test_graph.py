from __future__ import annotations

import re
from itertools import combinations
from typing import NamedTuple
from xml.etree import ElementTree

import pytest
from hypothesis import given
from hypothesis import strategies as st

from p3iv.drawing.graph import MAX_NODES, Plan, PlanGraph, merge_plans
from p3iv.drawing.graph_drawing import HORIZONTAL, RIBBON, VERTICAL, Layout, Style, draw_graph, text_width, wrap_text
from p3iv.plans.distribution import PlanDistribution

NAMES = [
    "stir",
    "pour hot water into the mug",
    "X" * 70,
    "put the toast on the plate",
    "混ぜ合わせた材料を鍋に入れる",
    "a",
    "b c d e f g h i j k l m",
]
STYLES = pytest.mark.parametrize("style", [HORIZONTAL, VERTICAL])


class Plans(NamedTuple):
    """The plans of one window, in the order of the arguments of `merge_plans`."""

    plan: Plan
    samples: tuple[tuple[Plan, int], ...]
    reference: Plan


@st.composite
def windows(draw: st.DrawFn) -> Plans:
    horizon = draw(st.integers(1, 6))
    plan = st.tuples(*[st.sampled_from(NAMES)] * horizon)
    samples = draw(st.dictionaries(plan, st.integers(1, 400), max_size=40))
    return Plans(draw(plan), tuple(samples.items()), draw(plan))


@given(windows())
def test_the_edges_between_two_layers_have_all_samples_that_were_not_pruned(window: Plans) -> None:
    graph = merge_plans(*window)
    for layer in range(graph.horizon + 1):
        flow = sum(edge.weight for edge in graph.edges if edge.source.layer == layer)
        assert flow == graph.total - graph.pruned
    for node in graph.nodes[1:-1]:
        assert node.weight == sum(count for plan, count in window.samples if plan[node.layer - 1] == node.step)
        into = sum(edge.weight for edge in graph.edges if edge.target == node)
        assert into == sum(edge.weight for edge in graph.edges if edge.source == node) <= node.weight


@given(windows())
def test_recommended_plan_and_reference_are_always_complete_and_layers_stay_small(window: Plans) -> None:
    graph = merge_plans(*window)
    steps = [node for node in graph.nodes if node.step is not None]
    assert tuple(node.step for node in steps if node.is_recommended) == window.plan
    assert tuple(node.step for node in steps if node.is_reference) == window.reference
    assert all((node.row == 0) == node.is_recommended for node in steps)
    for layer in range(1, graph.horizon + 1):
        rows = [node.row for node in graph.nodes if node.layer == layer]
        assert rows == list(range(len(rows)))
        assert len(rows) <= MAX_NODES


def test_plans_through_rare_steps_are_pruned_and_counted() -> None:
    samples: dict[Plan, int] = {("a", "b"): 960, ("a", "c"): 30, ("d", "b"): 6, ("d", "c"): 3, ("a", "e"): 1}
    graph = merge_plans(("a", "b"), tuple(samples.items()), ("a", "c"))
    assert (graph.total, graph.pruned, graph.num_pruned_plans) == (1000, 10, 3)
    assert [(node.step, node.weight) for node in graph.nodes[1:-1]] == [("a", 991), ("b", 966), ("c", 33)]


def test_a_step_that_only_pruned_plans_had_is_not_drawn() -> None:
    # Half of the plans with "d" continue with a different rare step each; the rest of "d" is then too rare as well.
    samples: dict[Plan, int] = {("a", "b"): 980, ("d", "b"): 6, **{("d", f"x{i}"): 1 for i in range(14)}}
    graph = merge_plans(("a", "b"), tuple(samples.items()), ("a", "b"))
    assert {node.step for node in graph.nodes} == {None, "a", "b"}


def test_a_window_without_samples_shows_its_two_plans() -> None:
    graph = merge_plans(("a", "b"), (), ("a", "c"))
    assert all(edge.weight == 0 for edge in graph.edges)
    assert 'class="ribbon"' not in draw_graph(graph, HORIZONTAL)


@STYLES
@given(windows())
def test_the_width_of_an_edge_is_its_share_of_the_samples(style: Style, window: Plans) -> None:
    graph = merge_plans(*window)
    drawn = re.findall(r'stroke-width="([\d.]+)" class="ribbon"', draw_graph(graph, style))
    widths = [RIBBON * edge.weight / graph.total for edge in graph.edges if edge.weight]
    assert sorted(map(float, drawn)) == pytest.approx(sorted(widths), abs=0.0051)  # drawn with two digits


@STYLES
@given(windows())
def test_boxes_do_not_overlap_and_contain_their_labels(style: Style, window: Plans) -> None:
    graph = merge_plans(*window)
    layout = Layout(graph, style)
    along, across = layout.size
    boxes = [_box(layout, graph, number) for number in range(len(graph.nodes))]
    for (a0, a1, c0, c1), (b0, b1, d0, d1) in combinations(boxes, 2):
        assert a1 < b0 or b1 < a0 or c1 < d0 or d1 < c0
    assert all(a0 >= 0 and a1 <= along and c0 >= 0 and c1 <= across + 1e-6 for a0, a1, c0, c1 in boxes)
    for node, lines in layout.labels.items():
        assert len(lines) <= style.max_lines
        assert all(text_width(line, style.font, bold=node.is_recommended) <= layout.box_width for line in lines)
    if style.is_vertical:
        assert across <= 350 + 1e-6


def _box(layout: Layout, graph: PlanGraph, number: int) -> tuple[float, float, float, float]:
    """Begin and end along and across, with the outline of the reference."""
    node = graph.nodes[number]
    begin, end = layout.span(node)
    middle, half = layout.middle(node), layout.breadth / 2
    return begin - 3.5, end + 3.5, middle - half - 3.5, middle + half + 3.5


def test_long_names_are_cut_on_the_page_and_complete_in_the_tooltip() -> None:
    name = " ".join(["grate"] * 25)
    picture = draw_graph(merge_plans((name,), [((name,), 3)], (name,)), HORIZONTAL)
    assert "…</text>" in picture
    assert f"<title>1. {name}: 100.0 % [recommended, reference]</title>" in picture


@given(st.text(), st.floats(12, 300), st.integers(1, 4), st.booleans())
def test_wrapped_lines_fit_and_an_ellipsis_marks_a_cut(text: str, width: float, max_lines: int, bold: bool) -> None:
    lines = wrap_text(text, width, 10, max_lines=max_lines, bold=bold)
    assert 1 <= len(lines) <= max_lines
    assert all(text_width(line, 10, bold=bold) <= width or len(line) == 1 for line in lines)
    if not lines[-1].endswith("…"):
        assert "".join("".join(lines).split()) == "".join(text.split())


def test_a_plan_distribution_is_drawn_as_valid_xml_with_every_step() -> None:
    plans = ("boil <water>", "pour & stir"), ("boil <water>", "serve")
    picture = PlanDistribution(plans, (0.85, 0.1), "chain").to_svg()
    root = ElementTree.fromstring(picture)  # noqa: S314 - our own
    assert root.tag == "{http://www.w3.org/2000/svg}svg"
    words = " ".join(root.itertext())
    for word in ("boil", "pour", "serve", "start", "goal"):
        assert word in words
    assert "1. boil &lt;water&gt;: 95.0 % [recommended]" in picture  # the other plans, 5 %, are not listed
    assert "reference" not in picture.split("</style>")[1]
