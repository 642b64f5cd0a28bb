"""`p3iv evaluate --follow`: print how well a planner follows whole videos."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from p3iv.catalogue import METRICS, explain_labels
from p3iv.cli.console import out, print_json, print_next, print_note, print_table, progress
from p3iv.errors import ConfigError
from p3iv.types import Side, counted

if TYPE_CHECKING:
    from p3iv.evaluation.following import MixScores

_METRICS = ("now_accuracy", "done_iou", "next_accuracy", "edit_score")


def refuse_with_follow(**given: Any) -> None:
    """Refuse options of the other evaluation.

    Raises:
        ConfigError: naming the option.
    """
    if used := [name for name, value in given.items() if value]:
        option = f"--{used[0].replace('_', '-')}"
        raise ConfigError(
            f"{option} is for the windows of an evaluation, and --follow scores whole videos: leave it out."
        )


def show_following(run: Path, data: Path | None, side: Side, *, device: str, threads: int, as_json: bool) -> None:
    """Follow the videos of a side, and print the scores."""
    from p3iv.api.following import evaluate_following
    from p3iv.evaluation.following import follow_file

    with progress() as show:
        found = evaluate_following(
            run, data=data, side=side, device=device, threads=threads, progress=show, on_note=print_note
        )
    if as_json:
        print_json(found.model_dump(mode="json"))
        return
    followed = counted(found.num_videos, f"{found.side} video")
    out.print(f"{found.data}: {followed} followed, asked at {counted(found.num_moments, 'moment')}")
    for mix in found.mixes:
        _show_mix(mix)
    out.print(f"\n{explain_labels(_METRICS)}. The plan of what is left has {found.num_left} steps.")
    out.print(f"-> {follow_file(run, side)}")
    print_next("follow", run, "VIDEO")


def _show_mix(mix: MixScores) -> None:
    told = " and the name of the procedure" if "procedure" in mix.evidence else ""
    headings = ("share of the video seen", *(f"{METRICS[name].label}, %" for name in _METRICS))
    rows = [
        (f"{part.low:.0%} to {part.high:.0%}", *(_cell(part.scores, name) for name in _METRICS)) for part in mix.shares
    ]
    rows.append(("all", *(_cell(mix.scores, name) for name in _METRICS)))
    rows.append(("every moment alone", *(_cell(mix.alone, name) for name in _METRICS)))
    rows.append(("following minus alone", *(_cell(mix.differences, name, sign=True) for name in _METRICS)))
    out.print()
    print_table(headings, rows, title=f"Told the video{told}")


def _cell(scores: Any, name: str, *, sign: bool = False) -> str:
    interval = scores.get(name)
    if interval is None:
        return ""
    return METRICS[name].interval_text(interval.value, interval.low, interval.high, sign=sign)
