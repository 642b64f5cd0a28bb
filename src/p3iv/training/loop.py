"""Training: epochs over shuffled windows, validation after each, checkpoints, and a run folder that explains itself.

Every random draw is named by the seed and its place (the epoch; for noise, also the window's index), never by what was
drawn before. So a run that was interrupted ends bit for bit where an uninterrupted one ends (on the CPU, with the same
threads and processes), and but for dropout the number of processes does not change what a window sees.
"""

from __future__ import annotations

import hashlib
import os
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from pathlib import Path

import torch
from torch import Tensor

from p3iv.config import Config
from p3iv.data.folder import Dataset
from p3iv.data.tensors import PlanningData, load_planning_data
from p3iv.errors import ConfigError, TrainingError
from p3iv.files import exclusive
from p3iv.metrics.plans import PlanScores, score_plans
from p3iv.planners.base import Batch, Learner, PlannerShape
from p3iv.planners.checkpoint import LAST, Header, Progress, TrainedPlanner, load_last, save_best, save_last
from p3iv.planners.device import check_precision, choose_device, dtype_of
from p3iv.planners.p3iv.learner import EVALUATION_BATCH
from p3iv.planners.registry import kind_of
from p3iv.plans.transitions import fit_transitions
from p3iv.training.distributed import World, join_world
from p3iv.training.run_folder import MetricsTable, check_run, open_run, write_card


@dataclass(frozen=True)
class EpochReport:
    """What is known after an epoch."""

    epoch: int
    epochs: int
    terms: dict[str, float]  # means over the steps of the epoch
    val: PlanScores
    is_best: bool
    seconds: float
    cpu_s: float  # of the whole run so far


@dataclass(frozen=True)
class StepReport:
    """What is known after a step."""

    epoch: int
    epochs: int
    step: int  # from 1
    num_steps: int  # per epoch
    terms: dict[str, Tensor]  # of this process's windows, not yet read from the device


@dataclass(frozen=True)
class TrainRequest:
    """What to train, on what, where to."""

    dataset: Dataset
    run: Path
    config: Config
    resume: bool = False
    overwrite: bool = False
    device: str = "auto"
    on_step: Callable[[StepReport], None] = lambda _: None
    on_epoch: Callable[[EpochReport], None] = lambda _: None
    on_note: Callable[[str], None] = lambda _: None


@dataclass(frozen=True)
class TrainResult:
    """How a run ended."""

    run: Path
    epochs: int
    best_epoch: int
    best: PlanScores | None  # on validation
    cpu_s: float


def train(request: TrainRequest) -> TrainResult:
    """Train a planner into a run folder.

    Raises:
        BusyError: where another process is training into it.
    """
    if int(os.environ.get("RANK", "0")) != 0:  # the others never look at the folder
        return _train(request)
    with exclusive(request.run, doing=f"is training in {request.run}"):
        check_run(request.run, resume=request.resume, overwrite=request.overwrite)
        return _train(request)


def _train(request: TrainRequest) -> TrainResult:
    device = choose_device(request.device)
    check_precision(request.config.optim, device)
    kind, config = kind_of(request.config.planner), request.config
    is_visual, nearby_s = kind.is_visual(config), kind.nearby_s(config)
    data = load_planning_data(request.dataset, config.data, with_steps=is_visual, nearby_s=nearby_s)
    for note in data.notes:
        request.on_note(note)
    with join_world(device) as world:
        _check_world(request.config, world)
        return _Run(request, data, device, world).train()


