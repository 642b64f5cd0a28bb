"""Training: what a run folder holds, resuming, budgets, and what is refused."""

from __future__ import annotations

import csv
import itertools
import shutil
import signal
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file

from p3iv.config import override, preset_config
from p3iv.data.folder import Dataset
from p3iv.data.tensors import load_planning_data
from p3iv.errors import CheckpointError, ConfigError, P3ivError, TrainingError
from p3iv.metrics.plans import score_plans
from p3iv.planners.base import Batch
from p3iv.planners.checkpoint import load_planner
from p3iv.planners.header import BEST, LAST, PlannerShape
from p3iv.planners.p3iv.planner import P3IV
from p3iv.training.loop import BEST_SO_FAR, TrainRequest, train
from p3iv.types import Progress
from runs import quick
from soak.processes import kill_at_every_change, start
from training.children import train_run, train_until_killed


class InterruptError(Exception):
    pass


def interrupt_after(epoch: int) -> Any:
    def stop(at: Progress) -> None:
        if at.done == epoch and "val_success_rate" in at.values:
            raise InterruptError

    return stop


def read_table(run: Path) -> list[dict[str, str]]:
    with (run / "metrics.csv").open() as file:
        return list(csv.DictReader(file))


def without_times(rows: list[dict[str, str]]) -> list[dict[str, str]]:
    return [{name: value for name, value in row.items() if name not in ("seconds", "cpu_s")} for row in rows]


def test_a_run_leaves_a_folder_that_explains_itself(dataset: Dataset, tmp_path: Path) -> None:
    result = train(TrainRequest(dataset, tmp_path / "run", quick(epochs=3)))
    names = {str(path.relative_to(tmp_path / "run")) for path in (tmp_path / "run").rglob("*") if path.is_file()}
    assert {"config.yaml", "environment.json", "metrics.csv", "README.md", str(BEST), str(LAST)} <= names
    rows = read_table(tmp_path / "run")
    assert [row["epoch"] for row in rows] == ["1", "2", "3"]
    assert {"action", "language", "adversarial", "diversity", "critic_real", "diversity_ratio"} <= set(rows[0])
    best = max(rows, key=lambda row: (float(row["val_success_rate"]), float(row["val_mean_accuracy"])))
    assert result.best_epoch == int(best["epoch"])
    assert "tabletop (state features)" in (tmp_path / "run" / "README.md").read_text()


@pytest.mark.parametrize("stop", [1, 2])
def test_a_resumed_run_ends_bit_for_bit_where_an_uninterrupted_one_ends(
    dataset: Dataset, tmp_path: Path, stop: int
) -> None:
    whole, halves = tmp_path / "whole", tmp_path / "halves"
    train(TrainRequest(dataset, whole, quick(epochs=4)))
    with pytest.raises(InterruptError):
        train(TrainRequest(dataset, halves, quick(epochs=4), on_progress=interrupt_after(stop)))
    torch.manual_seed(123)  # the process may have drawn other numbers in between
    train(TrainRequest(dataset, halves, quick(epochs=4), resume=True))
    for name in (LAST, BEST):
        assert (whole / name).read_bytes() == (halves / name).read_bytes()
    assert without_times(read_table(whole)) == without_times(read_table(halves))
    times = [float(row["cpu_s"]) for row in read_table(halves)]
    assert times == sorted(times)  # a resumed run counts on


def test_killed_at_any_moment_a_run_resumes(dataset: Dataset, tabletop: Path, tmp_path: Path) -> None:
    """Killed in a step and around each write of an epoch, again and again, a run ends as one that was left alone."""
    whole, killed, config = tmp_path / "whole", tmp_path / "killed", quick(epochs=6)
    train(TrainRequest(dataset, whole, config))
    for moment in ({"flush": 1}, {"step": 3}, *({"flush": number} for number in range(2, 11))):
        process = start(train_until_killed, tabletop, killed, config, **moment)
        process.join()
        assert process.exitcode == -signal.SIGKILL, moment
    assert 1 <= len(read_table(killed)) < 6
    train(TrainRequest(dataset, killed, config, resume=True))
    first, second = load_file(whole / LAST), load_file(killed / LAST)
    assert all(torch.equal(first[key], second[key]) for key in first)
    assert without_times(read_table(whole)) == without_times(read_table(killed))


