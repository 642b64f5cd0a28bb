"""Which piece of P3IV+ helps? Trains it whole and with one piece removed at a time, and adds rows to a table.

usage: python benchmarks/plus_ablation.py DIR --table docs/results/p3iv_plus_captaincook4d.csv [--split release]
       [--horizons 3,4] [--seeds 0,1,2,3,4] [--rows p3iv-plus,linear_alone,...] [--runs runs/plus]

Best epoch on validation, scores on test windows: of the plan to follow, and the exact NLL and KL of the chain that
decodes. `linear_alone` is the chain of the ridge regression and the transitions, without any network. Rows that the
table already has are not run again.
"""

from __future__ import annotations

import argparse
import csv
import json
import math
from pathlib import Path

import torch

from p3iv.config import Config, override, preset_config
from p3iv.dataset import open_dataset
from p3iv.evaluation import EvaluationRequest, evaluate
from p3iv.sampling import SampleSettings
from p3iv.training import TrainRequest, train
from p3iv.training.builders import kind_of

PLUS: dict[str, dict[str, object]] = {
    "p3iv-plus": {},
    "linear_alone": {"plus.decoder": False, "plus.end_heads": False},
    "no_linear_path": {"plus.linear": False},
    "no_decoder": {"plus.decoder": False},
    "no_memory": {"model.memory_slots": 0},
    "no_end_heads": {"plus.end_heads": False},
    "no_chain_training": {"plus.chain": False},
    "no_held_out_scores": {"plus.held_out": False},
    "no_folds": {"plus.folds": 1},
    "no_backoff": {"plus.backoff": 0.0},
    "no_neighbours": {"plus.neighbours": False},
    "no_language_loss": {"loss.language": 0.0},
    "no_end_loss": {"plus.ends": 0.0},
    "no_label_smoothing": {"plus.label_smoothing": 0.0},
    "no_spread": {"plus.spread": 0.0},
    "no_learned_beta": {"plus.learned_beta": False},
    "no_average": {"plus.average": 0.0},
    "no_temperature": {"plus.calibrated": False},
}
OTHERS = ("retrieval", "graph", "p3iv")
SAMPLED = ("success_rate", "mean_accuracy", "mean_iou")
COLUMNS = (
    *("data", "row", "horizon", "seed", "epochs", "cpu_s", "best_epoch", *SAMPLED, "exact_nll", "exact_kl"),
    *("mode_recall", "kl", "nll", "samples", "test_windows", "command"),
)
SEEDLESS = ("retrieval", "graph")  # nothing in them is drawn


def config_of(row: str, horizon: int, seed: int, args: argparse.Namespace) -> Config:
    planner = row if row in OTHERS else "p3iv-plus"
    limit = {"optim.max_cpu_s": args.cpu_s} if row == "p3iv" else {}
    changes = {"planner": planner, "seed": seed, "data.split": args.split, "data.horizon": horizon}
    return override(preset_config(kind_of(planner).preset), changes | limit | PLUS.get(row, {}))


def command_of(row: str, config: Config, args: argparse.Namespace) -> str:
    changes = PLUS.get(row, {}) | ({"optim.max_cpu_s": args.cpu_s} if row == "p3iv" else {})
    settings = "".join(f" --set {name}={json.dumps(value)}" for name, value in changes.items())
    which = f"--planner {config.planner} --horizon {config.data.horizon} --split {args.split} --seed {config.seed}"
    return f"p3iv train DIR --out RUN {which}{settings}; p3iv evaluate RUN --samples {args.samples}"


def run_one(row: str, horizon: int, seed: int, args: argparse.Namespace) -> dict[str, object]:
    """Train and evaluate one row."""
    config, run = config_of(row, horizon, seed, args), args.runs / f"T{horizon}-{row}-seed{seed}"
    result = train(TrainRequest(open_dataset(args.folder), run, config, overwrite=True))
    found = evaluate(EvaluationRequest(run, settings=SampleSettings(args.samples)))
    scores = found.decoders[found.decoder]
    nats = {name: found.distribution[name].value for name in ("exact_nll", "exact_kl", "kl", "nll")}
    if row in SEEDLESS:  # they are no chain: what is computed of one says nothing of them
        nats |= {"exact_nll": math.nan, "exact_kl": math.nan}
    percent = {name: scores[name].value for name in SAMPLED} | {"mode_recall": found.distribution["mode_recall"].value}
    return {
        **{"data": found.data, "row": row, "horizon": found.horizon, "seed": seed, "epochs": result.epochs},
        **{"cpu_s": f"{result.cpu_s:.0f}", "best_epoch": result.best_epoch},
        **{name: f"{100 * value:.2f}" for name, value in percent.items()},
        **{name: "" if math.isnan(value) else f"{value:.3f}" for name, value in nats.items()},
        **{"samples": args.samples, "test_windows": found.num_windows, "command": command_of(row, config, args)},
    }


def done_rows(table: Path) -> set[tuple[str, str, str]]:
    if not table.exists():
        return set()
    with table.open(newline="", encoding="utf-8") as file:
        return {(row["row"], row["horizon"], row["seed"]) for row in csv.DictReader(file)}


def add_row(table: Path, row: dict[str, object]) -> None:
    is_new = not table.exists()
    table.parent.mkdir(parents=True, exist_ok=True)
    with table.open("a", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, COLUMNS, lineterminator="\n")
        if is_new:
            writer.writeheader()
        writer.writerow(row)
    print(json.dumps({name: row[name] for name in COLUMNS if name != "command"}), flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--table", type=Path, required=True)
    parser.add_argument("--split", default="video")
    parser.add_argument("--horizons", default="3,4")
    parser.add_argument("--seeds", default="0,1,2,3,4")
    parser.add_argument("--rows", default=",".join((*OTHERS, *PLUS)))
    parser.add_argument("--samples", type=int, default=1500)
    parser.add_argument(
        "--cpu-s", type=float, default=600.0, help="the budget of p3iv, which has no need to stop early"
    )
    parser.add_argument("--runs", type=Path, default=Path("runs/plus"))
    args = parser.parse_args()
    torch.set_num_threads(1)
    done = done_rows(args.table)
    for horizon in args.horizons.split(","):
        for seed in args.seeds.split(","):
            for row in args.rows.split(","):
                is_needed = row not in SEEDLESS or seed == args.seeds.split(",")[0]
                if is_needed and (row, horizon, seed) not in done:
                    add_row(args.table, run_one(row, int(horizon), int(seed), args))


if __name__ == "__main__":
    main()
