"""Random, retrieval, P3IV and the ceiling beside each other on the tabletop's test windows.

usage: python benchmarks/tabletop_planners.py [DIR] [--seeds 0,1,2] [--horizons 3,4] [--preset tiny]
                                              [--set KEY=VALUE ...]

The planner is that of a preset, its best epoch on validation, at z = 0: `p3iv argmax` takes the likeliest action of
each position, `p3iv` decodes by Viterbi. The ceiling is the most probable plan of the truth. The intervals are those
of the paired difference in success rate to retrieval (mean over seeds), from 10,000 resamples of the test videos.
"""

from __future__ import annotations

import argparse
import json
import tempfile
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from p3iv.config import override, parse_settings, preset_config
from p3iv.data.folder import Dataset, open_dataset
from p3iv.data.tensors import PlanningData, load_planning_data
from p3iv.metrics.plans import score_plans, successes
from p3iv.planners.baselines.retrieval import nearest_plans
from p3iv.planners.checkpoint import BEST, load_planner
from p3iv.planners.p3iv.learner import predict_argmax, predict_viterbi
from p3iv.tabletop.make import make_tabletop
from p3iv.training.loop import TrainRequest, train


def ceiling(dataset: Dataset, data: PlanningData) -> Tensor:
    """The most probable plan of the truth for every test window."""
    best = {(t.video, t.first_step, t.horizon): max(t.plans, key=lambda p: p[1])[0] for t in dataset.read_truth()}
    horizon = data.test.action_ids.shape[1]
    return torch.tensor([best[w.video, w.first_step, horizon] for w in data.test.windows])


def interval(difference: Tensor, videos: list[str]) -> tuple[float, float, float]:
    """Mean and 95 % interval of a value per window, resampled by video."""
    names = sorted(set(videos))
    number = torch.tensor([names.index(video) for video in videos])
    sums = torch.zeros(len(names), dtype=torch.float64).index_add(0, number, difference).numpy()
    sizes = torch.bincount(number, minlength=len(names)).numpy()
    drawn = np.random.default_rng(0).integers(0, len(names), (10_000, len(names)))
    means = sums[drawn].sum(axis=1) / sizes[drawn].sum(axis=1)
    low, high = np.quantile(means, [0.025, 0.975])
    return float(difference.mean()), float(low), float(high)


def difference(plans: list[Tensor], retrieved: Tensor, data: PlanningData, name: str) -> dict[str, float]:
    """How much more often a planner's plans (one tensor per seed) are right than the retrieved ones, in points."""
    ids = data.test.action_ids
    hits = torch.stack([successes(plan, ids).double() for plan in plans]).mean(dim=0)
    mean, low, high = interval(hits - successes(retrieved, ids).double(), [w.video for w in data.test.windows])
    mean, low, high = (round(100 * value, 2) for value in (mean, low, high))
    print(f"  {name} - retrieval: {mean:+.2f} points, 95 % interval {low:+.2f} to {high:+.2f}", flush=True)
    return {"mean": mean, "low": low, "high": high}


def compare(dataset: Dataset, horizon: int, args: argparse.Namespace, runs: Path) -> dict[str, object]:
    settings = {"data.horizon": horizon, "data.split": "release"} | parse_settings(args.settings)
    base = override(preset_config(args.preset), settings)
    data = load_planning_data(dataset, base.data)
    ids = data.test.action_ids
    random = torch.randint(len(data.names), ids.shape, generator=torch.Generator().manual_seed(0))
    retrieved = nearest_plans(data.train, data.test)
    rows = {"random": [random], "retrieval": [retrieved], "p3iv argmax": [], "p3iv": []}
    cpu_s = []
    for seed in map(int, args.seeds.split(",")):
        run = runs / f"T{horizon}-seed{seed}"
        cpu_s.append(train(TrainRequest(dataset, run, override(base, {"seed": seed}), overwrite=True)).cpu_s)
        trained = load_planner(run / BEST)
        rows["p3iv argmax"].append(predict_argmax(trained.planner, data.test, torch.device("cpu")))
        rows["p3iv"].append(predict_viterbi(trained.planner, trained.transitions, data.test, torch.device("cpu")))
    rows["ceiling"] = [ceiling(dataset, data)]
    print(f"T={horizon}, {len(ids)} test windows, {max(cpu_s):.0f} CPU s per run   SR     mAcc   mIoU")
    for name, plans in rows.items():
        scores = [score_plans(plan, ids) for plan in plans]
        means = [np.mean([getattr(s, m) for s in scores]) for m in ("success_rate", "mean_accuracy", "mean_iou")]
        print(f"  {name:<40}" + "".join(f"{100 * value:7.2f}" for value in means))
    return {name: difference(rows[name], retrieved, data, name) for name in ("p3iv argmax", "p3iv")}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path, nargs="?", help="a tabletop dataset (default: made for the occasion)")
    parser.add_argument("--seeds", default="0,1,2")
    parser.add_argument("--horizons", default="3,4")
    parser.add_argument("--preset", default="tiny")
    parser.add_argument("--set", dest="settings", action="append", default=[])
    args = parser.parse_args()
    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory() as scratch:
        folder = args.folder or Path(scratch) / "tabletop"
        if args.folder is None:
            make_tabletop(folder, render=False)
        dataset = open_dataset(folder)
        found = {f"T{t}": compare(dataset, t, args, Path(scratch)) for t in map(int, args.horizons.split(","))}
    print(json.dumps(found))


if __name__ == "__main__":
    main()
