"""The page of a report: what was trained, results, training curves, tasks, calibration and a gallery of plans."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from markupsafe import Markup

from p3iv.catalogue import METRICS, SAMPLING_MODES
from p3iv.drawing.html import contents, document, join, notices, percent, slug, tag
from p3iv.evaluation.learning_curve import LearningCurve
from p3iv.evaluation.predictions import NamedLine
from p3iv.evaluation.result import Evaluation
from p3iv.planners.registry import class_of
from p3iv.report.charts import draw_curves, draw_positions
from p3iv.report.few_videos import CURVE_TITLE, learning_curve_figure
from p3iv.report.gallery import FrameSource, graph_legend, show_case
from p3iv.report.lengths import draw_expected, known_table, missing_note, slice_table, unknown_table
from p3iv.report.reliability import Reliability, draw_reliability
from p3iv.report.run_files import RunRecord
from p3iv.report.summary import plain_summary, small_test_warning
from p3iv.report.tables import (
    DASH,
    Published,
    distribution_table,
    plan_metrics,
    published_note,
    released_table,
    score_table,
    second_metric,
    task_table,
)
from p3iv.types import counted, counted_range

_SAMPLE_METRICS = ("mode_precision", "mode_recall", "cosine_distance")  # that a caption explains
_FOLDERS = re.compile(r"(?<!\S)(?:~|[A-Za-z]:)?[/\\]\S*[/\\](?=\S)")  # all of an absolute path but its last part


@dataclass(frozen=True)
class Content:
    """Everything that a page shows."""

    run: RunRecord
    published: Published | None  # None where the paper has no numbers for this dataset, horizon and protocol
    reliability: Reliability | None  # None without predictions.jsonl
    cases: Sequence[NamedLine]
    frames: FrameSource
    notes: Sequence[str]  # what a reader should know about the inputs
    curve: LearningCurve | None = None  # of the dataset, where `p3iv data enough` has made one


@dataclass
class _Captions:
    """Numbers tables and figures."""

    num_tables: int = 0
    num_figures: int = 0

    def table(self, content: Markup | None, caption: str, *footnotes: str | None) -> Markup:
        if content is None:
            return join()
        self.num_tables += 1
        return _captioned("table", f"Table {self.num_tables}. ", content, caption, *footnotes)

    def figure(self, content: Markup | None, caption: str, *footnotes: str | None) -> Markup:
        if content is None:
            return join()
        self.num_figures += 1
        return _captioned("drawn", f"Figure {self.num_figures}. ", content, caption, *footnotes)


@dataclass(frozen=True)
class _Section:
    """A part of the page with a title; one without parts is left out."""

    title: str
    parts: tuple[Markup, ...] = ()

    @property
    def markup(self) -> Markup:
        return tag("section", tag("h2", self.title), *self.parts, id=slug(self.title))


def build_page(content: Content) -> str:
    """The whole document."""
    run = content.run
    captions = _Captions()
    every = (
        _settings(content),
        _results(run, content.published, captions),
        _lengths(run.evaluation, captions),
        _training(run, captions),
        _tasks(run, captions),
        _Section(CURVE_TITLE, () if content.curve is None else (learning_curve_figure(content.curve),)),
        _calibration(content, captions),
        _gallery(content, captions),
    )
    sections = [section for section in every if section.parts]
    return document(
        f"{run.config.planner} on {run.evaluation.data}, {_horizons(run)}",
        _opening(content, [section.title for section in sections]),
        *(section.markup for section in sections),
    )


def describe_run(run: RunRecord) -> Iterator[tuple[str, str]]:
    """The run as pairs of a word and a value; missing values are empty."""
    config, evaluation = run.config, run.evaluation
    data, model, optim = config.data, config.model, config.optim
    planner = class_of(config)
    epochs = f"epoch {evaluation.epoch} of {len(run.metrics.get('epoch', ()))}, the best on validation"
    trained = f"{config.planner}, preset {config.preset}, seed {config.seed}, {epochs}"
    fitted = f"{config.planner}, seed {config.seed}, fitted without training{_cpu_time(run)}"
    yield "Planner", trained if planner.is_trained() else fitted
    trained_on = run.environment.data if run.environment else evaluation.data
    is_own = trained_on == evaluation.data
    yield "Data", evaluation.data if is_own else f"trained on {trained_on}, evaluated on {evaluation.data}"
    split = re.split(r"[/\\]", data.split)[-1]  # a split file by its name
    yield (
        "Windows",
        f"{counted_range(data.horizons, 'action')} of {evaluation.num_actions}, {data.window} windows, protocol "
        f"{data.protocol}, split by “{split}”, split seed {data.split_seed}",
    )
    windows = counted(evaluation.num_windows, f"{evaluation.side} window")
    yield "Evaluated on", f"{windows} of {counted(evaluation.num_videos, 'video')}"
    yield "Samples", _samples(evaluation)
    sizes = {
        "model.width": f"width {model.width}",
        "model.layers": f"{model.layers} layers",
        "model.heads": f"{model.heads} heads",
        "model.memory_slots": f"{model.memory_slots} memory slots",
        "model.noise_width": f"noise of width {model.noise_width}",
    }
    if planner.is_trained():
        yield "Network", ", ".join(text for name, text in sizes.items() if not planner.ignores(name))
    yield "Method", planner.describe(config)
    if planner.is_trained():
        yield "Optimiser", f"batches of {optim.batch_size}, learning rate {optim.learning_rate:g}{_cpu_time(run)}"
    yield "Software", _software(run)


def _horizons(run: RunRecord) -> str:
    data = run.config.data
    return f"T = {data.horizons[0]} to {data.horizons[-1]}" if data.has_lengths else f"T = {data.horizon}"


def hide_folders(text: str) -> str:
    """A note without the folders of the machine that it was written on."""
    return _FOLDERS.sub("", text)


def _samples(evaluation: Evaluation) -> str:
    samples = evaluation.samples
    mode = SAMPLING_MODES[samples.mode].about if samples.mode in SAMPLING_MODES else samples.mode
    how = "" if evaluation.has_one_mode else f", {mode}"
    return f"{samples.number} plans per window{how}, seed {samples.seed}"


def _cpu_time(run: RunRecord) -> str:
    cpu_s = run.metrics.get("cpu_s", ())
    if not cpu_s or not cpu_s[-1] >= 0:
        return ""
    return f", {cpu_s[-1]:.0f} CPU seconds" if cpu_s[-1] < 600 else f", {cpu_s[-1] / 60:.0f} CPU minutes"


def _software(run: RunRecord) -> str:
    environment = run.environment
    if environment is None:
        return ""
    versions = {"p3iv": environment.p3iv, "Python": environment.python, "torch": environment.packages.get("torch")}
    parts = [f"{name} {version}" for name, version in versions.items() if version]
    return ", ".join([*parts, f"on {environment.device}"])


def _opening(content: Content, titles: Sequence[str]) -> Markup:
    run, evaluation = content.run, content.run.evaluation
    _, _, encoder = evaluation.data.partition(" (")
    beneath = _horizons(run) + (f" · {encoder.rstrip(')')}" if encoder else "")
    return tag(
        "header",
        tag("h1", f"{run.config.planner} on {run.dataset_name}", tag("small", beneath)),
        notices(evaluation.data),
        small_test_warning(evaluation) or join(),
        tag("p", _summary(run), class_="lede"),
        plain_summary(run, content.reliability),
        contents(titles),
        *(tag("p", f"Note: {hide_folders(note)}", class_="note") for note in (*evaluation.notes, *content.notes)),
    )


def _summary(run: RunRecord) -> Markup:
    """One sentence with the most important number."""
    evaluation, score = run.evaluation, run.evaluation.plan_scores["success_rate"]
    task = f"sees a start and a goal and predicts the {counted_range(run.config.data.horizons, 'step')} between them"
    same = "equals the reference, step for step, in "
    if evaluation.horizon is None:
        task += "; how many there are is not said"
        same = "equals the reference, step for step and in their number, in "
    text = METRICS["success_rate"].text
    interval = f" ({text(score.low)}{DASH}{text(score.high)})" if score.has_ends else ""
    return join(
        f"The planner {task}. On {counted(evaluation.num_windows, f'{evaluation.side} window')} of {evaluation.data}, "
        f"its recommended plan {same}",
        tag("b", f"{text(score.value)} %"),
        f"{interval}.",
    )


def _settings(content: Content) -> _Section:
    entries = [tag("div", tag("dt", name), tag("dd", value)) for name, value in describe_run(content.run) if value]
    return _section("What was trained", tag("dl", *entries))


def _results(run: RunRecord, published: Published | None, captions: _Captions) -> _Section:
    label, metrics = run.evaluation.data, plan_metrics(run.evaluation)
    released = released_table(run, published)
    note = published_note(run, published, metrics) if published else None
    dagger = "† In the paper these two columns are other metrics, a macro precision and a bitwise IoU"
    dagger += ": the next table has the same metrics for our plans." if released else "."
    return _section(
        "Results",
        captions.table(
            score_table(run, published),
            f"Scores on {label}, in percent, with 95 % intervals for other videos, not for other seeds; each dot is on "
            f"a line from 0 to a round number above the best. {_explain(*(metric.name for metric in metrics))}",
            dagger if published else None,
            note,
        ),
        captions.table(
            released,
            f"The same plans on {label}, scored as released code scores them, in percent. These metrics are not what "
            "their usual names say. Bitwise IoU even changes when the same actions are numbered in another order, and "
            "the paper has an order of its own: its number is of the same kind as ours, but not exactly comparable.",
            note,
        ),
        captions.table(
            distribution_table(run, published),
            f"Sampled plans against the plans that occur, on {label}. 1 % of the probability is spread over all plans, "
            "so that a plan that was never sampled costs much, but not infinitely much. "
            f"{_explain(*(name for name in _SAMPLE_METRICS if name in run.evaluation.distribution))}",
            "The paper states neither smoothing nor logarithm for its numbers." if published else None,
        ),
    )


def _lengths(evaluation: Evaluation, captions: _Captions) -> _Section:
    """Plans of several lengths: by number of steps, by what the planner is told, and which lengths it expects."""
    lengths, label = evaluation.lengths, evaluation.data
    if lengths is None:
        return _Section("")
    often = counted(lengths.most_frequent, "step")
    likely, more = lengths.likely_length, lengths.likely_length_difference
    shown = METRICS["length_accuracy"]
    return _section(
        "By number of steps, and by what is known",
        captions.table(
            slice_table(lengths),
            f"The recommended plans on {label} where the planner is told the number of steps, with 95 % intervals for "
            f"other videos. {_explain('exact_nll')}",
        ),
        captions.table(
            unknown_table(lengths),
            f"The same planner where the number of steps is unknown, on all windows of {label}, told different things. "
            f"History is the video before the start; words are the name of the last step. Below: always {often}, the "
            "most frequent number in training; its NLL gives every number the probability that it has there. "
            f"{_explain('edit_score', 'length_accuracy', 'open_nll')}",
            missing_note(lengths),
        ),
        captions.table(
            known_table(lengths),
            f"Success rates on {label}, in percent, where the planner is told the number of steps and different other "
            "things.",
        ),
        captions.figure(
            draw_expected(lengths),
            "Rows: how many steps a window has. The area of a square is the probability that the planner gives to a "
            "number of steps, on average over these windows; the frame shows where it should be. The most probable "
            f"number is right in {shown.interval_text(likely.value, likely.low, likely.high)} % of all windows; minus "
            f"always {often}: {shown.interval_text(more.value, more.low, more.high, sign=True)} points.",
        ),
    )


def _explain(*names: str) -> str:
    metrics = [METRICS[name] for name in names]
    return " ".join(f"{metric.title[0].upper()}{metric.title[1:]}: {metric.about}." for metric in metrics)


def _training(run: RunRecord, captions: _Captions) -> _Section:
    is_trained = class_of(run.config).is_trained()
    panels = draw_curves(run.metrics, run.evaluation.epoch) if is_trained else []
    return _section(
        "Training",
        captions.figure(
            tag("div", *panels, class_="panels") if panels else None,
            "One point per epoch; the triangle marks the epoch whose planner was kept, chosen on validation windows "
            "alone.",
        ),
    )


def _tasks(run: RunRecord, captions: _Captions) -> _Section:
    evaluation = run.evaluation
    parts = [part for part in (task_table(evaluation.tasks), draw_positions(evaluation.positions)) if part]
    has_gaps = any(not task.scores["success_rate"].has_ends for task in evaluation.tasks)
    second = second_metric(evaluation.plan_scores).title
    gaps = " (none where all windows of a procedure are from one video)" if has_gaps else ""
    return _section(
        "By procedure and by position" if evaluation.positions else "By procedure",
        captions.figure(
            tag("div", *parts, class_="beside") if parts else None,
            f"{'Left: success' if evaluation.positions else 'Success'} rates on {evaluation.data} from 0 to 100 % as "
            f"bars, with 95 % intervals as thin lines{gaps}; the vertical ticks are the {second} of the same plans."
            f"{' Right: share of windows with the right step at each position.' if evaluation.positions else ''}",
        ),
    )


def _calibration(content: Content, captions: _Captions) -> _Section:
    counts = content.reliability
    if counts is None:
        return _Section("")
    parts = [
        (part, title, x_label)
        for part, title, x_label in (
            (counts.recommended, "Recommended plans", "probability of the plan, %"),
            (counts.sampled, "All sampled plans", "share of the samples, %"),
        )
        if part.total
    ]
    if not parts:
        return _Section("")
    panels = [draw_reliability(part, title=title, x_label=x_label) for part, title, x_label in parts]
    errors = [f"{title.lower()} {percent(part.calibration_error)} %" for part, title, _ in parts]
    return _section(
        "Calibration",
        captions.figure(
            tag("div", *panels, class_="panels reliability"),
            "Plans are grouped by their probability; a dot shows how often the plans of a group are the reference (in "
            "percent, with a 95 % interval for other videos). On the dashed line both agree; below it the planner is "
            f"too sure. Expected calibration error: {', '.join(errors)}. Data: {content.run.evaluation.data}.",
        ),
    )


def _gallery(content: Content, captions: _Captions) -> _Section:
    if not content.cases:
        return _Section("")
    parts: list[Markup] = []
    for is_right, title in ((True, "Right plans"), (False, "Wrong plans")):
        cases = [window for window in content.cases if window.is_right is is_right]
        if cases:
            subtitle = f"{title}, from the most to the least confident"
            parts += [tag("h3", subtitle, class_="kind"), *(show_case(window, content.frames) for window in cases)]
    captions.num_figures += 1
    caption = tag(
        "p",
        tag("b", f"Figure {captions.num_figures}. "),
        "Each graph merges all sampled plans of one window. Read it from start to goal: every box is a step at its "
        "position, with the share of samples that have it there. In the lists, underlined steps differ from the "
        "reference. The windows are at even distances in the order of confidence; none was picked by hand. "
        f"Data: {content.run.evaluation.data}.",
        class_="caption",
    )
    missing = content.frames.why_empty
    note = tag("p", f"No pictures: {hide_folders(missing)}.", class_="note") if missing else join()
    return _section("Plans, window by window", caption, graph_legend(), note, *parts)


def _section(title: str, *parts: Markup) -> _Section:
    return _Section(title, tuple(part for part in parts if part))


def _captioned(kind: str, name: str, content: Markup, caption: str, *footnotes: str | None) -> Markup:
    below = [tag("p", line, class_="footnote") for line in footnotes if line]
    return tag("figure", tag("figcaption", tag("b", name), caption, class_="caption"), content, *below, class_=kind)
