"""`p3iv plan RUN --start A --goal B`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from p3iv.cli.choices import ModeName
from p3iv.cli.console import out
from p3iv.files import write_text

if TYPE_CHECKING:
    from p3iv.plans.distribution import PlanDistribution

EXAMPLE = "Example: p3iv plan runs/mine --start kitchen.mp4@12.5 --goal kitchen.mp4@71 --svg plan.svg"


def plan_command(
    run: Annotated[Path, typer.Argument(metavar="RUN", help="A run folder of `p3iv train`.")],
    start: Annotated[
        str, typer.Option("--start", metavar="MOMENT", help="clip.mp4@12.5, a picture, a .npy, or VIDEO@SECONDS.")
    ],
    goal: Annotated[
        str, typer.Option("--goal", metavar="MOMENT", help="clip.mp4@12.5, a picture, a .npy, or VIDEO@SECONDS.")
    ],
    data: Annotated[
        Path | None, typer.Option("--data", metavar="DIR", help="The dataset folder, where it has moved.")
    ] = None,
    samples: Annotated[int, typer.Option("--samples", help="K, the number of plans to draw.")] = 1500,
    seed: Annotated[int, typer.Option("--seed", min=0, help="The same seed draws the same plans.")] = 0,
    mode: Annotated[ModeName, typer.Option("--mode", help="How the plans are drawn.")] = ModeName.argmax,
    top: Annotated[int, typer.Option("--top", min=1, help="How many plans to print.")] = 5,
    ensemble: Annotated[
        list[Path] | None,
        typer.Option("--ensemble", metavar="RUN", help="Average with this run too; may be given several times."),
    ] = None,
    device: Annotated[str, typer.Option("--device", help="auto, cpu, cuda or mps.")] = "auto",
    threads: Annotated[int, typer.Option("--threads", min=1, help="Threads that torch computes with.")] = 1,
    svg: Annotated[
        Path | None, typer.Option("--svg", metavar="FILE", help="Draw the plans that were drawn, as one graph.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print the whole distribution as JSON.")] = False,
) -> None:
    """Plan between two moments: the plan to follow, and the alternatives with their probabilities."""
    import torch  # takes a second to import

    from p3iv.planner import (
        MomentReader,
        Planner,
        needs_dataset,
    )
    from p3iv.report.plan_picture import draw_distribution
    from p3iv.training.run_folder import dataset_of

    torch.set_num_threads(threads)
    planner = Planner.from_pretrained(run, device=device, ensemble=ensemble or ())
    dataset = dataset_of(run, data) if needs_dataset(start) or needs_dataset(goal) else None
    header = planner.trained.header
    reader = MomentReader(header.encoder, header.config.data.observation, dataset)
    ends = (reader.read(text) for text in (start, goal))
    distribution = planner.plan(*ends, num_samples=samples, seed=seed, mode=mode.value)
    if svg is not None:
        write_text(svg, draw_distribution(distribution))
    if as_json:
        typer.echo(distribution.to_json())
    else:
        show_plans(distribution, top)


def show_plans(distribution: PlanDistribution, top: int) -> None:
    """Print the plan to follow and the most frequent of those that were drawn."""
    share = dict(zip(distribution.plans, distribution.probabilities, strict=True)).get(distribution.decoded, 0.0)
    chain = f"{100 * distribution.decoded_probability:.0f} % under the chain that decodes"
    out.print(f"plan ({chain}, {100 * share:.1f} % of the draws):")
    for number, step in enumerate(distribution.words(distribution.decoded), start=1):
        out.print(f"  {number}. {step}", markup=False)
    number = len(distribution.plans)
    out.print(f"\n{number} distinct plan{'s' * (number > 1)} in {distribution.num_samples} draws, by their share:")
    for steps, probability in distribution.top(top):
        out.print(f"  {100 * probability:5.1f} %  {' -> '.join(steps)}", markup=False)
    if number > top:
        rest = 1 - sum(distribution.probabilities[:top])
        out.print(f"  {100 * rest:5.1f} %  {number - top} more")
