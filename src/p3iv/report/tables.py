"""The tables of a report: every score with its interval, the paper's numbers beside them and marked as published."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from markupsafe import Markup

from p3iv.catalogue import BASELINES, DECODERS, METRICS, SAMPLING_MODES, Metric, metrics_of
from p3iv.drawing.html import drawing, join, percent, scrolling, shorten, tag
from p3iv.evaluation.result import Evaluation, Scores, TaskScores
from p3iv.metrics.intervals import Interval
from p3iv.report.charts import Frame, line, nice_ticks, strip
from p3iv.report.run_files import RunRecord

DASH = "\N{EN DASH}"  # between the ends of a range, and where there is no value
PAPER = "P3IV (CVPR 2022)"
MAX_NARROW_COLUMNS = 5
MAX_TASKS = 24  # that are shown at once; the others are folded
_PROTOCOLS = {
    1: "protocol 1: every window, 70/30 by video",
    2: "protocol 2: one window per video, 85/15, T - 1 actions",
}
_ONE_MODE = "samples (this planner has one way to draw them)"
_EXACT = "the chain itself, exactly"
_STRIP, _BAR, _BAR_HEIGHT = 150.0, 220.0, 16.0


@dataclass(frozen=True)
class Published:
    """What the paper printed for the dataset, horizon and protocol of a run; shares from 0 to 1, KL and NLL in nats.

    Its success rate is our success rate. Its mAcc is a macro precision and its mIoU a bitwise IoU of action ids.
    """

    dataset: str
    horizon: int
    protocol: int
    scores: Mapping[str, float]  # by metric
    places: Mapping[str, str]  # metric -> the table of the paper

    def source(self, metrics: Sequence[str]) -> str:
        """The tables of the paper that have these metrics."""
        places = dict.fromkeys(self.places[name] for name in metrics if name in self.places)
        return ", ".join(places)


def score_table(run: RunRecord, published: Published | None) -> Markup:
    """Success rate, accuracy and IoU of every decoder and baseline, of the truth and of the paper."""
    evaluation, metrics = run.evaluation, plan_metrics(run.evaluation)
    decoders = {name: scores for name, scores in evaluation.decoders.items() if not _is_ablation(name)}
    ablations = {name: scores for name, scores in evaluation.decoders.items() if _is_ablation(name)}
    groups: dict[str, Mapping[str, Scores]] = {
        "this planner, decoded by": {
            _decoder_label(name, evaluation, with_about=True): each for name, each in decoders.items()
        },
        "baselines": {BASELINES.get(name, name): scores for name, scores in evaluation.baselines.items()},
        "knowing the true distribution": {"its most likely plan": evaluation.truth.ceiling} if evaluation.truth else {},
        "Viterbi of the paper, but with": {DECODERS[name].label: each for name, each in ablations.items()},
    }
    every = [scores for rows in groups.values() for scores in rows.values()]
    tops = _tops(metrics, every, published)
    ours, *others = (_score_group(title, rows, tops) for title, rows in groups.items())
    return results_table(
        [metric.title for metric in metrics],
        [ours, _published_group(published, metrics, tops), *others, _differences(evaluation, metrics)],
    )


def plan_metrics(evaluation: Evaluation) -> list[Metric]:
    """The metrics of recommended plans: others where their number of steps is unknown."""
    return [
        metric for metric in (*metrics_of("plans"), *metrics_of("lengths")) if metric.name in evaluation.plan_scores
    ]


def released_table(run: RunRecord, published: Published | None) -> Markup | None:
    """The same plans scored as released code scores them, comparable with the paper's row."""
    evaluation = run.evaluation
    rows: dict[str, Scores] = {
        _decoder_label(name, evaluation): evaluation.decoders[name] | evaluation.released[name]
        for name in evaluation.decoders
        if name in evaluation.released and not _is_ablation(name)
    }
    found = {name for scores in rows.values() for name in scores}
    metrics = [metric for metric in (METRICS["success_rate"], *metrics_of("released")) if metric.name in found]
    if not rows or len(metrics) < 2:
        return None
    tops = _tops(metrics, list(rows.values()), published)
    ours = _score_group("this planner, decoded by", rows, tops)
    theirs = _published_group(published, metrics, tops)
    return results_table([metric.title for metric in metrics], [ours, theirs])


