"""`p3iv follow` goes through a video and prints what was done, what is under way and what is left."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from p3iv.cli.conditions import At, Before, Done, First, Including, Last, Without, read_conditions
from p3iv.cli.console import out, print_json, print_note
from p3iv.cli.options import (
    AllowDownload,
    AnyPlanner,
    AsJson,
    Device,
    Goal,
    GoalText,
    MovedDataset,
    PlannerBackend,
    PlannerEncoder,
    PlannerWeights,
    Procedure,
    Threads,
    number_option,
    use_threads,
)
from p3iv.errors import ConfigError

if TYPE_CHECKING:
    from p3iv.plans.following import FollowedMoment

EXAMPLE = 'Example: p3iv follow runs/mine kitchen.mp4 --goal-text "a Greek salad"'
STANDARD_INPUT = "-"
VIDEO_HELP = (
    "The video: a file, a video of the dataset, or - for standard input: JPEG pictures, one per second, or a video "
    "that can be read from its beginning (Matroska, MPEG-TS, fragmented MP4)."
)


def follow_command(
    run: AnyPlanner,
    video: Annotated[str, typer.Argument(metavar="VIDEO|-", help=VIDEO_HELP, show_default=False)],
    goal: Goal = None,
    goal_text: GoalText = None,
    procedure: Procedure = None,
    horizon: Annotated[
        int | None,
        typer.Option(
            "--horizon",
            metavar="T",
            min=1,
            help="The number of steps that are left; without it, any that the planner knows, or 3 without a goal.",
        ),
    ] = None,
    without: Without = None,
    including: Including = None,
    first: First = None,
    last: Last = None,
    at: At = None,
    before: Before = None,
    done: Done = None,
    every: Annotated[
        int | None, number_option("--every", "Print every N seconds; without it, when something changes.")
    ] = None,
    data: MovedDataset = None,
    encoder: PlannerEncoder = None,
    weights: PlannerWeights = None,
    allow_download: AllowDownload = False,
    backend: PlannerBackend = None,
    device: Device = "auto",
    threads: Threads = 1,
    as_json: AsJson = False,
) -> None:
    """Follow a video: what was probably done, what is under way, what is left.

    Goes through the video second by second and plans what is left again. Needs a planner of `p3iv train --horizon 1-6`
    that was trained on videos with times of their steps. With --json, every second is one line. A second is known when
    the next one has arrived.
    """
    from p3iv.moments import EncoderChoice
    from p3iv.planner import Planner

    conditions = read_conditions(
        without=without, including=including, first=first, last=last, at=at, before=before, done=done
    )
    if data is not None and not data.is_dir():
        raise ConfigError(f"--data {data}, but there is no such folder.")
    use_threads(threads)
    chosen = EncoderChoice(encoder, weights, allow_download)
    planner = Planner.from_pretrained(
        run, device=device, backend=backend, data=data, encoder=chosen, on_note=print_note
    )
    source = sys.stdin.buffer if video == STANDARD_INPUT else Path(video)
    moments = planner.follow(
        source, goal, goal_text=goal_text, procedure=procedure, horizon=horizon, conditions=conditions
    )
    previous: FollowedMoment | None = None
    for moment in moments:
        if as_json:
            print_json(moment.to_dict(), in_one_line=True)
            continue
        if previous is None and moment.left.understood:
            out.print("\n".join(moment.left.understood))
        is_due = moment.second % every == 0 if every else previous is None or _has_changed(previous, moment)
        if is_due:
            out.print(moment.to_text(previous))
            previous = moment
    if not as_json and previous is not None:
        out.print(f"\n{previous.to_summary()}")


def _has_changed(previous: FollowedMoment, moment: FollowedMoment) -> bool:
    """Whether another step is under way, or another one was done."""
    steps = ({one.step for one in each.done} for each in (previous, moment))
    return previous.now[0][0] != moment.now[0][0] or len(set(map(frozenset, steps))) > 1
