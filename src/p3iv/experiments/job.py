"""One run from start to end: train, time, sample and score.

A run folder then holds what `p3iv train` writes, `trained.json` with facts about the training, and for every way of
sampling one file with the values of every window. A step whose file exists is not repeated.
"""

from __future__ import annotations

import json
import statistics
import time
import traceback
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from p3iv.catalogue import DEFAULT_MODE, MIXES
from p3iv.config import Config
from p3iv.data.folder import Dataset, open_dataset
from p3iv.data.tensors import PlanningData, load_planning_data
from p3iv.errors import ConfigError, DatasetError, SplitError
from p3iv.evaluation.asking import WindowQueries
from p3iv.evaluation.evaluate import EvaluationRequest, evaluate
from p3iv.evaluation.lengths import LengthTally, TrainedLengths
from p3iv.evaluation.tally import Tally, Values, draw_all, log_probability
from p3iv.experiments.declarations import RECOMMENDED
from p3iv.experiments.identity import commit, link_dataset
from p3iv.experiments.runs import (
    FREQUENT,
    KNOWN,
    LOG_REFERENCE,
    MAKE_AGAIN,
    TRAINED,
    UNKNOWN,
    Outcome,
    SamplingVariant,
)
from p3iv.extraction.align import AlignmentRequest, align_dataset
from p3iv.files import atomic_file, write_text
from p3iv.metrics.counts import count_plans
from p3iv.metrics.distributions import distribution_values
from p3iv.metrics.plans import plan_values
from p3iv.metrics.references import references_of
from p3iv.metrics.released import bitwise_ious, macro_precision
from p3iv.planners.checkpoint import TrainedPlanner, load_planner
from p3iv.planners.header import BEST
from p3iv.planners.layers import choose_device
from p3iv.planners.registry import class_of
from p3iv.plans.decoding import chain_of, plan_chain
from p3iv.plans.draws import SampleSettings
from p3iv.training.loop import TrainRequest, train
from p3iv.types import counted
from p3iv.validation import read_model

NUM_SETS = 20  # sets of K latents that a deviation is computed over
TIMED_PAIRS = 30
WARM_UP_PAIRS = 3
Arrays = dict[str, np.ndarray]


@dataclass(frozen=True)
class Job:
    """The missing steps of one run."""

    key: str
    name: str  # of the run, as printed
    identity: Mapping[str, Any]
    config: Config
    data: Path  # the dataset folder
    folder: Path  # of the run
    aligned: Path | None  # the copy of the dataset with aligned step texts; None to use the texts as they are
    samplings: tuple[SamplingVariant, ...]
    needs_plans: bool  # whether a figure needs its predictions.jsonl, which is missing
    device: str = "cpu"
    threads: int = 1


def run_job(job: Job) -> Outcome:
    """Do the missing steps. An error becomes part of the outcome, so that other jobs continue."""
    torch.set_num_threads(job.threads)
    notes: dict[str, None] = {}  # each once, in order
    try:
        return Outcome(job.key, "done", _run_steps(job, notes), notes=tuple(notes))
    except (DatasetError, SplitError) as error:
        is_trained = (job.folder / TRAINED).exists()  # then the dataset does have what a run needs
        return Outcome(job.key, "failed" if is_trained else "impossible", str(error), notes=tuple(notes))
    except Exception as error:  # one failed run must not end the others; its cells show the reason
        about = f"{type(error).__name__}: {error}"
        return Outcome(job.key, "failed", about, traceback.format_exc(), tuple(notes))


