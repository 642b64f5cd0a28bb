"""The reasons for a plan as SVG: one bar per step, whose parts are what each source says for it or against it.

Parts above 0 lie to the right of a line, parts below 0 to its left, in nats. The sources have the same colours in every
drawing; all are light, so that dark names on them can be read.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from markupsafe import Markup

from p3iv.drawing.graph_drawing import text_width, wrap_text
from p3iv.drawing.html import drawing, join, shorten, tag, text

WIDTH = 640.0
COLOURS = {
    "prior": "#c9cdd4",
    "start": "#9cc3e6",
    "goal": "#efab7d",
    "history": "#b5d6a0",
    "words": "#ecd26f",
    "procedure": "#cdb6e0",
    "transitions": "#a3abb7",
    "effects": "#86c9c0",
}
_OTHER_COLOUR = "#dddddd"
_MINUS = "\N{MINUS SIGN}"
_MARGIN, _INDENT = 14.0, 18.0  # around everything; of the names of steps, after their numbers
_LEFT, _RIGHT = 196.0, 566.0  # of the bars; the names of steps are before them, the sums after them
_FONT, _TITLE = 11.0, 12.5  # the sizes that the style sheet gives to text and to titles
_LINE, _BAR, _SPACE = 14.0, 24.0, 12.0  # heights of a line of text, of a bar, and between two rows
_MAX_LINES = 4  # of the name of a step
_MIN_RANGE = 1.0  # nats on the axis, so that tiny addends do not look important

Row = tuple[str, Mapping[str, float]]  # the name of a step, and its addends by source


@dataclass(frozen=True)
class _Layout:
    """The places of the rows, and the scale of the bars."""

    rows: Sequence[Row]
    top: float  # of the first row

    @cached_property
    def names(self) -> list[list[str]]:
        width = _LEFT - _MARGIN - _INDENT - 8
        return [wrap_text(step, width, _FONT, max_lines=_MAX_LINES) for step, _ in self.rows]

    @cached_property
    def middles(self) -> list[float]:
        """The middle of every row, from top to bottom."""
        middles, at = [], self.top
        for lines in self.names:
            height = max(_BAR, len(lines) * _LINE)
            middles.append(at + height / 2)
            at += height + _SPACE
        return middles

    @property
    def bottom(self) -> float:
        return self.middles[-1] + max(_BAR, len(self.names[-1]) * _LINE) / 2

    @cached_property
    def range(self) -> tuple[float, float]:
        """The lowest and the highest value on the axis."""
        low = min(sum(value for value in addends.values() if value < 0) for _, addends in self.rows)
        high = max(sum(value for value in addends.values() if value > 0) for _, addends in self.rows)
        return low, max(high, low + _MIN_RANGE)

    def x(self, value: float) -> float:
        low, high = self.range
        return _LEFT + (_RIGHT - _LEFT) * (value - low) / (high - low)


def draw_reasons(
    rows: Sequence[Row], headline: str, *, notes: Sequence[str] = (), footnotes: Sequence[str] = ()
) -> Markup:
    """Draw the addends of steps.

    Args:
        rows: the name of every step and its addends, all with the same sources in the same order.
        headline: a sentence above the drawing.
        notes: sentences below it.
        footnotes: fainter ones below these.

    Example:
        >>> draw_reasons([("boil", {"goal": 2.0, "start": -0.5})], "The goal speaks for it.").startswith("<svg")
        True
    """
    title, at = _draw_lines([headline], _MARGIN + 11, "panel", size=_TITLE)
    legend, at = _draw_legend(list(rows[0][1]), at - 4)
    layout = _Layout(rows, at + 36)
    below, at = _draw_lines(notes, layout.bottom + 44, "label")
    footer, at = _draw_lines(footnotes, at + (4 if notes else 0), "tick")
    return drawing(
        WIDTH,
        at - _LINE + _MARGIN - 4,
        tag("rect", width="100%", height="100%", fill="#fff"),
        title,
        legend,
        _draw_axis(layout),
        *(_draw_row(layout, place) for place in range(len(rows))),
        _vertical(layout.x(0.0), layout.top - 12, layout.bottom + 8, "axis"),
        below,
        footer,
        label=f"Reasons for every step. {shorten(' '.join(map(_spoken, rows)), 4000)}",
        class_="reasons",
    )


def _draw_lines(sentences: Sequence[str], top: float, class_: str, *, size: float = _FONT) -> tuple[Markup, float]:
    """Sentences in lines, the first at `top`, and where the next line would be."""
    height, is_title = _LINE + (2 if size > _FONT else 1), size > _FONT
    printed = (re.sub(r"(?<=[ (])-(?=\d)", _MINUS, sentence.replace("->", "→")) for sentence in sentences)
    wrapped = (wrap_text(sentence, WIDTH - 2 * _MARGIN, size, max_lines=6, bold=is_title) for sentence in printed)
    lines = [line for sentence in wrapped for line in sentence]
    drawn = (text(_MARGIN, top + place * height, line, class_=class_) for place, line in enumerate(lines))
    return join(*drawn), top + len(lines) * height


def _draw_legend(sources: Sequence[str], top: float) -> tuple[Markup, float]:
    """The colours of the sources in as many lines as needed, and where they end."""
    parts, x, y = [], _MARGIN, top
    for source in sources:
        width = 16 + text_width(source, _FONT)
        if x > _MARGIN and x + width > WIDTH - _MARGIN:
            x, y = _MARGIN, y + _LINE + 4
        parts.append(tag("rect", x=x, y=y, width=11.0, height=11.0, fill=_colour(source)))
        parts.append(text(x + 16, y + 9.5, source, class_="label"))
        x += width + 12
    return join(*parts), y + 11


def _draw_axis(layout: _Layout) -> Markup:
    """Thin lines at round values, their numbers, and what both sides mean."""
    above, below, zero = layout.top - 10, layout.bottom + 20, layout.x(0.0)
    ticks = round_values(*layout.range)
    return join(
        *(_vertical(layout.x(tick), layout.top - 6, layout.bottom + 6, "rule") for tick in ticks),
        *(text(layout.x(tick), below, _signed(tick, ".15g"), anchor="middle", class_="tick") for tick in ticks),
        text(zero - 7, above, "← against", anchor="end", class_="tick"),
        text(zero + 7, above, "for →", class_="tick"),
        text(WIDTH - _MARGIN, above, "sum", anchor="end", class_="tick"),
    )


def _draw_row(layout: _Layout, place: int) -> Markup:
    """The name of a step, its bar and the sum of its addends."""
    (step, addends), lines, middle = layout.rows[place], layout.names[place], layout.middles[place]
    first = middle - len(lines) * _LINE / 2 + 10.5
    names = [text(_MARGIN + _INDENT, first + row * _LINE, line, class_="label") for row, line in enumerate(lines)]
    numbered = text(_MARGIN, first, f"{place + 1}.", class_="label")
    total = _signed(math.fsum(addends.values()))
    said = tag("title", shorten(f"{place + 1}. {step}", 200))
    return tag(
        "g",
        tag("g", said, numbered, *names),
        *_draw_bar(layout, addends, middle),
        text(WIDTH - _MARGIN, middle + 4, total, anchor="end", class_="label bold"),
    )


def _draw_bar(layout: _Layout, addends: Mapping[str, float], middle: float) -> list[Markup]:
    """The parts of a bar, from 0 to both sides in the order of the sources."""
    parts, ends = [], {True: 0.0, False: 0.0}
    for source, value in addends.items():
        begin = ends[value > 0]
        ends[value > 0] = begin + value
        left, right = sorted((layout.x(begin), layout.x(begin + value)))
        size = {"x": left, "y": middle - _BAR / 2, "width": right - left, "height": _BAR}
        words = _fitting(source, value, right - left)
        parts.append(
            tag(
                "g",
                tag("title", f"{source} {_signed(value)}"),
                tag("rect", **size, fill=_colour(source), stroke="#fff", stroke_width=1),
                *([text((left + right) / 2, middle + 4, words, anchor="middle", class_="label")] if words else []),
            )
        )
    return parts


def _fitting(source: str, value: float, width: float) -> str:
    """What can be written on a part of a bar: its source and value, its source, or nothing."""
    choices = (f"{source} {_signed(value)}", source)
    return next((words for words in choices if text_width(words, _FONT) + 6 <= width), "")


def round_values(low: float, high: float, *, most: int = 7) -> list[float]:
    """Round numbers from low to high, 0 among them where it is between: at most `most` in steps of 1, 2 or 5.

    Example:
        >>> round_values(-1.3, 6.2)
        [0.0, 2.0, 4.0, 6.0]
    """
    unit = 10.0 ** math.floor(math.log10((high - low) / most))
    step = next(factor * unit for factor in (1, 2, 5, 10) if (high - low) / (factor * unit) <= most)
    first, last = math.ceil(low / step - 1e-9), math.floor(high / step + 1e-9)
    return [round(number * step, 12) for number in range(first, last + 1)]


def _vertical(x: float, top: float, bottom: float, class_: str) -> Markup:
    return tag("line", x1=x, y1=top, x2=x, y2=bottom, class_=class_)


def _colour(source: str) -> str:
    return COLOURS.get(source, _OTHER_COLOUR)


def _signed(value: float, form: str = ".1f") -> str:
    """A number with its sign; the minus of print."""
    size = format(abs(value), form)
    return size if not float(size) else f"{_MINUS if value < 0 else '+'}{size}"


def _spoken(row: Row) -> str:
    """A row for a screen reader."""
    step, addends = row
    return f"{step}: {', '.join(f'{source} {_signed(value)}' for source, value in addends.items())}."
