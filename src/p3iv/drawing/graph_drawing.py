"""The graph of merged plans as SVG: wide edges are probable, the recommended plan is solid, the reference dashed.

Steps are boxes and edges run in the gaps between them, so that no line crosses a label. The same graph is drawn from
left to right for wide screens and paper, and from top to bottom for phones.
"""

from __future__ import annotations

import unicodedata
from dataclasses import dataclass
from functools import cached_property

from markupsafe import Markup

from p3iv.drawing.graph import Edge, Node, PlanGraph
from p3iv.drawing.html import drawing, join, number, percent, shorten, tag, text

RIBBON = 22.0  # width of all plans together, in pixels
ELLIPSIS = "…"
_LINE, _SHARE_LINE, _PADDING = 13.0, 12.0, 5.0
_PAGE, _PHONE = 860.0, 350.0
_END = 42.0  # the length of the start and the goal
_MARGIN = 5.0  # for the outline of the reference
_CAPTION = 20.0  # the height of a line below
# Character widths in em of DejaVu Sans, the widest font that a browser falls back to: other fonts need less.
_WIDTHS = {
    **dict.fromkeys("ijl'|!.,:; I", 0.34),
    **dict.fromkeys('frt-()[]/"', 0.44),
    **dict.fromkeys("mwMW%@", 1.0),
    **dict.fromkeys("ABCDEFGHJKLNOPQRSTUVXYZ&", 0.77),
}
_USUAL_WIDTH, _WIDE_WIDTH = 0.64, 1.1
_BOLD_FACTOR = 1.13


@dataclass(frozen=True)
class Style:
    """The direction of a graph; `along` is from start to goal, `across` from row to row."""

    is_vertical: bool
    font: float
    max_lines: int


HORIZONTAL = Style(is_vertical=False, font=11.5, max_lines=4)
VERTICAL = Style(is_vertical=True, font=10.5, max_lines=5)


@dataclass(frozen=True)
class Layout:
    """The places of the boxes of a graph."""

    graph: PlanGraph
    style: Style

    @cached_property
    def box_width(self) -> float:
        """Width of the box of a step."""
        if self.style.is_vertical:
            rows = self.graph.num_rows
            return min(190.0, (_PHONE - 2 * _MARGIN - (rows - 1) * self.row_gap) / rows)
        return min(
            178.0, max(74.0, (_PAGE - 2 * (_END + _MARGIN) - (self.graph.horizon + 1) * 36) / self.graph.horizon)
        )

    @cached_property
    def labels(self) -> dict[Node, list[str]]:
        room, style = self.box_width - 2 * _PADDING, self.style
        return {
            node: wrap_text(node.step, room, style.font, max_lines=style.max_lines, bold=node.is_recommended)
            for node in self.graph.nodes
            if node.step is not None
        }

    @cached_property
    def box_height(self) -> float:
        return max(map(len, self.labels.values())) * _LINE + _SHARE_LINE + 2 * _PADDING

    @property
    def row_gap(self) -> float:
        return 8.0 if self.style.is_vertical else 12.0

    @cached_property
    def gap(self) -> float:
        """Distance of two layers."""
        if self.style.is_vertical:
            return 36.0
        horizon = self.graph.horizon
        free = _PAGE - 2 * (_END + _MARGIN) - horizon * self.box_width
        return min(76.0, max(34.0, free / (horizon + 1)))

    @property
    def length(self) -> float:
        """Length of a box along."""
        return self.box_height if self.style.is_vertical else self.box_width

    @property
    def breadth(self) -> float:
        """Length of a box across."""
        return self.box_width if self.style.is_vertical else self.box_height

    @property
    def end_length(self) -> float:
        return 22.0 if self.style.is_vertical else _END

    @property
    def size(self) -> tuple[float, float]:
        """Size of the drawing along and across."""
        horizon, rows = self.graph.horizon, self.graph.num_rows
        along = 2 * (self.end_length + _MARGIN) + horizon * self.length + (horizon + 1) * self.gap
        return along, rows * self.breadth + (rows - 1) * self.row_gap + 2 * _MARGIN

    def span(self, node: Node) -> tuple[float, float]:
        """Begin and end of a node along."""
        if node.layer == 0:
            return _MARGIN, _MARGIN + self.end_length
        begin = _MARGIN + self.end_length + self.gap + (node.layer - 1) * (self.length + self.gap)
        return begin, begin + (self.length if node.step is not None else self.end_length)

    def middle(self, node: Node) -> float:
        """Middle of a node across."""
        return _MARGIN + node.row * (self.breadth + self.row_gap) + self.breadth / 2

    def point(self, along: float, across: float) -> tuple[float, float]:
        return (across, along) if self.style.is_vertical else (along, across)


