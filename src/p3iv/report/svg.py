"""A few drawing primitives over inline SVG: a picture, its text, a frame with axes, a value with its interval."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from p3iv.report.markup import Markup, join, number, tag

FONT_SIZE = 11.0


def drawing(width: float, height: float, *children: str, label: str, class_: str | None = None) -> Markup:
    """A picture that scales with its column and says to those who do not see it what it shows."""
    box = f"0 0 {number(width)} {number(height)}"
    return tag("svg", *children, viewBox=box, width=width, height=height, role="img", aria_label=label, class_=class_)


def text(x: float, y: float, content: str, *, anchor: str = "start", class_: str | None = None) -> Markup:
    """One line of text; y is its baseline."""
    return tag("text", content, x=x, y=y, text_anchor=None if anchor == "start" else anchor, class_=class_)


def line(x1: float, y1: float, x2: float, y2: float, *, class_: str) -> Markup:
    """A straight line."""
    return tag("line", x1=x1, y1=y1, x2=x2, y2=y2, class_=class_)


def polyline(points: Iterable[tuple[float, float]], *, class_: str) -> Markup:
    """A line through points."""
    return tag("polyline", points=" ".join(f"{number(x)},{number(y)}" for x, y in points), class_=class_)


@dataclass(frozen=True)
class Frame:
    """Where data stands in a picture: the rectangle of a plot and the ranges that it shows."""

    left: float
    top: float
    width: float
    height: float
    x_range: tuple[float, float]
    y_range: tuple[float, float]

    def x(self, value: float) -> float:
        low, high = self.x_range
        return self.left + self.width * (value - low) / ((high - low) or 1.0)

    def y(self, value: float) -> float:
        low, high = self.y_range
        return self.top + self.height * (1 - (value - low) / ((high - low) or 1.0))

    @property
    def bottom(self) -> float:
        return self.top + self.height

    @property
    def right(self) -> float:
        return self.left + self.width

    def axes(
        self,
        x_ticks: Sequence[float],
        y_ticks: Sequence[float],
        *,
        x_label: str = "",
        show_x: Callable[[float], str] = lambda value: f"{value:g}",
        show_y: Callable[[float], str] = lambda value: f"{value:g}",
    ) -> Markup:
        """Thin rules at the ticks of y, a base line, and the figures beside both."""
        rules = [line(self.left, self.y(tick), self.right, self.y(tick), class_="rule") for tick in y_ticks]
        figures = [
            text(self.left - 6, self.y(tick) + 3.5, show_y(tick), anchor="end", class_="tick") for tick in y_ticks
        ]
        base = line(self.left, self.bottom, self.right, self.bottom, class_="axis")
        marks = [line(self.x(tick), self.bottom, self.x(tick), self.bottom + 3, class_="axis") for tick in x_ticks]
        below = [text(self.x(tick), self.bottom + 14, show_x(tick), anchor="middle", class_="tick") for tick in x_ticks]
        label = text(self.left + self.width / 2, self.bottom + 28, x_label, anchor="middle", class_="tick")
        return join(*rules, *figures, base, *marks, *below, *([label] if x_label else []))


def nice_ticks(low: float, high: float, *, most: int = 5) -> list[float]:
    """Round figures that cover a range: 0, 2, 4, 6 for 0.3 to 5.1."""
    if not (math.isfinite(low) and math.isfinite(high)) or high <= low:
        return [low, low + 1] if math.isfinite(low) else [0.0, 1.0]
    raw = (high - low) / max(most - 1, 1)
    unit = 10.0 ** math.floor(math.log10(raw))
    step = next(factor * unit for factor in (1, 2, 2.5, 5, 10) if factor * unit >= raw * (1 - 1e-9))
    first, last = math.floor(low / step + 1e-9), math.ceil(high / step - 1e-9)
    return [round(number * step, 12) for number in range(first, last + 1)]
