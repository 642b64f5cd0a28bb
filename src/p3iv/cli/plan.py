"""`p3iv plan` plans between two moments, or between the moments of many pairs, and prints the plans."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from p3iv.catalogue import DEFAULT_NUM_SAMPLES, MAX_PLANS, MOMENT_FORMS
from p3iv.cli.conditions import At, Before, Done, First, Including, Last, Without, read_conditions
from p3iv.cli.console import err, out, print_json, print_next, print_note
from p3iv.cli.options import (
    AllowDownload,
    AnyPlanner,
    AsJson,
    Device,
    Ensemble,
    Goal,
    GoalText,
    History,
    MovedDataset,
    PlannerBackend,
    PlannerEncoder,
    PlannerWeights,
    Procedure,
    Threads,
    file_option,
    mode_option,
    number_option,
    samples_option,
    seed_option,
    use_threads,
)
from p3iv.errors import ConfigError, P3ivError
from p3iv.shipped import shipped_clips, shipped_planner
from p3iv.types import counted

if TYPE_CHECKING:
    from p3iv.cli.pairs import Pair
    from p3iv.plans.distribution import PlanDistribution

EXAMPLE = "Example: p3iv plan runs/mine --start kitchen.mp4@12.5 --goal kitchen.mp4@71 --svg plan.svg"
MOMENT_HELP = f"{MOMENT_FORMS}."
PAIRS_HELP = (
    "Many pairs instead of --start and --goal: a CSV with the columns start, goal and, if you like, id and others; "
    "- is standard input, each line of which is answered when it is read."
)
SAMPLES_HELP = (
    ", too. The plans and probabilities of all planners but P3IV+ are then computed from N latents or "
    f"samples instead of {DEFAULT_NUM_SAMPLES}"
)

PlanPair = Callable[[str, str | None], "PlanDistribution"]


def plan_command(
    run: AnyPlanner,
    start: Annotated[str | None, typer.Option("--start", metavar="MOMENT", help=MOMENT_HELP)] = None,
    goal: Goal = None,
    goal_text: GoalText = None,
    procedure: Procedure = None,
    history: History = "on",
    horizon: Annotated[
        int | None,
        typer.Option(
            "--horizon", metavar="T", min=1, help="The number of steps; without it, any that the planner knows."
        ),
    ] = None,
    without: Without = None,
    including: Including = None,
    first: First = None,
    last: Last = None,
    at: At = None,
    before: Before = None,
    done: Done = None,
    pairs: Annotated[str | None, typer.Option("--pairs", metavar="FILE|-", help=PAIRS_HELP)] = None,
    data: MovedDataset = None,
    top: Annotated[int, number_option("--top", "Number of plans to print.", max=MAX_PLANS)] = 5,
    samples: Annotated[int | None, samples_option(SAMPLES_HELP)] = None,
    mode: Annotated[str | None, mode_option(" Without it: chain; categorical if it has none.")] = None,
    seed: Annotated[int, seed_option("samples, and of P3IV's latents")] = 0,
    ensemble: Ensemble = None,
    encoder: PlannerEncoder = None,
    weights: PlannerWeights = None,
    allow_download: AllowDownload = False,
    backend: PlannerBackend = None,
    device: Device = "auto",
    threads: Threads = 1,
    why: Annotated[
        bool, typer.Option("--why", help="Say what speaks for each plan, and what would change it.")
    ] = False,
    svg: Annotated[Path | None, file_option("--svg", "Draw the plans as one graph, or with --why the reasons.")] = None,
    as_json: AsJson = False,
) -> None:
    """Plan the steps between two moments, or for many pairs of moments.

    Prints the recommended plan and the most probable alternatives. Their probabilities are exact under the chain that
    chooses the plan; for planners without a chain (most baselines) they are shares of samples. With --pairs, a pair
    without a plan does not stop the others: it is listed at the end, and the exit code is 1; with --json, each pair is
    one line.
    """
    from p3iv.moments import EncoderChoice
    from p3iv.planner import NUM_PLANS, Planner

    has_goal = any(each is not None for each in (goal, goal_text, procedure))
    if pairs is None and start is None:
        start, goal = _example_of(run, goal, has_goal=has_goal)
    conditions = read_conditions(
        without=without, including=including, first=first, last=last, at=at, before=before, done=done
    )
    if mode is not None and samples is None:
        raise ConfigError(f"--mode {mode} says how plans are sampled: pass --samples N, too.")
    if data is not None and not data.is_dir():
        raise ConfigError(f"--data {data}, but there is no such folder.")
    chosen = EncoderChoice(encoder, weights, allow_download)
    _check_moments(start, goal, pairs, svg, has_encoder=chosen != EncoderChoice())
    use_threads(threads)
    planner = Planner.from_pretrained(
        run, device=device, backend=backend, ensemble=ensemble or (), data=data, encoder=chosen, on_note=print_note
    )

    def plan(start: str, goal: str | None) -> PlanDistribution:
        return planner.plan(
            start,
            goal,
            goal_text=goal_text,
            procedure=procedure,
            history=history == "on",
            horizon=horizon,
            conditions=conditions,
            number=max(top, NUM_PLANS),
            num_samples=samples,
            seed=seed,
            mode=mode,
            why=why,
        )

    if pairs is not None:
        _plan_pairs(pairs, plan, top, as_json=as_json)
    elif start is not None:
        _show_one(plan(start, goal), top, svg, as_json=as_json)


def _check_moments(
    start: str | None, goal: str | None, pairs: str | None, svg: Path | None, *, has_encoder: bool
) -> None:
    """Refuse options that exclude each other, before the planner is loaded."""
    from p3iv.moments import needs_encoder

    if pairs is not None and (start is not None or goal is not None):
        raise ConfigError("--pairs names both moments of every pair: leave --start and --goal out.")
    if pairs is not None and svg is not None:
        raise ConfigError(f"--svg {svg} draws the plans of one pair: pass --start and --goal instead of --pairs.")
    if svg is not None and svg.suffix.lower() != ".svg":
        raise ConfigError(f"--svg {svg}, but it must end in .svg.")
    moments = [moment for moment in (start, goal) if moment is not None]
    if has_encoder and moments and not any(map(needs_encoder, moments)):
        raise ConfigError(
            "--encoder, --weights and --allow-download are for moments of video files and pictures, but these are "
            "features already: leave the option out."
        )


def _show_one(plans: PlanDistribution, top: int, svg: Path | None, *, as_json: bool) -> None:
    if svg is not None:
        from p3iv.files import write_text

        write_text(svg, plans.reasons[0].to_svg() if plans.reasons else plans.to_svg())
    if as_json:
        print_json(plans.to_dict())
        return
    out.print(plans.to_text(top))
    if svg is not None:
        out.print(f"\n-> {svg}")
    print_next(*sys.argv[1:], *(("--svg", "plan.svg") if svg is None else ("--json",)))


def _plan_pairs(source: str, plan: PlanPair, top: int, *, as_json: bool) -> None:
    """Answer each pair as soon as it is read; those without a plan are listed at the end."""
    from p3iv.cli.pairs import open_pairs
    from p3iv.validation import ProblemLog

    log, number = ProblemLog(), 0
    with open_pairs(source) as found:
        for pair in found:
            number += 1
            if fault := _answer(pair, plan, top, as_json=as_json):
                log.add(pair.where, fault.rstrip("."), "no plan")
    for problem in log.problems:
        err.print(f"problem: {problem}")
    if not number:
        raise ConfigError(f"--pairs {source}, but there is no pair after the header.")
    if log.total:
        err.print(f"{log.total} of {counted(number, 'pair')} without a plan")
        raise typer.Exit(1)
    if not as_json:
        print_next(*sys.argv[1:], "--json")


def _answer(pair: Pair, plan: PlanPair, top: int, *, as_json: bool) -> str:
    """Print the plans of a pair; returns what is wrong with it, or an empty text."""
    plans, fault = None, pair.fault
    try:
        plans = None if fault else plan(pair.start, pair.goal)
    except (P3ivError, OSError) as error:
        fault = str(error)
    if as_json:
        more: dict[str, Any] = {"columns": dict(pair.columns)} if pair.columns else {}
        result = {"error": fault} if plans is None else plans.to_dict()
        print_json({"id": pair.id, "start": pair.start, "goal": pair.goal, **more, **result}, in_one_line=True)
        return fault
    further = "".join(f", {name} {cell}" for name, cell in pair.columns.items())
    out.print(f"pair {pair.id}{further}: {pair.start} -> {pair.goal}", style="bold")
    if plans is None:
        out.print(f"no plan: {fault}\n")
    else:
        out.print(f"{plans.to_text(top)}\n")
    return fault


def _example_of(run: Path, goal: str | None, *, has_goal: bool) -> tuple[str, str | None]:
    """The moments of the example of a planner that comes with p3iv, if the user gave none."""
    if goal or not shipped_planner(run):
        raise ConfigError("Pass --start MOMENT and --goal MOMENT, or --pairs FILE.csv for many pairs.")
    example = shipped_clips(str(run))[0]
    print_note(f"an example: {example.command}")
    return example.start, None if has_goal else example.goal