def distribution_table(run: RunRecord, published: Published | None) -> Markup:
    """A column per way to sample, one for the exact probabilities, and the paper's column where it has one."""
    evaluation, truth = run.evaluation, run.evaluation.truth
    against_test = _mode_columns(evaluation, evaluation.distribution, evaluation.modes)
    against_truth = _mode_columns(evaluation, truth.distribution, truth.modes) if truth else {}
    headers = list(dict.fromkeys([*against_test, *against_truth]))
    names = [metric.name for metric in metrics_of("samples")]
    source = published.source(names) if published else ""
    body = [
        _metric_rows("against the test windows that share first and last step", headers, against_test, published),
        _metric_rows("against the true distribution", headers, against_truth, None, has_blank=bool(source)),
    ]
    return results_table([*headers, *([f"published, {source}"] if source else [])], body)


def published_note(run: RunRecord, published: Published, metrics: Sequence[Metric]) -> str:
    """What the published row was measured on, and how this run differs from it."""
    data = run.config.data
    usual = {"window": (data.window, "inclusive"), "split": (data.split, "video")}
    differs = [f"{name} “{found}”" for name, (found, expected) in usual.items() if found != expected]
    if run.is_simulated:
        differs.insert(0, "SIMULATED features")
    ours = f" This run has {', '.join(differs)}." if differs else ""
    names = [name for metric in metrics for name in (metric.name, metric.released)]
    return (
        f"Published: {PAPER}, {published.source(names)}; {published.dataset}, T = {published.horizon}, "
        f"{_PROTOCOLS[published.protocol]}, MIL-NCE features, no interval given.{ours}"
    )


def task_table(tasks: Sequence[TaskScores]) -> Markup | None:
    """A bar of the success rate for every task, the best first; of many, those with the most windows first."""
    if not tasks:
        return None
    by_size = sorted(tasks, key=lambda task: (-task.num_windows, task.task))
    shown, rest = by_size[:MAX_TASKS], by_size[MAX_TASKS:]
    parts = [_task_rows(shown)]
    if rest:
        parts.append(tag("details", tag("summary", f"{len(rest)} more procedures"), _task_rows(rest)))
    return tag("div", *parts)


