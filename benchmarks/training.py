"""How long an epoch of training takes at CrossTask's size, against the floor of its matrix products.

usage: python benchmarks/training.py [--windows 10900] [--steps N]

Random tensors of CrossTask's shape (105 actions, 512-d features, T = 3, batch 32) through the unchanged `p3iv` preset,
one thread, process time. `full` has all losses, with S = 20 latents for every window; `la_ll` has L_a + L_l; `plus` is
P3IV+ with its own preset (batch 64), without the closed form before its first step. The floor
replays every matrix product of a step, forward and backward, as a plain product of the same sizes. `--steps` measures
fewer steps and scales up. Best of three measurements, because other programs only ever add to process time.
"""

from __future__ import annotations

import argparse
import json
import resource
import time
from collections import Counter
from collections.abc import Callable
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode

from p3iv.config import Config, override, preset_config
from p3iv.planners.base import Batch, PlannerShape
from p3iv.planners.p3iv.learner import P3ivLearner
from p3iv.planners.p3iv.network import P3IV
from p3iv.planners.plus.learner import Lessons, PlusLearner
from p3iv.planners.plus.network import P3IVPlus

NUM_ACTIONS, FEATURES, HORIZON = 105, 512, 3
Product = tuple[int, int, int, int]  # how many, rows, inner, columns


class Recorder(TorchDispatchMode):
    """Collects the sizes of all matrix products that run inside it."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.products: Counter[Product] = Counter()

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        name = func.overloadpacket.__name__
        if name in ("mm", "addmm", "bmm"):
            first, second = (args[1], args[2]) if name == "addmm" else (args[0], args[1])
            sizes = first.shape if name == "bmm" else (1, *first.shape)
            self.products[sizes[0], sizes[1], sizes[2], second.shape[-1]] += 1
        elif name.startswith("_scaled_dot_product_flash_attention_for_cpu"):
            backward = name.endswith("backward")
            query, key = (args[1], args[2]) if backward else (args[0], args[1])
            heads, rows, size, columns = query.shape[1], query.shape[2], query.shape[3], key.shape[2]
            self.products[heads, rows, size, columns] += 2 if backward else 1
            self.products[heads, rows, columns, size] += 3 if backward else 1
        return func(*args, **(kwargs or {}))


def process_seconds(run: Callable[[], object], repeats: int = 3) -> float:
    best = float("inf")
    for _ in range(repeats):
        began = time.process_time()
        run()
        best = min(best, time.process_time() - began)
    return best


def make_learner(config: Config) -> P3ivLearner:
    torch.manual_seed(0)
    planner = P3IV(PlannerShape(HORIZON, NUM_ACTIONS, FEATURES, FEATURES), config.model)
    return P3ivLearner(planner, config, torch.randn(NUM_ACTIONS, FEATURES), sync=lambda _: None)


def run_steps(learner: P3ivLearner, config: Config, num_steps: int) -> None:
    size, width = config.optim.batch_size, config.model.noise_width
    batch = Batch(
        torch.randn(size, FEATURES),
        torch.randn(size, FEATURES),
        torch.randint(NUM_ACTIONS, (size, HORIZON)),
        torch.randn(size, width),
    )
    latents = torch.randn(1, config.loss.latents, width)
    for _ in range(num_steps):
        learner.train_step(batch, latents)


def plus_seconds(num_windows: int, num_steps: int) -> float:
    """CPU seconds of an epoch of P3IV+."""
    config = override(preset_config("p3iv-plus"), {"planner": "p3iv-plus"})
    torch.manual_seed(0)
    planner = P3IVPlus(PlannerShape(HORIZON, NUM_ACTIONS, FEATURES, FEATURES), config)
    lessons = Lessons(
        0.1 * torch.randn(num_windows, HORIZON, NUM_ACTIONS),  # real ones lie within about 0.5; tiny products are slow
        torch.rand(config.plus.folds, NUM_ACTIONS, NUM_ACTIONS).log_softmax(dim=2),
        torch.randint(config.plus.folds, (num_windows,)),
    )
    learner, size = PlusLearner(planner, lessons, config, sync=lambda _: None), config.optim.batch_size
    rows, ids = torch.arange(size), torch.randint(NUM_ACTIONS, (size, HORIZON))
    batch = Batch(torch.randn(size, FEATURES), torch.randn(size, FEATURES), ids, None, rows=rows)

    def run() -> None:
        for _ in range(num_steps):
            learner.train_step(batch, None)

    run()
    return process_seconds(run) / num_steps * num_windows / size


def replay(products: Counter[Product]) -> Callable[[], None]:
    operands = {size: (torch.randn(size[:3]), torch.randn(size[0], *size[2:])) for size in products}

    def run() -> None:
        for size, count in products.items():
            first, second = operands[size]
            for _ in range(count):
                torch.bmm(first, second) if size[0] > 1 else torch.mm(first[0], second[0])

    return run


def measure(config: Config, num_steps: int, scale: float) -> tuple[float, float]:
    """CPU seconds per epoch, and those of its matrix products alone."""
    learner = make_learner(config)
    run_steps(learner, config, 3)
    with Recorder() as recorder:
        run_steps(learner, config, 1)
    floor = replay(recorder.products)
    floor()
    spent = process_seconds(lambda: run_steps(learner, config, num_steps))
    products = process_seconds(lambda: [floor() for _ in range(num_steps)])
    return spent * scale, products * scale


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--windows", type=int, default=10_900)
    parser.add_argument("--steps", type=int, help="measure so many steps and scale up (default: a whole epoch)")
    args = parser.parse_args()
    torch.set_num_threads(1)
    full = preset_config("p3iv")
    plain = override(full, {"loss.adversarial": 0.0, "loss.diversity": 0.0})
    per_epoch = args.windows / full.optim.batch_size
    num_steps = args.steps or round(per_epoch)
    plain_s, plain_floor_s = measure(plain, num_steps, per_epoch / num_steps)
    full_s, full_floor_s = measure(full, num_steps, per_epoch / num_steps)
    plus_s = plus_seconds(args.windows, max(1, num_steps // 2))
    print(f"P3IV+       {plus_s:6.2f} CPU s per epoch, {plus_s / plain_s:.2f} times L_a + L_l")
    print(f"L_a + L_l   {plain_s:6.2f} CPU s per epoch, its matrix products alone {plain_floor_s:6.2f}")
    print(f"all losses  {full_s:6.2f} CPU s per epoch, its matrix products alone {full_floor_s:6.2f}")
    result = {
        "full_cpu_s": round(full_s, 2),
        "la_ll_cpu_s": round(plain_s, 2),
        "plus_over_la_ll": round(plus_s / plain_s, 2),
        "full_over_floor": round(full_s / full_floor_s, 2),
        "peak_mb": round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024),
    }
    print(json.dumps(result))


if __name__ == "__main__":
    main()
