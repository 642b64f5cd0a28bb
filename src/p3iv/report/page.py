"""The page: sections, captions and their numbers, and a head that lets nothing in from outside."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from importlib.resources import files

from p3iv.report.cells import DASH, percent
from p3iv.report.curves import draw_curves
from p3iv.report.distributions import distribution_table
from p3iv.report.facts import facts, hide_paths
from p3iv.report.gallery import graph_legend, show_case
from p3iv.report.inputs import RunRecord
from p3iv.report.markup import Markup, join, tag
from p3iv.report.pictures import PictureShelf
from p3iv.report.reliability import Reliability, draw_reliability
from p3iv.report.results import published_for, published_note, released_table, score_table
from p3iv.report.tasks import draw_positions, task_table
from p3iv.report.windows import WindowPlans
from p3iv.types import counted

POLICY = "default-src 'none'; style-src 'unsafe-inline'; img-src data:; base-uri 'none'; form-action 'none'"
SIMULATED = (
    "SIMULATED FEATURES",
    "The features of this dataset are stand-ins computed from its annotations. Every figure on this page speaks about "
    "code, none about the world.",
)
TABLETOP = (
    "TABLETOP",
    "An embedded, drawn world with nine procedures, whose true distribution of plans is known. Figures on it say how "
    "well the planner learns that world, not how well it would plan from real videos.",
)


@dataclass(frozen=True)
class Content:
    """All that a page shows."""

    run: RunRecord
    reliability: Reliability | None  # None without predictions.jsonl
    cases: Sequence[WindowPlans]
    shelf: PictureShelf
    notes: Sequence[str]  # what a reader should know of the inputs


@dataclass
class _Numbers:
    """Captions count their tables and figures."""

    tables: int = field(default=0)
    figures: int = field(default=0)

    def table(self, content: Markup | None, caption: str, *footnotes: str | None) -> Markup:
        if content is None:
            return join()
        self.tables += 1
        return _captioned("table", tag("b", f"Table {self.tables}. "), content, caption, *footnotes)

    def figure(self, content: Markup | None, caption: str, *footnotes: str | None) -> Markup:
        if content is None:
            return join()
        self.figures += 1
        return _captioned("drawn", tag("b", f"Figure {self.figures}. "), content, caption, *footnotes)


def build_page(content: Content) -> str:
    """The whole document."""
    run = content.run
    horizon = run.setting("data.horizon", run.evaluation.horizon)
    title = f"{run.setting('planner', 'p3iv')} on {run.evaluation.data}, T = {horizon}"
    numbers = _Numbers()
    return document(
        title,
        _opening(content),
        _trained(content),
        _results(run, numbers),
        _training(run, numbers),
        _procedures(run, numbers),
        _calibration(content, numbers),
        _gallery(content, numbers),
    )


def document(title: str, *parts: Markup, style: str = "") -> str:
    """A page of one file that lets nothing in from outside; `style` comes after that of all pages."""
    shared = files("p3iv.report").joinpath("style.css").read_text(encoding="utf-8")
    head = tag(
        "head",
        tag("meta", charset="utf-8"),
        tag("meta", http_equiv="Content-Security-Policy", content=POLICY),
        tag("meta", name="viewport", content="width=device-width, initial-scale=1"),
        tag("title", title),
        tag("style", Markup(shared + style)),
    )
    page = f"<!DOCTYPE html>\n{tag('html', head, tag('body', tag('main', *parts)), lang='en')}\n"
    return re.sub(r"(?<=\d) %", "\N{NO-BREAK SPACE}%", page)


def notices(label: str) -> Markup:
    """What must be said beside any figure on data of this label."""
    return join(
        _notice(*SIMULATED) if "simulated" in label.lower() else join(),
        _notice(*TABLETOP) if "tabletop" in label.lower() else join(),
    )


def _opening(content: Content) -> Markup:
    run, evaluation = content.run, content.run.evaluation
    horizon = run.setting("data.horizon", evaluation.horizon)
    data, _, encoder = evaluation.data.partition(" (")
    beneath = f"T = {horizon}" + (f" · {encoder.rstrip(')')}" if encoder else "")
    return tag(
        "header",
        tag("h1", f"{run.setting('planner', 'p3iv')} on {data}", tag("small", beneath)),
        notices(evaluation.data),
        tag("p", _summary(run), class_="lede"),
        *(tag("p", f"Note: {hide_paths(note)}", class_="note") for note in (*evaluation.notes, *content.notes)),
    )


def _notice(name: str, meaning: str) -> Markup:
    return tag("p", tag("strong", name), " ", meaning, class_="notice")


def _summary(run: RunRecord) -> Markup:
    """One sentence with the figure that matters most."""
    evaluation = run.evaluation
    steps = counted(evaluation.horizon, "step")
    begin = f"From what is seen at a start and at a goal, the planner names the {steps} between them."
    followed = "own" if "own" in evaluation.decoders else "viterbi"
    leaf = evaluation.decoders.get(followed, {}).get("success_rate")
    if leaf is None:
        return join(begin)
    interval = "" if leaf.low is None or leaf.high is None else f" ({percent(leaf.low)}{DASH}{percent(leaf.high)})"
    windows = f"{counted(evaluation.num_windows, f'{evaluation.split} window')}"
    return join(
        f"{begin} On {windows} of ",
        evaluation.data,
        ", its plan is the reference, step for step, in ",
        tag("b", f"{percent(leaf.value)} %"),
        f"{interval}.",
    )


def _trained(content: Content) -> Markup:
    pairs = [(name, value) for name, value in facts(content.run) if value]
    entries = [tag("div", tag("dt", name), tag("dd", value)) for name, value in pairs]
    return tag("section", tag("h2", "What was trained on what"), tag("dl", *entries))


def _results(run: RunRecord, numbers: _Numbers) -> Markup:
    label = run.evaluation.data
    has_row, released = published_for(run) is not None, released_table(run)
    mixed = "† In the paper these two columns hold other metrics, a macro precision and a bitwise IoU"
    mixed += ": the next table has their like." if released else "."
    return _section(
        "Results",
        numbers.table(
            score_table(run),
            f"Scores on {label}, in percent, with 95 % intervals from resampled videos; each dot lies on a line from 0 "
            "to a round figure above the best. Success rate: the plan is the reference. Mean accuracy: positions with "
            "the right step. Mean IoU: overlap of the two sets of steps, whatever their order.",
            mixed if has_row else None,
            published_note(run),
        ),
        numbers.table(
            released,
            f"The same plans on {label}, scored as released code scores them, in percent. These metrics are not what "
            "their usual names say; bitwise IoU even changes when the same actions are numbered otherwise, and the "
            "paper numbers them in its own way: its figure is of the same kind as ours, but not comparable exactly.",
            published_note(run),
        ),
        numbers.table(
            distribution_table(run),
            f"Sampled plans against the plans that occur, on {label}. KL divergence and negative log-likelihood: lower "
            "is better; 1 % of the probability is spread over all plans, so that one never drawn costs much but not "
            "infinitely much. Mode precision: samples that are a right plan. Mode recall: right plans that were drawn.",
            "The paper states neither smoothing nor logarithm for its figures." if has_row else None,
        ),
    )


def _training(run: RunRecord, numbers: _Numbers) -> Markup:
    panels = draw_curves(run)
    return _section(
        "Training",
        numbers.figure(
            tag("div", *panels, class_="panels") if panels else None,
            "Read each curve from left to right, one point per epoch; the triangle marks the epoch whose planner was "
            "kept, chosen on validation windows alone.",
        ),
    )


def _procedures(run: RunRecord, numbers: _Numbers) -> Markup:
    parts = [part for part in (task_table(run.evaluation), draw_positions(run.evaluation)) if part]
    return _section(
        "By procedure and by position",
        numbers.figure(
            tag("div", *parts, class_="beside") if parts else None,
            f"Bars are success rates on {run.evaluation.data} from 0 to 100 %, thin lines their 95 % intervals, "
            "upright ticks the mean accuracy of the same plans; dots are the share of windows with the right step at "
            "a position.",
        ),
    )


def _calibration(content: Content, numbers: _Numbers) -> Markup:
    counts = content.reliability
    if counts is None or not (counts.decoded.total or counts.drawn.total):
        return join()
    panels = [
        draw_reliability(part, title=title, said=said)
        for part, title, said in (
            (counts.decoded, "The decoded plan", "probability under the chain, %"),
            (counts.drawn, "Every plan that was drawn", "share of the samples, %"),
        )
        if part.total
    ]
    errors = [
        f"{name} {percent(part.calibration_error)} %"
        for name, part in (("decoded plan", counts.decoded), ("drawn plans", counts.drawn))
        if part.total
    ]
    return _section(
        "Can the probabilities be believed?",
        numbers.figure(
            tag("div", *panels, class_="panels reliability"),
            "Plans are grouped by the probability that they were given; a dot shows how often such plans were the "
            "reference (in percent, with a 95 % interval, Wilson). On the dashed line both agree, below it the planner "
            f"is too sure. Expected calibration error: {', '.join(errors)}. Data: {content.run.evaluation.data}.",
        ),
    )


def _gallery(content: Content, numbers: _Numbers) -> Markup:
    if not content.cases:
        return join()
    parts: list[Markup] = []
    for is_right, title in ((True, "Right plans"), (False, "Wrong plans")):
        cases = [window for window in content.cases if window.is_right is is_right]
        if cases:
            subtitle = f"{title}, from the most to the least confident"
            parts += [tag("h3", subtitle, class_="kind"), *(show_case(window, content.shelf) for window in cases)]
    numbers.figures += 1
    caption = tag(
        "p",
        tag("b", f"Figure {numbers.figures}. "),
        "Each graph merges all sampled plans of one window: read it from start to goal, every box is a step at "
        "its position with the share of all samples that have it there. In the lists, underlined steps differ from the "
        "reference. The windows are picked by a rule, at even distances in the order of confidence, not by taste. "
        f"Data: {content.run.evaluation.data}.",
        class_="caption",
    )
    missing = content.shelf.why_empty
    note = tag("p", f"No pictures: {missing}.", class_="note") if missing else join()
    return _section("Plans, window by window", caption, graph_legend(), note, *parts)


def _section(title: str, *parts: Markup) -> Markup:
    shown = [part for part in parts if part]
    return tag("section", tag("h2", title), *shown) if shown else join()


def _captioned(kind: str, number: Markup, content: Markup, caption: str, *footnotes: str | None) -> Markup:
    below = [tag("p", line, class_="footnote") for line in footnotes if line]
    return tag("figure", tag("figcaption", number, caption, class_="caption"), content, *below, class_=kind)
