"""Evaluate plans of unknown length: one distribution over plans of all lengths, and the slices where it is known.

Every window of every length counts once. The planner is asked with the evidence of the evaluation, for which plans are
sampled and predictions written, and then, for a table, with every other mix of evidence that it can use.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace

import torch
from torch import Tensor

from p3iv.catalogue import FREQUENT_LENGTH, METRICS, MIXES, OWN_DECODER, PICTURES, RANDOM
from p3iv.data.padding import PAD, pad_plans, unpad_plans
from p3iv.evaluation.asking import AnsweredWindows, WindowQueries
from p3iv.evaluation.lengths import TRUTH, KnownTruth, LengthTally, TrainedLengths
from p3iv.evaluation.predictions import NamedLine
from p3iv.evaluation.result import (
    Evaluation,
    EvidenceScores,
    ExpectedLengths,
    LengthScores,
    SliceScores,
    TruthScores,
)
from p3iv.evaluation.subject import Subject, most_probable
from p3iv.evaluation.tally import Values
from p3iv.metrics.counts import PlanCounts, count_plans
from p3iv.metrics.distributions import distribution_values
from p3iv.metrics.intervals import Clusters, difference_intervals, mean_intervals
from p3iv.metrics.plans import length_values
from p3iv.metrics.references import ReferencePlans, references_of
from p3iv.plans.draws import MODES, SampleSettings, chain_uniforms, length_uniforms, refuse_noise
from p3iv.plans.lengths import PlansOfLengths
from p3iv.types import Progress

Evidence = tuple[str, ...]


@dataclass(frozen=True)
class Collected:
    """The values of all windows."""

    tallies: dict[Evidence, LengthTally]  # the first is that of the evaluation itself
    samples: SampleTally
    truth: KnownTruth | None

    @property
    def own(self) -> LengthTally:
        """With the evidence of the evaluation."""
        return next(iter(self.tallies.values()))


@dataclass
class SampleTally:
    """Draws plans of windows, and collects how they compare with the references and with the truth."""

    settings: SampleSettings
    references: ReferencePlans
    truth: ReferencePlans | None
    num_actions: int
    values: Values = field(default_factory=dict)
    truth_values: Values = field(default_factory=dict)

    def add(self, part: AnsweredWindows) -> PlanCounts:
        """The samples of some windows."""
        counts = count_plans(_draw(part, self.settings))
        self._compare(self.values, counts, self.references, part.rows)
        if self.truth is not None:
            self._compare(self.truth_values, counts, self.truth, part.rows)
        return counts

    def _compare(self, tables: Values, counts: PlanCounts, references: ReferencePlans, rows: Tensor) -> None:
        here = replace(references, group=references.group[rows])
        for name, values in vars(distribution_values(counts, here, self.num_actions)).items():
            if METRICS[name].any_length:
                tables.setdefault(name, torch.full((len(references),), torch.nan).double())[rows] = values.double()


def collect(subject: Subject, write: Callable[[NamedLine], None]) -> Collected:
    """Ask about all windows with every mix of evidence; with that of the evaluation, also sample and write plans."""
    windows, header = subject.windows, subject.trained.header
    refuse_noise(subject.settings, header.config.planner)
    queries = WindowQueries(windows, header, subject.data.procedures)
    lengths = TrainedLengths.of(subject.data.train, header.config.data.horizons)
    num_actions, mixes, truth = len(subject.data.vocabulary), _mixes(subject), _read_truth(subject)
    own = LengthTally(windows, lengths, num_actions, compares_unknown=True, truth=truth)
    tallies = {mix: LengthTally(windows, lengths, num_actions) for mix in mixes[1:]}
    references, known = references_of(windows.action_ids), truth.unknown if truth else None
    samples = SampleTally(subject.settings, references, known, num_actions)
    done = 0
    for mix, tally in {mixes[0]: own, **tallies}.items():
        for part in (part for group in queries.groups(mix) for part in queries.ask(subject.trained, group)):
            tally.add(part)
            if tally is own:
                for line in _prediction_lines(subject, own, part, samples):
                    write(line)
            done += len(part.rows)
            subject.on_progress(Progress("Evaluating windows", done, len(mixes) * len(windows)))
    return Collected({mixes[0]: own, **tallies}, samples, truth)


def summarise(subject: Subject, found: Collected, predictions_sha256: str) -> Evaluation:
    """Means and intervals of the values of all windows."""
    own, clusters, ids = found.own, subject.clusters, found.own.action_ids
    baselines = {FREQUENT_LENGTH: own.frequent_plans, RANDOM: _random_plans(own, len(subject.data.names))}
    ours, others = length_values(own.plans, ids), {n: length_values(each, ids) for n, each in baselines.items()}
    sampled = mean_intervals(found.samples.values, clusters)
    nll = {"open_nll": own.unknown_values()["open_nll"]}
    return subject.evaluation(
        horizon=None,
        decoder=OWN_DECODER,
        decoders={OWN_DECODER: mean_intervals(ours, clusters)},
        baselines={name: mean_intervals(theirs, clusters) for name, theirs in others.items()},
        differences={name: difference_intervals(ours, theirs, clusters) for name, theirs in others.items()},
        equal={
            name: tuple(metric for metric in ours if ours[metric].equal(theirs[metric]))
            for name, theirs in others.items()
        },
        distribution=sampled | mean_intervals(own.exact_values(None) | nll, clusters),
        modes=dict.fromkeys(MODES, sampled),
        truth=_truth_scores(found, clusters),
        released={},
        tasks=subject.score_tasks(own.plans, length_values),
        positions=(),
        lengths=_score_lengths(subject, found),
        predictions_sha256=predictions_sha256,
    )


def score_evidence(tally: LengthTally, mix: Evidence, missing: dict[str, int], videos: Sequence[str]) -> EvidenceScores:
    """The scores of a planner that is told one mix of evidence."""
    clusters = Clusters.of(videos)
    ours, theirs = tally.unknown_values(), tally.frequent_values()
    return EvidenceScores(
        evidence=mix,
        missing=missing,
        unknown=mean_intervals(ours, clusters),
        frequent_length=mean_intervals(theirs, clusters),
        differences=difference_intervals(ours, theirs, clusters),
        slices=tuple(_score_slice(tally, horizon, videos) for horizon in tally.horizons),
    )


def _score_slice(tally: LengthTally, horizon: int, videos: Sequence[str]) -> SliceScores:
    own = [videos[row] for row in tally.rows_of(horizon).tolist()]
    truth = tally.exact_values(horizon, TRUTH)
    return SliceScores(
        horizon=horizon,
        num_windows=len(own),
        num_videos=len(set(own)),
        scores=mean_intervals(tally.slice_values(horizon), Clusters.of(own)),
        truth=mean_intervals(truth, Clusters.of(own)) if truth else None,
    )


def _score_lengths(subject: Subject, found: Collected) -> LengthScores:
    own, clusters, name = found.own, subject.clusters, "length_accuracy"
    queries = WindowQueries(subject.windows, subject.trained.header, subject.data.procedures)
    likely = {name: own.likely_lengths() == own.lengths}
    frequent = {name: own.lengths == own.trained.most_frequent}
    return LengthScores(
        horizons=own.trained.horizons,
        most_frequent=own.trained.most_frequent,
        training_shares=tuple(own.trained.shares.tolist()),
        likely_length=mean_intervals(likely, clusters)[name],
        likely_length_difference=difference_intervals(likely, frequent, clusters)[name],
        expected=tuple(_expected_lengths(own, horizon) for horizon in own.horizons),
        evidence=tuple(
            score_evidence(tally, mix, queries.count_missing(mix), subject.videos)
            for mix, tally in found.tallies.items()
        ),
    )


def _expected_lengths(tally: LengthTally, horizon: int) -> ExpectedLengths:
    rows = tally.rows_of(horizon)
    planned = (tally.plans[rows] != PAD).sum(dim=1)
    return ExpectedLengths(
        horizon=horizon,
        num_windows=len(rows),
        probabilities=tuple(tally.log_lengths[rows].exp().mean(dim=0).tolist()),
        num_plans=tuple(int((planned == each).sum()) for each in tally.trained.horizons),
    )


def _truth_scores(found: Collected, clusters: Clusters) -> TruthScores | None:
    """KL and NLL against the known distribution, and the scores of its most probable plan."""
    truth = found.samples.truth
    if truth is None:
        return None
    sampled = {name: values for name, values in found.samples.truth_values.items() if name in ("kl", "nll")}
    modes = mean_intervals(sampled, clusters)
    exact = mean_intervals(found.own.exact_values(None, TRUTH), clusters)
    ceiling = mean_intervals(length_values(most_probable(truth), found.own.action_ids), clusters)
    return TruthScores(distribution=modes | exact, modes=dict.fromkeys(MODES, modes), ceiling=ceiling)


def _mixes(subject: Subject) -> list[Evidence]:
    """The evidence of the evaluation; after the paper's question, all mixes that the planner can use."""
    known = subject.trained.planner.sees
    if subject.evidence != PICTURES or known == PICTURES:
        return [subject.evidence]
    return [mix for mix in MIXES if set(mix) <= set(known)]


