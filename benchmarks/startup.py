"""One plan from two moments of a video, from the start of the process, in CPU seconds.

usage: python -m benchmarks.startup [--repeats N] [--before SRC]

Every case is a new process: `p3iv plan` with torch, `p3iv plan` with an exported planner, `p3iv --help`, and for
comparison the mere `import torch`. All use the planner and the clips that come with p3iv. The cases take turns, the
fastest run of each counts, and user and system time are added. `--before SRC` also measures the sources of another
version (its folder src/) with the same planner, video and packages, and prints ratios to it.
"""

from __future__ import annotations

import json
import os
import resource
import subprocess
import sys
import tempfile
from pathlib import Path

from benchmarks.timing import make_parser
from p3iv.api.exporting import export_planner
from p3iv.shipped import shipped_clip, shipped_planner

SOURCES = Path(__file__).parents[1] / "src"
CLIP, START, GOAL = "tabletop-demo/repot.mp4", "2", "13"

Command = tuple[list[str], Path]  # the arguments of Python, and the sources that it uses


def child_cpu_s(command: Command) -> float:
    """The CPU seconds of one process."""
    arguments, sources = command
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    environment = {**os.environ, "PYTHONPATH": str(sources), "OMP_NUM_THREADS": "1"}
    command_line = [sys.executable, *arguments]
    subprocess.run(command_line, env=environment, stdout=subprocess.DEVNULL, check=True)  # noqa: S603 our own commands
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def commands(folder: Path, before: Path | None) -> dict[str, Command]:
    """The commands to measure; the planner is exported into the folder first."""
    planner, clip = shipped_planner("tabletop-demo"), shipped_clip(CLIP)
    if planner is None or clip is None:
        raise SystemExit("the planner tabletop-demo does not come with this installation")
    exported = folder / "planner.onnx"
    export_planner(planner, exported)
    moments = ["--start", f"{clip}@{START}", "--goal", f"{clip}@{GOAL}"]
    found: dict[str, Command] = {
        "import_torch": (["-c", "import torch"], SOURCES),
        "plan_torch": (["-m", "p3iv", "plan", str(planner), *moments], SOURCES),
        "plan_onnx": (["-m", "p3iv", "plan", str(exported), *moments], SOURCES),
        "help": (["-m", "p3iv", "--help"], SOURCES),
    }
    if before is not None:
        found["before"] = (found["plan_torch"][0], before)
    return found


def main() -> None:
    parser = make_parser(__doc__)
    parser.add_argument("--repeats", type=int, default=7)
    parser.add_argument("--before", type=Path, help="the folder src/ of another version")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        cases = commands(Path(folder), options.before)
        rounds = [{name: child_cpu_s(command) for name, command in cases.items()} for _ in range(options.repeats)]
    best = {name: min(one[name] for one in rounds) for name in cases}
    for name, seconds in best.items():
        print(f"{name:14} {seconds:6.2f} CPU s")
    result = {f"{name}_cpu_s": round(seconds, 3) for name, seconds in best.items()}
    for name in ("plan_torch", "plan_onnx", "import_torch"):
        if options.before is not None:
            result[f"{name}_over_before"] = round(best[name] / best["before"], 3)
    result["onnx_over_torch"] = round(best["plan_onnx"] / best["plan_torch"], 3)
    print(json.dumps(result))


if __name__ == "__main__":
    main()
