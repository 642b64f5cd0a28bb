"""`--track`: the rows of metrics.csv, also in TensorBoard, MLflow or Weights & Biases.

metrics.csv stays the truth: training reads nothing from a tracker, and a tracker that fails is left out from then on.
Nothing leaves the machine unless the user has configured it: MLFLOW_TRACKING_URI names a server, WANDB_MODE=online
sends to one.
"""

from __future__ import annotations

import json
import os
import shlex
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any, Protocol
from uuid import uuid4

from p3iv.catalogue import TRACKER_NAMES
from p3iv.config import SECTIONS, Config
from p3iv.errors import ConfigError, MissingExtraError, one_of
from p3iv.files import write_text
from p3iv.validation import cut, shown

TRACKING_FILE = "tracking.json"  # the ids of the run in MLflow and W&B, which a resumed run keeps


class Tracker(Protocol):
    """Shows a run in one library's user interface."""

    def start(self, config: Config, run: Path, finished_epochs: int) -> str:
        """Begin a tracked run, or continue it after so many epochs; returns how to look at it."""

    def log(self, epoch: int, values: Mapping[str, float]) -> None:
        """Add a row of metrics.csv."""

    def finish(self, *, completed: bool) -> None:
        """Write what is still in memory; `completed` is false if an error or the user stopped the training."""


class Trackers:
    """The trackers that the user asked for; what fails in one of them is a note and changes nothing else.

    Raises:
        ConfigError: there is no tracker of this name.
        MissingExtraError: its library is not installed.
    """

    def __init__(self, names: Sequence[str], on_note: Callable[[str], object]) -> None:
        if unknown := [name for name in names if name not in TRACKERS]:
            raise ConfigError(f"--track {shown(unknown[0])}, but it must be {one_of(unknown[0], TRACKERS)}")
        self._trackers: dict[str, Tracker] = {name: TRACKERS[name]() for name in names}
        self._on_note = on_note

    def start(self, config: Config, run: Path, finished_epochs: int) -> None:
        """Begin or continue all of them."""
        for name in list(self._trackers):
            if how_to_look := self._call(name, lambda tracker: tracker.start(config, run, finished_epochs)):
                self._on_note(f"tracked by {name}; to look at it: {how_to_look}")

    def log(self, epoch: int, values: Mapping[str, float]) -> None:
        """Add a row of metrics.csv to all of them."""
        for name in list(self._trackers):
            self._call(name, lambda tracker: tracker.log(epoch, values))

    def finish(self, *, completed: bool) -> None:
        """End all of them."""
        for name in list(self._trackers):
            self._call(name, lambda tracker: tracker.finish(completed=completed))

    def _call(self, name: str, act: Callable[[Tracker], Any]) -> Any:
        try:
            return act(self._trackers[name])
        except Exception as error:  # whatever a library raises: training is worth more than a copy of its numbers
            del self._trackers[name]
            reason = cut(" ".join(str(error).split())) or type(error).__name__
            self._on_note(f"--track {name} failed and is left out: {reason}. Training goes on, see metrics.csv")
            return None


class TensorBoardTracker:
    """Event files in RUN/tensorboard."""

    def __init__(self) -> None:
        try:
            from torch.utils.tensorboard import SummaryWriter
        except ImportError as error:
            raise MissingExtraError("TensorBoard", "track", "--track tensorboard") from error
        self._open = SummaryWriter

    def start(self, config: Config, run: Path, finished_epochs: int) -> str:
        """Begin, or hide what an interrupted run has written about epochs that are trained again."""
        folder = run / "tensorboard"
        self._writer = self._open(folder, purge_step=finished_epochs + 1)
        self._writer.add_text("config", f"```yaml\n{config.to_yaml()}```", finished_epochs + 1)
        return f"tensorboard --logdir {shlex.quote(str(folder))}"

    def log(self, epoch: int, values: Mapping[str, float]) -> None:
        """Write the values to the disk at once, so that a full disk is noticed here."""
        for name, value in values.items():
            self._writer.add_scalar(name, value, epoch)
        self._writer.flush()

    def finish(self, *, completed: bool) -> None:
        """Close the event file, which does not say how training ended."""
        self._writer.close()


