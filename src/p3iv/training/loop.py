"""Training: epochs over shuffled windows, validation and a checkpoint after each, in a documented run folder.

Every random draw is seeded by its purpose and its place (the epoch; for noise, also the window's index), never by
earlier draws. So an interrupted and resumed run ends bit for bit like an uninterrupted one (on the CPU, with the same
threads and processes), and except for dropout the number of processes does not change what a window is trained with.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from types import MappingProxyType

import torch
from torch import Tensor

from p3iv.config import Config
from p3iv.data.folder import Dataset
from p3iv.data.following import load_follow_data
from p3iv.data.padding import unpad_plans
from p3iv.data.tensors import PlanningData, WindowTensors, load_planning_data
from p3iv.data.windows import is_fold, sides_of
from p3iv.errors import ConfigError, TrainingError
from p3iv.files import exclusive, remove_leftovers
from p3iv.planners.base import BasePlanner, Batch, Learner
from p3iv.planners.checkpoint import TrainedPlanner, load_last, save_best, save_last
from p3iv.planners.header import LAST, Header, PlannerShape, TrainingProgress
from p3iv.planners.layers import check_precision, choose_device, dtype_of
from p3iv.planners.registry import class_of
from p3iv.plans.evidence import EVIDENCE
from p3iv.plans.transitions import Transitions
from p3iv.training.amounts import describe_amounts, warn_of_few, warn_of_small_test
from p3iv.training.card import write_card
from p3iv.training.distributed import World, join_world
from p3iv.training.fixed import FixedChoices
from p3iv.training.run_folder import (
    CARD_FILE,
    RUN_FILES,
    MetricsTable,
    check_run,
    cpu_seconds_until,
    describe_run,
    open_run,
)
from p3iv.training.tracking import TRACKING_FILE, Trackers
from p3iv.types import TRAINING, OnProgress, PlanScores, Progress, counted, hash_number

BEST_SO_FAR = "best so far"  # in the progress after an epoch


@dataclass(frozen=True)
class EpochReport:
    """The outcome of one epoch."""

    epoch: int
    epochs: int
    terms: dict[str, float]  # means over the steps of the epoch
    val: PlanScores | None  # None without validation windows
    is_best: bool
    seconds: float
    cpu_s: float  # of the whole run so far

    @property
    def values(self) -> dict[str, float]:
        """The columns of metrics.csv for losses and scores."""
        found = asdict(self.val) if self.val else {}
        return self.terms | {f"val_{name}": value for name, value in found.items() if name != "num_windows"}


class StepValues(Mapping[str, float]):
    """The loss terms of a step, of this process's windows; read from the device when used: on a GPU it takes time."""

    def __init__(self, terms: Mapping[str, Tensor]) -> None:
        self._terms = terms

    def __getitem__(self, name: str) -> float:
        return float(self._terms[name])

    def __iter__(self) -> Iterator[str]:
        return iter(self._terms)

    def __len__(self) -> int:
        return len(self._terms)


@dataclass(frozen=True)
class TrainRequest:
    """What to train, on which dataset, into which folder."""

    dataset: Dataset
    run: Path
    config: Config
    resume: bool = False
    overwrite: bool = False
    device: str = "auto"
    fixed: FixedChoices | None = None  # in place of validation windows, where the split has none
    track: tuple[str, ...] = ()  # names of `training.tracking.TRACKERS`
    on_progress: OnProgress = lambda _: None  # first about the data, then after every step, and after every epoch
    on_note: Callable[[str], object] = lambda _: None


@dataclass(frozen=True)
class TrainResult:
    """How a run ended."""

    run: Path
    epochs: int
    best_epoch: int
    best: PlanScores | None  # on validation windows
    cpu_s: float
    scheduled_epochs: int = 0  # more than `epochs` if the run was told to stop earlier


def train(request: TrainRequest) -> TrainResult:
    """Train a planner into a run folder.

    Raises:
        BusyError: if another process is training into it.
    """
    if int(os.environ.get("RANK", "0")) != 0:  # only the first process uses the folder
        return train_unlocked(request)
    with exclusive(request.run, doing=f"is training in {request.run}"):
        remove_leftovers(request.run)
        check_run(request.run, resume=request.resume, overwrite=request.overwrite)
        for file in (*RUN_FILES, TRACKING_FILE):
            remove_leftovers(request.run / file)
        return train_unlocked(request)


