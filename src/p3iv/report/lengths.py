"""The part of a report about plans of several lengths: by number of steps, by what the planner is told, and p(T)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from markupsafe import Markup

from p3iv.catalogue import METRICS, MIXES, Metric, length_metrics
from p3iv.drawing.html import drawing, percent, tag, text
from p3iv.evaluation.result import EvidenceScores, LengthScores, Scores
from p3iv.report.charts import Frame
from p3iv.report.tables import group_head, results_table, score_cell
from p3iv.types import counted

SLICE_METRICS = ("success_rate", "mean_accuracy", "mean_iou", "exact_nll")
NO_BREAK = "\N{NO-BREAK SPACE}"
_CELL, _LEFT, _TOP = 34.0, 62.0, 46.0  # of the drawing


def slice_table(lengths: LengthScores) -> Markup:
    """One row per length, where it is known; the KL to the truth where that is known."""
    own = lengths.evidence[0]
    has_truth = all(each.truth for each in own.slices)
    rows = [
        tag(
            "tr",
            tag("th", counted(each.horizon, "step"), tag("small", counted(each.num_windows, "window")), scope="row"),
            *(tag("td", score_cell(METRICS[name], each.scores.get(name))) for name in SLICE_METRICS),
            *([tag("td", score_cell(METRICS["exact_kl"], each.truth["exact_kl"]))] if each.truth and has_truth else []),
        )
        for each in own.slices
    ]
    truth = [f"KL to the truth, nats{NO_BREAK}↓"] if has_truth else []
    return results_table([*(_head(METRICS[name]) for name in SLICE_METRICS), *truth], [tag("tbody", *rows)])


def unknown_table(lengths: LengthScores) -> Markup:
    """One row per mix of evidence, where the number of steps is unknown, and the baseline of the first."""
    metrics = length_metrics()
    own = lengths.evidence[0]
    always = f"always {counted(lengths.most_frequent, 'step')}"
    beside = {always: own.frequent_length}
    return results_table(
        [_head(metric) for metric in metrics],
        [
            _rows("told", {_label(mix): mix.unknown for mix in lengths.evidence}, metrics),
            _rows(f"told {', '.join(own.evidence)}", beside, metrics),
            _rows("the first row minus it, window by window", {"difference": own.differences}, metrics, sign=True),
        ],
    )


def known_table(lengths: LengthScores) -> Markup | None:
    """The success rate by mix of evidence and length, where the length is known; None for a single mix."""
    if len(lengths.evidence) < 2:
        return None
    metric = METRICS["success_rate"]
    rows = [
        tag(
            "tr",
            tag("th", _label(mix), scope="row"),
            *(tag("td", score_cell(metric, each.scores[metric.name])) for each in mix.slices),
        )
        for mix in lengths.evidence
    ]
    heads = [counted(each.horizon, "step") for each in lengths.evidence[0].slices]
    return results_table(heads, [tag("tbody", *rows)])


def missing_note(lengths: LengthScores) -> str | None:
    """How many windows lack a piece of evidence that other windows have."""
    missing: dict[str, int] = {}
    for mix in lengths.evidence:
        missing |= mix.missing
    if not missing:
        return None
    parts = [f"{counted(number, 'window')} without {_PIECES[piece]}" for piece, number in missing.items()]
    return f"{'; '.join(parts)}: asked about without it."


_PIECES = {
    "history": "a video before the start",
    "words": "a last step that the planner knows",
    "procedure": "a procedure that the planner knows",
}


def draw_expected(lengths: LengthScores) -> Markup:
    """Squares whose area is the mean probability of a length (column) over windows of a length (row)."""
    number, rows = len(lengths.horizons), len(lengths.expected)
    frame = Frame(_LEFT, _TOP, number * _CELL, rows * _CELL, (0, number), (rows, 0))
    parts = [text(0, 12, "Probability of every number of steps, %", class_="panel")]
    parts += [
        text(frame.x(column + 0.5), _TOP - 8, str(horizon), anchor="middle", class_="tick")
        for column, horizon in enumerate(lengths.horizons)
    ]
    parts.append(text(frame.left, _TOP - 22, "according to the planner", class_="tick"))
    for row, each in enumerate(lengths.expected):
        middle = frame.y(row + 0.5)
        parts.append(text(_LEFT - 10, middle + 4, counted(each.horizon, "step"), anchor="end", class_="tick"))
        for column, share in enumerate(each.probabilities):
            parts += _square(frame.x(column + 0.5), middle, share, is_right=lengths.horizons[column] == each.horizon)
        parts.append(text(frame.right + 8, middle + 4, counted(each.num_windows, "window"), class_="tick"))
    shares = {each.horizon: each.probabilities[lengths.horizons.index(each.horizon)] for each in lengths.expected}
    label = "; ".join(f"{counted(horizon, 'step')}: {percent(share)} %" for horizon, share in shares.items())
    return drawing(frame.right + 86, frame.bottom + 8, *parts, label=f"Mean probability of the right number: {label}")


def _square(x: float, y: float, share: float, *, is_right: bool) -> list[Markup]:
    """A square of this area; where the length is right, a frame that 100 % would fill."""
    side = (_CELL - 6) * share**0.5
    parts = [tag("rect", x=x - side / 2, y=y - side / 2, width=side, height=side, class_="bar")]
    if is_right:
        whole = _CELL - 6
        parts.append(tag("rect", x=x - whole / 2, y=y - whole / 2, width=whole, height=whole, class_="series"))
    if share >= 0.005:
        parts.append(text(x, y + 4, f"{100 * share:.0f}", anchor="middle"))
    return parts


def _head(metric: Metric) -> str:
    return f"{metric.title if metric.group == 'plans' else metric.label}, {metric.unit}{NO_BREAK}{metric.arrow}"


def _label(mix: EvidenceScores) -> str:
    return MIXES.get(mix.evidence, ", ".join(mix.evidence))


def _rows(title: str, rows: Mapping[str, Scores], metrics: Sequence[Metric], *, sign: bool = False) -> Markup:
    lines = [
        tag(
            "tr",
            tag("th", label, scope="row"),
            *(tag("td", score_cell(metric, scores.get(metric.name), sign=sign)) for metric in metrics),
        )
        for label, scores in rows.items()
    ]
    return tag("tbody", group_head(title, len(metrics)), *lines)
