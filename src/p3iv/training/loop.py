"""Training: epochs over shuffled windows, validation after each, checkpoints, and a run folder that explains itself.

Every random draw is named by the seed and its place (the epoch, the window's index), never by what was drawn before.
So a run that was interrupted ends bit for bit where an uninterrupted one ends, and the number of processes does not
change what a window sees.
"""

from __future__ import annotations

import hashlib
import json
import math
import os
import shutil
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from pathlib import Path

import torch
from torch import Tensor

from p3iv.atomic import write_text
from p3iv.config import Config
from p3iv.dataset import Dataset
from p3iv.environment import describe_environment
from p3iv.errors import ConfigError, TrainingError
from p3iv.metrics import PlanScores, score_plans
from p3iv.models import P3IV, PlannerShape
from p3iv.observations import PlanningData, WindowTensors, load_planning_data
from p3iv.training.card import write_card
from p3iv.training.checkpoint import LAST, Header, Progress, load_last, save_best, save_last
from p3iv.training.distributed import World, join_world
from p3iv.training.learner import Batch, P3ivLearner
from p3iv.training.tracking import MetricsTable

EVALUATION_BATCH = 1024


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
    """Train a planner into a run folder."""
    device = choose_device(request.device)
    _check_request(request, device)
    data = load_planning_data(
        request.dataset, request.config.data, with_steps=request.config.loss.supervision == "visual"
    )
    for note in data.notes:
        request.on_note(note)
    with join_world(device) as world:
        _check_world(request.config, world)
        return _Run(request, data, device, world).train()


def choose_device(name: str) -> torch.device:
    """`auto` takes cuda, then mps, then the CPU; in several processes, each its own cuda device."""
    there = {"cuda": torch.cuda.is_available(), "mps": torch.backends.mps.is_available(), "cpu": True}
    kind = next(kind for kind in there if there[kind]) if name == "auto" else name.split(":", maxsplit=1)[0]
    if not there.get(kind):
        available = ", ".join(kind for kind in there if there[kind])
        raise ConfigError(f"--device {name}, but this machine has: {available}. Use one of them, or auto.")
    if kind == "cuda" and ":" not in name:
        return torch.device("cuda", int(os.environ.get("LOCAL_RANK", "0")))
    return torch.device(kind if name == "auto" else name)


def predict_argmax(planner: P3IV, windows: WindowTensors, device: torch.device) -> Tensor:
    """The most likely action of every position at z = 0: (N, T)."""
    planner.eval()
    dtype = planner.queries.dtype
    with torch.no_grad():
        plans = [
            planner(start.to(device, dtype), goal.to(device, dtype)).action_logits.argmax(dim=-1).cpu()
            for start, goal in zip(
                windows.start.split(EVALUATION_BATCH), windows.goal.split(EVALUATION_BATCH), strict=True
            )
        ]
    return torch.cat(plans)