def train_unlocked(request: TrainRequest) -> TrainResult:
    """The same for a caller that has locked the folder and checked that it may be written."""
    is_first = int(os.environ.get("RANK", "0")) == 0
    trackers = Trackers(request.track if is_first else (), request.on_note)
    device = choose_device(request.device)
    check_precision(request.config.optim, device)
    _check_split(request)
    config, chosen = request.config, class_of(request.config)
    is_visual, nearby_s = chosen.is_visual(config), chosen.nearby_s(config)
    data = load_planning_data(
        request.dataset,
        config.data,
        with_steps=is_visual,
        nearby_s=nearby_s,
        with_history=chosen.reads_history(),
    )
    if chosen.reads_history():
        data = replace(data, follow=load_follow_data(request.dataset, data, config.data.observation))
    with join_world(device) as world:
        _check_world(request.config, world)
        return _TrainingRun(request, data, device, world, trackers).train()


class _TrainingRun:
    """One run, from the first epoch or from its last checkpoint."""

    def __init__(
        self, request: TrainRequest, data: PlanningData, device: torch.device, world: World, trackers: Trackers
    ) -> None:
        self.request, self.config, self.data, self.device, self.world = request, request.config, data, device, world
        self.trackers = trackers
        self.dtype = dtype_of(self.config.optim)
        self.cpu_at_start = time.process_time()
        self.transitions = Transitions.fit(
            data.train_sequences,
            data.val_sequences,
            unpad_plans(data.train.action_ids),
            len(data.names),
            smoothing=request.fixed.smoothing if request.fixed else None,
        )
        self.planner = self._new_planner()
        self.learner: Learner = self.planner.make_learner(data, world.average_gradients)
        self.scheduled = self.config.optim.epochs_over(len(data.train)) if self.learner.optimizers else 1
        self.num_epochs = request.fixed.epochs_of(self.scheduled) if request.fixed else self.scheduled
        has_epochs = self.num_epochs > 1 and request.fixed is None
        few = warn_of_few(data, has_epochs=has_epochs, is_trained=self.planner.is_trained())
        small = () if is_fold(self.config.data.split) else warn_of_small_test(data.test)
        self.notes = (*data.notes, *few, *small)
        self.header = Header(
            config=self.config,
            shape=self.planner.shape,
            names=data.names,
            procedures=data.procedures if self.planner.shape.num_procedures else (),
            encoder=data.encoder,
            text_encoder=data.text_encoder,
            feature_fingerprint=data.feature_fingerprint,
            data_label=data.label,
            data_fingerprint=data.fingerprint,
            progress=TrainingProgress(epoch=0, best_epoch=0, best=None),
        )
        if request.resume and (request.run / LAST).exists():
            self.header = replace(self.header, progress=load_last(request.run, self.learner, self.header))
        elif request.resume:
            request.on_note(f"{request.run} has no checkpoint yet: starting at epoch 1")
        # Times are in metrics.csv only, so that checkpoints of one seed are the same bytes.
        self.resumed_cpu_s = self.cpu_s = cpu_seconds_until(request.run, self.progress.epoch)

    @property
    def progress(self) -> TrainingProgress:
        return self.header.progress

    def train(self) -> TrainResult:
        """Run the remaining epochs, keeping the best planner and the last state."""
        begin = self.progress.epoch
        self._show(begin, describe_amounts(self.data))
        for note in self.notes:
            self.request.on_note(note)
        table = self._open() if self.world.is_first else None
        is_completed = False
        try:
            while self.progress.epoch < self.num_epochs and not self._is_over():
                report = self._one_epoch(self.progress.epoch + 1)
                if table is not None:
                    self._keep(report, table)
                self._show(report.epoch, BEST_SO_FAR if report.is_best else "", report.values)
            is_completed = True
        finally:
            self.trackers.finish(completed=is_completed)
            is_new = self.progress.epoch > begin or not (self.request.run / CARD_FILE).exists()
            if table is not None and is_new:
                write_card(self.request.run, self.header)
        done = self.progress
        if done.epoch < self.num_epochs:  # by patience or the CPU budget
            self.num_epochs = done.epoch
            self._show(done.epoch, "stopped early")
        if begin and done.epoch == begin:
            self.request.on_note(f"{self.request.run} was already trained for {counted(begin, 'epoch')}; nothing to do")
        return TrainResult(self.request.run, done.epoch, done.best_epoch, done.best, self.cpu_s, self.scheduled)

    def _show(self, epochs: float, about: str = "", values: Mapping[str, float] = MappingProxyType({})) -> None:
        self.request.on_progress(Progress(TRAINING, epochs, self.num_epochs, about, values))

    def _open(self) -> MetricsTable:
        environment = describe_run(
            dataset=self.request.dataset.folder,
            device=str(self.device),
            data=self.data.label,
            amounts=describe_amounts(self.data),
            notes=self.notes,
        )
        open_run(self.request.run, self.config, environment, overwrite=self.request.overwrite)
        self.trackers.start(self.config, self.request.run, self.progress.epoch)
        return MetricsTable(self.request.run, finished_epochs=self.progress.epoch)

    def _one_epoch(self, epoch: int) -> EpochReport:
        began = time.monotonic()
        terms = self._train_epoch(epoch) if self.learner.optimizers else {}
        self._check_planner(epoch)
        val, progress = self._choose(epoch)
        self.header = replace(self.header, progress=progress)
        is_best = progress.best_epoch == epoch
        self.cpu_s = self.resumed_cpu_s + self.world.total(time.process_time() - self.cpu_at_start)
        seconds = time.monotonic() - began
        return EpochReport(epoch, self.num_epochs, terms, val, is_best, seconds, self.cpu_s)

    def _choose(self, epoch: int) -> tuple[PlanScores | None, TrainingProgress]:
        """Calibrate and score the planner on validation windows; without them, the last epoch is kept."""
        if self.request.fixed is not None:
            self.planner.set_chosen(self.request.fixed.buffers)
            return None, TrainingProgress(epoch=epoch, best_epoch=epoch, best=None)
        self.planner.calibrate(self.data)
        val, before = self.planner.score_validation(self.data, self.transitions), self.progress
        score = self.planner.selection_score(self.data, val)
        if before.best is None or score > before.selection_score:
            self.planner.finish(self.data)
            return val, TrainingProgress(epoch=epoch, best_epoch=epoch, best=val, selection_score=score)
        return val, replace(before, epoch=epoch)

    def _train_epoch(self, epoch: int) -> dict[str, float]:
        """One pass over the training windows; returns the means of the named terms."""
        self.learner.start_epoch(epoch)
        draws = _EpochRandomness(self.config, self.data.train, epoch, self.world)
        batches = draws.batches
        history, names = [], []
        for step, indices in enumerate(batches):
            own = self.world.share_of(indices)
            batch = self._batch(own, draws, step, loss_weight=len(own) * self.world.size / len(indices))
            terms = self.learner.train_step(batch)
            names = list(terms)
            values = torch.stack(list(terms.values()))
            # A process without a window in this batch has means over nothing, which are NaN.
            history.append(values * batch.loss_weight if len(own) else torch.zeros_like(values))
            self._show(epoch - 1 + (step + 1) / len(batches), values=StepValues(terms))
        steps = self.world.mean(torch.stack(history))  # (steps, terms)
        self._check_finite(steps, names, epoch)
        sizes = torch.tensor([len(indices) for indices in batches], device=steps.device, dtype=steps.dtype)
        return dict(zip(names, (sizes @ steps / sizes.sum()).tolist(), strict=True))

    def _batch(self, indices: Tensor, draws: _EpochRandomness, step: int, *, loss_weight: float) -> Batch:
        train = self.data.train
        horizon = int(draws.lengths[indices].max()) if len(indices) else train.action_ids.shape[1]
        return Batch(
            start=self._place(train.start[indices]),
            goal=self._place(train.goal[indices]),
            action_ids=train.action_ids[indices, :horizon].to(self.device),
            noise=None if draws.noise is None else self._place(draws.noise[indices]),
            latents=None if draws.latents is None else self._place(draws.latents[step][None]),
            steps=None if train.steps is None else self._place(train.steps[indices]),
            rows=indices,
            evidence=None if draws.evidence is None else draws.evidence[indices],
            loss_weight=loss_weight,
        )

    def _place(self, tensor: Tensor) -> Tensor:
        return tensor.to(self.device, self.dtype)

    def _check_finite(self, steps: Tensor, names: list[str], epoch: int) -> None:
        """Raise an error that names the first loss terms that became NaN or infinite; (steps, terms)."""
        broken = ~steps.isfinite()
        if broken.any():
            step = int(broken.any(dim=1).nonzero()[0])
            first = [name for name, is_broken in zip(names, broken[step].tolist(), strict=True) if is_broken]
            raise self._stop(epoch, f"in step {step + 1}, {', '.join(first)} stopped being finite")

    def _check_planner(self, epoch: int) -> None:
        """Check the parameters before they are saved: no loss follows the last update of an epoch to show NaN."""
        modules = self.learner.modules.values()
        if not all(parameter.isfinite().all() for module in modules for parameter in module.parameters()):
            raise self._stop(epoch, "the parameters stopped being finite")
        if not self.planner.check_finite(self.data):
            raise self._stop(epoch, "the predictions for validation windows stopped being finite")

    def _stop(self, epoch: int, what: str) -> TrainingError:
        kept = f"The state after epoch {epoch - 1} is kept." if epoch > 1 else "Nothing was saved yet."
        lower = f"--set optim.learning_rate={self.config.optim.learning_rate / 3:.1e}"
        return TrainingError(f"Epoch {epoch}: {what}. {kept} Continue with a lower rate: --resume {lower}.")

    def _keep(self, report: EpochReport, table: MetricsTable) -> None:
        """Save after every epoch; the state for `--resume` comes last, so that at worst the rest is written twice."""
        rate = self.learner.learning_rate
        seconds = {"seconds": round(report.seconds, 3), "cpu_s": round(report.cpu_s, 3)}
        row = {"epoch": report.epoch, **report.values, "learning_rate": rate, **seconds}
        table.add(row)
        self.trackers.log(report.epoch, row)
        if report.is_best:
            save_best(self.request.run, TrainedPlanner(self.planner, self.transitions, self.header))
        save_last(self.request.run, self.learner, self.header)

    def _is_over(self) -> bool:
        """Whether the CPU budget is too small for another epoch, or validation has not improved for too long."""
        optim, done = self.config.optim, self.progress
        with_next_s = self.cpu_s * (done.epoch + 1) / max(1, done.epoch)
        is_spent = optim.max_cpu_s is not None and with_next_s > optim.max_cpu_s
        return is_spent or (optim.patience is not None and done.epoch - done.best_epoch >= optim.patience)

    def _new_planner(self) -> BasePlanner:
        torch.manual_seed(seed_for(self.config.seed, "parameters"))
        planner = class_of(self.config)(PlannerShape.of(self.data, self.config), self.config)
        planner.fit(self.data)
        return planner.to(self.device, self.dtype)