def draw_graph(graph: PlanGraph, style: Style, *, caption: str = "") -> Markup:
    """Draw a graph, with a caption below it where one is given."""
    layout = Layout(graph, style)
    width, height = layout.point(*layout.size)
    ports = _Ports(layout)
    recommended = [edge for edge in graph.edges if edge.is_recommended]
    reference = [edge for edge in graph.edges if edge.is_reference]
    steps = " then ".join(node.step for node in graph.nodes if node.is_recommended and node.step)
    return drawing(
        width,
        height + (_CAPTION if caption else 0.0),
        *(ports.curve(edge, class_="hair") for edge in graph.edges if edge.weight and ports.width(edge) < 1),
        *(ports.ribbon(edge) for edge in graph.edges if edge.weight),
        *(ports.curve(edge, class_="reference", shift=5.0 if edge.is_recommended else 0.0) for edge in reference),
        *(ports.curve(edge, class_="recommended") for edge in recommended),
        *(_draw_node(layout, node) for node in graph.nodes),
        *([text(_MARGIN, height + _CAPTION - 5, caption, class_="share")] if caption else []),
        label=f"Plans merged into a graph; the recommended one: {shorten(steps, 400)}",
        class_=f"graph {_classes(layout)}",
    )


def _classes(layout: Layout) -> str:
    """Its style classes; long plans scroll instead of becoming too small to read."""
    if layout.style.is_vertical:
        return "vertical"
    return "horizontal" if layout.size[0] <= _PAGE else "horizontal long"


class _Ports:
    """Where each edge leaves and enters its boxes: side by side, in the order of the rows that they lead to."""

    def __init__(self, layout: Layout) -> None:
        self._layout = layout
        self._leaves = self._stack(
            {node: [e for e in layout.graph.edges if e.source == node] for node in layout.graph.nodes}
        )
        self._enters = self._stack(
            {node: [e for e in layout.graph.edges if e.target == node] for node in layout.graph.nodes}
        )

    def width(self, edge: Edge) -> float:
        return RIBBON * self._share(edge)

    def ribbon(self, edge: Edge) -> Markup:
        title = f"{_name(edge.source)} → {_name(edge.target)}: {percent(self._share(edge))} %"
        return tag("path", tag("title", title), d=self._path(edge, 0.0), stroke_width=self.width(edge), class_="ribbon")

    def curve(self, edge: Edge, *, class_: str, shift: float = 0.0) -> Markup:
        return tag("path", d=self._path(edge, shift), class_=class_)

    def _share(self, edge: Edge) -> float:
        return edge.weight / (self._layout.graph.total or 1.0)

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
    share = percent(node.weight / (layout.graph.total or 1.0))
    lines = layout.labels[node]
    top = y + (height - len(lines) * _LINE - _SHARE_LINE) / 2
    middle_x = x + width / 2
    parts = [
        tag(
            "rect",
            x=x,
            y=y,
            width=width,
            height=height,
            rx=2.0,
            class_="step recommended" if node.is_recommended else "step",
        )
    ]
    if node.is_reference:
        outline = {"x": x - 3.5, "y": y - 3.5, "width": width + 7, "height": height + 7, "rx": 4.0}
        parts.append(tag("rect", **outline, class_="reference"))
    class_ = "label bold" if node.is_recommended else "label"
    parts += [
        text(middle_x, top + (place + 0.78) * _LINE, line, anchor="middle", class_=class_)
        for place, line in enumerate(lines)
    ]
    parts.append(text(middle_x, top + len(lines) * _LINE + 9.5, f"{share} %", anchor="middle", class_="share"))
    return tag("g", tag("title", _node_title(node, share)), *parts)


def _node_title(node: Node, share: str) -> str:
    roles = [name for name, holds in (("recommended", node.is_recommended), ("reference", node.is_reference)) if holds]
    marks = f" [{', '.join(roles)}]" if roles else ""
    return f"{node.layer}. {_name(node)}: {share} %{marks}"


def _name(node: Node) -> str:
    if node.step is None:
        return "start" if node.layer == 0 else "goal"
    return shorten(node.step, 200)


def text_width(text: str, size: float, *, bold: bool = False) -> float:
    """An upper bound of the width of a text in pixels."""
    return sum(map(_char_width, text)) * size * (_BOLD_FACTOR if bold else 1.0)


def wrap_text(text: str, width: float, size: float, *, max_lines: int = 2, bold: bool = False) -> list[str]:
    """Lines that are at most `width` wide; a text that is too long ends in an ellipsis."""
    words = _break_words(text.split(), width, size, bold=bold)
    lines: list[str] = []
    for word in words:
        if lines and text_width(f"{lines[-1]} {word}", size, bold=bold) <= width:
            lines[-1] = f"{lines[-1]} {word}"
        elif len(lines) == max_lines:
            return [*lines[:-1], _cut(f"{lines[-1]} {word}", width, size, bold=bold)]
        else:
            lines.append(word)
    return lines or [""]


def _break_words(words: list[str], width: float, size: float, *, bold: bool) -> list[str]:
    """Words; those that are wider than a line are cut into pieces."""
    pieces = []
    for word in words:
        piece = ""
        for char in word:
            if piece and text_width(piece + char, size, bold=bold) > width:
                pieces.append(piece)
                piece = ""
            piece += char
        pieces.append(piece)
    return pieces


def _cut(text: str, width: float, size: float, *, bold: bool) -> str:
    while text and text_width(text + ELLIPSIS, size, bold=bold) > width:
        text = text[:-1]
    return text.rstrip() + ELLIPSIS


def _char_width(char: str) -> float:
    if unicodedata.combining(char):
        return 0.0
    if unicodedata.east_asian_width(char) in "WF":
        return _WIDE_WIDTH
    return _WIDTHS.get(char, _USUAL_WIDTH)
