"""The merged plans as a picture: ribbons as wide as they are frequent, the decoded path solid, the reference dashed.

Steps stand in boxes and ribbons run in the gaps between them, so no line ever crosses a label. The same graph is drawn
along the page for wide screens and paper, and down the page for phones.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

from p3iv.report.cells import percent
from p3iv.report.graph import Edge, Node, PlanGraph
from p3iv.report.lettering import text_width, wrap_text
from p3iv.report.markup import Markup, join, number, shorten, tag
from p3iv.report.svg import drawing, text

RIBBON = 22.0  # pixels that all samples together are wide
_LINE, _SHARE_LINE, _PADDING = 13.0, 12.0, 5.0
_PAGE, _PHONE = 860.0, 350.0
_END = 42.0  # the length of the start and the goal
_MARGIN = 5.0  # for the outline of the reference
_CAPTION = 20.0  # the height of a line below


@dataclass(frozen=True)
class Style:
    """How a graph lies on the page; `along` is the way from start to goal, `across` the way from row to row."""

    is_upright: bool
    font: float
    most_lines: int


LYING = Style(is_upright=False, font=11.5, most_lines=4)
UPRIGHT = Style(is_upright=True, font=10.5, most_lines=5)


@dataclass(frozen=True)
class Layout:
    """Where the boxes of a graph stand."""

    graph: PlanGraph
    style: Style

    @cached_property
    def box_width(self) -> float:
        """Of a step, on the page."""
        if self.style.is_upright:
            rows = self.graph.num_rows
            return min(190.0, (_PHONE - 2 * _MARGIN - (rows - 1) * self.row_gap) / rows)
        return min(
            178.0, max(74.0, (_PAGE - 2 * (_END + _MARGIN) - (self.graph.horizon + 1) * 36) / self.graph.horizon)
        )

    @cached_property
    def labels(self) -> dict[Node, list[str]]:
        room, style = self.box_width - 2 * _PADDING, self.style
        return {
            node: wrap_text(node.step, room, style.font, most_lines=style.most_lines, bold=node.is_decoded)
            for node in self.graph.nodes
            if node.step is not None
        }

    @cached_property
    def box_height(self) -> float:
        return max(map(len, self.labels.values())) * _LINE + _SHARE_LINE + 2 * _PADDING

    @property
    def row_gap(self) -> float:
        return 8.0 if self.style.is_upright else 12.0

    @cached_property
    def gap(self) -> float:
        """Between two layers."""
        if self.style.is_upright:
            return 36.0
        horizon = self.graph.horizon
        free = _PAGE - 2 * (_END + _MARGIN) - horizon * self.box_width
        return min(76.0, max(34.0, free / (horizon + 1)))

    @property
    def length(self) -> float:
        """Of a box, along."""
        return self.box_height if self.style.is_upright else self.box_width

    @property
    def breadth(self) -> float:
        """Of a box, across."""
        return self.box_width if self.style.is_upright else self.box_height

    @property
    def end_length(self) -> float:
        return 22.0 if self.style.is_upright else _END

    @property
    def size(self) -> tuple[float, float]:
        """Along and across."""
        horizon, rows = self.graph.horizon, self.graph.num_rows
        along = 2 * (self.end_length + _MARGIN) + horizon * self.length + (horizon + 1) * self.gap
        return along, rows * self.breadth + (rows - 1) * self.row_gap + 2 * _MARGIN

    def span(self, node: Node) -> tuple[float, float]:
        """Where a node begins and ends, along."""
        if node.layer == 0:
            return _MARGIN, _MARGIN + self.end_length
        begin = _MARGIN + self.end_length + self.gap + (node.layer - 1) * (self.length + self.gap)
        return begin, begin + (self.length if node.step is not None else self.end_length)

    def middle(self, node: Node) -> float:
        """Of a node, across."""
        return _MARGIN + node.row * (self.breadth + self.row_gap) + self.breadth / 2

    def point(self, along: float, across: float) -> tuple[float, float]:
        return (across, along) if self.style.is_upright else (along, across)


def draw_graph(graph: PlanGraph, style: Style, *, caption: str = "") -> Markup:
    """The picture of a graph, with a line below it where there is one."""
    layout = Layout(graph, style)
    width, height = layout.point(*layout.size)
    ports = _Ports(layout)
    decoded = [edge for edge in graph.edges if edge.is_decoded]
    reference = [edge for edge in graph.edges if edge.is_reference]
    steps = " then ".join(node.step for node in graph.nodes if node.is_decoded and node.step)
    return drawing(
        width,
        height + (_CAPTION if caption else 0.0),
        *(ports.curve(edge, class_="hair") for edge in graph.edges if edge.count and ports.width(edge) < 1),
        *(ports.ribbon(edge) for edge in graph.edges if edge.count),
        *(ports.curve(edge, class_="reference", shift=5.0 if edge.is_decoded else 0.0) for edge in reference),
        *(ports.curve(edge, class_="decoded") for edge in decoded),
        *(_draw_node(layout, node) for node in graph.nodes),
        *([text(_MARGIN, height + _CAPTION - 5, caption, class_="share")] if caption else []),
        label=f"{graph.num_samples} sampled plans merged; the decoded one: {shorten(steps, 400)}",
        class_=f"graph {_way(layout)}",
    )


def _way(layout: Layout) -> str:
    """How the page treats it: along long plans it scrolls, rather than make their names too small to read."""
    if layout.style.is_upright:
        return "upright"
    return "lying" if layout.size[0] <= _PAGE else "lying long"


class _Ports:
    """Where each ribbon leaves and enters its boxes: side by side, in the order of the rows that it leads to."""

    def __init__(self, layout: Layout) -> None:
        self._layout = layout
        self._leaves = self._stack(
            {node: [e for e in layout.graph.edges if e.source == node] for node in layout.graph.nodes}
        )
        self._enters = self._stack(
            {node: [e for e in layout.graph.edges if e.target == node] for node in layout.graph.nodes}
        )

    def width(self, edge: Edge) -> float:
        return RIBBON * edge.count / max(self._layout.graph.num_samples, 1)

    def ribbon(self, edge: Edge) -> Markup:
        share = edge.count / self._layout.graph.num_samples
        title = f"{_name(edge.source)} → {_name(edge.target)}: {edge.count} samples ({percent(share)} %)"
        return tag("path", tag("title", title), d=self._path(edge, 0.0), stroke_width=self.width(edge), class_="ribbon")

    def curve(self, edge: Edge, *, class_: str, shift: float = 0.0) -> Markup:
        return tag("path", d=self._path(edge, shift), class_=class_)

    def _stack(self, edges_of: dict[Node, list[Edge]]) -> dict[Edge, float]:
        places: dict[Edge, float] = {}
        for node, edges in edges_of.items():
            at = self._layout.middle(node) - sum(map(self.width, edges)) / 2
            for edge in sorted(edges, key=lambda edge: (edge.target.row, edge.source.row)):
                places[edge] = at + self.width(edge) / 2
                at += self.width(edge)
        return places

    def _path(self, edge: Edge, shift: float) -> str:
        layout = self._layout
        begin, end = layout.span(edge.source)[1], layout.span(edge.target)[0]
        bend = (end - begin) * 0.5
        places = [
            layout.point(begin, self._leaves[edge] + shift),
            layout.point(begin + bend, self._leaves[edge] + shift),
            layout.point(end - bend, self._enters[edge] + shift),
            layout.point(end, self._enters[edge] + shift),
        ]
        first, *rest = (f"{number(x)} {number(y)}" for x, y in places)
        return f"M{first}C{' '.join(rest)}"


def _draw_node(layout: Layout, node: Node) -> Markup:
    begin, end = layout.span(node)
    middle = layout.middle(node)
    if node.step is None:
        x, y = layout.point((begin + end) / 2, middle)
        label = "start" if node.layer == 0 else "goal"
        half = max(_END / 2, text_width(label, layout.style.font) / 2 + 4)
        box = tag("rect", x=x - half, y=y - 11, width=2 * half, height=22.0, rx=11.0, class_="end")
        return join(box, text(x, y + 4, label, anchor="middle", class_="end-label"))
    x, y = layout.point(begin, middle - layout.breadth / 2)
    width, height = layout.box_width, layout.box_height
    share = percent(node.count / max(layout.graph.num_samples, 1))
    lines = layout.labels[node]
    top = y + (height - len(lines) * _LINE - _SHARE_LINE) / 2
    middle_x = x + width / 2
    parts = [
        tag("rect", x=x, y=y, width=width, height=height, rx=2.0, class_="step decoded" if node.is_decoded else "step")
    ]
    if node.is_reference:
        outline = {"x": x - 3.5, "y": y - 3.5, "width": width + 7, "height": height + 7, "rx": 4.0}
        parts.append(tag("rect", **outline, class_="reference"))
    class_ = "label bold" if node.is_decoded else "label"
    parts += [
        text(middle_x, top + (place + 0.78) * _LINE, line, anchor="middle", class_=class_)
        for place, line in enumerate(lines)
    ]
    parts.append(text(middle_x, top + len(lines) * _LINE + 9.5, f"{share} %", anchor="middle", class_="share"))
    return tag("g", tag("title", _node_title(node, layout.graph)), *parts)


def _node_title(node: Node, graph: PlanGraph) -> str:
    roles = [name for name, holds in (("decoded", node.is_decoded), ("reference", node.is_reference)) if holds]
    marks = f" [{', '.join(roles)}]" if roles else ""
    return f"{node.layer}. {_name(node)}: {node.count} of {graph.num_samples} samples{marks}"


def _name(node: Node) -> str:
    if node.step is None:
        return "start" if node.layer == 0 else "goal"
    return shorten(node.step, 200)