def results_table(headers: Sequence[str], body: Sequence[Markup]) -> Markup:
    """A table whose first column is text and whose others are numbers; on a phone, a row becomes several lines."""
    head = tag("thead", tag("tr", tag("td"), *(tag("th", name, scope="col") for name in headers)))
    number = len(headers)  # of columns; on a phone, many stand in two rows
    narrow = number if number <= MAX_NARROW_COLUMNS else min(MAX_NARROW_COLUMNS, -(-number // 2))
    label = f"Table: {', '.join(headers)}"
    return scrolling(tag("table", head, *body, class_=f"results columns{narrow}"), label, hint=False)


def score_cell(metric: Metric, score: Interval | None, *, sign: bool = False) -> Markup:
    """A value and, smaller, its interval."""
    if score is None or math.isnan(score.value):
        return tag("span", DASH, class_="value")
    between = " to " if sign else DASH
    value, low, high = (
        metric.text(end, sign=sign).replace("-", "\N{MINUS SIGN}") for end in (score.value, score.low, score.high)
    )
    ends = [" ", tag("span", f"{low}{between}{high}", class_="interval")] if score.has_ends else []
    return join(tag("span", value, class_="value"), *ends)


def _is_ablation(name: str) -> bool:
    return name in DECODERS and bool(DECODERS[name].ablation_of)


def _decoder_label(name: str, evaluation: Evaluation, *, with_about: bool = False) -> Markup:
    label = DECODERS[name].label if name in DECODERS else name
    about = DECODERS[name].about if with_about and name in DECODERS else ""
    mark = " (recommended)" if name == evaluation.decoder else ""
    return join(f"{label}{mark}", *([tag("small", about)] if about else []))


def group_head(title: str, num_columns: int) -> Markup:
    """The title of a group of rows."""
    return tag("tr", tag("th", title, colspan=num_columns + 1, scope="rowgroup"), class_="group")


def _score_group(title: str, rows: Mapping[str, Scores], tops: Mapping[str, float]) -> Markup:
    if not rows:
        return join()
    lines = [
        tag("tr", tag("th", label, scope="row"), *(_score_with_strip(name, scores, tops[name]) for name in tops))
        for label, scores in rows.items()
    ]
    return tag("tbody", group_head(title, len(tops)), *lines)


def _score_with_strip(name: str, scores: Scores, top: float) -> Markup:
    score = scores.get(name)
    return tag("td", score_cell(METRICS[name], score), *([_strip(name, score, top)] if score else []))


def _strip(name: str, score: Interval, top: float, *, is_hollow: bool = False) -> Markup:
    if not math.isfinite(score.value):
        return join()
    metric = METRICS[name]
    label = f"{metric.text(score.value)} {metric.unit} on a scale to {metric.text(top)} {metric.unit}"
    return strip(score, top, width=_STRIP, label=label, is_hollow=is_hollow)


def _differences(evaluation: Evaluation, metrics: Sequence[Metric]) -> Markup:
    """The recommended plan minus each baseline, in percentage points."""
    if not evaluation.differences:
        return join()
    lines = [
        tag(
            "tr",
            tag("th", f"minus {BASELINES.get(name, name)}", scope="row"),
            *(
                tag("td", "the same in all windows")
                if metric.name in evaluation.equal.get(name, ())
                else tag("td", score_cell(metric, scores.get(metric.name), sign=True))
                for metric in metrics
            ),
        )
        for name, scores in evaluation.differences.items()
    ]
    return tag("tbody", group_head("the recommended plan, window by window", len(metrics)), *lines)


def _published_group(published: Published | None, metrics: Sequence[Metric], tops: Mapping[str, float]) -> Markup:
    """The paper's row; a column of ours that is another metric in the paper is in brackets."""
    meant = {metric.name: metric.released or metric.name for metric in metrics}
    if published is None or not any(name in published.scores for name in meant.values()):
        return join()
    cells = []
    for name, theirs in meant.items():
        value = published.scores.get(theirs)
        if value is None:
            cells.append(tag("td", DASH))
        elif theirs != name:
            cells.append(tag("td", f"({METRICS[theirs].text(value)})", tag("sup", "†"), class_="other"))
        else:
            shown = METRICS[name].text(value)
            cells.append(tag("td", shown, _strip(name, Interval(value), tops[name], is_hollow=True)))
    where = f"{published.source(list(meant.values()))}, protocol {published.protocol}"
    label = tag("th", PAPER, tag("small", where), scope="row")
    return tag("tbody", group_head("published", len(meant)), tag("tr", label, *cells, class_="published"))


def _tops(metrics: Sequence[Metric], rows: Sequence[Scores], published: Published | None) -> dict[str, float]:
    """Where the scale of each column ends: at the next round number above all of its values."""
    tops = {}
    for metric in metrics:
        scores = [row[metric.name] for row in rows if metric.name in row]
        ends = [end for score in scores for end in (score.value, score.high) if not math.isnan(end)]
        ends += [published.scores[metric.name]] if published and metric.name in published.scores else []
        highest = max(ends, default=0.0)
        top = nice_ticks(0, highest)[-1] if highest > 0 else 1.0
        tops[metric.name] = min(1.0, top) if metric.unit == "%" else top
    return tops


def _mode_columns(evaluation: Evaluation, chosen: Scores, modes: Mapping[str, Scores]) -> dict[str, Scores]:
    """Column -> scores; the exact scores of the chain have a column of their own under the same names."""
    exact = {name.removeprefix("exact_"): score for name, score in chosen.items() if name.startswith("exact_")}
    if evaluation.has_one_mode:
        columns = {_ONE_MODE: modes[evaluation.samples.mode]}
    else:
        columns = {
            SAMPLING_MODES[name].label if name in SAMPLING_MODES else name: scores for name, scores in modes.items()
        }
    return columns | ({_EXACT: exact} if exact else {})


def _metric_rows(
    title: str,
    headers: Sequence[str],
    columns: Mapping[str, Scores],
    published: Published | None,
    *,
    has_blank: bool = False,
) -> Markup:
    """One row per metric of samples, with the paper's column, or a blank one in its place."""
    rows = []
    for metric in metrics_of("samples"):
        scores = [columns.get(header, {}).get(metric.name) for header in headers]
        if not any(scores):
            continue
        cells = [tag("td", score_cell(metric, score)) for score in scores]
        if published and published.source([each.name for each in metrics_of("samples")]):
            value = published.scores.get(metric.name)
            cells.append(tag("td", DASH if value is None else metric.text(value), class_="published"))
        elif has_blank:
            cells.append(tag("td", DASH))
        rows.append(tag("tr", tag("th", f"{metric.heading} {metric.arrow}".strip(), scope="row"), *cells))
    return tag("tbody", group_head(title, len(headers) + 1), *rows) if rows else join()


def _task_rows(tasks: Sequence[TaskScores]) -> Markup:
    order = sorted(tasks, key=lambda task: (-task.scores["success_rate"].value, -task.num_windows, task.task))
    heads = [tag("th", "procedure", scope="col"), tag("th", "windows", scope="col")]
    heads.append(tag("th", METRICS["success_rate"].heading, scope="col", colspan=2))
    return tag("table", tag("thead", tag("tr", *heads)), tag("tbody", *map(_task_row, order)), class_="tasks")


def _task_row(task: TaskScores) -> Markup:
    success = task.scores["success_rate"]
    return tag(
        "tr",
        tag("th", shorten(task.task, 60), scope="row"),
        tag("td", str(task.num_windows)),
        tag("td", _bar(success, second_metric(task.scores), task.scores), class_="plot"),
        tag("td", score_cell(METRICS["success_rate"], success)),
    )


def second_metric(scores: Scores) -> Metric:
    """What is shown beside the success rate of a task: accuracy, or the edit score where lengths are unknown."""
    return METRICS["mean_accuracy" if "mean_accuracy" in scores else "edit_score"]


def _bar(success: Interval, second: Metric, scores: Scores) -> Markup:
    """A bar from 0 to 100 %, its interval, and a tick at the second metric."""
    frame = Frame(1, 2, _BAR - 6, _BAR_HEIGHT - 4, (0, 1), (0, 1))
    other = scores[second.name].value
    middle, x = _BAR_HEIGHT / 2, frame.x(other)
    width = frame.x(success.value) - frame.left
    parts = [
        line(frame.left, middle, frame.right, middle, class_="rule"),
        tag("rect", x=frame.left, y=4.0, width=width, height=_BAR_HEIGHT - 8, class_="bar"),
        line(x, 1, x, _BAR_HEIGHT - 1, class_="mark"),
    ]
    if success.has_ends:
        parts.append(line(frame.x(success.low), middle, frame.x(success.high), middle, class_="whisker"))
    label = f"success rate {percent(success.value)} %, {second.title} {percent(other)} %"
    return drawing(_BAR, _BAR_HEIGHT, *parts, label=label, class_="strip")
