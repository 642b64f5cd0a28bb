"""`p3iv evaluate` scores a trained planner and prints the result."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, cast

import typer

from p3iv.catalogue import (
    BASELINES,
    DECODERS,
    DEFAULT_MODE,
    DEFAULT_NUM_SAMPLES,
    METRICS,
    MIXES,
    PICTURES,
    RETRIEVAL,
    UNKNOWN_LENGTH_SAMPLES,
    Metric,
    length_metrics,
    metrics_of,
)
from p3iv.cli.console import out, print_json, print_next, print_note, print_table, progress
from p3iv.cli.few_videos import show_cross_validation
from p3iv.cli.follow_scores import refuse_with_follow, show_following
from p3iv.cli.options import (
    AsJson,
    Device,
    Ensemble,
    MovedDataset,
    RunDir,
    Threads,
    choice,
    list_option,
    mode_option,
    samples_option,
    seed_option,
    split_at_commas,
)
from p3iv.types import SIDES, Side, counted, counted_range

if TYPE_CHECKING:
    from p3iv.evaluation.result import Evaluation, EvaluationFiles, EvidenceScores, LengthScores, Scores
    from p3iv.metrics.intervals import Interval

EVIDENCE = tuple(dict.fromkeys(piece for mix in MIXES for piece in mix))
EXAMPLE = "Example: p3iv evaluate runs/first --samples 1500"
_SLICE_METRICS = ("success_rate", "mean_accuracy", "mean_iou", "exact_nll")


def evaluate_command(
    run: RunDir,
    data: MovedDataset = None,
    side: Annotated[str, choice("--side", SIDES, help="Which part of the split to score.")] = "test",
    horizon: Annotated[
        int | None,
        typer.Option(
            "--horizon",
            metavar="T",
            min=1,
            help="The number of steps: score the windows of this length only, as for a planner of one length.",
        ),
    ] = None,
    evidence: Annotated[
        str,
        list_option(
            "--evidence",
            "NAME",
            "What a planner for several lengths is told: start, goal, history (the video before), words (the name of "
            "the last step), procedure.",
            names=EVIDENCE,
        ),
    ] = ",".join(PICTURES),
    samples: Annotated[
        int | None,
        samples_option(
            f"; without it, {DEFAULT_NUM_SAMPLES}, or {UNKNOWN_LENGTH_SAMPLES} where the number of steps is unknown"
        ),
    ] = None,
    seed: Annotated[int, seed_option("the samples")] = 0,
    mode: Annotated[str, mode_option()] = DEFAULT_MODE,
    input_noise: Annotated[
        float, typer.Option("--input-noise", metavar="SIGMA", help="Noise on the observations in place of latents.")
    ] = 0.0,
    dropout: Annotated[
        float, typer.Option("--dropout", metavar="P", help="Dropout at inference in place of latents.")
    ] = 0.0,
    ensemble: Ensemble = None,
    follow: Annotated[
        bool, typer.Option("--follow", help="Score how it follows whole videos instead; only with --data and --side.")
    ] = False,
    device: Device = "auto",
    threads: Threads = 1,
    as_json: AsJson = False,
) -> None:
    """Score a trained planner with every decoder and metric.

    Scores have 95 % intervals for other videos, not for other seeds of the training. Writes evaluation.json,
    predictions.jsonl (which `p3iv score` reads) and actions.json into RUN; for another side, evaluation_val.json and so
    on. A planner for several lengths is scored with the number of steps unknown and, for every length, with the number
    known; a table shows both for all that it can be told.
    """
    if follow:
        refuse_with_follow(
            horizon=horizon, samples=samples, ensemble=ensemble, input_noise=input_noise, dropout=dropout
        )
        show_following(run, data, cast(Side, side), device=device, threads=threads, as_json=as_json)
        return
    from p3iv.api.runs import evaluate  # torch takes a second to import
    from p3iv.evaluation.cross_validated import find_only_scores

    if data is None and side == "test" and (validated := find_only_scores(run)) is not None:
        print_note(f"{run} was fitted to all videos, so there is no test side; these are its cross-validated scores")
        print_json(validated.to_dict()) if as_json else show_cross_validation(validated)
        return
    with progress() as show:
        found = evaluate(
            run,
            data=data,
            side=cast(Side, side),
            horizon=horizon,
            evidence=split_at_commas(evidence),
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
        files = _files_of(run, found, horizon, len(ensemble or ()))
        show_lengths(found, files) if found.lengths else show_evaluation(found, files)
        print_next("report", run) if files.evaluation.name == "evaluation.json" else print_next("evaluate", run)


def _files_of(run: Path, found: Evaluation, horizon: int | None, num_others: int) -> EvaluationFiles:
    """Where an evaluation was written."""
    from p3iv.evaluation.evaluate import evaluation_files
    from p3iv.planners.header import BEST, read_header
    from p3iv.plans.draws import SampleSettings

    sampling, has_lengths = found.samples, read_header(run / BEST).config.data.has_lengths
    settings = SampleSettings(sampling.number, sampling.seed, sampling.input_noise, sampling.dropout)
    known = horizon if has_lengths else None
    return evaluation_files(run, found.side, settings, num_others, horizon=known, evidence=found.evidence)


def show_lengths(found: Evaluation, files: EvaluationFiles) -> None:
    """Print the result for plans of unknown length as tables."""
    lengths = found.lengths
    if lengths is None:
        return
    out.print(
        f"{found.planner} on {found.data}: plans of {counted_range(lengths.horizons, 'step')}, "
        f"{found.num_windows} {found.side} windows of {counted(found.num_videos, 'video')}, {found.num_actions} "
        f"actions, {counted(found.samples.number, 'sample')}",
    )
    out.print("with 95 % intervals for other videos, not for other seeds\n")
    _show_unknown(found, lengths)
    _show_slices(lengths.evidence[0])
    if len(lengths.evidence) > 1:
        _show_mixes(lengths)
    if found.truth is not None:
        kl = METRICS["exact_kl"]
        value = _with_interval(kl, found.truth.distribution["exact_kl"])
        out.print(f"KL to the truth, number of steps unknown: {value} nats")
    out.print(f"-> {files.evaluation}, {files.predictions}")


def _show_unknown(found: Evaluation, lengths: LengthScores) -> None:
    """One row per metric: this planner, always the most frequent length, the difference, the best of the truth."""
    own, often = lengths.evidence[0], counted(lengths.most_frequent, "step")
    ceiling = [] if found.truth is None else [found.truth.ceiling]
    rows = [
        [
            f"{metric.label}, {metric.unit}",
            _with_interval(metric, own.unknown[metric.name]),
            metric.text(own.frequent_length[metric.name].value),
            _with_interval(metric, own.differences[metric.name], sign=True),
            *(metric.text(best[metric.name].value) if metric.name in best else "" for best in ceiling),
        ]
        for metric in length_metrics()
    ]
    out.print(f"told: {', '.join(found.evidence)}; the number of steps is unknown")
    print_table(["", "planner", f"always {often}", "difference", *("ceiling" for _ in ceiling)], rows)
    right = _with_interval(METRICS["length_accuracy"], lengths.likely_length)
    more = _with_interval(METRICS["length_accuracy"], lengths.likely_length_difference, sign=True)
    out.print(f"always {often}: the most frequent number in training; in open NLL, every number is as likely as there")
    if ceiling:
        out.print("ceiling: the most probable plan of the known truth")
    out.print(f"the most probable number of steps is right in {right} %; difference: {more}\n")


def _show_slices(own: EvidenceScores) -> None:
    """One row per length; only the success rate has its interval, so that it fits a terminal."""
    success, *others = (METRICS[name] for name in _SLICE_METRICS)
    has_truth = all(each.truth for each in own.slices)
    rows = [
        [
            f"{counted(each.horizon, 'step')}",
            str(each.num_windows),
            _with_interval(success, each.scores[success.name]),
            *(metric.text(each.scores[metric.name].value) for metric in others),
            *([METRICS["exact_kl"].text(each.truth["exact_kl"].value)] if each.truth and has_truth else []),
        ]
        for each in own.slices
    ]
    heads = [success.label, *(metric.label for metric in others), *(["KL to truth"] if has_truth else [])]
    out.print(f"told: {', '.join(own.evidence)}; the number of steps is known")
    print_table(["", "windows", *heads], rows)
    out.print()


def _show_mixes(lengths: LengthScores) -> None:
    """One row per mix of evidence; with intervals it would not fit a terminal."""
    shown = [METRICS[name] for name in ("success_rate", "edit_score", "open_nll")]
    success = METRICS["success_rate"]
    rows = [
        [
            ", ".join(mix.evidence),
            *(metric.text(mix.unknown[metric.name].value) for metric in shown),
            *(success.text(each.scores["success_rate"].value) for each in mix.slices),
        ]
        for mix in lengths.evidence
    ]
    print_table(["told", "SR", "edit", "NLL", *(f"T={each.horizon}" for each in lengths.evidence[0].slices)], rows)
    out.print("SR, edit, NLL: the number of steps is unknown. T=N: success rate where it is known to be N\n")


def show_evaluation(found: Evaluation, files: EvaluationFiles) -> None:
    """Print the result as tables."""
    instead = {"input noise": found.samples.input_noise, "dropout": found.samples.dropout}
    variants = [f", {what} of {value:g} in place of latents" for what, value in instead.items() if value]
    out.print(
        f"{found.planner} on {found.data}: {counted(found.horizon or 0, 'action')} to plan, {found.num_windows} "
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
    for name, score in found.calibration.items():
        metric = METRICS[name]
        out.print(f"\n{metric.title} of the recommended plan's probability: {_with_interval(metric, score)} points")
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