def score_windows(trained: TrainedPlanner, data: PlanningData, sampling: SamplingVariant) -> Arrays:
    """Score every test window: `METRIC.DECODER` of plans, and `METRIC.samples` of the K samples or of the chain."""
    windows, transitions = data.test, trained.transitions
    tally = Tally(windows.action_ids, len(data.vocabulary))
    modes, decoded = (torch.empty_like(windows.action_ids) for _ in range(2))
    log_reference = torch.empty(len(windows), dtype=torch.float64)
    for here, draws in draw_all(trained, windows, _settings(sampling, seed=0)):
        modes[here] = tally.add(draws, transitions).samples["chain"].modes
        own = windows.action_ids[here].numpy(), np.arange(len(draws))
        log_reference[here] = torch.from_numpy(log_probability(plan_chain(draws, transitions), *own))
        decoded[here] = torch.from_numpy(chain_of(draws, transitions, "frequencies", "row").best_paths()[0])
    plans = tally.plans() | {"chain": modes, "viterbi_frequencies_row": decoded}
    plans[RECOMMENDED] = plans[tally.decoder]
    values: dict[str, Tensor] = {
        f"{name}.samples": value for name, value in (tally.values(DEFAULT_MODE) | tally.values("exact")).items()
    }
    values[f"{LOG_REFERENCE}.samples"] = log_reference
    for decoder, theirs in plans.items():
        scores = plan_values(theirs, windows.action_ids)
        scores["bitwise_iou"] = bitwise_ious(theirs, windows.action_ids)
        scores["macro_precision"] = torch.tensor(macro_precision(theirs, windows.action_ids), dtype=torch.float64)
        values |= {f"{name}.{decoder}": value for name, value in scores.items()}
    return {name: value.double().numpy() for name, value in values.items()} | _places(data)


def score_queries(trained: TrainedPlanner, data: PlanningData) -> Arrays:
    """Score every test window with every mix of evidence, as `p3iv evaluate` does, exactly and without samples.

    `METRIC.EVIDENCE.known`: its number of steps is known; `unknown`: it is not; `frequent`: the plan has the number of
    steps that is most frequent in training, and each is as probable as it is frequent there.
    """
    windows, values = data.test, dict[str, Tensor]()
    queries = WindowQueries(windows, trained.header, data.procedures)
    lengths = TrainedLengths.of(data.train, trained.header.config.data.horizons)
    for mix in MIXES:
        tally = LengthTally(windows, lengths, len(data.vocabulary))
        for part in (part for group in queries.groups(mix) for part in queries.ask(trained, group)):
            tally.add(part)
        found = {KNOWN: _known_values(tally), UNKNOWN: tally.unknown_values(), FREQUENT: tally.frequent_values()}
        values |= {
            f"{metric}.{'-'.join(mix)}.{how}": each for how, scores in found.items() for metric, each in scores.items()
        }
    return {name: value.double().numpy() for name, value in values.items()} | _places(data)


def _known_values(tally: LengthTally) -> Values:
    """Every metric of plans whose number of steps is known, of all windows."""
    values: Values = {}
    for horizon in tally.horizons:
        for name, some in tally.slice_values(horizon).items():
            table = values.setdefault(name, torch.full((len(tally.lengths),), torch.nan).double())
            table[tally.rows_of(horizon)] = some.double()
    return values


def score_prefixes(trained: TrainedPlanner, data: PlanningData, sampling: SamplingVariant) -> Arrays:
    """KL and NLL of every test window for every K (`METRIC.K`), and their standard deviation over sets of K latents.

    All windows share their latents, so a resample takes the same latents of every window. With several independent
    draws, each of them is a set.
    """
    references = references_of(data.test.action_ids)
    sets = {number: _sets(number, sampling) for number in sampling.prefixes}
    # By METRIC.K, draw and set.
    values: dict[tuple[str, int, int], np.ndarray] = defaultdict(lambda: np.empty(len(data.test)))
    for seed in range(sampling.independent_draws):
        for here, draws in draw_all(trained, data.test, _settings(sampling, seed=seed)):
            right = replace(references, group=references.group[here])
            for number, place, pick in ((n, place, pick) for n in sets for place, pick in enumerate(sets[n])):
                found = distribution_values(
                    count_plans(torch.from_numpy(draws.argmax[:, pick])), right, len(data.vocabulary)
                )
                values[f"kl.{number}", seed, place][here] = found.kl
                values[f"nll.{number}", seed, place][here] = found.nll
    means: dict[str, list[float]] = defaultdict(list)
    for (name, _, place), some in values.items():
        if place or sampling.independent_draws > 1:
            means[name].append(float(some.mean()))
    deviations = {f"{name}.deviation": np.array(np.std(found, ddof=1)) for name, found in means.items()}
    return {name: values[name, 0, 0] for name in means} | deviations | _places(data)


def _sets(number: int, sampling: SamplingVariant) -> list[slice | np.ndarray]:
    """The latents of K plans: the first K and, if there is only one draw, resamples of it."""
    generator = torch.Generator().manual_seed(number)
    resamples = torch.randint(sampling.num_samples, (NUM_SETS, number), generator=generator).numpy()
    return [slice(number), *(resamples if sampling.independent_draws == 1 else ())]