def test_killed_while_its_folder_is_made_a_run_can_be_resumed_and_overwritten(
    dataset: Dataset, tabletop: Path, tmp_path: Path
) -> None:
    run, config = tmp_path / "runs" / "run", quick(planner="random")
    for number in kill_at_every_change(run.parent, train_run, tabletop, run, config):
        is_made = (run / "environment.json").exists()
        train(TrainRequest(dataset, run, config, resume=number % 2 == 0, overwrite=number % 2 == 1))
        assert (run / BEST).exists()
        assert [path.name for path in run.parent.iterdir()] == ["run"]
        shutil.rmtree(run)
        if is_made:
            break
    train(TrainRequest(dataset, run, config))
    for number in kill_at_every_change(run.parent, train_run, tabletop, run, config, overwrite=True):
        is_replaced = run.exists() and not (run / BEST).exists() and not list(run.parent.glob(".run.*.old"))
        train(TrainRequest(dataset, run, config, resume=True))
        assert (run / BEST).exists(), number
        assert [path.name for path in run.parent.iterdir()] == ["run"]
        if is_replaced:
            break
    assert number > 15
    assert not list(run.rglob("*.part"))


def test_the_unfinished_files_of_others_do_not_make_a_folder_a_run(dataset: Dataset, tmp_path: Path) -> None:
    (tmp_path / "notes").mkdir()
    (tmp_path / "notes" / ".letter.txt.abcdefgh.part").touch()
    for resume, overwrite in ((False, True), (True, False), (False, False)):
        with pytest.raises(TrainingError, match="it is not a p3iv run"):
            train(TrainRequest(dataset, tmp_path / "notes", quick(epochs=1), resume=resume, overwrite=overwrite))
    assert [path.name for path in (tmp_path / "notes").iterdir()] == [".letter.txt.abcdefgh.part"]


def test_switching_a_term_off_leaves_it_out(dataset: Dataset, tmp_path: Path) -> None:
    off: dict[str, Any] = {"loss__adversarial": 0.0, "loss__diversity": 0.0}
    train(TrainRequest(dataset, tmp_path / "run", quick(epochs=1, **off)))
    row = read_table(tmp_path / "run")[0]
    assert {"action", "language"} <= set(row)
    assert not {"adversarial", "diversity", "critic"} & set(row)


def test_the_deterministic_planner_and_strong_supervision_train(dataset: Dataset, tmp_path: Path) -> None:
    silent: dict[str, Any] = {"model__noise_width": 0, "loss__adversarial": 0.0, "loss__diversity": 0.0}
    train(TrainRequest(dataset, tmp_path / "silent", quick(epochs=2, **silent)))
    train(TrainRequest(dataset, tmp_path / "strong", quick(epochs=2, loss__supervision="visual")))
    first, last = (read_table(tmp_path / "strong")[i] for i in (0, -1))
    assert float(last["language"]) < float(first["language"])


def test_a_loss_that_stops_being_finite_stops_the_run_and_keeps_the_last_state(
    dataset: Dataset, tmp_path: Path
) -> None:
    train(TrainRequest(dataset, tmp_path / "run", quick(epochs=1)))
    before = (tmp_path / "run" / LAST).read_bytes()
    wild = quick(epochs=2, optim__learning_rate=1e30)
    with pytest.raises(TrainingError, match=r"Epoch 2: in step 2, total, .* finite.*after epoch 1 is kept"):
        train(TrainRequest(dataset, tmp_path / "run", wild, resume=True))
    assert (tmp_path / "run" / LAST).read_bytes() == before
    train(TrainRequest(dataset, tmp_path / "run", quick(epochs=2, optim__learning_rate=1e-4), resume=True))


@pytest.mark.parametrize("rate", [1e20, 1e38])
def test_parameters_that_the_last_update_of_an_epoch_made_infinite_are_not_saved(
    dataset: Dataset, tmp_path: Path, rate: float
) -> None:
    one_step = quick(epochs=1, optim__batch_size=100_000, optim__learning_rate=rate)
    with pytest.raises(TrainingError, match="Nothing was saved yet"):
        train(TrainRequest(dataset, tmp_path / "run", one_step))
    assert not (tmp_path / "run" / BEST).exists()
    assert not (tmp_path / "run" / LAST).exists()


