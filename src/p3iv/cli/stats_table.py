"""How `p3iv data stats` shows what is in a dataset."""

from __future__ import annotations

from typing import TYPE_CHECKING

from p3iv.cli.console import out, print_table
from p3iv.types import SIDES, counted

if TYPE_CHECKING:
    from p3iv.data.stats import DatasetStats, HorizonStats


def print_stats(stats: DatasetStats) -> None:
    """Counts, the split, a table with a row per horizon, and notes."""
    out.print(stats.label, style="bold", markup=False)
    spread = stats.steps_per_video
    out.print(
        f"{counted(stats.videos, 'video')}, {counted(stats.tasks, 'task')}, {counted(stats.actions, 'action')} "
        f"({stats.actions_seen} seen), {counted(stats.steps, 'step')}: {spread['mean']:.1f} per video "
        f"({spread['min']:.0f} to {spread['max']:.0f}), "
        f"{100 * stats.repeated_next_share:.1f} % repeat the step before them",
        markup=False,
    )
    if stats.untimed:
        by_length = ", ".join(f"{number} of {length} steps" for length, number in stats.untimed.items())
        out.print(f"without times: {by_length}; each is one window, its whole list, at the horizon of its length")
    if stats.features:
        shown = stats.features
        out.print(f"features: {shown['rows']} rows of {shown['width']} as {shown['dtype']} in {shown['videos']} videos")
    sides = ", ".join(f"{side} {count}" for side, count in stats.videos_by_side.items())
    out.print(f"split: {stats.split}" + (f" (videos: {sides})" if sides else ""), markup=False)
    out.print()
    headers = ("horizon", "windows", *SIDES, "repeats", "plans/pair", "plans/window")
    print_table(headers, [_stats_row(horizon, of) for horizon, of in stats.horizons.items()])
    if any(of.num_actions != horizon for horizon, of in stats.horizons.items()):
        fewer = ", ".join(f"{of.num_actions} at T={horizon}" for horizon, of in stats.horizons.items())
        out.print(f"actions that are predicted: {fewer}", style="dim")
    out.print("repeats: windows in which an action occurs twice", style="dim")
    out.print(
        "plans: unique ones that share first and last action, mean over distinct pairs and over windows", style="dim"
    )
    for note in stats.notes:
        out.print(f"note: {note}", markup=False)


def _stats_row(horizon: int, of: HorizonStats) -> tuple[str, ...]:
    return (
        f"T={horizon}",
        f"{of.windows:,}",
        *(f"{of.by_side[side]:,}" if of.by_side else "-" for side in SIDES),
        f"{100 * of.repeated_action_share:.1f} %",
        f"{of.plans_per_pair:.2f}",
        f"{of.plans_per_window:.2f}",
    )
