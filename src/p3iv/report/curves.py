"""Training curves as small multiples, one question each."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from p3iv.report.inputs import RunRecord
from p3iv.report.markup import Markup, join, tag
from p3iv.report.svg import Frame, drawing, line, nice_ticks, polyline, text

MOST_POINTS = 300  # of a curve: more than a screen can show, fewer than a page should carry
_WIDTH, _HEIGHT = 280.0, 176.0
_LEFT, _RIGHT, _TOP, _BOTTOM = 40.0, 66.0, 24.0, 34.0


@dataclass(frozen=True)
class Panel:
    """Columns of metrics.csv that are read together, each with the name at the end of its line."""

    title: str
    columns: Mapping[str, str]
    is_share: bool = False


PANELS = (
    Panel(
        "Scores on validation windows, %",
        {"val_success_rate": "success", "val_mean_accuracy": "accuracy", "val_mean_iou": "IoU"},
        is_share=True,
    ),
    Panel("Losses of actions and language", {"action": "action", "language": "language"}),
    Panel("Adversarial and diversity loss", {"adversarial": "adversarial", "diversity": "diversity"}),
    Panel("Right verdicts of the critic, %", {"critic_real": "real", "critic_generated": "generated"}, is_share=True),
    Panel("Diversity: change per change of z", {"diversity_ratio": "ratio"}),
    Panel("Learning rate, thousandths", {"learning_rate": "rate"}),
)
_SCALE = {"learning_rate": 1000.0}


def draw_curves(run: RunRecord) -> list[Markup]:
    """A panel for everything that the run wrote down; none for a run without epochs."""
    epochs = run.metrics.get("epoch", ())
    drawn = (_draw_panel(panel, epochs, run.metrics, run.best_epoch) for panel in PANELS)
    return [panel for panel in drawn if panel]


def _draw_panel(
    panel: Panel, epochs: Sequence[float], metrics: Mapping[str, Sequence[float]], best_epoch: int | None
) -> Markup | None:
    curves = {
        name: _curve(epochs, metrics[column], 100.0 if panel.is_share else _SCALE.get(column, 1.0))
        for column, name in panel.columns.items()
        if column in metrics
    }
    curves = {name: points for name, points in curves.items() if points}
    if not curves:
        return None
    values = [value for points in curves.values() for _, value in points]
    y_ticks = nice_ticks(min(0.0, *values), max(values), most=4)
    first, last = min(epochs), max(epochs)
    frame = Frame(
        _LEFT, _TOP, _WIDTH - _LEFT - _RIGHT, _HEIGHT - _TOP - _BOTTOM, (first, last), (y_ticks[0], y_ticks[-1])
    )
    lines = [
        polyline([(frame.x(epoch), frame.y(value)) for epoch, value in points], class_=f"series dash{number}")
        for number, points in enumerate(curves.values())
    ]
    ends = {name: frame.y(points[-1][1]) for name, points in curves.items()}
    return drawing(
        _WIDTH,
        _HEIGHT,
        text(0, 12, panel.title, class_="panel"),
        frame.axes(_epoch_ticks(first, last), y_ticks, x_label="epoch"),
        _mark_best(frame, best_epoch),
        *lines,
        *(
            text(frame.right + 5, y + 3.5, name, class_="tick")
            for name, y in spread(ends, least=11, lowest=frame.bottom).items()
        ),
        label=f"{panel.title} over {last:g} epochs: "
        + ", ".join(f"{name} ends at {points[-1][1]:.3g}" for name, points in curves.items()),
    )


def _curve(epochs: Sequence[float], values: Sequence[float], scale: float) -> list[tuple[float, float]]:
    """The finite points of a column, thinned, its last one always there."""
    points = [
        (epoch, scale * value) for epoch, value in zip(epochs, values, strict=True) if math.isfinite(epoch + value)
    ]
    every = max(1, math.ceil(len(points) / MOST_POINTS))
    kept = points[::every]
    return kept if not points or kept[-1] == points[-1] else [*kept, points[-1]]


def _mark_best(frame: Frame, epoch: int | None) -> Markup:
    if epoch is None:
        return join()
    x = frame.x(epoch)
    title = tag("title", f"epoch {epoch}: the planner that was kept")
    return join(
        line(x, frame.top, x, frame.bottom, class_="best"),
        tag("path", title, d=f"M{x:.1f} {frame.top + 1:.1f}l-4 -6h8z", class_="dot"),
    )


def _epoch_ticks(first: float, last: float) -> list[float]:
    inner = [tick for tick in nice_ticks(0, last, most=5) if first < tick <= last]
    return [first, *(tick for tick in inner if tick - first > (last - first) / 10)]


def spread(places: Mapping[str, float], *, least: float, lowest: float) -> dict[str, float]:
    """Labels moved just enough that neighbours are `least` apart and the last is not below `lowest`."""
    names = sorted(places, key=lambda name: (places[name], name))
    moved: list[float] = []
    for name in names:
        moved.append(max(places[name], moved[-1] + least if moved else -math.inf))
    limit = lowest
    for number in reversed(range(len(moved))):
        moved[number] = min(moved[number], limit)
        limit = moved[number] - least
    return dict(zip(names, moved, strict=True))