def test_a_run_is_not_overwritten_unless_asked(dataset: Dataset, tmp_path: Path) -> None:
    train(TrainRequest(dataset, tmp_path / "run", quick(epochs=1)))
    with pytest.raises(TrainingError, match="--resume"):
        train(TrainRequest(dataset, tmp_path / "run", quick(epochs=1)))
    train(TrainRequest(dataset, tmp_path / "run", quick(epochs=1, model__width=16), overwrite=True))
    (tmp_path / "notes").mkdir()
    (tmp_path / "notes" / "mine.txt").touch()
    for resume, overwrite in ((False, True), (True, False), (False, False)):
        with pytest.raises(TrainingError, match="it is not a p3iv run"):
            train(TrainRequest(dataset, tmp_path / "notes", quick(epochs=1), resume=resume, overwrite=overwrite))
    assert (tmp_path / "notes" / "mine.txt").exists()


def test_an_old_run_is_kept_when_the_new_one_cannot_start(dataset: Dataset, tmp_path: Path) -> None:
    train(TrainRequest(dataset, tmp_path / "run", quick(epochs=1)))
    before = (tmp_path / "run" / LAST).read_bytes()
    for impossible in (quick(epochs=1, optim__precision="mixed"), quick(epochs=1, data__horizon=40)):
        with pytest.raises(P3ivError):
            train(TrainRequest(dataset, tmp_path / "run", impossible, overwrite=True, device="cpu"))
    assert (tmp_path / "run" / LAST).read_bytes() == before


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"model__width": 16}, "width=32, not 16"),
        ({"data__horizon": 4}, "horizon=3, not 4"),
        ({"seed": 5}, "seed"),
        ({"optim__batch_size": 7}, "batch_size=32, not 7"),
    ],
)
def test_a_checkpoint_with_other_settings_is_refused_and_the_setting_is_named(
    dataset: Dataset, tmp_path: Path, change: dict[str, Any], message: str
) -> None:
    train(TrainRequest(dataset, tmp_path / "run", quick(epochs=1)))
    with pytest.raises(CheckpointError, match=message):
        train(TrainRequest(dataset, tmp_path / "run", quick(epochs=2, **change), resume=True))


def test_resuming_says_which_option_to_add_and_when_nothing_is_left_to_do(dataset: Dataset, tmp_path: Path) -> None:
    train(TrainRequest(dataset, tmp_path / "run", quick(epochs=2)))
    with pytest.raises(CheckpointError, match="Add --preset tiny, or use another --out"):
        train(TrainRequest(dataset, tmp_path / "run", replace(preset_config("p3iv"), data=quick().data), resume=True))
    with pytest.raises(CheckpointError, match="Add --planner p3iv, or use another --out"):
        train(TrainRequest(dataset, tmp_path / "run", quick("retrieval"), resume=True))
    notes: list[str] = []
    train(TrainRequest(dataset, tmp_path / "run", quick(epochs=1), resume=True, on_note=notes.append))
    assert notes[-1] == f"{tmp_path / 'run'} was already trained for 2 epochs; nothing to do"


def test_another_vocabulary_is_refused(dataset: Dataset, tmp_path: Path) -> None:
    train(TrainRequest(dataset, tmp_path / "run", quick(epochs=1)))
    actions = dataset.vocabulary.actions
    other = replace(dataset.vocabulary, actions=(*actions[:-1], replace(actions[-1], name="dance")))
    videos = tuple(v for v in dataset.videos if actions[-1].name not in {s.action for s in v.steps})
    changed = replace(dataset, vocabulary=other, videos=videos)
    with pytest.raises(CheckpointError, match="another vocabulary"):
        train(TrainRequest(changed, tmp_path / "run", quick(epochs=2), resume=True))


def test_another_split_or_other_embeddings_are_refused(dataset: Dataset, tmp_path: Path) -> None:
    train(TrainRequest(dataset, tmp_path / "run", quick(epochs=1)))
    assert dataset.split is not None
    assert dataset.language is not None
    swapped = replace(dataset, split=replace(dataset.split, train=dataset.split.test, test=dataset.split.train))
    for other in (swapped, replace(dataset, language=dataset.language * 2)):
        with pytest.raises(CheckpointError, match="another split"):
            train(TrainRequest(other, tmp_path / "run", quick(epochs=2), resume=True))


