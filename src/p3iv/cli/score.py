"""`p3iv score FILE --actions N|FILE`."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from p3iv.catalogue import METRICS, UNDEFINED
from p3iv.cli.console import out, print_json, print_table
from p3iv.types import counted

if TYPE_CHECKING:
    from p3iv.evaluation.scores import PredictionScores
    from p3iv.metrics.bootstrap import Interval

EXAMPLE = (
    'A line of FILE: {"window": "v1:0", "plan": [3, 5], "reference": [3, 4], '
    '"samples": [[[3, 5], 9], [[3, 4], 1]], "video": "v1"} (the last two are optional; a CSV has the same columns). '
    "Example: p3iv score predictions.jsonl --actions 105"
)


def score_command(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="Predictions: JSON lines, or a CSV.")],
    actions: Annotated[
        str, typer.Option("--actions", metavar="N|FILE", help="The number of actions, or a file of their names.")
    ],
    references: Annotated[
        Path | None, typer.Option("--references", metavar="FILE", help="`window` and `reference`, if not in FILE.")
    ] = None,
    batch_size: Annotated[int, typer.Option("--batch-size", min=1, help="Windows per set of the batch IoU.")] = 32,
    threads: Annotated[int, typer.Option("--threads", min=1, help="Threads that torch computes with.")] = 1,
    as_json: Annotated[bool, typer.Option("--json", help="Print the scores as JSON, shares from 0 to 1.")] = False,
) -> None:
    """Score anybody's predictions under every definition in use, with 95 % intervals by video."""
    from p3iv.evaluation.actions import read_actions

    known = read_actions(actions)
    import torch  # takes a second to import

    from p3iv.evaluation.predictions import read_predictions
    from p3iv.evaluation.scores import score

    torch.set_num_threads(threads)
    scores = score(read_predictions(file, known, references), known.number, batch_size=batch_size)
    if as_json:
        print_json(scores.to_dict())
    else:
        _print_scores(scores)


def _print_scores(scores: PredictionScores) -> None:
    videos = "" if scores.num_videos is None else f" of {counted(scores.num_videos, 'video')}"
    windows = counted(scores.num_windows, "window")
    out.print(f"{windows}{videos}, {counted(scores.num_actions, 'action')}", markup=False)
    _print_group("plans", scores.plans)
    if scores.distribution is not None:
        _print_group("distribution of the samples", scores.distribution)
    _print_group("as released code computes it", scores.released)
    out.print(
        "as released code computes it: not comparable between vocabularies, orders of ids, or batch sizes "
        f"(here {counted(scores.batch_size, 'window')})",
        markup=False,
    )
    for note in scores.notes:
        out.print(f"note: {note}", markup=False)


def _print_group(title: str, intervals: Mapping[str, Interval]) -> None:
    rows = []
    for name, interval in intervals.items():
        metric = METRICS[name]
        ends = f"{metric.text(interval.low)} to {metric.text(interval.high)}" if interval.has_ends else UNDEFINED
        rows.append((metric.heading, metric.text(interval.value), ends))
    out.print()
    print_table((title, "score", "95 % interval"), rows)
