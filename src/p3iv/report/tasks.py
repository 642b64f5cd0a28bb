"""Scores by procedure and by position."""

from __future__ import annotations

from collections.abc import Sequence

from p3iv.report.cells import figure, percent
from p3iv.report.inputs import Evaluation, Leaf, TaskScores
from p3iv.report.markup import Markup, join, shorten, tag
from p3iv.report.svg import Frame, drawing, line, nice_ticks, polyline, text

MOST_ROWS = 24  # of procedures that are shown at once; the others can be unfolded
_BAR, _ROW = 220.0, 16.0


def task_table(evaluation: Evaluation) -> Markup | None:
    """A bar of the success rate for every procedure, the best first; of many, those with the most windows first."""
    tasks = [task for task in evaluation.tasks if "success_rate" in task.scores]
    if not tasks:
        return None
    by_size = sorted(tasks, key=lambda task: (-task.num_windows, task.task))
    shown, rest = by_size[:MOST_ROWS], by_size[MOST_ROWS:]
    parts = [_table(shown)]
    if rest:
        parts.append(tag("details", tag("summary", f"{len(rest)} more procedures"), _table(rest)))
    return tag("div", *parts)


def draw_positions(evaluation: Evaluation) -> Markup | None:
    """Accuracy at every position of the plan."""
    positions = evaluation.positions
    if not positions:
        return None
    y_ticks = nice_ticks(0, max(leaf.high or leaf.value for _, leaf in positions), most=5)
    first, last = positions[0][0], positions[-1][0]
    frame = Frame(40, 24, 180, 120, (first - 0.5, last + 0.5), (0, max(y_ticks[-1], 1e-9)))
    points = [(frame.x(position), frame.y(leaf.value)) for position, leaf in positions]
    return drawing(
        240,
        186,
        text(0, 12, "Accuracy by position, %", class_="panel"),
        frame.axes([position for position, _ in positions], y_ticks, x_label="position in the plan", show_y=_whole),
        polyline(points, class_="series dash1"),
        *(
            join(
                _whisker(x, frame, leaf),
                tag("circle", tag("title", percent(leaf.value)), cx=x, cy=y, r=3.4, class_="dot"),
            )
            for (x, y), (_, leaf) in zip(points, positions, strict=True)
        ),
        label="Accuracy by position: "
        + ", ".join(f"{position}: {percent(leaf.value)} %" for position, leaf in positions),
    )


def _table(tasks: Sequence[TaskScores]) -> Markup:
    order = sorted(tasks, key=lambda task: (-task.scores["success_rate"].value, -task.num_windows, task.task))
    head = tag(
        "thead",
        tag(
            "tr",
            tag("th", "procedure", scope="col"),
            tag("th", "windows", scope="col"),
            tag("th", "success rate, %", scope="col", colspan=2),
        ),
    )
    return tag("table", head, tag("tbody", *map(_row, order)), class_="tasks")


def _row(task: TaskScores) -> Markup:
    success = task.scores["success_rate"]
    return tag(
        "tr",
        tag("th", shorten(task.task, 60), scope="row"),
        tag("td", str(task.num_windows)),
        tag("td", _bar(success, task.scores.get("mean_accuracy")), class_="plot"),
        tag("td", figure(success, percent)),
    )


def _bar(success: Leaf, accuracy: Leaf | None) -> Markup:
    """A bar from 0 to 100 %, its interval, and a tick at the accuracy."""
    frame = Frame(1, 2, _BAR - 6, _ROW - 4, (0, 1), (0, 1))
    middle = _ROW / 2
    parts = [
        line(frame.left, middle, frame.right, middle, class_="rule"),
        tag("rect", x=frame.left, y=4.0, width=frame.x(success.value) - frame.left, height=_ROW - 8, class_="bar"),
    ]
    if success.low is not None and success.high is not None:
        parts.append(line(frame.x(success.low), middle, frame.x(success.high), middle, class_="whisker"))
    label = f"success rate {percent(success.value)} %"
    if accuracy is not None:
        x = frame.x(accuracy.value)
        parts.append(line(x, 1, x, _ROW - 1, class_="mark"))
        label += f", accuracy {percent(accuracy.value)} %"
    return drawing(_BAR, _ROW, *parts, label=label, class_="strip")


def _whisker(x: float, frame: Frame, leaf: Leaf) -> Markup:
    if leaf.low is None or leaf.high is None:
        return join()
    return line(x, frame.y(leaf.low), x, frame.y(leaf.high), class_="whisker")


def _whole(share: float) -> str:
    return f"{100 * share:.0f}"
