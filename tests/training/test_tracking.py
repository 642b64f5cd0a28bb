"""--track: what each library has afterwards, that training does not change, and what a failure does."""

from __future__ import annotations

import csv
import json
import socket
import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from p3iv.data.folder import Dataset
from p3iv.errors import ConfigError, MissingExtraError
from p3iv.planners.header import BEST, LAST
from p3iv.training.loop import TrainRequest, train
from p3iv.training.tracking import TRACKERS, TRACKING_FILE
from p3iv.types import Progress
from runs import quick

pytestmark = pytest.mark.filterwarnings("default")  # of the libraries, at their import

CONFIG = quick("p3iv-plus", epochs=3, model__memory_slots=4)
Series = dict[str, dict[int, float]]  # by name and epoch


@pytest.fixture(autouse=True)
def _no_servers(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("MLFLOW_TRACKING_URI", "MLFLOW_EXPERIMENT_NAME", "WANDB_MODE", "WANDB_PROJECT", "WANDB_DIR"):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture(scope="module")
def untracked(dataset: Dataset, make_once: Callable[..., Path]) -> Path:
    return make_once("untracked", lambda folder: train(TrainRequest(dataset, folder, CONFIG)))


class StopError(Exception):
    pass


def stop_after_first(at: Progress) -> None:
    if at.done == 1 and "val_success_rate" in at.values:
        raise StopError


def note_connections(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """A list that gets the address of every connection from now on."""
    addresses: list[Any] = []
    connect = socket.socket.connect

    def note(self: socket.socket, address: Any) -> None:
        addresses.append(address)
        connect(self, address)

    monkeypatch.setattr(socket.socket, "connect", note)
    return addresses


def assert_same_result(run: Path, other: Path) -> None:
    for file in (BEST, LAST):
        assert (run / file).read_bytes() == (other / file).read_bytes()


def read_csv(run: Path) -> Series:
    with (run / "metrics.csv").open() as file:
        rows = [{name: float(value) for name, value in row.items()} for row in csv.DictReader(file)]
    return {name: {int(row["epoch"]): row[name] for row in rows} for name in rows[0]}


def read_tensorboard(run: Path) -> Series:
    from tensorboard.backend.event_processing import event_accumulator  # type: ignore[import-untyped]

    events = event_accumulator.EventAccumulator(str(run / "tensorboard"))
    events.Reload()
    return {name: {e.step: e.value for e in events.Scalars(name)} for name in events.Tags()["scalars"]}


def read_mlflow(run: Path) -> Series:
    from mlflow.tracking import MlflowClient

    client, found = MlflowClient((run / "mlflow").resolve().as_uri()), mlflow_run(run)
    assert found.info.status == "FINISHED"
    assert found.data.params["model.memory_slots"] == "4"
    history = {name: client.get_metric_history(found.info.run_id, name) for name in found.data.metrics}
    assert all(len(points) == CONFIG.optim.epochs for points in history.values())  # every epoch once
    return {name: {point.step: point.value for point in points} for name, points in history.items()}


def mlflow_run(run: Path) -> Any:
    from mlflow.tracking import MlflowClient

    client = MlflowClient((run / "mlflow").resolve().as_uri())
    return client.get_run(json.loads((run / TRACKING_FILE).read_text())["mlflow"])


def read_wandb(run: Path) -> Series:
    series: Series = {}
    for record in wandb_records(run):
        items = {item.nested_key[0] if item.nested_key else item.key: item for item in record.history.item}
        for name, item in items.items():
            if not name.startswith("_"):
                series.setdefault(name, {})[record.history.step.num] = json.loads(item.value_json)
    return series


def wandb_records(run: Path) -> Iterator[Any]:
    """The records of all offline runs of a folder, which `wandb sync` would send."""
    from wandb.proto import wandb_internal_pb2

    protocol: Any = wandb_internal_pb2  # its classes are made at import
    ids = json.loads((run / TRACKING_FILE).read_text())
    for path in sorted(run.glob("wandb/offline-run-*/*.wandb")):
        assert path.name == f"run-{ids['wandb']}.wandb"
        for data in read_log(path.read_bytes()):
            record = protocol.Record()
            record.ParseFromString(data)
            yield record


def read_log(content: bytes) -> Iterator[bytes]:
    """The records of a log in the format of LevelDB: blocks of 32 KB of parts with a checksum, a length and a type."""
    at, record = 7, b""  # after wandb's own mark
    while at + 7 <= len(content):
        if (left := -at % 2**15) and left < 7:  # the end of a block, too short for a part
            at += left
            continue
        length, kind = int.from_bytes(content[at + 4 : at + 6], "little"), content[at + 6]
        record += content[at + 7 : at + 7 + length]
        at += 7 + length
        if kind in (1, 4):  # whole, or the last part
            yield record
            record = b""


READERS: Mapping[str, Callable[[Path], Series]] = {
    "tensorboard": read_tensorboard,
    "mlflow": read_mlflow,
    "wandb": read_wandb,
}


def test_every_tracker_has_the_rows_of_metrics_csv_and_training_ends_the_same(
    dataset: Dataset, untracked: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Interrupted and resumed: the tracked runs continue, too."""
    connected = note_connections(monkeypatch)
    run, notes = tmp_path / "run", list[str]()
    request = TrainRequest(dataset, run, CONFIG, track=tuple(TRACKERS), on_note=notes.append)
    with pytest.raises(StopError):
        train(replace(request, on_progress=stop_after_first))
    assert mlflow_run(run).info.status == "KILLED"
    train(replace(request, resume=True))
    assert_same_result(run, untracked)
    assert not [note for note in notes if "failed" in note]
    expected = read_csv(run)
    for name, read in READERS.items():
        found = read(run)
        assert found.keys() == expected.keys(), name
        for column, values in expected.items():
            assert found[column] == pytest.approx(values, rel=1e-6), (name, column)  # TensorBoard has float32
    assert all(isinstance(to, str | bytes) or to[0] in ("127.0.0.1", "localhost", "::1") for to in connected)


def test_a_tracker_that_fails_is_a_note(
    dataset: Dataset, untracked: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A folder that is a file, and a server that nobody runs."""
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        monkeypatch.setenv("MLFLOW_TRACKING_URI", f"http://127.0.0.1:{unused.getsockname()[1]}")
        monkeypatch.setenv("MLFLOW_HTTP_REQUEST_MAX_RETRIES", "0")
        run, notes = tmp_path / "run", list[str]()

        def block(at: Progress) -> None:
            if at.done == 0:  # before the run folder is filled
                run.mkdir(exist_ok=True)
                (run / "tensorboard").write_text("in the way")

        train(
            TrainRequest(dataset, run, CONFIG, track=("tensorboard", "mlflow"), on_progress=block, on_note=notes.append)
        )
    assert [note.split(" failed")[0] for note in notes if "failed" in note] == ["--track tensorboard", "--track mlflow"]
    assert_same_result(run, untracked)


def test_a_tracker_that_fails_later_is_left_out(
    dataset: Dataset, untracked: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Failing:
        logged: list[int] = []  # noqa: RUF012

        def start(self, *_: Any) -> str:
            return "nowhere"

        def log(self, epoch: int, _: Mapping[str, float]) -> None:
            self.logged.append(epoch)
            raise OSError(28, "No space left on device")

        def finish(self, **_: bool) -> None:
            raise AssertionError("it was left out")

    monkeypatch.setitem(TRACKERS, "failing", Failing)
    run, notes = tmp_path / "run", list[str]()
    train(TrainRequest(dataset, run, CONFIG, track=("failing",), on_note=notes.append))
    (note,) = (note for note in notes if "failed" in note)
    assert "No space left" in note and "metrics.csv" in note
    assert Failing.logged == [1]
    assert_same_result(run, untracked)


def test_an_unknown_tracker_or_a_missing_library_stops_before_training(
    dataset: Dataset, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = tmp_path / "run"
    with pytest.raises(ConfigError, match=r"--track 'tensorbord', but it must be one of tensorboard, mlflow, wandb\."):
        train(TrainRequest(dataset, run, CONFIG, track=("tensorbord",)))
    for name, module in {"tensorboard": "tensorboard", "mlflow": "mlflow.entities", "wandb": "wandb"}.items():
        with monkeypatch.context() as missing:
            missing.delitem(sys.modules, "torch.utils.tensorboard", raising=False)
            missing.setitem(sys.modules, module, None)
            with pytest.raises(MissingExtraError, match=rf"--track {name} needs .* Type: pip install"):
                train(TrainRequest(dataset, run, CONFIG, track=(name,)))
    assert not run.exists()