def _read_truth(subject: Subject) -> KnownTruth | None:
    slices = {horizon: subject.read_truth(horizon) for horizon in subject.windows.lengths.unique().tolist()}
    unknown = subject.read_truth(None)
    known = {horizon: truth for horizon, truth in slices.items() if truth is not None}
    return KnownTruth(known, unknown) if known or unknown else None


def _random_plans(tally: LengthTally, num_actions: int) -> Tensor:
    """Random steps, as many as a random training window has: (N, T) padded."""
    generator = torch.Generator().manual_seed(0)
    lengths = torch.multinomial(tally.trained.shares, len(tally.lengths), replacement=True, generator=generator)
    plans = torch.randint(num_actions, tally.action_ids.shape, generator=generator)
    place = torch.arange(plans.shape[1])
    return torch.where(place < (lengths + tally.trained.horizons[0])[:, None], plans, PAD)


def _draw(part: AnsweredWindows, settings: SampleSettings) -> Tensor:
    """Sampled plans of some windows, (n, K, T) padded: exact samples, each query by itself."""
    answers, longest = part.answers, max(part.answers.horizons)
    uniforms, length_numbers = chain_uniforms(settings, longest, rescored=True), length_uniforms(settings)
    drawn = [
        pad_plans(PlansOfLengths(chains, log_lengths).draw(uniforms, length_numbers), longest)
        for *chains, log_lengths in zip(*(chain.split() for chain in answers.chains), answers.log_lengths, strict=True)
    ]
    return torch.stack(drawn)[torch.from_numpy(part.query)]


def _prediction_lines(
    subject: Subject, tally: LengthTally, part: AnsweredWindows, samples: SampleTally
) -> Iterator[NamedLine]:
    """The lines of some windows; their names have the length, which tells windows with one start apart."""
    counts, rows = samples.add(part), part.rows
    found = tally.unknown_values(rows) | {
        name: values[rows] for name, values in (samples.values | tally.exact_values(None)).items()
    }
    scores = {name: values.double().tolist() for name, values in found.items()}
    for number, (row, plan) in enumerate(zip(rows.tolist(), unpad_plans(tally.plans[rows]), strict=True)):
        window = subject.windows.windows[row]
        sampled, times = counts.rows(number)
        yield subject.line(
            window,
            f"{window.video}:{window.first_step}:{len(window.action_ids)}",
            plan=subject.words(plan),
            plan_probability=min(1.0, math.exp(tally.log_plan[row])),
            samples=tuple(
                (subject.words(each), count) for each, count in zip(unpad_plans(sampled), times.tolist(), strict=True)
            ),
            scores={name: None if math.isnan(values[number]) else values[number] for name, values in scores.items()},
        )
