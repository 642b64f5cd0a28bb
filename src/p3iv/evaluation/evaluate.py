"""`p3iv evaluate`: draw plans for every window of a side, decode them in every way, score them by every metric."""

from __future__ import annotations

import json
import math
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import IO

import torch
from torch import Tensor

from p3iv.catalogue import DEFAULT_DECODER, OWN_DECODER
from p3iv.data.folder import Dataset
from p3iv.data.tensors import PlanningData, WindowTensors, load_planning_data
from p3iv.errors import ConfigError, DatasetError
from p3iv.evaluation.result import Evaluation
from p3iv.evaluation.scores import plan_values, score_decoded, score_published
from p3iv.files import atomic_file, write_text
from p3iv.metrics.bootstrap import Resamples, bootstrap_differences, bootstrap_means, draw_resamples
from p3iv.metrics.distributions import distribution_values, exact_divergences
from p3iv.metrics.published import marginal_divergences
from p3iv.metrics.references import ReferencePlans, known_references, references_of
from p3iv.planners.baselines.retrieval import nearest_plans
from p3iv.planners.checkpoint import BEST, TrainedPlanner, load_ensemble
from p3iv.planners.device import choose_device
from p3iv.plans.chain import Chain
from p3iv.plans.decoding import deciding_chain, decode, followed, followed_probability
from p3iv.plans.distribution import PlanCounts, count_plans
from p3iv.plans.draws import MODES, Draws, SampleSettings
from p3iv.plans.transitions import Transitions
from p3iv.training.run_folder import dataset_of
from p3iv.types import Side, listed

Values = dict[str, Tensor]  # (N,) each, by metric


@dataclass(frozen=True)
class Counted:
    """What became of the draws of some windows."""

    decoded: dict[str, Tensor]  # (n, T) by decoder
    followed: str  # the decoder whose plan is the one to follow
    probability: Tensor  # (n,) of that plan
    samples: dict[str, PlanCounts]  # by mode


class Tally:
    """Counts draws against the plans that were followed and, where it is known, against the true distribution."""

    def __init__(self, action_ids: Tensor, num_actions: int, truth: ReferencePlans | None = None) -> None:
        self.num_actions = num_actions
        self.references = references_of(action_ids)
        self.truth = truth
        self._done = 0
        self._decoded: dict[str, list[Tensor]] = defaultdict(list)
        self._values: dict[str, dict[str, list[Tensor]]] = defaultdict(lambda: defaultdict(list))

    def add(self, draws: Draws, transitions: Transitions) -> Counted:
        """Take the draws of the next windows."""
        chain, decoded = deciding_chain(draws, transitions), decode(draws, transitions)
        for name, plans in decoded.items():
            self._decoded[name].append(plans)
        probability = followed_probability(draws, decoded[followed(draws)], chain)
        samples = {mode: count_plans(draws.plans(mode, transitions.row)) for mode in MODES}
        windows = slice(self._done, self._done + len(draws.marginals))
        self._done = windows.stop
        self._compare(samples, chain, self.references, windows, prefix="")
        if self.truth is not None:
            self._compare(samples, chain, self.truth, windows, prefix="truth ")
        return Counted(decoded, followed(draws), probability, samples)

    def decoded(self) -> dict[str, Tensor]:
        """The plans of all windows so far, (N, T) by decoder."""
        return {name: torch.cat(parts) for name, parts in self._decoded.items()}

    def values(self, group: str) -> Values:
        """Of all windows so far: `argmax`, `categorical`, `chain`, `exact`, `marginals MODE`, and `truth ...`."""
        return {name: torch.cat(parts) for name, parts in self._values[group].items()}

    def _compare(
        self, samples: dict[str, PlanCounts], chain: Chain, references: ReferencePlans, windows: slice, *, prefix: str
    ) -> None:
        here = replace(references, group=references.group[windows])
        for mode, counts in samples.items():
            self._keep(f"{prefix}{mode}", vars(distribution_values(counts, here, self.num_actions)))
            if not prefix:
                divergences = marginal_divergences(counts, here, self.num_actions)
                self._keep(f"marginals {mode}", {"marginal_kl": divergences.kl, "marginal_nll": divergences.nll})
        window, row = here.pairs
        exact = exact_divergences(chain.log_probability(here.plans[row], window), here, self.num_actions)
        self._keep(f"{prefix}exact", {"exact_kl": exact.kl, "exact_nll": exact.nll})

    def _keep(self, group: str, values: Values) -> None:
        for name, value in values.items():
            self._values[group][name].append(value)


