"""What a report shows about few videos: the scores of a cross-validation, and the learning curve."""

from __future__ import annotations

from math import isnan

from markupsafe import Markup

from p3iv.catalogue import BASELINES, METRICS
from p3iv.drawing.html import document, drawing, join, notices, percent, standalone_svg, tag, text
from p3iv.evaluation.cross_validated import WHAT_INTERVALS_COVER, CrossValidation, describe_amounts
from p3iv.evaluation.learning_curve import LearningCurve, explain
from p3iv.report.charts import Frame, nice_ticks, polyline, whisker, whole_percent
from p3iv.report.tables import results_table, score_cell, task_table
from p3iv.types import counted

CURVE_TITLE = "Are there enough videos?"


def draw_learning_curve(curve: LearningCurve) -> Markup:
    """Success rate by number of videos; a hollow dot shows what twice as many would probably bring."""
    points = [(point.num_videos, point.success_rate) for point in curve.points]
    expected = [] if curve.double is None else [(2 * points[-1][0], curve.double)]
    ends = [value for _, score in (*points, *expected) for value in (score.value, score.high) if not isnan(value)]
    last = (expected or points)[-1][0]
    y_ticks = nice_ticks(0, max(*ends, 0.05))
    frame = Frame(44, 26, 330, 170, (0, last * 1.05), (0, y_ticks[-1]))
    places = [(frame.x(number), frame.y(score.value)) for number, score in points]
    further = [(frame.x(number), frame.y(score.value)) for number, score in expected]
    dots = [(place, score, "dot") for place, (_, score) in zip(places, points, strict=True)]
    dots += [(place, score, "hollow") for place, (_, score) in zip(further, expected, strict=True)]
    return drawing(
        400,
        238,
        text(0, 12, "Success rate on videos that were not trained on, %", class_="panel"),
        frame.axes(
            [round(number, 1) for number, _ in (*points, *expected)],
            y_ticks,
            x_label="videos that a planner learns from",
            show_y=whole_percent,
        ),
        polyline(places, class_="series dash0"),
        polyline([places[-1], *further], class_="series dash1") if further else join(),
        *(
            join(
                whisker(x, frame, score.low, score.high),
                tag("circle", tag("title", percent(score.value)), cx=x, cy=y, r=3.4, class_=kind),
            )
            for (x, y), score, kind in dots
        ),
        label="Success rate by number of videos: "
        + ", ".join(f"{number:g} videos: {percent(score.value)} %" for number, score in (*points, *expected)),
    )


def learning_curve_file(curve: LearningCurve) -> str:
    """The drawing as an SVG file of its own."""
    return standalone_svg(draw_learning_curve(curve), title=f"Learning curve on {curve.data}", about=explain(curve))


def learning_curve_figure(curve: LearningCurve) -> Markup:
    """The curve with its caption."""
    caption = (
        f"Cross-validated success rate of {curve.planner} by the number of videos that it learns from, with intervals "
        f"for other videos. {explain(curve)}"
    )
    return tag("figure", tag("figcaption", caption, class_="caption"), draw_learning_curve(curve), class_="drawn")


def cross_validated_page(found: CrossValidation, curve: LearningCurve | None) -> str:
    """The report of a run without a test side."""
    score = found.plans["success_rate"]
    ends = f" ({percent(score.low)} to {percent(score.high)})" if score.has_ends else ""
    steps = "" if found.horizon is None else f", T = {found.horizon}"
    header = tag(
        "header",
        tag("h1", f"{found.planner} on {found.data.partition(' (')[0]}{steps}"),
        notices(found.data),
        tag(
            "p",
            f"There is no test side: the videos are few, so all of them were used. In a cross-validation, "
            f"{describe_amounts(found)}. The recommended plan equals the reference, step for step, in ",
            tag("b", f"{percent(score.value)} %"),
            f"{ends} of the windows.",
            class_="lede",
        ),
        *(tag("p", f"Note: {note}", class_="note") for note in found.notes),
    )
    results = tag(
        "section",
        tag("h2", "Cross-validated scores"),
        _figure(_score_table(found), f"Scores in percent. {WHAT_INTERVALS_COVER}"),
        _figure(task_table(found.tasks), "Success rate of every procedure; many have few videos."),
        _figure(_fold_table(found), "The folds: each planner is scored on the videos that it was made without."),
    )
    further = [] if curve is None else [tag("section", tag("h2", CURVE_TITLE), learning_curve_figure(curve))]
    return document(f"{found.planner} on {found.data}", header, results, *further)


def _figure(content: Markup | None, caption: str) -> Markup:
    if content is None:
        return join()
    return tag("figure", tag("figcaption", caption, class_="caption"), content, class_="table")


def _score_table(found: CrossValidation) -> Markup:
    metrics = [METRICS[name] for name in found.plans]
    rows = {"planner": found.plans, **{BASELINES.get(name, name): each for name, each in found.baselines.items()}}
    body = [
        tag(
            "tr",
            tag("th", label, scope="row"),
            *(tag("td", score_cell(metric, scores.get(metric.name))) for metric in metrics),
        )
        for label, scores in rows.items()
    ]
    return results_table([metric.title for metric in metrics], [tag("tbody", *body)])


def _fold_table(found: CrossValidation) -> Markup:
    success = METRICS["success_rate"]
    body = [
        tag(
            "tr",
            tag("th", f"fold {fold.number}", scope="row"),
            tag("td", counted(fold.num_videos, "video")),
            tag("td", str(fold.num_windows)),
            tag("td", success.text(fold.plans["success_rate"])),
        )
        for fold in found.folds
    ]
    return results_table(["tested on", "windows", success.title], [tag("tbody", *body)])
