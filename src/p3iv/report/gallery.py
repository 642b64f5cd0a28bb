"""A few windows to look at: which ones, and how each is shown."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from p3iv.report.cells import DASH, percent
from p3iv.report.graph import PlanGraph, merge_plans
from p3iv.report.graph_drawing import LYING, UPRIGHT, draw_graph
from p3iv.report.markup import Markup, shorten, tag
from p3iv.report.pictures import PictureShelf
from p3iv.report.reliability import Reliability
from p3iv.report.svg import drawing
from p3iv.report.windows import Plan, WindowPlans, read_predictions
from p3iv.types import counted

MOST_PLANS = 5  # that are spelled out per window
MOST_NARROW = 4  # steps side by side on a phone
_BAR = 46.0


@dataclass(frozen=True)
class Candidate:
    """A window that could be shown, by the byte of predictions.jsonl at which its line begins."""

    offset: int
    probability: float
    is_right: bool
    task: str
    video: str


@dataclass
class Scan:
    """What one pass over predictions.jsonl leaves behind."""

    reliability: Reliability = field(default_factory=Reliability)
    candidates: list[Candidate] = field(default_factory=list)


def scan_predictions(path: Path) -> Scan:
    """Read the file once, keeping a few numbers per window."""
    scan = Scan()
    for offset, window in read_predictions(path):
        scan.reliability.add(window)
        probability = -1.0 if window.probability is None else window.probability
        scan.candidates.append(Candidate(offset, probability, window.is_right, window.task, window.video))
    return scan


def choose_cases(candidates: Sequence[Candidate], number: int) -> list[Candidate]:
    """Right plans, then wrong ones, as many of each as there can be; each from the most to the least confident.

    They stand at even distances in the order of confidence, so that nobody's taste chose them; near such a place, a
    procedure and a video that were not shown yet go first.
    """
    right, wrong = (
        sorted((c for c in candidates if c.is_right is is_right), key=lambda c: (-c.probability, c.offset))
        for is_right in (True, False)
    )
    num_wrong = min(len(wrong), max(number // 2, number - len(right)))
    num_right = min(len(right), number - num_wrong)
    return _spaced(right, num_right) + _spaced(wrong, num_wrong)


def _spaced(ordered: Sequence[Candidate], number: int) -> list[Candidate]:
    chosen: list[Candidate] = []
    reach = len(ordered) / (2 * number) if number else 0.0
    for place in range(number):
        target = place * (len(ordered) - 1) / max(number - 1, 1)
        near = range(max(0, math.ceil(target - reach)), min(len(ordered), math.floor(target + reach) + 1))
        free = [index for index in near if ordered[index] not in chosen]
        tasks, videos = {c.task for c in chosen}, {c.video for c in chosen}
        best = min(
            free or [index for index in range(len(ordered)) if ordered[index] not in chosen],
            key=lambda index: (
                ordered[index].task in tasks,
                ordered[index].video in videos,
                abs(index - target),
                index,
            ),
        )
        chosen.append(ordered[best])
    return sorted(chosen, key=lambda c: (-c.probability, c.offset))


def show_case(window: WindowPlans, shelf: PictureShelf) -> Markup:
    """One window: pictures where there are some, the likeliest plans, the graph of all of them."""
    wide, narrow = merge_plans(window), merge_plans(window, most_nodes=MOST_NARROW)
    pictures = [
        _picture(window, shelf, moment, second)
        for moment, second in (("start", window.start_s), ("goal", window.goal_s))
    ]
    shown = [picture for picture in pictures if picture]
    return tag(
        "article",
        _heading(window),
        tag(
            "div",
            *([tag("div", *shown, class_="pictures")] if shown else []),
            _plan_table(window),
            class_="case-top",
        ),
        tag("div", tag("div", draw_graph(wide, LYING), class_="scroll"), _note(window, wide), class_="wide-only"),
        tag("div", draw_graph(narrow, UPRIGHT), _note(window, narrow), class_="narrow-only"),
        class_="case",
    )


def graph_legend() -> Markup:
    """What the lines of a graph mean."""
    samples = {
        "ribbon": "samples: as wide as they are frequent",
        "decoded": "decoded plan: solid line, bold boxes",
        "reference": "reference: dashed line and outline",
    }
    entries = [
        tag(
            "span",
            drawing(
                34.0,
                12.0,
                tag("path", d="M1 6H33", stroke_width=8 if name == "ribbon" else None, class_=name),
                label="",
                class_="graph swatch",
            ),
            meaning,
        )
        for name, meaning in samples.items()
    ]
    return tag("p", *entries, class_="legend")


def _heading(window: WindowPlans) -> Markup:
    horizon = len(window.reference)
    verdict = "✓ right" if window.is_right else f"✗ {window.num_matches} of {horizon} steps right"
    where = shorten(window.window, 60)
    if window.start_s is not None and window.goal_s is not None:
        where += f", {window.start_s:.1f}{DASH}{window.goal_s:.1f} s"
    return tag(
        "h3",
        shorten(window.task, 60) or "a window",
        " ",
        tag("span", where, class_="where"),
        " ",
        tag("span", verdict, class_="verdict"),
    )


def _picture(window: WindowPlans, shelf: PictureShelf, moment: str, second: float | None) -> Markup | None:
    address = shelf.data_uri(window.video, second)
    if address is None or second is None:
        return None
    alt = f"{moment} of the window: {shorten(window.video, 60)} at {second:.1f} s"
    return tag("figure", tag("img", src=address, alt=alt), tag("figcaption", f"{moment}, {second:.1f} s"))


def _plan_table(window: WindowPlans) -> Markup:
    """The most frequent plans, and the decoded one and the reference wherever they rank."""
    ranked = list(window.samples)
    count_of = dict(ranked)
    plans = [plan for plan, _ in ranked[:MOST_PLANS]]
    plans += [plan for plan in dict.fromkeys((window.prediction, window.reference)) if plan not in plans]
    head = tag("thead", tag("tr", tag("th", "share", scope="col"), tag("th", "plan", scope="col")))
    rows = [_plan_row(plan, count_of.get(plan, 0), window) for plan in plans]
    return tag("table", head, tag("tbody", *rows), class_="plans")


def _plan_row(plan: Plan, count: int, window: WindowPlans) -> Markup:
    share = count / max(window.num_samples, 1)
    steps: list[str] = []
    for step, wanted in zip(plan, window.reference, strict=True):
        name = shorten(step, 80)
        steps += [*([" → "] if steps else []), tag("span", name) if step == wanted else tag("u", name)]
    roles = [
        tag("span", name, class_=f"role {name}")
        for name, role in (("decoded", window.prediction), ("reference", window.reference))
        if plan == role
    ]
    bar = drawing(_BAR, 4.0, tag("rect", width=_BAR * share, height=4, class_="bar"), label="", class_="strip")
    words = tag("td", *steps, *(part for role in roles for part in (" ", role)))
    return tag("tr", tag("td", f"{percent(share)} %", bar), words, class_="bold" if plan == window.prediction else None)


def _note(window: WindowPlans, graph: PlanGraph) -> Markup:
    parts = []
    if window.probability is not None:
        parts.append(f"The chain gives the decoded plan {percent(window.probability)} %.")
    ranks = [rank for rank, (plan, _) in enumerate(window.samples, start=1) if plan == window.reference]
    if window.samples and not window.is_right:
        where = f"is number {ranks[0]} of {len(window.samples)} distinct plans" if ranks else "was never drawn"
        parts.append(f"The reference {where}.")
    if graph.num_pruned:
        share = percent(graph.num_pruned / graph.num_samples)
        plans = counted(graph.num_pruned_plans, "plan")
        parts.append(f"Left out of the graph: {share} % of {graph.num_samples} samples, {plans} with rarer steps.")
    elif window.samples:
        parts.append(f"All {graph.num_samples} samples are in the graph.")
    return tag("p", " ".join(parts), class_="note")