CHUNK = 64  # windows at a time with 1500 samples each, fewer with more


@dataclass(frozen=True)
class EvaluationRequest:
    """Which run, on which side, with how many samples."""

    run: Path
    data: Path | None = None  # the dataset folder, where it is no longer where the run was trained
    split: Side = "test"
    settings: SampleSettings = field(default_factory=SampleSettings)
    mode: str = "argmax"
    device: str = "auto"
    ensemble: tuple[Path, ...] = ()  # further runs, whose probabilities are averaged with those of `run`
    on_progress: Callable[[int, int], None] = lambda *_: None
    on_note: Callable[[str], None] = lambda _: None

    def __post_init__(self) -> None:
        if self.mode not in MODES:
            raise ConfigError(f"--mode {self.mode}, but it is one of {', '.join(MODES)}.")


def evaluation_files(run: Path, split: Side, settings: SampleSettings, num_others: int = 0) -> tuple[Path, Path, Path]:
    """Where the results, the predictions and the names of the actions stand.

    Another side than test, the naive alternatives to latents, and an ensemble with other runs have files of their own:
    `evaluation.json` is always of the planner itself, on test.
    """
    parts: list[str] = [split] if split != "test" else []
    parts += [f"noise{settings.input_noise:g}"] if settings.input_noise else []
    parts += [f"dropout{settings.dropout:g}"] if settings.dropout else []
    parts += [f"ensemble{1 + num_others}"] if num_others else []
    suffix = "".join(f"_{part}" for part in parts)
    return run / f"evaluation{suffix}.json", run / f"predictions{suffix}.jsonl", run / "actions.json"


