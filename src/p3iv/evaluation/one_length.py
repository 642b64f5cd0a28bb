"""Evaluate plans of one length: sample plans for every window, decode them in every way, score them by every metric."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator

import torch
from torch import Tensor

from p3iv.catalogue import PICTURES, RANDOM, RETRIEVAL
from p3iv.data.tensors import WindowTensors
from p3iv.evaluation.asking import WindowQueries
from p3iv.evaluation.predictions import NamedLine
from p3iv.evaluation.result import Evaluation, PositionScore, Scores, TruthScores
from p3iv.evaluation.subject import Subject, most_probable
from p3iv.evaluation.tally import DecodedWindows, Tally, draw_all
from p3iv.metrics.intervals import Clusters, difference_intervals, mean_intervals
from p3iv.metrics.plans import calibration_interval, plan_values
from p3iv.metrics.references import ReferencePlans
from p3iv.metrics.released import score_released
from p3iv.planners.baselines.retrieval import nearest_plans
from p3iv.plans.draws import MODES, Draws, chain_uniforms, draws_of
from p3iv.types import Progress


def collect(subject: Subject, write: Callable[[NamedLine], None]) -> Tally:
    """Draw plans for all windows, collect their values, and write a line for each."""
    windows, trained = subject.windows, subject.trained
    horizon = windows.action_ids.shape[1]
    tally = Tally(windows.action_ids, len(subject.data.vocabulary), subject.read_truth(horizon))
    for here, draws in _draw(subject):
        decoded = tally.add(draws, trained.transitions)
        for line in _prediction_lines(subject, windows, here, decoded):
            write(line)
        subject.on_progress(Progress("Evaluating windows", here.stop, len(windows)))
    return tally


def order_windows(subject: Subject) -> Tensor:
    """The order in which windows are evaluated: those with the same pieces of evidence beside each other."""
    queries = WindowQueries(subject.windows, subject.trained.header, subject.data.procedures)
    return torch.cat([group.rows for group in queries.groups(subject.evidence)])


def _draw(subject: Subject) -> Iterator[tuple[slice, Draws]]:
    """The samples of some windows at a time, in the order of `order_windows`."""
    windows, trained, settings = subject.windows, subject.trained, subject.settings
    if subject.evidence == PICTURES:
        yield from draw_all(trained, windows, settings)
        return
    horizon, done = windows.action_ids.shape[1], 0
    number = trained.header.config.data.horizons.index(horizon)
    uniforms = chain_uniforms(settings, horizon, rescored=True)
    queries = WindowQueries(windows, trained.header, subject.data.procedures)
    for group in queries.groups(subject.evidence):
        for part in queries.ask(trained, group):
            yield slice(done, done + len(part.rows)), draws_of(part.answers.chains[number], uniforms)
            done += len(part.rows)


def _prediction_lines(
    subject: Subject, windows: WindowTensors, here: slice, decoded: DecodedWindows
) -> Iterator[NamedLine]:
    scores = {name: values.double().tolist() for name, values in decoded.scores(subject.mode).items()}
    for number, window in enumerate(windows.windows[here]):
        samples, counts = decoded.samples[subject.mode].rows(number)
        yield subject.line(
            window,
            f"{window.video}:{window.first_step}",
            plan=subject.words(decoded.plans[decoded.decoder][number].tolist()),
            plan_probability=float(decoded.plan_probability[number]),
            decoders={
                name: subject.words(plans[number].tolist())
                for name, plans in decoded.plans.items()
                if name != decoded.decoder
            },
            samples=tuple(
                (subject.words(plan), count) for plan, count in zip(samples.tolist(), counts.tolist(), strict=True)
            ),
            scores={name: None if math.isnan(values[number]) else values[number] for name, values in scores.items()},
        )


def summarise(subject: Subject, tally: Tally, predictions_sha256: str) -> Evaluation:
    """Means and intervals of the values of all windows."""
    windows, clusters, data, mode = subject.windows, subject.clusters, subject.data, subject.mode
    ids, plans = windows.action_ids, tally.plans()
    recommended = plans[tally.decoder]
    baselines = {
        RANDOM: _random_plans(ids, len(data.names)),
        RETRIEVAL: nearest_plans(data, windows, skip_own_video=subject.side == "train" or data.test is data.train),
    }
    ours, others = plan_values(recommended, ids), {name: plan_values(each, ids) for name, each in baselines.items()}
    modes = {name: mean_intervals(tally.values(name), clusters) for name in MODES}
    exact = mean_intervals(tally.values("exact"), clusters)
    marginals = mean_intervals(tally.values(f"marginals {mode}"), clusters)
    return subject.evaluation(
        horizon=ids.shape[1],
        decoder=tally.decoder,
        decoders={name: _score(decoded, ids, clusters) for name, decoded in plans.items()},
        baselines={name: _score(theirs, ids, clusters) for name, theirs in baselines.items()},
        differences={name: difference_intervals(ours, theirs, clusters) for name, theirs in others.items()},
        equal={
            name: tuple(metric for metric in ours if ours[metric].equal(theirs[metric]))
            for name, theirs in others.items()
        },
        distribution=modes[mode] | exact,
        modes=modes,
        calibration=_score_calibration(tally, ours["success_rate"], clusters),
        truth=None if tally.truth is None else _truth_scores(tally, tally.truth, ids, mode, clusters),
        released={name: score_released(decoded, ids, clusters) for name, decoded in plans.items()}
        | {"samples": marginals},
        tasks=subject.score_tasks(recommended, plan_values),
        positions=_position_table(recommended, ids, clusters),
        predictions_sha256=predictions_sha256,
    )


def _score_calibration(tally: Tally, is_right: Tensor, clusters: Clusters) -> Scores:
    """Of the recommended plan's probability; nothing where no chain chooses the plan."""
    if not tally.has_chain:
        return {}
    probability = tally.values("recommended")["plan_probability"]
    return {"calibration_error": calibration_interval(probability, is_right, clusters)}


def _score(plans: Tensor, references: Tensor, clusters: Clusters) -> Scores:
    return mean_intervals(plan_values(plans, references), clusters)


def _random_plans(action_ids: Tensor, num_actions: int) -> Tensor:
    return torch.randint(num_actions, action_ids.shape, generator=torch.Generator().manual_seed(0))


def _truth_scores(tally: Tally, truth: ReferencePlans, ids: Tensor, mode: str, clusters: Clusters) -> TruthScores:
    """KL and NLL against the known distribution, and the scores of its most probable plan."""
    modes = {
        name: mean_intervals({m: v for m, v in tally.values(f"truth {name}").items() if m in ("kl", "nll")}, clusters)
        for name in MODES
    }
    exact = mean_intervals(tally.values("truth exact"), clusters)
    return TruthScores(
        distribution=modes[mode] | exact, modes=modes, ceiling=_score(most_probable(truth), ids, clusters)
    )


def _position_table(plans: Tensor, ids: Tensor, clusters: Clusters) -> tuple[PositionScore, ...]:
    return tuple(
        PositionScore(position=number, accuracy=mean_intervals({"mean_accuracy": hits}, clusters)["mean_accuracy"])
        for number, hits in enumerate((plans == ids).unbind(dim=1), start=1)
    )
