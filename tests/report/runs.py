"""Invented run folders in the formats of `p3iv train` and `p3iv evaluate`."""

from __future__ import annotations

import hashlib
import json
import random
from pathlib import Path
from typing import Any

from p3iv.catalogue import metrics_of
from p3iv.config import override, preset_config

Line = dict[str, Any]


def leaf(value: float) -> dict[str, float]:
    return {"value": value, "low": max(0.0, value - 0.05), "high": min(1.0, value + 0.05)}


def scores(value: float) -> Line:
    return {metric.name: leaf(value) for metric in metrics_of("plans")}


def prediction_line(
    number: int, *, horizon: int = 3, num_actions: int = 12, num_samples: int = 100, names: list[str] | None = None
) -> Line:
    """One window; every second one is right."""
    draw = random.Random(number)
    words = names or [f"step number {action}" for action in range(num_actions)]
    reference = [draw.choice(words) for _ in range(horizon)]
    wrong = [*reference[:-1], next(word for word in words if word != reference[-1])]
    plans: dict[tuple[str, ...], int] = {}
    for _ in range(num_samples):
        plan = tuple(step if draw.random() < 0.8 else draw.choice(words) for step in reference)
        plans[plan] = plans.get(plan, 0) + 1
    return {
        "window": f"video-{number % 7}:{number}",
        "video": f"video-{number % 7}",
        "task": f"task {number % 5}",
        "first_step": number,
        "start_s": 0.5 + number % 3,
        "goal_s": 2.0 + number % 3,
        "plan": reference if number % 2 == 0 else wrong,
        "plan_probability": draw.random(),
        "reference": reference,
        "samples": [[list(plan), count] for plan, count in plans.items()],
    }


def evaluation(*, data: str, horizon: int, num_windows: int, num_actions: int = 12, num_tasks: int = 5) -> Line:
    return {
        "format": 3,
        "data": data,
        "planner": "p3iv",
        "preset": "tiny",
        "seed": 0,
        "side": "test",
        "horizon": horizon,
        "num_windows": num_windows,
        "num_videos": 7,
        "num_actions": num_actions,
        "epoch": 3,
        "decoder": "viterbi",
        "samples": {"number": 100, "mode": "argmax", "seed": 0, "input_noise": 0.0, "dropout": 0.0},
        "decoders": {name: scores(0.5) for name in ("viterbi", "viterbi_paper", "mode", "argmax")},
        "baselines": {"random": scores(0.01), "retrieval": scores(0.2)},
        "differences": {"random": scores(0.49), "retrieval": scores(0.3)},
        "distribution": {"kl": leaf(0.7), "nll": leaf(0.9), "mode_recall": leaf(0.4), "exact_kl": leaf(0.6)},
        "modes": {"argmax": {"kl": leaf(0.7), "nll": leaf(0.9), "mode_recall": leaf(0.4)}},
        "truth": None,
        "released": {"viterbi": {"bitwise_iou": leaf(0.7), "macro_precision": leaf(0.4), "batch_iou": leaf(0.6)}},
        "tasks": [
            {"task": f"task {task}", "num_windows": 9, "scores": scores(task / num_tasks)} for task in range(num_tasks)
        ],
        "positions": [{"position": 1 + place, "accuracy": leaf(0.6)} for place in range(horizon)],
        "smoothing": 1.0,
        "notes": [],
        "predictions_sha256": "",
    }


def make_run(
    folder: Path,
    *,
    data: str = "mine (clip features)",
    horizon: int = 3,
    num_windows: int = 20,
    num_actions: int = 12,
    num_tasks: int = 5,
    names: list[str] | None = None,
    dataset: Path | None = None,
    settings: dict[str, Any] | None = None,
) -> Path:
    """Write a run folder and return it."""
    folder.mkdir(parents=True)
    config = override(preset_config("tiny"), {"data.horizon": horizon, **(settings or {})})
    (folder / "config.yaml").write_text(config.to_yaml())
    where = str(dataset or folder / "gone")
    environment = {
        "p3iv": "0.1.0",
        "python": "3.11",
        "platform": "Linux",
        "processors": 2,
        "device": "cpu",
        "threads": 1,
        "packages": {"torch": "2.9"},
        "extras": {},
        "data": data,
        "dataset": where,
    }
    (folder / "environment.json").write_text(json.dumps(environment))
    rows = ["epoch,action,language,val_success_rate,val_mean_accuracy,val_mean_iou,learning_rate,cpu_s"]
    rows += [f"{epoch},{9 / epoch},{8 / epoch},0.{epoch},0.{epoch},0.{epoch},0.001,{epoch}" for epoch in range(1, 4)]
    (folder / "metrics.csv").write_text("\n".join(rows) + "\n")
    found = evaluation(
        data=data, horizon=horizon, num_windows=num_windows, num_actions=num_actions, num_tasks=num_tasks
    )
    (folder / "evaluation.json").write_text(json.dumps(found))
    lines = (
        json.dumps(prediction_line(number, horizon=horizon, num_actions=num_actions, names=names))
        for number in range(num_windows)
    )
    write_predictions(folder, "".join(f"{line}\n" for line in lines))
    return folder


def write_predictions(run: Path, text: str) -> None:
    """Replace the predictions of a run, as if they had been written with its evaluation.json."""
    (run / "predictions.jsonl").write_text(text)
    change(run, predictions_sha256=hashlib.sha256(text.encode()).hexdigest())


def add_prediction(run: Path, line: Line) -> None:
    """Add a line to the predictions of a run, as if they had been written with its evaluation.json."""
    write_predictions(run, f"{(run / 'predictions.jsonl').read_text()}{json.dumps(line)}\n")


def change(run: Path, **values: Any) -> None:
    """Replace entries of evaluation.json."""
    content = json.loads((run / "evaluation.json").read_text())
    (run / "evaluation.json").write_text(json.dumps(content | values))