def _run_steps(job: Job, notes: dict[str, None]) -> str:
    dataset = open_dataset(_prepare(job))
    data: PlanningData | None = None
    if not (job.folder / TRAINED).exists():
        data = _load(dataset, job.config)
        notes |= dict.fromkeys(data.notes)
        _train(job, dataset, data, notes)
    for sampling in job.samplings:
        if not (job.folder / sampling.file).exists():
            data = data or _load(dataset, job.config)
            trained = load_planner(job.folder / BEST, device=str(choose_device(job.device)))
            _write_arrays(job.folder / sampling.file, _score(trained, data, sampling))
    if job.needs_plans:
        evaluate(EvaluationRequest(job.folder, dataset.folder, device=job.device))
    facts = read_model(job.folder / TRAINED, dict[str, Any], error=ConfigError, advice=MAKE_AGAIN)
    return f"{counted(facts['epochs'], 'epoch')}, {facts['training_cpu_s']:.0f} CPU s"


def _load(dataset: Dataset, config: Config) -> PlanningData:
    return load_planning_data(dataset, config.data, with_history=class_of(config).reads_history())


def _score(trained: TrainedPlanner, data: PlanningData, sampling: SamplingVariant) -> Arrays:
    if sampling.asks_queries:
        return score_queries(trained, data)
    return (score_prefixes if sampling.prefixes else score_windows)(trained, data, sampling)


def _prepare(job: Job) -> Path:
    """The dataset folder to read: the given one, or a copy with step texts aligned to the features."""
    if job.aligned is None:
        return job.data
    if not job.aligned.exists():
        unaligned = job.aligned.with_name(f"{job.aligned.name}-unaligned")
        link_dataset(job.data, unaligned)
        settings = job.config.data
        align_dataset(
            AlignmentRequest(unaligned, settings.split, settings.split_seed, settings.protocol, job.config.seed)
        )
        unaligned.rename(job.aligned)
    return job.aligned


def _train(job: Job, dataset: Dataset, data: PlanningData, notes: dict[str, None]) -> None:
    result = train(
        TrainRequest(
            dataset,
            job.folder,
            job.config,
            resume=(job.folder / "config.yaml").exists(),
            device=job.device,
            on_note=lambda note: notes.update({note: None}),
        )
    )
    trained = load_planner(job.folder / BEST, device=str(choose_device(job.device)))
    facts = {
        "name": job.name,
        **job.identity,
        "data": data.label,
        "test_windows": len(data.test),
        "epochs": result.epochs,
        "best_epoch": result.best_epoch,
        "training_cpu_s": result.cpu_s,
        "parameters": sum(parameter.numel() for parameter in trained.planner.parameters()),
        "milliseconds_per_plan": time_plans(trained, data),
        "commit": commit(),
    }
    write_text(job.folder / TRAINED, json.dumps(facts, indent=2) + "\n")


def time_plans(trained: TrainedPlanner, data: PlanningData) -> float:
    """Median processor time, in milliseconds, of one recommended plan without samples; P3IV plans at z = 0."""
    windows, place = data.test, next(trained.planner.buffers())
    spent = []
    with torch.no_grad():
        for number in range(min(TIMED_PAIRS, len(windows)) + WARM_UP_PAIRS):
            row = slice(number % len(windows), number % len(windows) + 1)
            began = time.process_time()
            start, goal = windows.start[row].to(place), windows.goal[row].to(place)
            trained.planner.recommend(start, goal, trained.transitions)
            spent.append(1000 * (time.process_time() - began))
    return statistics.median(spent[WARM_UP_PAIRS:])


def _settings(sampling: SamplingVariant, *, seed: int) -> SampleSettings:
    return SampleSettings(sampling.num_samples, seed, sampling.input_noise, sampling.dropout)


def _places(data: PlanningData) -> Arrays:
    """Which windows the values are of, and what the values of planners for one length each are joined with."""
    windows = data.test.windows
    return {
        "videos": np.array([window.video for window in windows]),
        "first_steps": np.array([window.first_step for window in windows]),
        "lengths": np.array([len(window.action_ids) for window in windows]),
        "num_train": np.array(len(data.train)),
        "num_actions": np.array(len(data.vocabulary)),
    }


def _write_arrays(path: Path, arrays: Arrays) -> None:
    with atomic_file(path) as temporary, temporary.open("wb") as file:
        np.savez_compressed(file, allow_pickle=False, **arrays)
