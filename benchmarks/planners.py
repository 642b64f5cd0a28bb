"""CPU time of one plan by every learned planner, at the sizes of CrossTask, on one thread.

Parameters are random: their values do not change the cost. `one plan` is the recommended plan of one start and goal:
Viterbi at z = 0 for P3IV, a beam search for DDN and PlaTe, gradient descent for UPN, a greedy roll-out for the others.
`K plans` draws K samples for that pair. Milliseconds, the median of repeats in which the planners take turns.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import numpy as np
import torch

from benchmarks.timing import FEATURE_WIDTH, NUM_ACTIONS, crosstask_shape, make_parser, median_cpu_ms
from p3iv.config import override, preset_config
from p3iv.planners.registry import PLANNERS, planner_class
from p3iv.plans.draws import SampleSettings
from p3iv.plans.transitions import Transitions


def make_planner(name: str, horizon: int, beam: int) -> Any:
    torch.manual_seed(0)
    config = override(preset_config("p3iv"), {"planner": name, "data.horizon": horizon, "baseline.beam": beam})
    return planner_class(name)(crosstask_shape(horizon), config).eval()


def main() -> None:
    parser = make_parser(__doc__)
    parser.add_argument("--horizon", type=int, default=3)
    parser.add_argument("--repeats", type=int, default=40)
    parser.add_argument("--samples", type=int, default=1500)
    parser.add_argument("--beam", type=int, default=10)
    args = parser.parse_args()
    torch.set_num_threads(1)
    start, goal = torch.randn(2, 1, FEATURE_WIDTH, generator=torch.Generator().manual_seed(1))
    matrix = np.full((NUM_ACTIONS, NUM_ACTIONS), 1 / NUM_ACTIONS)
    transitions = Transitions(matrix, matrix, 1.0)
    planners = {name: make_planner(name, args.horizon, args.beam) for name in PLANNERS}
    learned = {name: planner for name, planner in planners.items() if any(True for _ in planner.parameters())}

    def one(name: str) -> Callable[[], object]:
        return lambda: learned[name].recommend(start, goal, transitions)

    def many(name: str) -> Callable[[], object]:
        sampler = learned[name].sampler(SampleSettings(args.samples))
        return lambda: sampler.draw(start.numpy(), goal.numpy())

    with torch.no_grad():
        single = median_cpu_ms({name: one(name) for name in learned}, args.repeats)
        sampled = median_cpu_ms({name: many(name) for name in learned}, max(3, args.repeats // 10))
    print(f"T = {args.horizon}, {NUM_ACTIONS} actions, beam {args.beam}, one thread; CPU ms per pair")
    print(f"{'planner':<18}{'parameters':>12}{'one plan':>10}{f'{args.samples} plans':>14}")
    for name, planner in learned.items():
        size = sum(parameter.numel() for parameter in planner.parameters())
        print(f"{name:<18}{size:>12,}{single[name]:>10.2f}{sampled[name]:>14.1f}")
    rounded = {name: {"one_plan": round(single[name], 3), "k_plans": round(sampled[name], 2)} for name in learned}
    print(json.dumps({"horizon": args.horizon, "samples": args.samples, "milliseconds": rounded}))


if __name__ == "__main__":
    main()