class _EpochRandomness:
    """The random numbers of one epoch, the same in every process except for dropout."""

    def __init__(self, config: Config, train: WindowTensors, epoch: int, world: World) -> None:
        def generator(purpose: str) -> torch.Generator:
            return torch.Generator().manual_seed(seed_for(config.seed, purpose, epoch))

        width, num_windows, size = config.model.noise_width, len(train), config.optim.batch_size
        num_steps = -(-num_windows // size)
        self.lengths = train.lengths
        order = torch.randperm(num_windows, generator=generator("order"))
        self.batches = list(order.split(size))
        self.evidence = None
        if config.data.has_lengths:  # all windows of a batch have one length
            self.batches = [
                part for length in config.data.horizons for part in order[self.lengths[order] == length].split(size)
            ]
            shuffled = torch.randperm(len(self.batches), generator=generator("batches"))
            self.batches = [self.batches[number] for number in shuffled.tolist()]
            self.evidence = torch.rand(num_windows, len(EVIDENCE), generator=generator("evidence"))
        self.noise = torch.randn(num_windows, width, generator=generator("noise")) if width else None
        self.latents = (
            torch.randn(num_steps, config.loss.latents, width, generator=generator("latents"))
            if width and config.loss.diversity
            else None
        )
        torch.manual_seed(seed_for(config.seed, "dropout", epoch, world.rank))


def seed_for(seed: int, purpose: str, *place: int) -> int:
    """The seed of one purpose at one place, such as an epoch; torch takes 63 bits."""
    return hash_number(f"{seed}/{purpose}/{'/'.join(map(str, place))}") >> 1


def _check_split(request: TrainRequest) -> None:
    """A split without validation videos goes with choices that were made elsewhere."""
    split = request.config.data.split
    has_validation = "val" in sides_of(split)
    if not has_validation and request.fixed is None:
        raise ConfigError(f"split={split} leaves no video for validation: type --folds 5 --fit-all.")
    if has_validation and request.fixed is not None:
        raise AssertionError("choices are fixed, although there are validation windows")


def _check_world(config: Config, world: World) -> None:
    if world.size > config.optim.batch_size:
        raise ConfigError(f"{world.size} processes for optim.batch_size={config.optim.batch_size}: some would be idle.")
    if world.size > 1 and config.loss.supervision == "visual":
        raise ConfigError("loss.supervision=visual takes its negatives from the whole batch: train it in one process.")
