"""How far validation misleads: scores of planners on the validation and on the test windows of datasets.

DATA are dataset folders with a split.json; without any, the tabletop whose test videos another camera films is made
(`p3iv data make tabletop DIR --shift-test`). `benchmarks.fitted_features` makes others.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

import torch

import p3iv
from benchmarks.timing import make_parser
from p3iv.types import Side

SIDES: tuple[Side, ...] = ("val", "test")


@dataclass(frozen=True)
class Row:
    """One planner on one side of one dataset; shares from 0 to 1."""

    data: str
    planner: str
    seed: int
    side: str
    num_windows: int
    success_rate: float
    success_low: float  # ends of the 95 % interval for other videos
    success_high: float
    mean_accuracy: float
    mean_iou: float
    exact_nll: float
    calibration_error: float | None  # None where no chain chooses the plan


def measure(data: Path, planner: str, seed: int, horizon: int, epochs: int | None) -> Iterator[Row]:
    """Train a planner and score it on validation and on test."""
    settings = {} if epochs is None else {"optim.epochs": epochs}
    with TemporaryDirectory() as folder:
        run = Path(folder) / "run"
        p3iv.train(
            data,
            run,
            planner=planner,
            horizon=horizon,
            split="release",
            seed=seed,
            settings=settings,
            on_note=lambda _: None,
        )
        for side in SIDES:
            found = p3iv.evaluate(run, side=side, samples=100, on_note=lambda _: None)
            success, calibration = found.plan_scores["success_rate"], found.calibration.get("calibration_error")
            yield Row(
                data=found.data,
                planner=planner,
                seed=seed,
                side=side,
                num_windows=found.num_windows,
                success_rate=round(success.value, 4),
                success_low=round(success.low, 4),
                success_high=round(success.high, 4),
                mean_accuracy=round(found.plan_scores["mean_accuracy"].value, 4),
                mean_iou=round(found.plan_scores["mean_iou"].value, 4),
                exact_nll=round(found.distribution["exact_nll"].value, 3),
                calibration_error=None if calibration is None else round(calibration.value, 4),
            )


def print_row(row: Row) -> None:
    success = f"{100 * row.success_rate:5.1f} [{100 * row.success_low:4.1f}, {100 * row.success_high:4.1f}]"
    others = f"mAcc {100 * row.mean_accuracy:5.1f}, mIoU {100 * row.mean_iou:5.1f}, exact NLL {row.exact_nll:6.2f}"
    if row.calibration_error is not None:
        others += f", calibration error {100 * row.calibration_error:5.1f}"
    print(f"{row.data:42} {row.planner:10} seed {row.seed} {row.side:5} SR {success}, {others}", flush=True)


def main() -> None:
    parser = make_parser(__doc__)
    parser.add_argument("data", nargs="*", type=Path, metavar="DATA")
    parser.add_argument("--planners", nargs="+", default=["retrieval", "graph", "p3iv-plus"])
    parser.add_argument("--seeds", type=int, default=1)
    parser.add_argument("--horizon", type=int, default=3)
    parser.add_argument("--videos", type=int, default=160, help="of the tabletop that is made without DATA")
    parser.add_argument("--epochs", type=int, help="without it, as the planner has it")
    args = parser.parse_args()
    torch.set_num_threads(1)
    rows = []
    with TemporaryDirectory() as folder:
        made = Path(folder) / "tabletop"
        if not args.data:
            p3iv.make_tabletop(made, videos=args.videos, skip_rendering=True, shift_test=True)
        for data in args.data or [made]:
            for planner in args.planners:
                for seed in range(args.seeds):
                    for row in measure(data, planner, seed, args.horizon, args.epochs):
                        print_row(row)
                        rows.append(row)
    print(json.dumps([asdict(row) for row in rows]))


if __name__ == "__main__":
    main()
