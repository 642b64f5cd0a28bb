"""`python -m soak`: everything on two cores, until the time is over; prints counts and failures as JSON."""

from __future__ import annotations

import argparse
import json
import secrets
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

from p3iv import __version__
from p3iv.experiments.identity import commit
from soak.bombs import run_bombs
from soak.disk import can_mount, run_disk
from soak.fuzz import replay, run_fuzz
from soak.inputs import make_examples
from soak.kills import make_trials, run_kills
from soak.long_runs import NUMBER, run_long_runs
from soak.processes import cpu_seconds, start
from soak.report import Part

FULL_MINUTES = 20.0  # with which long runs have their full length
LANES = (("kills", "disk"), ("bombs", "long runs", "fuzz"))  # of two processes
DISK_SHARE = 0.15  # of the time of its process


def main() -> int:
    options = read_options()
    if options.replay:
        with tempfile.TemporaryDirectory(prefix="soak-") as work:
            print(replay(options.replay.absolute(), Path(work)))
        return 0
    seed = secrets.randbelow(2**31) if options.seed is None else options.seed
    print(f"seed {seed}", file=sys.stderr, flush=True)
    content = json.dumps(run_all(seed, options), indent=2) + "\n"
    sys.stdout.write(content)
    if options.json:
        options.json.write_text(content)
    return int('"failures": [\n' in content)


def read_options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m soak", description=__doc__)
    parser.add_argument("--minutes", type=float, default=FULL_MINUTES, help="how long; default: 20")
    parser.add_argument("--seed", type=int, help="repeats an earlier soak as far as its time goes; default: a new one")
    parser.add_argument("--only", default="", help="parts, separated by commas: " + ", ".join(sum(LANES, ())))
    parser.add_argument("--json", type=Path, metavar="FILE", help="also write the result to a file")
    parser.add_argument("--keep", type=Path, default=Path("soak-failures"), metavar="DIR", help="for failing inputs")
    parser.add_argument("--replay", type=Path, metavar="FILE", help="read a failing input again, and stop")
    return parser.parse_args()


def run_all(seed: int, options: argparse.Namespace) -> dict[str, Any]:
    """Run the parts in two processes; a process that dies is a failure, too."""
    chosen = set(filter(None, options.only.split(","))) or set(sum(LANES, ()))
    parts: dict[str, Any] = {}
    with tempfile.TemporaryDirectory(prefix="soak-") as folder:
        works = [Path(folder) / str(number) for number in range(len(LANES))]
        lanes = [[part for part in lane if part in chosen] for lane in LANES]
        keep = options.keep.absolute()
        processes = [
            start(run_lane, lane, seed, 60 * options.minutes, work, keep)
            for lane, work in zip(lanes, works, strict=True)
            if lane
        ]
        for process in processes:
            process.join()
        for lane, work in zip(lanes, works, strict=True):
            for part in lane:
                file = work / f"{part}.json"
                parts[part] = json.loads(file.read_text()) if file.exists() else {"failures": ["did not end"]}
    about = {"seed": seed, "version": __version__, "commit": commit(), "minutes": options.minutes}
    return about | {"cpu_s": round(cpu_seconds()), "can_mount": can_mount(), "parts": parts}


def run_lane(names: list[str], seed: int, seconds: float, work: Path, keep: Path) -> None:
    """Run some parts one after the other, in a process of its own."""
    work.mkdir()
    whole = Part(seed, seconds)
    examples, number = work / "examples", int(NUMBER * min(1.0, seconds / 60 / FULL_MINUTES))
    if set(names) & {"bombs", "long runs", "fuzz"}:
        examples.mkdir()
        make_examples(examples)
    trials = make_trials(work) if set(names) & {"kills", "disk"} else []
    steps: dict[str, Callable[[Part], None]] = {
        "kills": lambda part: run_kills(part, trials),
        "disk": lambda part: run_disk(part, trials),
        "bombs": lambda part: run_bombs(part, examples, work),
        "long runs": lambda part: run_long_runs(part, examples, work, number),
        "fuzz": lambda part: run_fuzz(part, examples, keep),
    }
    for name in names:
        kept_s = DISK_SHARE * seconds if name == "kills" and "disk" in names else 0.0
        part = Part(seed, whole.left_s - kept_s)
        try:
            steps[name](part)
        finally:
            (work / f"{name}.json").write_text(json.dumps(part.to_dict()))


if __name__ == "__main__":
    sys.exit(main())
