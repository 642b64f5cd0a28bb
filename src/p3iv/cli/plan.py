"""`p3iv plan` plans between two moments and prints the plans."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from p3iv.catalogue import DEFAULT_MODE, DEFAULT_NUM_SAMPLES, MOMENT_FORMS
from p3iv.cli.console import out, print_json
from p3iv.cli.options import (
    AsJson,
    Device,
    Ensemble,
    Mode,
    MovedDataset,
    RunDir,
    Samples,
    Threads,
    file_option,
    number_option,
    seed_option,
)
from p3iv.files import write_text
from p3iv.types import counted

if TYPE_CHECKING:
    from p3iv.plans.distribution import PlanDistribution

EXAMPLE = "Example: p3iv plan runs/mine --start kitchen.mp4@12.5 --goal kitchen.mp4@71 --svg plan.svg"
MOMENT_HELP = f"{MOMENT_FORMS}."


def plan_command(
    run: RunDir,
    start: Annotated[str, typer.Option("--start", metavar="MOMENT", help=MOMENT_HELP)],
    goal: Annotated[str, typer.Option("--goal", metavar="MOMENT", help=MOMENT_HELP)],
    data: MovedDataset = None,
    samples: Samples = DEFAULT_NUM_SAMPLES,
    seed: Annotated[int, seed_option("The same seed samples the same plans.")] = 0,
    mode: Mode = DEFAULT_MODE,
    top: Annotated[int, number_option("--top", "Number of sampled plans to print.")] = 5,
    ensemble: Ensemble = None,
    device: Device = "auto",
    threads: Threads = 1,
    svg: Annotated[Path | None, file_option("--svg", "Draw the sampled plans as one graph.")] = None,
    as_json: AsJson = False,
) -> None:
    """Plan the steps between two moments.

    Prints the recommended plan and the most frequent sampled plans, with their share of the samples.
    """
    import torch  # takes a second to import

    from p3iv.planner import Planner

    torch.set_num_threads(threads)
    planner = Planner.from_pretrained(run, device=device, ensemble=ensemble or (), data=data)
    distribution = planner.plan(start, goal, num_samples=samples, seed=seed, mode=mode)
    if svg is not None:
        from p3iv.report.write import draw_distribution

        write_text(svg, draw_distribution(distribution))
    if as_json:
        print_json(distribution.to_dict())
    else:
        show_plans(distribution, top)


def show_plans(distribution: PlanDistribution, top: int) -> None:
    """Print the recommended plan and the most frequent sampled plans."""
    samples, share = distribution.num_samples, distribution.share_of(distribution.plan)
    percent = f"{100 * distribution.plan_probability:.0f}" if distribution.plan_probability >= 0.01 else "below 1"
    out.print(f"plan (probability {percent} %; {100 * share:.1f} % of {counted(samples, 'sample')}):")
    for number, step in enumerate(distribution.words(distribution.plan), start=1):
        out.print(f"  {number}. {step}", markup=False)
    number = len(distribution.plans)
    out.print(f"\n{counted(number, 'distinct plan')} in {counted(samples, 'sample')}, the most frequent:")
    for steps, share in distribution.top(top):
        out.print(f"  {100 * share:5.1f} %  {' -> '.join(steps)}", markup=False)
    if number > top:
        rest = 1 - sum(distribution.shares[:top])
        out.print(f"  {100 * rest:5.1f} %  {number - top} more")
