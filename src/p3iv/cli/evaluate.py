"""`p3iv evaluate RUN`."""

from __future__ import annotations

import math
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from p3iv.cli.choices import ModeName, SideName
from p3iv.cli.console import err, out, print_json, print_table, progress
from p3iv.types import counted

if TYPE_CHECKING:
    from p3iv.evaluation.result import Evaluation
    from p3iv.metrics.bootstrap import Interval

EXAMPLE = "Example: p3iv evaluate runs/first --samples 1500"


def evaluate_command(
    run: Annotated[Path, typer.Argument(metavar="RUN", help="A run folder of `p3iv train`.")],
    data: Annotated[
        Path | None, typer.Option("--data", metavar="DIR", help="The dataset folder, where it has moved.")
    ] = None,
    split: Annotated[SideName, typer.Option("--split", help="Which windows to score.")] = SideName.test,
    samples: Annotated[int, typer.Option("--samples", help="K, plans drawn per window.")] = 1500,
    seed: Annotated[int, typer.Option("--seed", min=0, help="Of the draws.")] = 0,
    mode: Annotated[
        ModeName, typer.Option("--mode", help="Which samples the main figures and predictions.jsonl hold.")
    ] = ModeName.argmax,
    input_noise: Annotated[
        float, typer.Option("--input-noise", metavar="SIGMA", help="Noise on the observations in place of latents.")
    ] = 0.0,
    dropout: Annotated[
        float, typer.Option("--dropout", metavar="P", help="Dropout at inference in place of latents.")
    ] = 0.0,
    ensemble: Annotated[
        list[Path] | None,
        typer.Option("--ensemble", metavar="RUN", help="Average with this run too; may be given several times."),
    ] = None,
    device: Annotated[str, typer.Option("--device", help="auto, cpu, cuda or mps.")] = "auto",
    threads: Annotated[int, typer.Option("--threads", min=1, help="Threads that torch computes with.")] = 1,
    as_json: Annotated[bool, typer.Option("--json", help="Print the result as JSON.")] = False,
) -> None:
    """Score the best planner of a run: every decoder, every metric, with intervals by video.

    Writes evaluation.json, predictions.jsonl (which `p3iv score` reads) and actions.json into RUN; for another split,
    evaluation_val.json and so on.
    """
    import torch  # takes a second to import

    from p3iv.evaluation.evaluate import (
        EvaluationRequest,
        evaluate,
        evaluation_files,
    )
    from p3iv.plans.draws import SampleSettings

    torch.set_num_threads(threads)
    settings = SampleSettings(num_samples=samples, seed=seed, input_noise=input_noise, dropout=dropout)
    with progress("evaluating windows") as show:
        found = evaluate(
            EvaluationRequest(
                run=run,
                data=data,
                split=split.value,
                settings=settings,
                mode=mode.value,
                device=device,
                ensemble=tuple(ensemble or ()),
                on_progress=show,
                on_note=lambda note: err.print(f"note: {note}", markup=False),
            )
        )
    if as_json:
        print_json(found.to_dict())
    else:
        show_evaluation(found, *evaluation_files(run, split.value, settings, len(ensemble or ()))[:2])


def show_evaluation(found: Evaluation, results: Path, predictions: Path) -> None:
    """Print what was found as tables."""
    aside = {"input_noise": "input noise of", "dropout": "dropout of"}
    instead = [
        f", {what} {found.samples[name]:g} in place of latents" for name, what in aside.items() if found.samples[name]
    ]
    out.print(
        f"{found.planner} on {found.data}: {counted(found.horizon, 'action')} to plan, {found.num_windows} "
        f"{found.split} windows of {counted(found.num_videos, 'video')}, {found.num_actions} actions, "
        f"{counted(found.samples['number'], 'sample')}{''.join(instead)}",
        markup=False,
    )
    out.print("per cent, with 95 % intervals resampled by video\n")
    rows = [*found.decoders.items(), *found.baselines.items()]
    if found.truth is not None:
        rows.append(("ceiling", found.truth["ceiling"]))
    names = ("success_rate", "mean_accuracy", "mean_iou")
    cells = [[_DECODERS.get(label, label), *(_percent(scores[name]) for name in names)] for label, scores in rows]
    print_table(["decoder", "success rate", "mean accuracy", "mean IoU"], cells)
    if found.truth is not None:
        out.print("ceiling: the most probable plan of the known truth; it bounds the expected success rate")
    versus = found.differences["retrieval"]["success_rate"]
    out.print(f"{found.decoder} - retrieval: {_percent(versus, sign='+')} points of success rate\n", markup=False)
    _show_samples(found)
    out.print("\nKL and NLL in nats; exact: the chain that viterbi decodes, without samples. evaluation.json has the")
    out.print("intervals, and under `published` the scores as released code computes them.")
    out.print(f"-> {results}, {predictions}", markup=False)


def _show_samples(found: Evaluation) -> None:
    """One row per metric, one column per mode; with intervals it would not fit a terminal."""
    exact = found.distribution
    rows = []
    for name, (label, text) in _METRICS.items():
        cells = [text(scores[name]) for scores in found.modes.values()]
        rows.append([label, *cells, text(exact[f"exact_{name}"]) if f"exact_{name}" in exact else ""])
    if found.truth is not None:
        for name in ("kl", "nll"):
            cells = [_number(scores[name]) for scores in found.truth["modes"].values()]
            rows.append([f"{name.upper()} to the truth", *cells, _number(found.truth[f"exact_{name}"])])
    print_table(["samples", *found.modes, "exact"], rows)


def _percent(score: Interval, sign: str = "") -> str:
    value, low, high = (f"{100 * end:{sign}.1f}" for end in (score.value, score.low, score.high))
    return value if math.isnan(score.low) else f"{value} [{low}, {high}]"  # one video alone has no interval


def _number(score: Interval) -> str:
    return "-" if math.isnan(score.value) else f"{score.value:.2f}"


def _share(score: Interval) -> str:
    return "-" if math.isnan(score.value) else f"{100 * score.value:.1f}"


_DECODERS = {
    "own": "its own plan",
    "viterbi_paper": "viterbi, the paper's",
    "viterbi_paper_uniform_emissions": "  uniform emissions",
    "viterbi_paper_uniform_transitions": "  uniform transitions",
    "mode": "mode of the samples",
    "argmax": "argmax per position",
}
_METRICS = {
    "kl": ("KL", _number),
    "nll": ("NLL", _number),
    "mode_precision": ("mode precision, %", _share),
    "mode_recall": ("mode recall, %", _share),
    "cosine_distance": ("cosine distance, %", _share),
    "distinct_plans": ("distinct plans", _number),
}
