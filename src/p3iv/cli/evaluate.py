"""`p3iv evaluate` scores a trained planner and prints the result."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, cast

import typer

from p3iv.catalogue import (
    BASELINES,
    DECODERS,
    DEFAULT_MODE,
    DEFAULT_NUM_SAMPLES,
    METRICS,
    RETRIEVAL,
    Metric,
    metrics_of,
)
from p3iv.cli.console import out, print_json, print_next, print_note, print_table, progress
from p3iv.cli.options import (
    AsJson,
    Device,
    Ensemble,
    MovedDataset,
    RunDir,
    Samples,
    Threads,
    choice,
    mode_option,
    seed_option,
)
from p3iv.types import SIDES, Side, counted

if TYPE_CHECKING:
    from p3iv.evaluation.result import Evaluation, EvaluationFiles, Scores
    from p3iv.metrics.intervals import Interval

EXAMPLE = "Example: p3iv evaluate runs/first --samples 1500"


def evaluate_command(
    run: RunDir,
    data: MovedDataset = None,
    side: Annotated[str, choice("--side", SIDES, help="Which part of the split to score.")] = "test",
    samples: Samples = DEFAULT_NUM_SAMPLES,
    seed: Annotated[int, seed_option("the samples")] = 0,
    mode: Annotated[str, mode_option()] = DEFAULT_MODE,
    input_noise: Annotated[
        float, typer.Option("--input-noise", metavar="SIGMA", help="Noise on the observations in place of latents.")
    ] = 0.0,
    dropout: Annotated[
        float, typer.Option("--dropout", metavar="P", help="Dropout at inference in place of latents.")
    ] = 0.0,
    ensemble: Ensemble = None,
    device: Device = "auto",
    threads: Threads = 1,
    as_json: AsJson = False,
) -> None:
    """Score a trained planner with every decoder and metric.

    Scores have 95 % intervals for other videos, not for other seeds of the training. Writes evaluation.json,
    predictions.jsonl (which `p3iv score` reads) and actions.json into RUN; for another side, evaluation_val.json and so
    on.
    """
    from p3iv.api.runs import evaluate  # torch takes a second to import
    from p3iv.evaluation.evaluate import evaluation_files
    from p3iv.plans.draws import SampleSettings

    with progress() as show:
        found = evaluate(
            run,
            data=data,
            side=cast(Side, side),
            samples=samples,
            seed=seed,
            mode=mode,
            input_noise=input_noise,
            dropout=dropout,
            ensemble=ensemble or (),
            device=device,
            threads=threads,
            progress=show,
            on_note=print_note,
        )
    if as_json:
        print_json(found.to_dict())
    else:
        settings = SampleSettings(samples, seed, input_noise, dropout)
        show_evaluation(found, evaluation_files(run, cast(Side, side), settings, len(ensemble or ())))
        print_next("report", run) if side == "test" else print_next("evaluate", run)


def show_evaluation(found: Evaluation, files: EvaluationFiles) -> None:
    """Print the result as tables."""
    instead = {"input noise": found.samples.input_noise, "dropout": found.samples.dropout}
    variants = [f", {what} of {value:g} in place of latents" for what, value in instead.items() if value]
    out.print(
        f"{found.planner} on {found.data}: {counted(found.horizon, 'action')} to plan, {found.num_windows} "
        f"{found.side} windows of {counted(found.num_videos, 'video')}, {found.num_actions} actions, "
        f"{counted(found.samples.number, 'sample')}{''.join(variants)}",
    )
    out.print("with 95 % intervals for other videos, not for other seeds; * marks the recommended plan\n")
    _show_decoders(found)
    if found.truth is not None:
        out.print("ceiling: the most probable plan of the known truth; it bounds the expected success rate")
    versus = found.differences[RETRIEVAL]["success_rate"]
    difference = f"{_with_interval(METRICS['success_rate'], versus, sign=True)} points of success rate"
    if "success_rate" in found.equal.get(RETRIEVAL, ()):
        difference = "the same success rate in all windows"
    out.print(f"recommended plan - {BASELINES[RETRIEVAL]}: {difference}\n")
    _show_samples(found)
    out.print(
        f"\nexact: the chain's own probabilities, without samples. {files.evaluation.name} has the intervals, and "
        "under `released` the scores as released code computes them.",
    )
    out.print(f"-> {files.evaluation}, {files.predictions}")


def _show_decoders(found: Evaluation) -> None:
    ceiling = {} if found.truth is None else {"ceiling": found.truth.ceiling}
    metrics = [metric for metric in metrics_of("plans") if metric.name in found.plan_scores]
    rows = [
        [label, *(_with_interval(metric, scores[metric.name]) for metric in metrics)]
        for label, scores in (
            *((_decoder_label(name, found), scores) for name, scores in found.decoders.items()),
            *((BASELINES.get(name, name), scores) for name, scores in found.baselines.items()),
            *ceiling.items(),
        )
    ]
    print_table(["decoder", *(metric.heading for metric in metrics)], rows)


def _decoder_label(name: str, found: Evaluation) -> str:
    decoder = DECODERS[name]
    return f"{'  ' if decoder.ablation_of else ''}{decoder.label}{' *' if name == found.decoder else ''}"


def _show_samples(found: Evaluation) -> None:
    """One row per metric, one column per mode; with intervals it would not fit a terminal."""
    rows = []
    shown = [DEFAULT_MODE] if found.has_one_mode else list(found.modes)
    for metric in metrics_of("samples"):
        cells = [metric.text(found.modes[mode][metric.name].value) for mode in shown]
        rows.append([metric.heading, *cells, _exact(metric, found.distribution)])
    if found.truth is not None:
        for metric in metrics_of("samples"):
            if metric.name in found.truth.distribution:
                cells = [metric.text(found.truth.modes[mode][metric.name].value) for mode in shown]
                rows.append([f"{metric.label} to the truth", *cells, _exact(metric, found.truth.distribution)])
    print_table(["samples", *(["all modes"] if found.has_one_mode else shown), "exact"], rows)


def _exact(metric: Metric, scores: Scores) -> str:
    score = scores.get(f"exact_{metric.name}")
    return "" if score is None else metric.text(score.value)


def _with_interval(metric: Metric, score: Interval, *, sign: bool = False) -> str:
    return metric.interval_text(score.value, score.low, score.high, sign=sign)
