from __future__ import annotations

import re
from itertools import combinations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from p3iv.report.graph import MOST_NODES, PlanGraph, merge_plans
from p3iv.report.graph_drawing import LYING, RIBBON, UPRIGHT, Layout, Style, draw_graph
from p3iv.report.lettering import text_width
from p3iv.report.windows import Plan, WindowPlans

NAMES = [
    "stir",
    "pour hot water into the mug",
    "X" * 70,
    "put the toast on the plate",
    "混ぜ合わせた材料を鍋に入れる",
    "a",
    "b c d e f g h i j k l m",
]
STYLES = pytest.mark.parametrize("style", [LYING, UPRIGHT])


def window_of(prediction: Plan, reference: Plan, samples: dict[Plan, int]) -> WindowPlans:
    ordered = tuple(sorted(samples.items(), key=lambda item: -item[1]))
    return WindowPlans("v:0", "v", "t", None, None, prediction, 0.5, reference, ordered)


@st.composite
def windows(draw: st.DrawFn) -> WindowPlans:
    horizon = draw(st.integers(1, 6))
    plan = st.tuples(*[st.sampled_from(NAMES)] * horizon)
    samples = draw(st.dictionaries(plan, st.integers(1, 400), max_size=40))
    return window_of(draw(plan), draw(plan), samples)


@given(windows())
def test_what_flows_out_of_every_layer_is_what_was_not_pruned(window: WindowPlans) -> None:
    graph = merge_plans(window)
    for layer in range(graph.horizon + 1):
        flow = sum(edge.count for edge in graph.edges if edge.source.layer == layer)
        assert flow == graph.num_samples - graph.num_pruned
    for node in graph.nodes[1:-1]:
        assert node.count == sum(count for plan, count in window.samples if plan[node.layer - 1] == node.step)
        into = sum(edge.count for edge in graph.edges if edge.target == node)
        assert into == sum(edge.count for edge in graph.edges if edge.source == node) <= node.count


@given(windows())
def test_decoded_plan_and_reference_are_always_whole_and_layers_stay_small(window: WindowPlans) -> None:
    graph = merge_plans(window)
    steps = [node for node in graph.nodes if node.step is not None]
    assert tuple(node.step for node in steps if node.is_decoded) == window.prediction
    assert tuple(node.step for node in steps if node.is_reference) == window.reference
    assert all((node.row == 0) == node.is_decoded for node in steps)
    for layer in range(1, graph.horizon + 1):
        rows = [node.row for node in graph.nodes if node.layer == layer]
        assert rows == list(range(len(rows)))
        assert len(rows) <= MOST_NODES


def test_plans_through_rare_steps_are_pruned_and_counted() -> None:
    samples: dict[Plan, int] = {("a", "b"): 960, ("a", "c"): 30, ("d", "b"): 6, ("d", "c"): 3, ("a", "e"): 1}
    graph = merge_plans(window_of(("a", "b"), ("a", "c"), samples))
    assert (graph.num_samples, graph.num_pruned, graph.num_pruned_plans) == (1000, 10, 3)
    assert [(node.step, node.count) for node in graph.nodes[1:-1]] == [("a", 991), ("b", 966), ("c", 33)]


def test_a_step_that_only_pruned_plans_had_is_not_drawn() -> None:
    # Half of those with "d" go on to a step of their own, which is too rare; what is left of "d" is too rare as well.
    samples: dict[Plan, int] = {("a", "b"): 980, ("d", "b"): 6, **{("d", f"x{i}"): 1 for i in range(14)}}
    graph = merge_plans(window_of(("a", "b"), ("a", "b"), samples))
    assert {node.step for node in graph.nodes} == {None, "a", "b"}


def test_a_window_without_samples_shows_its_two_plans() -> None:
    graph = merge_plans(window_of(("a", "b"), ("a", "c"), {}))
    assert all(edge.count == 0 for edge in graph.edges)
    assert 'class="ribbon"' not in draw_graph(graph, LYING)


@STYLES
@given(windows())
def test_ribbons_are_as_wide_as_they_are_frequent(style: Style, window: WindowPlans) -> None:
    graph = merge_plans(window)
    drawn = re.findall(r'stroke-width="([\d.]+)" class="ribbon"><title>[^<]*: (\d+) samples', draw_graph(graph, style))
    assert sorted(int(count) for _, count in drawn) == sorted(edge.count for edge in graph.edges if edge.count)
    for width, count in drawn:
        assert float(width) == pytest.approx(
            RIBBON * int(count) / graph.num_samples, abs=0.0051
        )  # drawn with two digits


@STYLES
@given(windows())
def test_boxes_stand_apart_and_hold_their_labels(style: Style, window: WindowPlans) -> None:
    graph = merge_plans(window)
    layout = Layout(graph, style)
    along, across = layout.size
    boxes = [_box(layout, graph, number) for number in range(len(graph.nodes))]
    for (a0, a1, c0, c1), (b0, b1, d0, d1) in combinations(boxes, 2):
        assert a1 < b0 or b1 < a0 or c1 < d0 or d1 < c0
    assert all(a0 >= 0 and a1 <= along and c0 >= 0 and c1 <= across + 1e-6 for a0, a1, c0, c1 in boxes)
    for node, lines in layout.labels.items():
        assert len(lines) <= style.most_lines
        assert all(text_width(line, style.font, bold=node.is_decoded) <= layout.box_width for line in lines)
    if style.is_upright:
        assert across <= 350 + 1e-6


def _box(layout: Layout, graph: PlanGraph, number: int) -> tuple[float, float, float, float]:
    """Begin and end along and across, with the outline of the reference."""
    node = graph.nodes[number]
    begin, end = layout.span(node)
    middle, half = layout.middle(node), layout.breadth / 2
    return begin - 3.5, end + 3.5, middle - half - 3.5, middle + half + 3.5


def test_long_names_are_cut_on_the_page_and_whole_in_the_tooltip() -> None:
    name = " ".join(["grate"] * 25)
    picture = draw_graph(merge_plans(window_of((name,), (name,), {(name,): 3})), LYING)
    assert "…</text>" in picture
    assert f"<title>1. {name}: 3 of 3 samples [decoded, reference]</title>" in picture
