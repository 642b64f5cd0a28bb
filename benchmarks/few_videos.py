"""How often the interval of a cross-validation over few videos holds the score of the planner fitted to all of them.

A world is a seed of the tabletop: its first videos are those of a user, and 200 further ones are fresh. The user types
`p3iv train DIR --folds 5 --fit-all --planner p3iv-plus`, and the fitted planner is scored on the fresh videos.

FILE has one row per video of a cross-validation, and one for all fresh videos of a world. The same command continues
it: a world that is in it is not made again, and a world that was interrupted is resumed.
"""

from __future__ import annotations

import csv
import json
import shutil
from collections.abc import Iterator
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory

import torch

import p3iv
from benchmarks.timing import make_parser
from p3iv.data.folder import open_dataset
from p3iv.data.tensors import load_planning_data
from p3iv.experiments.cross_validate import CrossValidationResult
from p3iv.metrics.intervals import Clusters, Interval, mean_intervals
from p3iv.metrics.plans import successes
from p3iv.planners.checkpoint import load_planner
from p3iv.planners.header import BEST

FRESH = "fresh"


@dataclass(frozen=True)
class Row:
    """The windows of a video of the user, or of all fresh videos."""

    world: int
    video: str
    task: str
    num_windows: int
    num_right: int


def make_world(folder: Path, world: int, num_videos: int, num_fresh: int) -> None:
    """Write FOLDER/user and FOLDER/fresh; a video is the same in every dataset of its seed."""
    for name, number in (("user", num_videos), (FRESH, num_videos + num_fresh)):
        p3iv.make_tabletop(folder / name, videos=number, seed=world, skip_rendering=True, overwrite=True)
    steps = folder / FRESH / "steps.csv"
    known = {video.id for video in open_dataset(folder / "user").videos}
    lines = steps.read_text(encoding="utf-8").splitlines()
    steps.write_text("\n".join(line for line in lines if line.split(",")[0] not in known) + "\n", encoding="utf-8")
    (folder / FRESH / "split.json").unlink()
    (folder / FRESH / "truth.jsonl").unlink()


def try_world(folder: Path, world: int, args: dict[str, int]) -> Iterator[Row]:
    """Cross-validate and fit the planner of one world, and score it on its fresh videos."""
    if not (folder / "made").exists():
        make_world(folder, world, args["videos"], args["fresh"])
        (folder / "made").touch()
    settings = {"optim.epochs": args["epochs"]} if args["epochs"] else {}
    run = folder / "run"
    result = p3iv.train(
        folder / "user",
        run,
        planner="p3iv-plus",
        folds=args["folds"],
        fit_all=True,
        settings=settings,
        resume=run.exists(),
        on_note=lambda _: None,
    )
    if not isinstance(result, CrossValidationResult):
        raise TypeError("no cross-validation")
    for video in result.scores.videos:
        yield Row(world, video.video, video.task, video.num_windows, round(video.num_windows * video.success_rate))
    trained = load_planner(run / BEST)
    data = load_planning_data(open_dataset(folder / FRESH), trained.header.config.data, names=trained.header.names)
    with torch.no_grad():
        plans = trained.planner.recommend(data.train.start, data.train.goal, trained.transitions)
    right = successes(plans, data.train.action_ids)
    yield Row(world, FRESH, "", len(right), int(right.sum()))


def read_rows(file: Path) -> list[Row]:
    if not file.exists():
        return []
    with file.open(newline="", encoding="utf-8") as opened:
        return [
            Row(int(r["world"]), r["video"], r["task"], int(r["num_windows"]), int(r["num_right"]))
            for r in csv.DictReader(opened)
        ]


def add_rows(file: Path, rows: list[Row]) -> None:
    is_new = not file.exists()
    with file.open("a", newline="", encoding="utf-8") as opened:
        writer = csv.DictWriter(opened, [field.name for field in fields(Row)], lineterminator="\n")
        if is_new:
            writer.writeheader()
        writer.writerows(asdict(row) for row in rows)


def judge(rows: list[Row]) -> tuple[Interval, float]:
    """The interval of the success rate of one world, and the score on its fresh videos."""
    own = [row for row in rows if row.video != FRESH]
    values = [float(number < row.num_right) for row in own for number in range(row.num_windows)]
    videos = [row.video for row in own for _ in range(row.num_windows)]
    interval = mean_intervals({"success_rate": torch.tensor(values)}, Clusters.of(videos))["success_rate"]
    fresh = next(row for row in rows if row.video == FRESH)
    return interval, fresh.num_right / fresh.num_windows


def main() -> None:
    parser = make_parser(__doc__)
    parser.add_argument("--file", type=Path, help="where results are kept; without it, nothing is kept")
    parser.add_argument("--first", type=int, default=0, help="the first world")
    parser.add_argument("--worlds", type=int, default=20)
    parser.add_argument("--videos", type=int, default=10)
    parser.add_argument("--fresh", type=int, default=200)
    parser.add_argument("--folds", type=int, default=5)
    parser.add_argument("--epochs", type=int, default=0, help="0: as p3iv-plus has it")
    args = parser.parse_args()
    torch.set_num_threads(1)
    with TemporaryDirectory() as temporary:
        file = args.file or Path(temporary) / "few_videos.csv"
        run(file, range(args.first, args.first + args.worlds), vars(args))


def run(file: Path, worlds: range, args: dict[str, int]) -> None:
    """Try the worlds that are not in the file, and print how often the intervals hold the score."""
    for world in worlds:
        if not any(row.world == world and row.video == FRESH for row in read_rows(file)):
            folder = file.with_name(f"{file.stem}_world_{world}")
            add_rows(file, list(try_world(folder, world, args)))
            shutil.rmtree(folder)
        interval, score = judge([row for row in read_rows(file) if row.world == world])
        ends = f"{100 * interval.value:5.1f} [{100 * interval.low:5.1f}, {100 * interval.high:5.1f}]"
        verdict = "held" if interval.low <= score <= interval.high else "MISSED"
        print(f"world {world}: cross-validated {ends}, on fresh videos {100 * score:5.1f}: {verdict}", flush=True)
    judged = [judge([row for row in read_rows(file) if row.world == world]) for world in worlds]
    held = sum(interval.low <= score <= interval.high for interval, score in judged)
    width = 100 * median(interval.high - interval.low for interval, _ in judged)
    print(f"{held} of {len(judged)} intervals hold the score; median width {width:.1f} points")
    print(json.dumps({"worlds": len(judged), "held": held, "median_width": round(width, 2)}))


if __name__ == "__main__":
    main()
