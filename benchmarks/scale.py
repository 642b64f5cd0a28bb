"""CPU time and memory at three sizes each of windows, actions, horizon and videos, on one thread.

The dataset is generated: procedures of eight actions, features that show the action plus noise. `windows`, `actions`
and `horizon` train a planner for one epoch and evaluate it with all decoders, modes and metrics; only the evaluated
side grows with `windows`. `videos` imports features of 60 seconds of width 64, checks them, counts windows, and reads
the observations that training starts with. Every stage runs in a process of its own; memory is the largest amount that
the stage added to it. An exponent of 1 means linear growth from the smallest to the largest size, 0 means none.
"""

from __future__ import annotations

import csv
import json
import math
import multiprocessing
import resource
import tempfile
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from multiprocessing.connection import Connection
from pathlib import Path

import numpy as np
import torch

from benchmarks.timing import make_parser
from p3iv.config import Config, CurationSettings, override, preset_config
from p3iv.data.check import check_dataset
from p3iv.data.folder import open_dataset
from p3iv.data.importing import ImportRequest, import_dataset
from p3iv.data.stats import describe_dataset
from p3iv.data.tensors import load_planning_data
from p3iv.evaluation.evaluate import EvaluationRequest, evaluate
from p3iv.planners.registry import planner_class
from p3iv.plans.draws import SampleSettings
from p3iv.training.loop import TrainRequest, train

WIDTH, ROWS = 64, 60  # of the features of a video
PROCEDURE = 8  # actions


@dataclass(frozen=True)
class Case:
    """What is measured, and at which size."""

    num_windows: int = 200  # on the side that is evaluated
    num_actions: int = 778  # those of COIN
    horizon: int = 3
    num_videos: int = 0  # instead of windows, for the import
    num_samples: int = 1500
    planner: str = "p3iv-plus"

    @property
    def config(self) -> Config:
        planner = planner_class(self.planner)
        changes = {"planner": self.planner, "optim.epochs": 1, "data.horizon": self.horizon, "data.split": "release"}
        return override(preset_config(planner.preset), changes)


Stage = Callable[[Case, Path], object]


