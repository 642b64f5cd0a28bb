"""The report in plain words, for readers who do not know the metrics: sentences that are made from the numbers."""

from __future__ import annotations

import re
from collections.abc import Iterator

from markupsafe import Markup

from p3iv.catalogue import BASELINES
from p3iv.drawing.html import tag
from p3iv.evaluation.result import Evaluation
from p3iv.metrics.intervals import FEW_VIDEOS
from p3iv.report.reliability import Reliability, ReliabilityCounts
from p3iv.report.run_files import RunRecord
from p3iv.training.amounts import MIN_VAL_VIDEOS, MIN_VAL_WINDOWS
from p3iv.types import counted, counted_range

STEADY_WINDOWS = 5 * MIN_VAL_WINDOWS  # with fewer, one window changes a score by more than 1 point

_CLOSE = 0.05  # a difference between promised and observed shares that a user would not notice
_AMOUNTS = re.compile(r"\btrain (\d+) windows? of (\d+) videos?")
_EXAMPLES = re.compile(r"\(median ([\d.]+)\)|with (\d+) examples? each")
_ENOUGH_EXAMPLES = 10


def plain_summary(run: RunRecord, reliability: Reliability | None) -> Markup:
    """The summary at the top of a page."""
    parts = (
        ("What it learned from", _learned(run)),
        ("How often it is right", _right(run.evaluation)),
        ("Compared with simple guesses", _compared(run.evaluation)),
        ("Can its probabilities be trusted?", _trusted(reliability.recommended if reliability else None)),
        ("What would help", _helpful(run)),
    )
    entries = [tag("div", tag("dt", title), tag("dd", text)) for title, text in parts if text]
    return tag("dl", *entries, class_="plain")


def small_test_warning(evaluation: Evaluation) -> Markup | None:
    """What few test windows or videos mean for the numbers; None where there are enough."""
    windows, videos = evaluation.num_windows, evaluation.num_videos
    if windows >= STEADY_WINDOWS and videos >= FEW_VIDEOS:
        return None
    few = windows < MIN_VAL_WINDOWS or videos < MIN_VAL_VIDEOS
    size = f"{counted(windows, 'window')} of {counted(videos, 'video')}"
    one = f"One window more or less that is right changes the success rate by {100 / windows:.1f} points."
    means = (
        "The numbers on this page are little better than chance: other videos could give very different ones."
        if few
        else "Read the numbers with their intervals: other videos could give clearly different ones."
    )
    return tag(
        "p", tag("strong", "SMALL TEST"), f" Only {size} were used to test the planner. {one} {means}", class_="notice"
    )


def _learned(run: RunRecord) -> str:
    data = run.config.data
    amounts = _AMOUNTS.search(run.environment.amounts) if run.environment else None
    source = "Step lists of training videos"
    if amounts:
        source = f"{counted(int(amounts[2]), 'video')}, cut into {counted(int(amounts[1]), 'example')}"
    task = f"the {counted_range(data.horizons, 'step')} between a start and a goal"
    known = counted(run.evaluation.num_actions, "different step")
    return f"{source}. It predicts {task}, and knows {known}. It was tested on {_tested(run.evaluation)}."


def _tested(evaluation: Evaluation) -> str:
    unseen = {"train": "which it was trained on", "val": "on which its best epoch was chosen"}
    videos = counted(evaluation.num_videos, "video")
    about = unseen.get(
        evaluation.side, "which it had never seen" if evaluation.num_videos > 1 else "which was new to it"
    )
    return f"{counted(evaluation.num_windows, 'example')} from {videos}, {about}"


def in_a_hundred(share: float) -> str:
    """A share as a count: 37 of 100; below 1 and above 99 in words.

    >>> in_a_hundred(0.374), in_a_hundred(0.002), in_a_hundred(1.0)
    ('37 of 100', 'fewer than 1 of 100', 'all')
    """
    if share <= 0 or share >= 1:
        return "all" if share >= 1 else "none"
    rounded = round(100 * share)
    return (
        f"{rounded} of 100" if 1 <= rounded <= 99 else "fewer than 1 of 100" if rounded < 1 else "more than 99 of 100"
    )


def _right(evaluation: Evaluation) -> str:
    scores = evaluation.plan_scores
    whole = scores["success_rate"]
    interval = (
        f" (with other videos, probably between {100 * whole.low:.0f} and {100 * whole.high:.0f})"
        if whole.has_ends
        else ""
    )
    text = f"Whole plans, every step right and in the right order: {in_a_hundred(whole.value)}{interval}."
    if "mean_accuracy" in scores:
        text += f" Single steps at the right place: {in_a_hundred(scores['mean_accuracy'].value)}."
    if evaluation.truth:
        best = evaluation.truth.ceiling["success_rate"].value
        text += f" Several plans are often possible: nobody could do better than {in_a_hundred(best)} here."
    return text


def _compared(evaluation: Evaluation) -> str:
    """The best baseline, and whether the planner is better than it for certain."""
    rates = {name: scores["success_rate"] for name, scores in evaluation.baselines.items() if "success_rate" in scores}
    if not rates:
        return ""
    name = max(rates, key=lambda each: rates[each].value)
    guess = (
        f"The best simple guess ({BASELINES.get(name, name)}) gets {in_a_hundred(rates[name].value)} whole plans right"
    )
    difference = evaluation.differences.get(name, {}).get("success_rate")
    if difference is None or not difference.has_ends:
        return f"{guess}."
    if difference.low > 0:
        return f"{guess}. The planner is better, and that is not chance."
    if difference.high < 0:
        return f"{guess}. The planner is worse than that: it should not be used."
    return f"{guess}. The test is too small, or the two are too similar, to say which is better."


def _trusted(counts: ReliabilityCounts | None) -> str:
    """What the planner promises on average, and what it keeps."""
    if counts is None or not counts.total:
        return ""
    promised = sum(counts.sum_probability) / counts.total
    kept = sum(bin_.num_plans * bin_.observed.value for bin_ in counts.bins) / counts.total
    says = f"On average it gives its plan a probability of {100 * promised:.0f} %, and {100 * kept:.0f} % are right"
    if promised > kept + _CLOSE:
        return f"{says}: it is too sure of itself, so take its probabilities as an order, not as numbers."
    if promised < kept - _CLOSE:
        return f"{says}: it is right more often than it says."
    error = f"typically {100 * counts.calibration_error:.0f} points off"
    if counts.calibration_error <= 2 * _CLOSE:
        return f"{says}: its probabilities mean what they say ({error})."
    return f"{says}: that agrees on average, but a single probability is {error}."


def _helpful(run: RunRecord) -> str:
    return " ".join(_advise(run))


def _advise(run: RunRecord) -> Iterator[str]:
    evaluation, amounts = run.evaluation, run.environment.amounts if run.environment else ""
    examples = _EXAMPLES.search(amounts)
    number = float(examples[1] or examples[2]) if examples else None
    if number is not None and number < _ENOUGH_EXAMPLES:
        few = f"half of the steps have {number:g} examples or fewer"
        yield f"More training videos: {few}, and steps with few examples are often wrong."
    if small_test_warning(evaluation) is not None:
        yield f"More test videos, to know how good it is: {FEW_VIDEOS} or more."
    weak = [task for task in evaluation.tasks if len(evaluation.tasks) > 1 and task.num_windows >= MIN_VAL_WINDOWS]
    if weak:
        worst = min(weak, key=lambda task: task.scores["success_rate"].value)
        if worst.scores["success_rate"].value < evaluation.plan_scores["success_rate"].value / 2:
            yield f"More videos of “{worst.task}”, the weakest procedure."