class MlflowTracker:
    """A run in RUN/mlflow, or on the server of MLFLOW_TRACKING_URI."""

    def __init__(self) -> None:
        _set_defaults(
            MLFLOW_DISABLE_TELEMETRY="true",
            MLFLOW_ALLOW_FILE_STORE="true",  # mlflow-skinny has no other local store
            MLFLOW_HTTP_REQUEST_MAX_RETRIES="1",  # mlflow would hold up training for minutes when its server is gone
            MLFLOW_HTTP_REQUEST_TIMEOUT="10",
        )
        try:
            from mlflow.entities import Metric, Param
            from mlflow.tracking import MlflowClient
        except ImportError as error:
            raise MissingExtraError("MLflow", "mlflow", "--track mlflow") from error
        self._connect, self._metric, self._param = MlflowClient, Metric, Param

    def start(self, config: Config, run: Path, finished_epochs: int) -> str:
        """Begin, or continue the run whose id is in the run folder."""
        uri = os.environ.get("MLFLOW_TRACKING_URI") or (run / "mlflow").resolve().as_uri()
        self._client = self._connect(uri)
        run_id = _read_ids(run).get("mlflow")
        self._id = run_id or self._begin(config, run)
        self._client.update_run(self._id, "RUNNING")
        # A killed process may have logged an epoch that it did not save and that is trained again.
        self._logged = self._client.get_run(self._id).data.metrics.get("epoch", 0)
        return f"MLFLOW_ALLOW_FILE_STORE=true mlflow ui --backend-store-uri {shlex.quote(uri)}"

    def _begin(self, config: Config, run: Path) -> str:
        experiment = os.environ.get("MLFLOW_EXPERIMENT_NAME", "p3iv")
        known = self._client.get_experiment_by_name(experiment)
        place = known.experiment_id if known else self._client.create_experiment(experiment)
        run_id: str = self._client.create_run(place, run_name=run.resolve().name).info.run_id
        params = [self._param(name, str(value)) for name, value in _settings_of(config).items()]
        self._client.log_batch(run_id, params=params)
        _keep_id(run, "mlflow", run_id)
        return run_id

    def log(self, epoch: int, values: Mapping[str, float]) -> None:
        """Add the values of an epoch that has none yet."""
        if epoch > self._logged:
            now_ms = time.time_ns() // 10**6
            metrics = [self._metric(name, value, now_ms, epoch) for name, value in values.items()]
            self._client.log_batch(self._id, metrics)

    def finish(self, *, completed: bool) -> None:
        """Set the status of the run."""
        self._client.set_terminated(self._id, "FINISHED" if completed else "KILLED")


class WandbTracker:
    """A run in RUN/wandb, which is sent to a server only if the user has set WANDB_MODE=online."""

    def __init__(self) -> None:
        _set_defaults(WANDB_ERROR_REPORTING="false")  # read when wandb is imported
        try:
            import wandb
        except ImportError as error:
            raise MissingExtraError("Weights & Biases", "wandb", "--track wandb") from error
        self._wandb: Any = wandb

    def start(self, config: Config, run: Path, finished_epochs: int) -> str:
        """Begin, or continue the run whose id is in the run folder."""
        run_id = _read_ids(run).get("wandb") or _keep_id(run, "wandb", uuid4().hex)
        mode = os.environ.get("WANDB_MODE", "offline")
        self._run = self._wandb.init(
            project=os.environ.get("WANDB_PROJECT", "p3iv"),
            name=run.resolve().name,
            id=run_id,
            resume="allow",
            dir=run,
            mode=mode,
            config=_settings_of(config),
            reinit="create_new",  # leaves a run of the user's own program alone
            settings=self._wandb.Settings(
                silent=True,
                console="off",
                disable_git=True,
                disable_code=True,
                x_disable_stats=True,
                x_disable_machine_info=True,
                x_save_requirements=False,
                init_timeout=30,
            ),
        )
        if mode == "offline":
            return f"wandb sync {shlex.quote(str(Path(self._run.dir).parent))} sends it to your account"
        return self._run.url or f"wandb runs in mode {mode}"

    def log(self, epoch: int, values: Mapping[str, float]) -> None:
        """Add the values as one step."""
        self._run.log(dict(values), step=epoch)

    def finish(self, *, completed: bool) -> None:
        """Wait until everything is written, or sent."""
        self._run.finish(exit_code=0 if completed else 1)


TRACKERS: dict[str, Callable[[], Tracker]] = dict(
    zip(TRACKER_NAMES, (TensorBoardTracker, MlflowTracker, WandbTracker), strict=True)
)


def _set_defaults(**variables: str) -> None:
    """Set environment variables that the user has not set."""
    for name, value in variables.items():
        os.environ.setdefault(name, value)


def _settings_of(config: Config) -> dict[str, Any]:
    """All settings by their dotted names, as `--set` takes them."""
    content = asdict(config)
    single = {name: value for name, value in content.items() if name not in SECTIONS}
    return single | {f"{section}.{name}": value for section in SECTIONS for name, value in content[section].items()}


def _read_ids(run: Path) -> dict[str, str]:
    path = run / TRACKING_FILE
    content = json.loads(path.read_text(encoding="utf-8")) if path.is_file() else {}
    return {str(name): str(value) for name, value in content.items()}


def _keep_id(run: Path, name: str, run_id: str) -> str:
    write_text(run / TRACKING_FILE, json.dumps({**_read_ids(run), name: run_id}, indent=2) + "\n")
    return run_id
