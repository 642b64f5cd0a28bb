"""What one plan costs: every learned planner at one horizon, with sizes of CrossTask, on one thread.

usage: python benchmarks/planners.py [--horizon 3] [--repeats 40] [--samples 1500] [--beam 10]

Parameters are random, since their values do not change what a plan costs. `one plan` is the plan to follow of one pair:
for P3IV Viterbi at z = 0, for DDN and PlaTe a beam search, for UPN its descent, for the others a greedy roll-out.
`K plans` also draws K samples for that pair. Processor milliseconds, the median of repeats that take turns; the last
line is JSON.
"""

from __future__ import annotations

import argparse
import json
import statistics
import time
from collections.abc import Callable
from typing import Any

import torch

from p3iv.config import override, preset_config
from p3iv.planners.base import PlannerShape
from p3iv.planners.registry import PLANNERS, kind_of
from p3iv.plans.draws import SampleSettings
from p3iv.plans.transitions import Transitions

NUM_ACTIONS, FEATURE_WIDTH = 105, 512


def make_planner(name: str, horizon: int, beam: int) -> Any:
    torch.manual_seed(0)
    config = override(preset_config("p3iv"), {"planner": name, "data.horizon": horizon, "baseline.beam": beam})
    shape = PlannerShape(horizon, NUM_ACTIONS, FEATURE_WIDTH, FEATURE_WIDTH)
    return kind_of(name).build(shape, config).eval()


def median_ms(tasks: dict[str, Callable[[], object]], repeats: int) -> dict[str, float]:
    """In turns, so that a busy moment of the machine falls on all alike."""
    spent: dict[str, list[float]] = {name: [] for name in tasks}
    for _ in range(repeats + 2):
        for name, task in tasks.items():
            began = time.process_time()
            task()
            spent[name].append(1000 * (time.process_time() - began))
    return {name: statistics.median(values[2:]) for name, values in spent.items()}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--horizon", type=int, default=3)
    parser.add_argument("--repeats", type=int, default=40)
    parser.add_argument("--samples", type=int, default=1500)
    parser.add_argument("--beam", type=int, default=10)
    args = parser.parse_args()
    torch.set_num_threads(1)
    start, goal = torch.randn(2, 1, FEATURE_WIDTH, generator=torch.Generator().manual_seed(1))
    matrix = torch.full((NUM_ACTIONS, NUM_ACTIONS), 1 / NUM_ACTIONS)
    transitions = Transitions(matrix, matrix, 1.0)
    planners = {name: make_planner(name, args.horizon, args.beam) for name in PLANNERS}
    learned = {name: planner for name, planner in planners.items() if any(True for _ in planner.parameters())}

    def one(name: str) -> Callable[[], object]:
        return lambda: kind_of(name).predict(learned[name], transitions, start, goal)

    def many(name: str) -> Callable[[], object]:
        sampler = kind_of(name).sampler(learned[name], SampleSettings(args.samples))
        return lambda: sampler.draw(start, goal)

    with torch.no_grad():
        single = median_ms({name: one(name) for name in learned}, args.repeats)
        sampled = median_ms({name: many(name) for name in learned}, max(3, args.repeats // 10))
    print(f"T = {args.horizon}, {NUM_ACTIONS} actions, beam {args.beam}, one thread; CPU ms per pair")
    print(f"{'planner':<18}{'parameters':>12}{'one plan':>10}{f'{args.samples} plans':>14}")
    for name, planner in learned.items():
        size = sum(parameter.numel() for parameter in planner.parameters())
        print(f"{name:<18}{size:>12,}{single[name]:>10.2f}{sampled[name]:>14.1f}")
    rounded = {name: {"one_plan": round(single[name], 3), "k_plans": round(sampled[name], 2)} for name in learned}
    print(json.dumps({"horizon": args.horizon, "samples": args.samples, "milliseconds": rounded}))


if __name__ == "__main__":
    main()