def evaluate(request: EvaluationRequest) -> Evaluation:
    """Evaluate the best planner of a run and write what was found beside it."""
    device = choose_device(request.device)
    trained = load_ensemble([run / BEST for run in (request.run, *request.ensemble)], device=str(device))
    dataset = dataset_of(request.run, request.data)
    data = load_planning_data(dataset, trained.header.config.data)
    notes = (*data.notes, *_check_data(trained, data, dataset), *_request_notes(request))
    for note in notes:
        request.on_note(note)
    windows = data.side(request.split)
    truth = _truth_of(dataset, windows, trained)
    tally = Tally(windows.action_ids, len(data.names), truth)
    results, predictions, actions = evaluation_files(
        request.run, request.split, request.settings, len(request.ensemble)
    )
    sampler = trained.sampler(request.settings)
    with _prediction_lines(predictions, dataset, data.names, request.mode) as write:
        size = max(1, CHUNK * 1500 // request.settings.num_samples)  # so that memory does not grow with K
        for first in range(0, len(windows), size):
            here = slice(first, first + size)
            draws = sampler.draw(windows.start[here], windows.goal[here])
            write(windows, here, tally.add(draws, trained.transitions))
            request.on_progress(min(first + size, len(windows)), len(windows))
    found = replace(_summarise(request, trained, data, dataset, tally), notes=notes)
    write_text(actions, json.dumps(data.names, ensure_ascii=False, indent=0) + "\n")
    write_text(results, json.dumps(found.to_dict(), ensure_ascii=False, indent=2) + "\n")
    return found


def _check_data(trained: TrainedPlanner, data: PlanningData, dataset: Dataset) -> Iterator[str]:
    """Refuse data that the planner cannot read, and say when it is not the data that it was trained on."""
    header = trained.header
    if data.names != header.names:
        raise DatasetError(
            f"{dataset.folder} has another vocabulary ({len(data.names)} actions) than the planner was trained for "
            f"({len(header.names)}). Pass the dataset folder that it was trained on: --data DIR."
        )
    width = data.test.start.shape[1]
    if width != header.shape.feature_width:
        raise DatasetError(
            f"{dataset.folder} has observations of width {width}, but the planner was trained on "
            f"{header.shape.feature_width}. Pass the dataset folder that it was trained on: --data DIR."
        )
    if data.fingerprint != header.data_fingerprint:
        yield (
            f"{dataset.folder} is not what the planner was trained on ({header.data_label}): features, windows or "
            f"split differ, so windows that it was trained on may be among those scored"
        )


def _request_notes(request: EvaluationRequest) -> Iterator[str]:
    split = request.split
    if request.ensemble:
        yield f"an ensemble: probabilities are averaged with those of {listed([str(run) for run in request.ensemble])}"
    if split == "train":
        yield "these are the windows that the planner was trained on; retrieval leaves out a window's own video"
    if split == "val":
        yield "the epoch and the smoothing of the transitions were chosen on these windows"


def _truth_of(dataset: Dataset, windows: WindowTensors, trained: TrainedPlanner) -> ReferencePlans | None:
    """The known plan distributions, where there is one for every window; they speak of inclusive windows."""
    if not dataset.has_truth or trained.header.config.data.window != "inclusive":
        return None
    horizon = windows.action_ids.shape[1]
    known = {(t.video, t.first_step): t.plans for t in dataset.read_truth() if t.horizon == horizon}
    if any((w.video, w.first_step) not in known for w in windows.windows):
        return None
    return known_references([known[w.video, w.first_step] for w in windows.windows])


_Write = Callable[[WindowTensors, slice, Counted], None]


@contextmanager
def _prediction_lines(path: Path, dataset: Dataset, names: tuple[str, ...], mode: str) -> Iterator[_Write]:
    """Write predictions line by line, in the format of `p3iv score`; the file takes its place when it is whole."""
    task_of = {video.id: video.task for video in dataset.videos}

    def words(plan: Tensor) -> list[str]:
        return [names[action] for action in plan.tolist()]

    def write_lines(file: IO[str], windows: WindowTensors, here: slice, counted: Counted) -> None:
        for number, window in enumerate(windows.windows[here]):
            plans, counts = counted.samples[mode].rows(number)
            line = {
                "window": f"{window.video}:{window.first_step}",
                "video": window.video,
                "task": task_of[window.video],
                "first_step": window.first_step,
                "start_s": window.start_s,
                "goal_s": None if window.goal_s == math.inf else window.goal_s,
                "prediction": words(counted.decoded[counted.followed][number]),
                "probability": float(counted.probability[number]),
                "reference": [names[action] for action in window.action_ids],
                "decoders": {
                    name: words(plans[number]) for name, plans in counted.decoded.items() if name != counted.followed
                },
                "samples": [[words(plan), count] for plan, count in zip(plans, counts.tolist(), strict=True)],
            }
            file.write(json.dumps(line, ensure_ascii=False) + "\n")

    with atomic_file(path) as beside, beside.open("w", encoding="utf-8") as file:
        yield lambda windows, here, counted: write_lines(file, windows, here, counted)


def _summarise(
    request: EvaluationRequest, trained: TrainedPlanner, data: PlanningData, dataset: Dataset, tally: Tally
) -> Evaluation:
    """Means and intervals of what was counted."""
    windows = data.side(request.split)
    ids, header, mode = windows.action_ids, trained.header, request.mode
    videos = [window.video for window in windows.windows]
    resamples, decoded = draw_resamples(videos), tally.decoded()
    decoder = OWN_DECODER if OWN_DECODER in decoded else DEFAULT_DECODER
    others = {
        "random": _random_plans(ids, len(data.names)),
        "retrieval": nearest_plans(data.train, windows, skip_own_video=request.split == "train"),
    }
    modes = {name: bootstrap_means(tally.values(name), resamples) for name in MODES}
    exact = bootstrap_means(tally.values("exact"), resamples)
    published = {name: score_published(plans, ids, resamples) for name, plans in decoded.items()}
    ours = plan_values(decoded[decoder], ids)
    return Evaluation(
        data=data.label,
        planner=header.config.planner,
        preset=header.config.preset,
        seed=header.config.seed,
        epoch=header.progress.best_epoch,
        split=request.split,
        horizon=ids.shape[1],
        num_windows=len(windows),
        num_videos=len(set(videos)),
        num_actions=len(data.names),
        decoder=decoder,
        samples={"number": request.settings.num_samples, "mode": mode} | _without_number(request.settings),
        decoders={name: score_decoded(plans, ids, resamples) for name, plans in decoded.items()},
        baselines={name: score_decoded(plans, ids, resamples) for name, plans in others.items()},
        differences={
            name: bootstrap_differences(ours, plan_values(plans, ids), resamples) for name, plans in others.items()
        },
        distribution=modes[mode] | exact,
        modes=modes,
        truth=None if tally.truth is None else _truth_scores(tally, ids, mode, resamples),
        published=published | {"samples": bootstrap_means(tally.values(f"marginals {mode}"), resamples)},
        tasks=_task_table(decoded[decoder], windows, dataset),
        positions=_position_table(decoded[decoder], ids, resamples),
        smoothing=trained.transitions.smoothing,
        notes=(),
    )


def _without_number(settings: SampleSettings) -> dict[str, float]:
    return {name: value for name, value in asdict(settings).items() if name != "num_samples"}


def _random_plans(action_ids: Tensor, num_actions: int) -> Tensor:
    return torch.randint(num_actions, action_ids.shape, generator=torch.Generator().manual_seed(0))


def _truth_scores(tally: Tally, ids: Tensor, mode: str, resamples: Resamples) -> dict[str, object]:
    """KL and NLL against the known distribution, and how its most probable plan scores.

    That is the ceiling of the expected success rate; accuracy and IoU it does not bound.
    """
    if tally.truth is None:
        raise AssertionError("asked for scores against a truth that is not there")
    modes = {
        name: bootstrap_means({m: v for m, v in tally.values(f"truth {name}").items() if m in ("kl", "nll")}, resamples)
        for name in MODES
    }
    exact = bootstrap_means(tally.values("truth exact"), resamples)
    ceiling = score_decoded(_most_probable(tally.truth), ids, resamples)
    return {**modes[mode], **exact, "modes": modes, "ceiling": ceiling}


def _most_probable(truth: ReferencePlans) -> Tensor:
    """The most probable plan of every window, (N, T); ties to the first."""
    best = [
        int(first) + int(truth.probabilities[first:last].argmax())
        for first, last in zip(truth.first[:-1], truth.first[1:], strict=True)
    ]
    return truth.plans[torch.tensor(best)[truth.group]]


def _task_table(plans: Tensor, windows: WindowTensors, dataset: Dataset) -> list[dict[str, object]]:
    task_of = {video.id: video.task for video in dataset.videos}
    rows_of: dict[str, list[int]] = {}
    for row, window in enumerate(windows.windows):
        rows_of.setdefault(task_of[window.video], []).append(row)
    table = []
    for task, rows in sorted(rows_of.items()):
        chosen = torch.tensor(rows)
        resamples = draw_resamples([windows.windows[row].video for row in rows])
        scores = score_decoded(plans[chosen], windows.action_ids[chosen], resamples)
        table.append({"task": task, "num_windows": len(rows), **scores})
    return table


def _position_table(plans: Tensor, ids: Tensor, resamples: Resamples) -> list[dict[str, object]]:
    hits = (plans == ids).unbind(dim=1)
    return [
        {"position": number, **bootstrap_means({"accuracy": column}, resamples)}
        for number, column in enumerate(hits, start=1)
    ]