class _Run:
    """One run, from the first epoch or from where it stopped."""

    def __init__(self, request: TrainRequest, data: PlanningData, device: torch.device, world: World) -> None:
        self.request, self.config, self.data, self.device, self.world = request, request.config, data, device, world
        self.dtype = torch.float64 if self.config.optim.precision == "float64" else torch.float32
        self.cpu_at_start = time.process_time()
        self.learner = self._new_learner()
        self.header = Header(
            config=self.config,
            shape=self.learner.planner.shape,
            names=data.names,
            data_label=data.label,
            feature_fingerprint=data.fingerprint,
            progress=Progress(epoch=0, cpu_s=0.0, best_epoch=0, best=None),
        )
        if request.resume and (request.run / LAST).exists():
            self.header = replace(self.header, progress=load_last(request.run, self.learner, self.header))
        self.resumed_cpu_s = self.progress.cpu_s

    @property
    def progress(self) -> Progress:
        return self.header.progress

    def train(self) -> TrainResult:
        """Run the epochs that are left, keeping the best planner and the last state."""
        table = None
        if self.world.is_first:
            self._open_folder()
            table = MetricsTable(self.request.run, finished_epochs=self.progress.epoch)
        while self.progress.epoch < self.config.optim.epochs and not self._is_over_budget():
            report = self._one_epoch(self.progress.epoch + 1)
            if table is not None:
                self._keep(report, table)
            self.request.on_epoch(report)
        if table is not None:
            table.close()
            write_card(self.request.run, self.header, self.data)
        done = self.progress
        return TrainResult(self.request.run, done.epoch, done.best_epoch, done.best, done.cpu_s)

    def _one_epoch(self, epoch: int) -> EpochReport:
        began = time.monotonic()
        terms = self._train_epoch(epoch)
        val = score_plans(predict_argmax(self.learner.planner, self.data.val, self.device), self.data.val.action_ids)
        best = self.progress.best
        is_best = best is None or (val.success_rate, val.mean_accuracy) > (best.success_rate, best.mean_accuracy)
        progress = Progress(
            epoch=epoch,
            cpu_s=self.resumed_cpu_s + time.process_time() - self.cpu_at_start,
            best_epoch=epoch if is_best else self.progress.best_epoch,
            best=val if is_best else best,
        )
        self.header = replace(self.header, progress=progress)
        seconds = time.monotonic() - began
        return EpochReport(epoch, self.config.optim.epochs, terms, val, is_best, seconds, progress.cpu_s)

    def _train_epoch(self, epoch: int) -> dict[str, float]:
        """One pass over the training windows; returns the means of the named terms."""
        optim = self.config.optim
        rate = optim.decay ** ((epoch - 1) // optim.decay_every)
        _set_rate(self.learner.optimizer, optim.learning_rate * rate)
        _set_rate(self.learner.critic_optimizer, optim.critic_learning_rate * rate)
        draws = _Draws(self.config, len(self.data.train), epoch, self.world)
        sums: dict[str, Tensor] = {}
        batches = draws.order.split(optim.batch_size)
        for step, indices in enumerate(batches):
            own = self.world.share_of(indices)
            batch = self._batch(own, draws, share=len(own) * self.world.size / len(indices))
            latents = None if draws.latents is None else self._place(draws.latents[step][None])
            terms = self.learner.train_step(batch, latents)
            for name, term in terms.items():
                sums[name] = sums.get(name, 0.0) + term * (batch.share * len(indices) / len(draws.order))
            self.request.on_step(StepReport(epoch, step + 1, len(batches), terms))
        means = dict(zip(sums, self.world.mean(torch.stack(list(sums.values()))).tolist(), strict=True))
        self._check_finite(means, epoch)
        return means

    def _batch(self, indices: Tensor, draws: _Draws, *, share: float) -> Batch:
        train = self.data.train
        return Batch(
            start=self._place(train.start[indices]),
            goal=self._place(train.goal[indices]),
            action_ids=train.action_ids[indices].to(self.device),
            noise=None if draws.noise is None else self._place(draws.noise[indices]),
            steps=None if train.steps is None else self._place(train.steps[indices]),
            share=share,
        )

    def _place(self, tensor: Tensor) -> Tensor:
        return tensor.to(self.device, self.dtype)

    def _check_finite(self, terms: dict[str, float], epoch: int) -> None:
        """A term that is not finite anywhere in an epoch is not finite in its mean."""
        broken = [name for name, value in terms.items() if not math.isfinite(value)]
        if broken:
            kept = f"The state after epoch {epoch - 1} is kept." if epoch > 1 else "Nothing was saved yet."
            raise TrainingError(
                f"Epoch {epoch}: {', '.join(broken)} stopped being finite. {kept} Try a lower rate "
                f"(--set optim.learning_rate={self.config.optim.learning_rate / 3:.1e}), and look for wild values in "
                f"the features with `p3iv data check`."
            )

    def _keep(self, report: EpochReport, table: MetricsTable) -> None:
        """Save after every epoch: first what the run goes on from, then the planner if it is the best yet."""
        if report.is_best:
            save_best(self.request.run, self.learner.planner, self.header)
        save_last(self.request.run, self.learner, self.header)
        scores = {f"val_{name}": value for name, value in asdict(report.val).items() if name != "num_windows"}
        rate = self.learner.optimizer.param_groups[0]["lr"]
        seconds = {"seconds": round(report.seconds, 3), "cpu_s": round(report.cpu_s, 3)}
        table.add({"epoch": report.epoch, **report.terms, **scores, "learning_rate": rate, **seconds})

    def _open_folder(self) -> None:
        self.request.run.mkdir(parents=True, exist_ok=True)
        write_text(self.request.run / "config.yaml", self.config.to_yaml())
        environment = asdict(describe_environment()) | {
            "data": self.data.label,
            "dataset": str(self.request.dataset.folder.resolve()),  # where later commands look, unless told otherwise
            "device": str(self.device),
        }
        write_text(self.request.run / "environment.json", json.dumps(environment, indent=2) + "\n")

    def _is_over_budget(self) -> bool:
        limit = self.config.optim.max_cpu_s
        return limit is not None and self.progress.cpu_s >= limit

    def _new_learner(self) -> P3ivLearner:
        torch.manual_seed(name_seed(self.config.seed, "parameters"))
        shape = _shape_of(self.data, self.config)
        planner = P3IV(shape, self.config.model)
        planner.fit_scale(torch.cat((self.data.train.start, self.data.train.goal)))
        language = None if self.data.language is None else self._place(self.data.language)
        planner = planner.to(self.device, self.dtype)
        return P3ivLearner(planner, self.config, language, sync=self.world.average_gradients)


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


def _check_request(request: TrainRequest, device: torch.device) -> None:
    run = request.run
    if run.exists() and not run.is_dir():
        raise TrainingError(f"{run} is a file; name a folder.")
    if run.is_dir() and any(run.iterdir()) and not (request.resume or request.overwrite):
        raise TrainingError(f"{run} is not empty. Pass --resume to go on with a run, --overwrite, or another --out.")
    if run.is_dir() and request.overwrite and not request.resume:
        _remove_run(run)
    if request.config.optim.precision == "mixed" and device.type != "cuda":
        raise ConfigError(f"optim.precision=mixed runs on cuda only, and the device is {device}. Use float32.")


def _remove_run(run: Path) -> None:
    """Only what looks like a run is removed."""
    if any(run.iterdir()) and not (run / "config.yaml").exists():
        raise TrainingError(f"{run} has no config.yaml, so it is no run, and --overwrite does not touch it.")
    shutil.rmtree(run)


def _check_world(config: Config, world: World) -> None:
    if world.size > config.optim.batch_size:
        raise ConfigError(f"{world.size} processes for optim.batch_size={config.optim.batch_size}: some would be idle.")
    if world.size > 1 and config.loss.supervision == "visual":
        raise ConfigError("loss.supervision=visual takes its negatives from the whole batch: train it in one process.")