class _Run:
    """One run, from the first epoch or from where it stopped."""

    def __init__(self, request: TrainRequest, data: PlanningData, device: torch.device, world: World) -> None:
        self.request, self.config, self.data, self.device, self.world = request, request.config, data, device, world
        self.dtype = dtype_of(self.config.optim)
        self.cpu_at_start = time.process_time()
        self.kind = kind_of(self.config.planner)
        self.transitions = fit_transitions(data)
        self.learner = self._new_learner()
        self.planner = self.learner.modules["planner"]
        self.num_epochs = self.config.optim.epochs_over(len(data.train)) if self.learner.optimizers else 1
        self.header = Header(
            config=self.config,
            shape=_shape_of(data, self.config),
            names=data.names,
            encoder=data.encoder,
            data_label=data.label,
            data_fingerprint=data.fingerprint,
            progress=Progress(epoch=0, cpu_s=0.0, best_epoch=0, best=None),
        )
        if request.resume and (request.run / LAST).exists():
            self.header = replace(self.header, progress=load_last(request.run, self.learner, self.header))
        elif request.resume:
            request.on_note(f"{request.run} has no checkpoint yet: starting at epoch 1")
        self.resumed_cpu_s = self.progress.cpu_s

    @property
    def progress(self) -> Progress:
        return self.header.progress

    def train(self) -> TrainResult:
        """Run the epochs that are left, keeping the best planner and the last state."""
        table = self._open() if self.world.is_first else None
        try:
            while self.progress.epoch < self.num_epochs and not self._has_had_enough():
                report = self._one_epoch(self.progress.epoch + 1)
                if table is not None:
                    self._keep(report, table)
                self.request.on_epoch(report)
        finally:
            if table is not None:
                table.close()
                write_card(self.request.run, self.header, self.data)
        done = self.progress
        return TrainResult(self.request.run, done.epoch, done.best_epoch, done.best, done.cpu_s)

    def _open(self) -> MetricsTable:
        open_run(
            self.request.run,
            self.config,
            data_label=self.data.label,
            dataset=self.request.dataset.folder,
            device=str(self.device),
            overwrite=self.request.overwrite,
        )
        return MetricsTable(self.request.run, finished_epochs=self.progress.epoch)

    def _one_epoch(self, epoch: int) -> EpochReport:
        began = time.monotonic()
        terms = self._train_epoch(epoch) if self.learner.optimizers else {}
        self._check_planner(epoch)
        self.kind.settle(self.planner, self.data)
        val = score_plans(self._predict_val(), self.data.val.action_ids)
        merit, best = self.kind.merit(self.planner, self.data, val), self.progress.best
        is_best = best is None or merit > self.progress.merit
        progress = Progress(
            epoch=epoch,
            cpu_s=self.resumed_cpu_s + self.world.total(time.process_time() - self.cpu_at_start),
            best_epoch=epoch if is_best else self.progress.best_epoch,
            best=val if is_best else best,
            merit=merit if is_best else self.progress.merit,
        )
        self.header = replace(self.header, progress=progress)
        seconds = time.monotonic() - began
        return EpochReport(epoch, self.num_epochs, terms, val, is_best, seconds, progress.cpu_s)

    def _predict_val(self) -> Tensor:
        """The plans to follow of the validation windows: (N, T)."""
        self.planner.eval()
        val = self.data.val
        with torch.no_grad():
            parts = [
                self.kind.predict(self.planner, self.transitions, self._place(start), self._place(goal)).cpu()
                for start, goal in zip(val.start.split(EVALUATION_BATCH), val.goal.split(EVALUATION_BATCH), strict=True)
            ]
        return torch.cat(parts)

    def _train_epoch(self, epoch: int) -> dict[str, float]:
        """One pass over the training windows; returns the means of the named terms."""
        optim = self.config.optim
        rate = optim.decay ** ((epoch - 1) // optim.decay_every)
        for name, optimizer in self.learner.optimizers.items():
            _set_rate(optimizer, self.learner.rates[name] * rate)
        draws = _Draws(self.config, len(self.data.train), epoch, self.world)
        batches = draws.order.split(optim.batch_size)
        history, names = [], []
        for step, indices in enumerate(batches):
            own = self.world.share_of(indices)
            batch = self._batch(own, draws, share=len(own) * self.world.size / len(indices))
            latents = None if draws.latents is None else self._place(draws.latents[step][None])
            terms = self.learner.train_step(batch, latents)
            names = list(terms)
            values = torch.stack(list(terms.values()))
            # A process without a window in this batch has nothing to say, and its means over nothing are no numbers.
            history.append(values * batch.share if len(own) else torch.zeros_like(values))
            self.request.on_step(StepReport(epoch, self.num_epochs, step + 1, len(batches), terms))
        steps = self.world.mean(torch.stack(history))  # (steps, terms)
        self._check_finite(steps, names, epoch)
        sizes = torch.tensor([len(indices) for indices in batches], device=steps.device, dtype=steps.dtype)
        return dict(zip(names, (sizes @ steps / len(draws.order)).tolist(), strict=True))

    def _batch(self, indices: Tensor, draws: _Draws, *, share: float) -> Batch:
        train = self.data.train
        return Batch(
            start=self._place(train.start[indices]),
            goal=self._place(train.goal[indices]),
            action_ids=train.action_ids[indices].to(self.device),
            noise=None if draws.noise is None else self._place(draws.noise[indices]),
            steps=None if train.steps is None else self._place(train.steps[indices]),
            rows=indices,
            share=share,
        )

    def _place(self, tensor: Tensor) -> Tensor:
        return tensor.to(self.device, self.dtype)

    def _check_finite(self, steps: Tensor, names: list[str], epoch: int) -> None:
        """Name the terms that were the first to be no numbers; (steps, terms)."""
        broken = ~steps.isfinite()
        if broken.any():
            step = int(broken.any(dim=1).nonzero()[0])
            first = [name for name, is_broken in zip(names, broken[step].tolist(), strict=True) if is_broken]
            raise self._stop(epoch, f"in step {step + 1}, {', '.join(first)} stopped being finite")

    def _check_planner(self, epoch: int) -> None:
        """Losses are taken before each update: what the last one of an epoch broke shows here, before it is saved."""
        modules = self.learner.modules.values()
        if not all(parameter.isfinite().all() for module in modules for parameter in module.parameters()):
            raise self._stop(epoch, "the parameters stopped being finite")
        few = self.data.val.start[:64], self.data.val.goal[:64]
        self.planner.eval()
        with torch.no_grad():
            scores = self.kind.scores(self.planner, *map(self._place, few))
        if not scores.isfinite().all():
            raise self._stop(epoch, "the predictions for validation windows stopped being finite")

    def _stop(self, epoch: int, what: str) -> TrainingError:
        kept = f"The state after epoch {epoch - 1} is kept." if epoch > 1 else "Nothing was saved yet."
        lower = f"--set optim.learning_rate={self.config.optim.learning_rate / 3:.1e}"
        return TrainingError(f"Epoch {epoch}: {what}. {kept} Go on with a lower rate: --resume {lower}.")

    def _keep(self, report: EpochReport, table: MetricsTable) -> None:
        """Save after every epoch; what a run goes on from comes last, so that the rest is at most repeated."""
        scores = {f"val_{name}": value for name, value in asdict(report.val).items() if name != "num_windows"}
        rate = next((o.param_groups[0]["lr"] for o in self.learner.optimizers.values()), 0.0)
        seconds = {"seconds": round(report.seconds, 3), "cpu_s": round(report.cpu_s, 3)}
        table.add({"epoch": report.epoch, **report.terms, **scores, "learning_rate": rate, **seconds})
        if report.is_best:
            save_best(self.request.run, TrainedPlanner(self.planner, self.transitions, self.header))
        save_last(self.request.run, self.learner, self.header)

    def _has_had_enough(self) -> bool:
        """Whether the budget would not last for another epoch, or validation has not improved for too long."""
        optim, done = self.config.optim, self.progress
        with_next_s = done.cpu_s * (done.epoch + 1) / max(1, done.epoch)
        is_spent = optim.max_cpu_s is not None and with_next_s > optim.max_cpu_s
        return is_spent or (optim.patience is not None and done.epoch - done.best_epoch >= optim.patience)

    def _new_learner(self) -> Learner:
        torch.manual_seed(name_seed(self.config.seed, "parameters"))
        planner = self.kind.build(_shape_of(self.data, self.config), self.config)
        self.kind.fit(planner, self.data)
        planner = planner.to(self.device, self.dtype)
        return self.kind.teach(planner, self.data, self.config, self.world.average_gradients)


class _Draws:
    """The random numbers of one epoch, the same in every process but for dropout."""

    def __init__(self, config: Config, num_windows: int, epoch: int, world: World) -> None:
        def generator(purpose: str) -> torch.Generator:
            return torch.Generator().manual_seed(name_seed(config.seed, purpose, epoch))

        width = config.model.noise_width
        num_steps = -(-num_windows // config.optim.batch_size)
        self.order = torch.randperm(num_windows, generator=generator("order"))
        self.noise = torch.randn(num_windows, width, generator=generator("noise")) if width else None
        self.latents = (
            torch.randn(num_steps, config.loss.latents, width, generator=generator("latents"))
            if width and config.loss.diversity
            else None
        )
        torch.manual_seed(name_seed(config.seed, "dropout", epoch, world.rank))


def name_seed(seed: int, purpose: str, *place: int) -> int:
    """A seed of 63 bits for one purpose at one place."""
    digest = hashlib.sha256(f"{seed}/{purpose}/{'/'.join(map(str, place))}".encode()).digest()
    return int.from_bytes(digest[:8], "big") >> 1


def _shape_of(data: PlanningData, config: Config) -> PlannerShape:
    is_visual = config.loss.supervision == "visual"
    language_width = data.language.shape[1] if data.language is not None else 1
    return PlannerShape(
        horizon=data.train.action_ids.shape[1],
        num_actions=len(data.names),
        feature_width=data.train.start.shape[1],
        target_width=data.train.start.shape[1] if is_visual else language_width,
    )


def _set_rate(optimizer: torch.optim.Optimizer, rate: float) -> None:
    for group in optimizer.param_groups:
        group["lr"] = rate


def _check_world(config: Config, world: World) -> None:
    if world.size > config.optim.batch_size:
        raise ConfigError(f"{world.size} processes for optim.batch_size={config.optim.batch_size}: some would be idle.")
    if world.size > 1 and config.loss.supervision == "visual":
        raise ConfigError("loss.supervision=visual takes its negatives from the whole batch: train it in one process.")
