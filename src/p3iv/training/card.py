"""The model card of a run: what it is, what it was trained on, how far it got, how to use it."""

from __future__ import annotations

from pathlib import Path

from p3iv.atomic import write_text
from p3iv.observations import PlanningData
from p3iv.training.builders import kind_of
from p3iv.training.checkpoint import Header


def write_card(run: Path, header: Header, data: PlanningData) -> None:
    """Write README.md into the run folder."""
    config, progress = header.config, header.progress
    best = progress.best
    scores = (
        f"success rate {100 * best.success_rate:.2f} %, mean accuracy {100 * best.mean_accuracy:.2f} %, "
        f"mean IoU {100 * best.mean_iou:.2f} % over {best.num_windows} validation windows"
        if best
        else "no epoch finished"
    )
    notes = "".join(f"- {note}\n" for note in data.notes)
    write_text(
        run / "README.md",
        f"""# {config.planner}, horizon {config.data.horizon}, on {header.data_label}

Given what is seen at the start and at the goal, predicts the {header.shape.horizon} actions in between,
out of {header.shape.num_actions}. Trained by p3iv (preset `{config.preset}`, seed {config.seed}, see `config.yaml`).

- data: {header.data_label}; {len(data.train)} training, {len(data.val)} validation, {len(data.test)} test windows;
  split `{config.data.split}`, split seed {config.data.split_seed}
- windows: {config.data.window}, protocol {config.data.protocol}
{notes}- {kind_of(config.planner).describe(config)}
- trained for {progress.epoch} epochs, {progress.cpu_s:.0f} CPU seconds
- best epoch {progress.best_epoch}: {scores}

The checkpoint was chosen on validation windows; test windows were not looked at. `checkpoints/best` holds the planner,
`checkpoints/last` what `p3iv train ... --resume` goes on from.
""",
    )
