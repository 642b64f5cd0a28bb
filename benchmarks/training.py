"""CPU time of a training epoch at the sizes of CrossTask, compared with its matrix products alone, on one thread.

Random tensors (105 actions, 512 features, T = 3, batch 32) through the `p3iv` preset. `full` has all losses, with 20
latents per window for the diversity loss; `la_ll` has the action and language losses only; `plus` is P3IV+ with its own
preset (batch 64), without the ridge regression before its first step. The matrix products of a step, forward and
backward, are replayed as plain products of the same sizes. Best of three measurements: other programs can only slow
them down.
"""

from __future__ import annotations

import json
import resource
from collections import Counter
from collections.abc import Callable
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode

from benchmarks.timing import FEATURE_WIDTH, NUM_ACTIONS, cpu_seconds, crosstask_shape, make_parser
from p3iv.config import Config, override, preset_config
from p3iv.planners.base import Batch
from p3iv.planners.p3iv.learner import P3IVLearner
from p3iv.planners.p3iv.planner import P3IV
from p3iv.planners.plus.learner import HeldOutScores, PlusLearner
from p3iv.planners.plus.planner import P3IVPlus

HORIZON = 3
Product = tuple[int, int, int, int]  # batch, rows, inner, columns


class Recorder(TorchDispatchMode):
    """Records the sizes of all matrix products that run inside it."""

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


def make_learner(config: Config) -> P3IVLearner:
    torch.manual_seed(0)
    planner = P3IV(crosstask_shape(HORIZON), config)
    return P3IVLearner(planner, config, torch.randn(NUM_ACTIONS, FEATURE_WIDTH), sync=lambda _: None)


def run_steps(learner: P3IVLearner, config: Config, num_steps: int) -> None:
    size, width = config.optim.batch_size, config.model.noise_width
    batch = Batch(
        torch.randn(size, FEATURE_WIDTH),
        torch.randn(size, FEATURE_WIDTH),
        torch.randint(NUM_ACTIONS, (size, HORIZON)),
        torch.randn(size, width),
        torch.randn(1, config.loss.latents, width),
    )
    for _ in range(num_steps):
        learner.train_step(batch)


def plus_seconds(num_windows: int, num_steps: int) -> float:
    """CPU seconds of an epoch of P3IV+."""
    config = override(preset_config("p3iv-plus"), {"planner": "p3iv-plus"})
    torch.manual_seed(0)
    planner = P3IVPlus(crosstask_shape(HORIZON), config)
    held_out = HeldOutScores(
        0.1 * torch.randn(num_windows, HORIZON, NUM_ACTIONS),  # real ones lie within about 0.5; tiny products are slow
        torch.rand(config.plus.folds, NUM_ACTIONS, NUM_ACTIONS).log_softmax(dim=2),
        torch.randint(config.plus.folds, (num_windows,)),
    )
    learner, size = PlusLearner(planner, held_out, sync=lambda _: None), config.optim.batch_size
    rows, ids = torch.arange(size), torch.randint(NUM_ACTIONS, (size, HORIZON))
    batch = Batch(torch.randn(size, FEATURE_WIDTH), torch.randn(size, FEATURE_WIDTH), ids, rows=rows)

    def run() -> None:
        for _ in range(num_steps):
            learner.train_step(batch)

    run()
    return cpu_seconds(run) / num_steps * num_windows / size


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
    products = replay(recorder.products)
    products()
    spent = cpu_seconds(lambda: run_steps(learner, config, num_steps))
    alone = cpu_seconds(lambda: [products() for _ in range(num_steps)])
    return spent * scale, alone * scale


def main() -> None:
    parser = make_parser(__doc__)
    parser.add_argument("--windows", type=int, default=10_900)
    parser.add_argument("--steps", type=int, help="measure this many steps and scale up (default: a whole epoch)")
    args = parser.parse_args()
    torch.set_num_threads(1)
    full = preset_config("p3iv")
    plain = override(full, {"loss.adversarial": 0.0, "loss.diversity": 0.0})
    per_epoch = args.windows / full.optim.batch_size
    num_steps = args.steps or round(per_epoch)
    plain_s, plain_products_s = measure(plain, num_steps, per_epoch / num_steps)
    full_s, full_products_s = measure(full, num_steps, per_epoch / num_steps)
    plus_s = plus_seconds(args.windows, max(1, num_steps // 2))
    print(f"P3IV+       {plus_s:6.2f} CPU s per epoch, {plus_s / plain_s:.2f} times L_a + L_l")
    print(f"L_a + L_l   {plain_s:6.2f} CPU s per epoch, its matrix products alone {plain_products_s:6.2f}")
    print(f"all losses  {full_s:6.2f} CPU s per epoch, its matrix products alone {full_products_s:6.2f}")
    result = {
        "full_cpu_s": round(full_s, 2),
        "la_ll_cpu_s": round(plain_s, 2),
        "plus_over_la_ll": round(plus_s / plain_s, 2),
        "full_over_products": round(full_s / full_products_s, 2),
        "peak_mb": round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024),
    }
    print(json.dumps(result))


if __name__ == "__main__":
    main()
