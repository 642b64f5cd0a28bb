"""`p3iv score` scores a file of predictions, made by any method."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from p3iv.catalogue import METRICS, UNDEFINED
from p3iv.cli.console import out, print_json, print_next, print_table
from p3iv.cli.options import AsJson, Threads, file_option, number_option
from p3iv.types import counted

if TYPE_CHECKING:
    from p3iv.evaluation.scores import PredictionScores
    from p3iv.metrics.intervals import Interval

EXAMPLE = (
    'A line of FILE: {"window": "v1:0", "plan": [3, 5], "reference": [3, 4], '
    '"samples": [[[3, 5], 9], [[3, 4], 1]], "video": "v1"} (the last two are optional; a CSV has the same columns). '
    "Example: p3iv score predictions.jsonl --actions 105"
)


def score_command(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="Predictions, as JSON lines or CSV.")],
    actions: Annotated[
        str, typer.Option("--actions", metavar="N|FILE", help="The number of actions, or a file of their names.")
    ],
    references: Annotated[
        Path | None, file_option("--references", "Columns `window` and `reference`, if FILE has no references.")
    ] = None,
    batch_size: Annotated[int, number_option("--batch-size", "Windows per batch of the batch IoU.")] = 32,
    threads: Threads = 1,
    as_json: AsJson = False,
) -> None:
    """Score a file of predictions, made by any method.

    Computes every metric, also as released code computes it, with 95 % intervals for other videos.
    Where plans and references have several lengths, those that are defined for any length.
    """
    from p3iv.api.runs import score  # torch takes a second to import

    scores = score(file, actions, references=references, batch_size=batch_size, threads=threads)
    if as_json:
        print_json(scores.to_dict())
        return
    _print_scores(scores)
    more = () if references is None else ("--references", references)
    print_next("score", file, "--actions", actions, *more, "--batch-size", str(batch_size), "--json")


def _print_scores(scores: PredictionScores) -> None:
    videos = "" if scores.num_videos is None else f" of {counted(scores.num_videos, 'video')}"
    windows = counted(scores.num_windows, "window")
    out.print(f"{windows}{videos}, {counted(scores.num_actions, 'action')}")
    _print_group("plans", scores.plans)
    if scores.distribution is not None:
        _print_group("distribution of the samples", scores.distribution)
    if scores.released:
        _print_group("as released code computes it", scores.released)
        out.print(
            "as released code computes it: not comparable between vocabularies, orders of ids, or batch sizes "
            f"(here {counted(scores.batch_size, 'window')})",
        )
    for note in scores.notes:
        out.print(f"note: {note}")


def _print_group(title: str, intervals: Mapping[str, Interval]) -> None:
    rows = []
    for name, interval in intervals.items():
        metric = METRICS[name]
        ends = f"{metric.text(interval.low)} to {metric.text(interval.high)}" if interval.has_ends else UNDEFINED
        rows.append((metric.heading, metric.text(interval.value), ends))
    out.print()
    print_table((title, "score", "95 % interval"), rows)