def generate(case: Case, folder: Path) -> None:
    """Write steps.csv, split.json, language.npz and one feature file per video."""
    raw = folder / "raw"
    raw.mkdir(parents=True)
    rng = np.random.default_rng(0)
    looks = rng.standard_normal((case.num_actions, WIDTH)).astype(np.float32)
    names = [f"action {number}" for number in range(case.num_actions)]
    sides = _sides(case)
    with (folder / "steps.csv").open("w", newline="", encoding="utf-8") as file:
        rows = csv.writer(file)
        rows.writerow(("video", "task", "step", "start_s", "end_s"))
        for number, video in enumerate(video for videos in sides.values() for video in videos):
            procedure = number % max(1, case.num_actions // PROCEDURE)
            drawn = procedure * PROCEDURE + np.sort(rng.integers(0, PROCEDURE, case.horizon + 3))  # 4 windows
            ids = np.minimum(drawn, case.num_actions - 1)
            step_s = ROWS // len(ids)
            rows.writerows(
                (video, f"task {procedure}", names[action], step_s * place, step_s * (place + 1))
                for place, action in enumerate(ids)
            )
            seen = looks[ids].repeat(step_s, axis=0) + rng.standard_normal((step_s * len(ids), WIDTH), np.float32)
            np.save(raw / f"{video}.npy", seen.astype(np.float16))
    np.savez(folder / "language.npz", step=np.array(names), embedding=looks)
    (folder / "split.json").write_text(json.dumps(sides), encoding="utf-8")


def _sides(case: Case) -> dict[str, list[str]]:
    """The videos of each side, with four windows each; train and val do not grow with the evaluated windows."""
    sizes = {"train": 100, "val": 20, "test": -(-case.num_windows // 4)}
    if case.num_videos:
        sizes = {"train": case.num_videos // 2, "val": case.num_videos // 4, "test": case.num_videos // 4}
    return {side: [f"{side}{number:06d}" for number in range(size)] for side, size in sizes.items()}


def run_import(case: Case, folder: Path) -> None:  # noqa: ARG001
    source = folder / "source"
    import_dataset(
        ImportRequest("folder", source, folder / "data", features=source / "raw", language=source / "language.npz")
    )


def run_check(case: Case, folder: Path) -> None:  # noqa: ARG001
    if findings := check_dataset(folder / "data"):
        raise SystemExit(f"the generated dataset is not valid: {findings[0].message}")


def run_stats(case: Case, folder: Path) -> None:  # noqa: ARG001
    describe_dataset(open_dataset(folder / "data"), CurationSettings(split="release"))


def run_read(case: Case, folder: Path) -> None:
    config, planner = case.config, planner_class(case.planner)
    load_planning_data(open_dataset(folder / "data"), config.data, nearby_s=planner.nearby_s(config))


def run_train(case: Case, folder: Path) -> None:
    train(TrainRequest(open_dataset(folder / "data"), folder / "run", case.config))


def run_evaluate(case: Case, folder: Path) -> None:
    evaluate(EvaluationRequest(folder / "run", settings=SampleSettings(case.num_samples)))


IMPORTED: dict[str, Stage] = {"import": run_import, "check": run_check, "stats": run_stats, "read": run_read}
PLANNED: dict[str, Stage] = {"train": run_train, "evaluate": run_evaluate}


@dataclass(frozen=True)
class Spent:
    """CPU time and memory of one stage."""

    cpu_s: float
    memory_mb: float


def measure(stage: Stage, case: Case, folder: Path) -> Spent:
    """Run a stage in a new process."""
    ours, theirs = multiprocessing.Pipe(duplex=False)
    process = multiprocessing.get_context("spawn").Process(target=_run, args=(stage, case, folder, theirs))
    process.start()
    theirs.close()
    try:
        spent: Spent = ours.recv()
    except EOFError:
        raise SystemExit("a stage failed; its error is above") from None
    finally:
        process.join()
    return spent


def _run(stage: Stage, case: Case, folder: Path, result: Connection) -> None:
    torch.set_num_threads(1)
    before_mb, began = _peak_mb(), time.process_time()
    stage(case, folder)
    result.send(Spent(time.process_time() - began, _peak_mb() - before_mb))


def _peak_mb() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def grow(name: str, cases: Mapping[int, Case], folder: Path | None) -> dict[str, dict[str, float]]:
    """Measure every stage at every size, and print how CPU time and memory grow."""
    sizes = list(cases)
    stages = IMPORTED if name == "videos" else PLANNED
    spent: dict[str, list[Spent]] = {stage: [] for stage in stages}
    for size, case in cases.items():
        with tempfile.TemporaryDirectory(dir=folder) as temporary:
            root = Path(temporary)
            generate(case, root / "source")
            if name != "videos":
                run_import(case, root)
            for stage, work in stages.items():
                spent[stage].append(found := measure(work, case, root))
                print(f"{name} {size}: {stage} {found.cpu_s:.2f} CPU s, {found.memory_mb:.0f} MB", flush=True)
    table = {}
    for stage, each in spent.items():
        first, last = each[0], each[-1]
        table[stage] = {
            "cpu_s": round(last.cpu_s, 2),
            "memory_mb": round(last.memory_mb),
            "cpu_exponent": round(_exponent(sizes, first.cpu_s, last.cpu_s), 2),
            "memory_exponent": round(_exponent(sizes, first.memory_mb, last.memory_mb), 2),
        }
        print(
            f"{name}, {stage}: CPU time to the power {table[stage]['cpu_exponent']}, "
            f"memory {table[stage]['memory_exponent']}",
            flush=True,
        )
    return table


def _exponent(sizes: list[int], first: float, last: float) -> float:
    """The power of the size with which a figure grows."""
    return math.log(max(last, 0.01) / max(first, 0.01)) / math.log(sizes[-1] / sizes[0])


SIZES = {
    "windows": (500, 1000, 2000),
    "actions": (1250, 2500, 5000),
    "horizon": (3, 5, 10),
    "videos": (3000, 6000, 12_000),
}


def main() -> None:
    parser = make_parser(__doc__)
    for name, sizes in SIZES.items():
        parser.add_argument(f"--{name}", type=int, nargs="*", default=sizes, help="sizes; without any: not measured")
    parser.add_argument("--planner", default="p3iv-plus")
    parser.add_argument("--samples", type=int, default=1500)
    parser.add_argument("--side", type=int, default=100, help="evaluated windows where actions or horizon grow")
    parser.add_argument("--vocabulary", type=int, default=778, help="actions where windows or horizon grow")
    parser.add_argument("--folder", type=Path, help="where to put the temporary files")
    args = parser.parse_args()
    usual = Case(args.side, num_actions=args.vocabulary, num_samples=args.samples, planner=args.planner)
    fields = {"windows": "num_windows", "actions": "num_actions", "horizon": "horizon", "videos": "num_videos"}
    found = {}
    for name, field in fields.items():
        cases = {size: replace(usual, **{field: size}) for size in getattr(args, name)}
        if len(cases) == 1:
            parser.error(f"--{name}: one size does not show growth; give at least two, or none")
        if cases:
            found[name] = grow(name, cases, args.folder)
    print(json.dumps(found))


if __name__ == "__main__":
    main()
