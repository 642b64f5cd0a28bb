"""The parts of the soak, in two processes."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Callable, Collection
from pathlib import Path
from typing import Any

from soak.bombs import run_bombs
from soak.disk import run_disk
from soak.fuzz import run_fuzz
from soak.inputs import make_examples
from soak.kills import make_trials, run_kills
from soak.long_runs import NUMBER as NUM_CALLS
from soak.long_runs import run_long_runs
from soak.processes import cpu_seconds, start
from soak.report import Part
from soak.service import NUMBER as NUM_REQUESTS
from soak.service import run_service

FULL_MINUTES = 20.0  # with which long runs have their full length
GROUPS = (("kills", "disk"), ("bombs", "long runs", "service", "fuzz"))  # one process each
PARTS = tuple(part for group in GROUPS for part in group)
DISK_SHARE = 0.15  # of the time of its process


def run_parts(chosen: Collection[str], seed: int, minutes: float, keep: Path) -> dict[str, Any]:
    """The counts and failures of every part; a part whose process died is a failure, too."""
    found: dict[str, Any] = {}
    with tempfile.TemporaryDirectory(prefix="soak-") as folder:
        groups = {Path(folder) / group[0]: [part for part in group if part in chosen] for group in GROUPS}
        processes = [start(run_group, parts, seed, 60 * minutes, work, keep) for work, parts in groups.items() if parts]
        for process in processes:
            process.join()
        for work, parts in groups.items():
            for part in parts:
                file = work / f"{part}.json"
                found[part] = json.loads(file.read_text()) if file.exists() else {"failures": ["its process died"]}
    return found


def run_group(parts: list[str], seed: int, seconds: float, work: Path, keep: Path) -> None:
    """Run parts one after the other; the last one takes the time that is left."""
    work.mkdir()
    whole = Part(seed, seconds)
    examples, share = work / "examples", min(1.0, seconds / 60 / FULL_MINUTES)
    if {"bombs", "long runs", "fuzz"} & set(parts):
        examples.mkdir()
        make_examples(examples)
    trials = make_trials(whole, work) if {"kills", "disk"} & set(parts) else []
    steps: dict[str, Callable[[Part], None]] = {
        "kills": lambda part: run_kills(part, trials),
        "disk": lambda part: run_disk(part, trials),
        "bombs": lambda part: run_bombs(part, examples, work),
        "long runs": lambda part: run_long_runs(part, examples, work, int(share * NUM_CALLS)),
        "service": lambda part: run_service(part, int(share * NUM_REQUESTS)),
        "fuzz": lambda part: run_fuzz(part, examples, keep),
    }
    for name in parts:
        kept_s = DISK_SHARE * seconds if name == "kills" and "disk" in parts else 0.0
        part, before = Part(seed, whole.left_s - kept_s), cpu_seconds()
        part.failures += whole.failures  # those of the preparation, once
        whole.failures.clear()
        try:
            steps[name](part)
        finally:
            content = part.to_dict() | {"cpu_s": round(cpu_seconds() - before, 1)}
            (work / f"{name}.json").write_text(json.dumps(content))