def test_a_run_that_was_killed_before_its_first_checkpoint_starts_at_epoch_1_and_says_so(
    dataset: Dataset, tmp_path: Path
) -> None:
    notes: list[str] = []
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "config.yaml").touch()
    train(TrainRequest(dataset, tmp_path / "run", quick(epochs=1), resume=True, on_note=notes.append))
    assert any("no checkpoint yet" in note for note in notes)


@pytest.mark.parametrize("damage", [b"", b"nonsense", None])
def test_a_damaged_checkpoint_is_refused(dataset: Dataset, tmp_path: Path, damage: bytes | None) -> None:
    train(TrainRequest(dataset, tmp_path / "run", quick(epochs=1)))
    path = tmp_path / "run" / BEST
    path.write_bytes(path.read_bytes()[:-100] if damage is None else damage)
    with pytest.raises(CheckpointError, match="not a p3iv checkpoint"):
        load_planner(path)


def test_a_loaded_planner_predicts_what_was_validated(dataset: Dataset, tmp_path: Path) -> None:
    result = train(TrainRequest(dataset, tmp_path / "run", quick(epochs=2)))
    trained = load_planner(tmp_path / "run" / BEST)
    planner, header = trained.planner, trained.header
    data = load_planning_data(dataset, header.config.data)
    with torch.no_grad():
        plans = planner.recommend(data.val.start, data.val.goal, trained.transitions)
    scores = score_plans(plans, data.val.action_ids)
    assert scores == result.best == header.progress.best


def test_the_cpu_budget_ends_a_run(dataset: Dataset, tmp_path: Path) -> None:
    result = train(TrainRequest(dataset, tmp_path / "run", quick(epochs=50, optim__max_cpu_s=0.001)))
    assert result.epochs == 1


def test_an_epoch_that_would_pass_the_cpu_budget_is_not_begun(
    dataset: Dataset, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(time, "process_time", itertools.count(step=10.0).__next__)  # an epoch takes ten seconds
    result = train(TrainRequest(dataset, tmp_path / "run", quick(epochs=50, optim__max_cpu_s=45.0)))
    assert (result.epochs, result.cpu_s) == (4, 40.0)


def test_a_run_ends_when_validation_has_not_improved_for_long(dataset: Dataset, tmp_path: Path) -> None:
    reports: list[Progress] = []
    config = quick(epochs=50, optim__patience=2, optim__learning_rate=1e-9)  # the first epoch remains the best
    result = train(TrainRequest(dataset, tmp_path / "run", config, on_progress=reports.append))
    assert result.epochs == result.best_epoch + 2 < 50
    epochs = [at.about for at in reports if "val_success_rate" in at.values]
    assert epochs[-3:] == [BEST_SO_FAR, "", ""]
    assert (reports[-1].done, reports[-1].total, reports[-1].about) == (result.epochs, result.epochs, "stopped early")


def test_seeds_share_the_test_windows(dataset: Dataset) -> None:

    first, second = (load_planning_data(dataset, replace(quick(), seed=seed).data) for seed in (0, 1))
    assert first.test.windows == second.test.windows


def test_settings_that_contradict_each_other_are_refused() -> None:
    with pytest.raises(ConfigError, match="p3iv-deterministic"):
        override(preset_config("p3iv"), {"model.noise_width": 0})


@pytest.mark.slow
def test_the_planner_can_learn_64_windows_by_heart(dataset: Dataset) -> None:
    config = override(preset_config("p3iv"), {"data.split": "release"})
    data = load_planning_data(dataset, config.data)

    torch.manual_seed(0)
    planner = P3IV(PlannerShape.of(data, config), config)
    planner.fit(data)
    learner = planner.make_learner(data, lambda _: None)
    some = replace(
        data.train,
        windows=data.train.windows[:64],
        start=data.train.start[:64],
        goal=data.train.goal[:64],
        action_ids=data.train.action_ids[:64],
    )
    for _ in range(300):
        noise = torch.randn(64, config.model.noise_width)
        latents = torch.randn(1, config.loss.latents, config.model.noise_width)
        learner.train_step(Batch(some.start, some.goal, some.action_ids, noise, latents))
    with torch.no_grad():
        plans = planner.eval().action_logits(some.start, some.goal).argmax(dim=-1)
    assert torch.equal(plans, some.action_ids)
