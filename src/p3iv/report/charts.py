"""Charts as inline SVG: primitives, intervals on a line, training curves, accuracy by position."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

from markupsafe import Markup

from p3iv.catalogue import LOSS_TERMS, METRICS, loss_term
from p3iv.drawing.html import drawing, join, number, percent, tag, text
from p3iv.evaluation.result import PositionScore
from p3iv.metrics.intervals import Interval

MAX_POINTS = 300  # of a curve: more than a screen can show
_NOT_LOSSES = ("epoch", "learning_rate", "seconds", "cpu_s")  # columns of metrics.csv
_LEARNING_RATE = "Learning rate, thousandths"
_STRIP_HEIGHT = 12.0
_WIDTH, _HEIGHT = 280.0, 176.0  # of a panel of training curves
_LEFT, _RIGHT, _TOP, _BOTTOM = 40.0, 66.0, 24.0, 34.0


def line(x1: float, y1: float, x2: float, y2: float, *, class_: str) -> Markup:
    """A straight line."""
    return tag("line", x1=x1, y1=y1, x2=x2, y2=y2, class_=class_)


def polyline(points: Iterable[tuple[float, float]], *, class_: str) -> Markup:
    """A line through points."""
    return tag("polyline", points=" ".join(f"{number(x)},{number(y)}" for x, y in points), class_=class_)


@dataclass(frozen=True)
class Frame:
    """The rectangle of a plot and the ranges of values that it shows."""

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
        """Thin lines at the ticks of y, a base line, and the numbers beside both."""
        rules = [line(self.left, self.y(tick), self.right, self.y(tick), class_="rule") for tick in y_ticks]
        figures = [
            text(self.left - 6, self.y(tick) + 3.5, show_y(tick), anchor="end", class_="tick") for tick in y_ticks
        ]
        base = line(self.left, self.bottom, self.right, self.bottom, class_="axis")
        marks = [line(self.x(tick), self.bottom, self.x(tick), self.bottom + 3, class_="axis") for tick in x_ticks]
        below = [text(self.x(tick), self.bottom + 14, show_x(tick), anchor="middle", class_="tick") for tick in x_ticks]
        label = text(self.left + self.width / 2, self.bottom + 28, x_label, anchor="middle", class_="tick")
        return join(*rules, *figures, base, *marks, *below, *([label] if x_label else []))


def nice_ticks(low: float, high: float, *, max_ticks: int = 5) -> list[float]:
    """Round numbers that cover a range: 0, 2, 4, 6 for 0.3 to 5.1."""
    if not (math.isfinite(low) and math.isfinite(high)) or high <= low:
        return [low, low + 1] if math.isfinite(low) else [0.0, 1.0]
    raw = (high - low) / max(max_ticks - 1, 1)
    unit = 10.0 ** math.floor(math.log10(raw))
    step = next(factor * unit for factor in (1, 2, 2.5, 5, 10) if factor * unit >= raw * (1 - 1e-9))
    first, last = math.floor(low / step + 1e-9), math.ceil(high / step - 1e-9)
    return [round(number * step, 12) for number in range(first, last + 1)]


def whole_percent(share: float) -> str:
    """A share in percent without decimals and without the sign."""
    return f"{100 * share:.0f}"


def strip(
    score: Interval,
    top: float,
    *,
    width: float,
    label: str,
    is_hollow: bool = False,
    hollows: Sequence[float] = (),
    ticks: Sequence[float] = (),
) -> Markup:
    """A value as a dot and its interval as a bar, on a line from 0 to `top`; other values as hollow dots or ticks."""
    frame = Frame(4, 0, width - 8, _STRIP_HEIGHT, (0, top), (0, 1))
    low, high = (score.low, score.high) if score.has_ends else (score.value, score.value)
    low, high = (min(max(end, 0.0), top) for end in (low, high))
    return drawing(
        width,
        _STRIP_HEIGHT,
        line(frame.left, 6, frame.right, 6, class_="rule"),
        line(frame.x(low), 6, frame.x(high), 6, class_="span"),
        *(tag("circle", cx=frame.x(value), cy=6, r=2.6, class_="hollow") for value in hollows),
        *(line(frame.x(value), 1, frame.x(value), 11, class_="tick-published") for value in ticks),
        tag("circle", cx=frame.x(score.value), cy=6, r=3, class_="hollow" if is_hollow else "dot"),
        label=label,
        class_="strip",
    )


def whisker(x: float, frame: Frame, low: float, high: float) -> Markup:
    """A vertical interval; nothing where an end is nan."""
    return join() if math.isnan(low + high) else line(x, frame.y(low), x, frame.y(high), class_="whisker")


def draw_positions(positions: Sequence[PositionScore]) -> Markup | None:
    """Accuracy at every position of the plan."""
    if not positions:
        return None
    highest = max(each.accuracy.high if each.accuracy.has_ends else each.accuracy.value for each in positions)
    y_ticks = nice_ticks(0, highest)
    first, last = positions[0].position, positions[-1].position
    frame = Frame(40, 24, 180, 120, (first - 0.5, last + 0.5), (0, max(y_ticks[-1], 1e-9)))
    points = [(frame.x(each.position), frame.y(each.accuracy.value)) for each in positions]
    ticks = [each.position for each in positions]
    return drawing(
        240,
        186,
        text(0, 12, "Accuracy by position, %", class_="panel"),
        frame.axes(ticks, y_ticks, x_label="position in the plan", show_y=whole_percent),
        polyline(points, class_="series dash1"),
        *(
            join(
                whisker(x, frame, each.accuracy.low, each.accuracy.high),
                tag("circle", tag("title", percent(each.accuracy.value)), cx=x, cy=y, r=3.4, class_="dot"),
            )
            for (x, y), each in zip(points, positions, strict=True)
        ),
        label="Accuracy by position: "
        + ", ".join(f"{each.position}: {percent(each.accuracy.value)} %" for each in positions),
    )


def draw_curves(metrics: Mapping[str, Sequence[float]], kept_epoch: int) -> list[Markup]:
    """Training curves in panels: validation scores, every loss term that the run wrote down, the learning rate."""
    epochs = metrics.get("epoch", ())
    panels: dict[str, dict[str, list[tuple[float, float]]]] = {}
    for column in _in_order(metrics):
        title, name, scale = _panel_of(column)
        if points := _curve(epochs, metrics[column], scale):
            panels.setdefault(title, {})[name] = points
    return [_draw_panel(title, curves, (min(epochs), max(epochs)), kept_epoch) for title, curves in panels.items()]


def _in_order(metrics: Mapping[str, Sequence[float]]) -> list[str]:
    """Validation scores, then losses in the order of the catalogue, then the learning rate."""
    order = list(LOSS_TERMS)
    scores = [name for name in metrics if name.removeprefix("val_") in METRICS and name.startswith("val_")]
    losses = [name for name in metrics if not name.startswith("val_") and name not in _NOT_LOSSES]
    losses.sort(key=lambda name: order.index(name) if name in order else len(order))
    return [*scores, *losses, *(name for name in metrics if name == "learning_rate")]


def _panel_of(column: str) -> tuple[str, str, float]:
    """The title of the panel that a column of metrics.csv is drawn in, its name there, and its scale."""
    if column.startswith("val_"):
        metric = METRICS[column.removeprefix("val_")]
        return f"Scores on validation windows, {metric.unit}", metric.label, metric.scale
    if column == "learning_rate":
        return _LEARNING_RATE, "rate", 1000.0
    term = loss_term(column)
    if term.unit == "%":
        return f"{term.panel}, %", term.label, 100.0
    return term.panel, term.label, 1.0


def _draw_panel(
    title: str, curves: Mapping[str, list[tuple[float, float]]], epochs: tuple[float, float], kept_epoch: int
) -> Markup:
    values = [value for points in curves.values() for _, value in points]
    y_ticks = nice_ticks(min(0.0, *values), max(values), max_ticks=4)
    size = (_WIDTH - _LEFT - _RIGHT, _HEIGHT - _TOP - _BOTTOM)
    frame = Frame(_LEFT, _TOP, *size, epochs, (y_ticks[0], y_ticks[-1]))
    lines = [
        polyline([(frame.x(epoch), frame.y(value)) for epoch, value in points], class_=f"series dash{place % 3}")
        for place, points in enumerate(curves.values())
    ]
    ends = {name: frame.y(points[-1][1]) for name, points in curves.items()}
    return drawing(
        _WIDTH,
        _HEIGHT,
        text(0, 12, title, class_="panel"),
        frame.axes(_epoch_ticks(*epochs), y_ticks, x_label="epoch"),
        _mark_kept(frame, kept_epoch),
        *lines,
        *(
            text(frame.right + 5, y + 3.5, name, class_="tick")
            for name, y in spread(ends, min_distance=11, lowest=frame.bottom).items()
        ),
        label=f"{title} over {epochs[1]:g} epochs: "
        + ", ".join(f"{name} ends at {points[-1][1]:.3g}" for name, points in curves.items()),
    )


def _curve(epochs: Sequence[float], values: Sequence[float], scale: float) -> list[tuple[float, float]]:
    """At most MAX_POINTS of the finite points of a column, and always the last one."""
    points = [
        (epoch, scale * value) for epoch, value in zip(epochs, values, strict=True) if math.isfinite(epoch + value)
    ]
    kept = points[:: max(1, math.ceil(len(points) / MAX_POINTS))]
    return kept if not points or kept[-1] == points[-1] else [*kept, points[-1]]


def _mark_kept(frame: Frame, epoch: int) -> Markup:
    x = frame.x(epoch)
    title = tag("title", f"epoch {epoch}: the planner that was kept")
    return join(
        line(x, frame.top, x, frame.bottom, class_="best"),
        tag("path", title, d=f"M{x:.1f} {frame.top + 1:.1f}l-4 -6h8z", class_="dot"),
    )


def _epoch_ticks(first: float, last: float) -> list[float]:
    inner = [tick for tick in nice_ticks(0, last) if first < tick <= last]
    return [first, *(tick for tick in inner if tick - first > (last - first) / 10)]


def spread(places: Mapping[str, float], *, min_distance: float, lowest: float) -> dict[str, float]:
    """Labels moved just enough that neighbours are `min_distance` apart and the last is not below `lowest`."""
    names = sorted(places, key=lambda name: (places[name], name))
    moved: list[float] = []
    for name in names:
        moved.append(max(places[name], moved[-1] + min_distance if moved else -math.inf))
    limit = lowest
    for place in reversed(range(len(moved))):
        moved[place] = min(moved[place], limit)
        limit = moved[place] - min_distance
    return dict(zip(names, moved, strict=True))
