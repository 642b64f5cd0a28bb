"""Which loss helps? Trains L_a, L_a + L_l and all losses, each with the same budget, and adds rows to a table.

usage: python benchmarks/loss_ablation.py DIR --table docs/results/loss_ablation.csv [--split release] [--seeds 0,1,2]
       [--losses all,la_ll,la] [--cpu-s 600] [--runs runs/ablation]

Best epoch on validation, scores on test windows (argmax at z = 0), one row per run beside nearest-neighbour retrieval.
Rows that the table already has are not run again.
"""

from __future__ import annotations

import argparse
import csv
import json
from pathlib import Path

import torch

from p3iv.config import Config, override, preset_config
from p3iv.data.folder import open_dataset
from p3iv.data.tensors import PlanningData, load_planning_data
from p3iv.metrics.plans import PlanScores, score_plans
from p3iv.planners.baselines.retrieval import nearest_plans
from p3iv.planners.checkpoint import BEST, load_planner
from p3iv.planners.p3iv.learner import predict_argmax
from p3iv.training.loop import TrainRequest, train

LOSSES = {
    "la": {"loss.language": 0.0, "loss.adversarial": 0.0, "loss.diversity": 0.0},
    "la_ll": {"loss.adversarial": 0.0, "loss.diversity": 0.0},
    "all": {},
}
COLUMNS = (
    *("data", "planner", "horizon", "seed", "epochs", "cpu_s", "best_epoch"),
    *("success_rate", "mean_accuracy", "mean_iou", "test_windows", "command"),
)


def add_row(table: Path, row: dict[str, object]) -> None:
    is_new = not table.exists()
    table.parent.mkdir(parents=True, exist_ok=True)
    with table.open("a", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, COLUMNS, lineterminator="\n")
        if is_new:
            writer.writeheader()
        writer.writerow(row)
    print(json.dumps(row), flush=True)


def has_row(table: Path, data: str, planner: str, seed: object) -> bool:
    if not table.exists():
        return False
    with table.open(newline="", encoding="utf-8") as file:
        rows = [(row["data"], row["planner"], row["seed"]) for row in csv.DictReader(file)]
    return (data, planner, str(seed)) in rows


def row_of(data: PlanningData, planner: str, scores: PlanScores, **more: object) -> dict[str, object]:
    percent = {name: f"{100 * getattr(scores, name):.2f}" for name in ("success_rate", "mean_accuracy", "mean_iou")}
    shape = {"horizon": data.test.action_ids.shape[1], "test_windows": scores.num_windows}
    return {"data": data.label, "planner": planner, **shape, **percent, **more}


def run_one(config: Config, losses: str, data: PlanningData, args: argparse.Namespace) -> dict[str, object]:
    run = args.runs / f"{data.label.split()[0]}-{losses}-seed{config.seed}"
    result = train(TrainRequest(open_dataset(args.folder), run, config, overwrite=True))
    planner = load_planner(run / BEST).planner
    scores = score_plans(predict_argmax(planner, data.test, torch.device("cpu")), data.test.action_ids)
    settings = " ".join(f"--set {name}={value}" for name, value in LOSSES[losses].items())
    command = f"p3iv train DIR --out RUN --split {args.split} --seed {config.seed} {settings}"
    return row_of(
        data,
        losses,
        scores,
        seed=config.seed,
        epochs=result.epochs,
        cpu_s=f"{result.cpu_s:.0f}",
        best_epoch=result.best_epoch,
        command=f"{command} --set optim.max_cpu_s={args.cpu_s:g}".replace("  ", " "),
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--table", type=Path, required=True)
    parser.add_argument("--split", default="video")
    parser.add_argument("--seeds", default="0,1,2")
    parser.add_argument("--losses", default="all,la_ll,la")
    parser.add_argument("--cpu-s", type=float, default=600.0)
    parser.add_argument("--runs", type=Path, default=Path("runs/ablation"))
    args = parser.parse_args()
    torch.set_num_threads(1)
    base = override(preset_config("p3iv"), {"data.split": args.split, "optim.max_cpu_s": args.cpu_s})
    data = load_planning_data(open_dataset(args.folder), base.data)
    if not has_row(args.table, data.label, "retrieval", ""):
        add_row(
            args.table,
            row_of(data, "retrieval", score_plans(nearest_plans(data.train, data.test), data.test.action_ids)),
        )
    for seed in args.seeds.split(","):
        for losses in args.losses.split(","):
            if not has_row(args.table, data.label, losses, seed):
                config = override(base, {"seed": int(seed), **LOSSES[losses]})
                add_row(args.table, run_one(config, losses, data, args))


if __name__ == "__main__":
    main()
