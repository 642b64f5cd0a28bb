"""Commands on small folders: what is there before, the command, and what must be there after it."""

from __future__ import annotations

import csv
import hashlib
import json
import re
import shutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np
from safetensors import safe_open

from p3iv.data.check import check_dataset
from p3iv.evaluation.evaluate import evaluation_files
from p3iv.evaluation.result import read_evaluation
from p3iv.features.video_file import write_video
from p3iv.plans.draws import SampleSettings
from soak.processes import Ended, run_p3iv

SETTINGS = ("optim.epochs=2", "model.width=16", "loss.latents=2")
SET = tuple(word for setting in SETTINGS for word in ("--set", setting))
TRAIN = ("--preset", "tiny", "--split", "release", *SET)
FEW = ("--samples", "3", "--horizons", "3", "--seeds", "0")

EMPTY = "an empty folder"
Words = tuple[str, ...]
Tree = dict[str, str]  # a digest by path, without what differs between two equal runs, such as times


@dataclass(frozen=True)
class Scenario:
    """A command in a copy of a prepared folder."""

    name: str
    words: Words
    prepare: Callable[[Path], None]
    resumed: Words = ()  # options that a user adds after an interruption
    replaces: bool = False  # a folder as a whole, by one that has other files until the end
    check: Callable[[Path], str | None] = lambda _: None  # how readers may take something half for whole


def scenarios() -> list[Scenario]:
    """Every command that writes; each folder holds `data`, and `run` where a command needs one."""
    imported = ("data", "import", "folder", "data", "imported")
    subtitles = ("data", "export", "data", "subtitles", "--format", "webvtt")
    annotations = ("data", "import", "annotations", "project.json", "imported")
    made = ("data", "make", "tabletop", "made", "--videos", "3", "--jobs", "1")
    extract = ("extract", "videos", "--jobs", "1", "--text-encoder", "keep")
    train = ("train", "data", "--out", "run", *TRAIN)
    plus = ("train", "data", "--out", "run", "--planner", "p3iv-plus", "--split", "release", *SET[:4])
    fit_all = ("train", "data", "--out", "run", "--planner", "p3iv-plus", "--folds", "2", "--fit-all", *SET[:4])
    enough = ("data", "enough", "data", "--out", "curve", "--folds", "2", "--set", "optim.epochs=1", *SET[2:4])
    compare = ("compare", "data", "--out", "tables", "--planners", "retrieval,majority", "--split", "release", *FEW)
    reproduce = ("reproduce", "unique-plans", "viterbi", "--data", "data", "--out", "tables", *FEW, *SET)
    again, seed = ("--overwrite",), ("--seed", "1", "--overwrite")
    return [
        Scenario("import", imported, make_data, check=partial(check_data, "imported")),
        Scenario("import --overwrite", (*imported, *again), make_imported, replaces=True),
        Scenario("export annotations", subtitles, make_data),
        Scenario("import annotations", annotations, make_exported, check=partial(check_data, "imported")),
        Scenario("make", made, _nothing, check=partial(check_data, "made")),
        Scenario("make --overwrite", (*made, "--skip-rendering", *seed), make_made, replaces=True),
        Scenario("extract", extract, make_videos, check=partial(check_data, "videos")),
        Scenario("extract --overwrite", (*extract, *again), make_extracted, check=partial(check_data, "videos")),
        Scenario("simulate", ("data", "simulate", "data", "--overwrite"), make_data, check=partial(check_data, "data")),
        Scenario("embed", ("data", "embed", "data", "--overwrite"), make_data),
        Scenario("align", ("align", "data", "--split", "release", "--steps", "3"), make_data),
        Scenario("train", train, make_data, resumed=("--resume",)),
        Scenario("train p3iv-plus", plus, make_data, resumed=("--resume",)),
        Scenario("train --fit-all", fit_all, make_data, resumed=("--resume",)),
        Scenario("enough", enough, make_data),
        Scenario("train --overwrite", (*train, *seed), make_run, replaces=True),
        Scenario("evaluate", ("evaluate", "run", "--samples", "4", "--seed", "2"), make_evaluated, check=check_run),
        Scenario("report", ("report", "run", "--cases", "3"), make_reported, check=check_run),
        Scenario("export", ("export", "run", "--out", "planner.onnx", "--overwrite"), make_run),
        Scenario("compare", compare, make_data),
        Scenario("reproduce", reproduce, make_data),
    ]


def must(ended: Ended) -> None:
    """Raise an error if a command without a disturbance did not succeed."""
    if ended.exit_code != 0:
        raise RuntimeError(f"p3iv {' '.join(ended.words)} ended with {ended.exit_code}:\n{ended.stderr}")


def _nothing(folder: Path) -> None:
    pass


def make_data(folder: Path) -> None:
    must(run_p3iv(folder, "data", "make", "tabletop", "data", "--videos", "12", "--skip-rendering"))


def make_imported(folder: Path) -> None:
    must(run_p3iv(folder, "data", "make", "tabletop", "imported", "--videos", "4", "--seed", "3", "--skip-rendering"))
    make_data(folder)


def make_exported(folder: Path) -> None:
    make_data(folder)
    must(run_p3iv(folder, "data", "export", "data", "project.json", "--format", "via"))


def make_made(folder: Path) -> None:
    must(run_p3iv(folder, "data", "make", "tabletop", "made", "--videos", "4", "--seed", "3", "--skip-rendering"))


def make_videos(folder: Path) -> None:
    """A dataset of three videos of four seconds without features."""
    rows = ["video,task,step,start_s,end_s"]
    for number, video in enumerate("abc"):
        rng = np.random.default_rng(number)
        frames = (rng.integers(0, 255, (32, 32, 3), dtype=np.uint8) for _ in range(16))
        write_video(folder / "videos" / "videos" / f"{video}.mp4", frames, fps=4)
        rows += [f"{video},tea,boil,0,1", f"{video},tea,pour,1,2", f"{video},tea,stir,2.5,4"]
    (folder / "videos" / "steps.csv").write_text("\n".join(rows) + "\n")
    (folder / "videos" / "dataset.yaml").write_text("name: kitchen\n")


def make_extracted(folder: Path) -> None:
    make_videos(folder)
    must(run_p3iv(folder, "extract", "videos", "--jobs", "1", "--only-needed", "--dtype", "float32"))


def make_run(folder: Path) -> None:
    make_data(folder)
    must(run_p3iv(folder, "train", "data", "--out", "run", *TRAIN))


def make_evaluated(folder: Path) -> None:
    make_run(folder)
    must(run_p3iv(folder, "evaluate", "run", "--samples", "3", "--seed", "1"))


def make_reported(folder: Path) -> None:
    make_evaluated(folder)
    must(run_p3iv(folder, "report", "run", "--cases", "1"))


def check_data(name: str, folder: Path) -> str | None:
    """A dataset folder that is neither the old nor the new one must be refused by `data check`."""
    findings = check_dataset(folder / name) if (folder / name).exists() else []
    is_refused = any(finding.severity == "error" for finding in findings)
    return None if is_refused or not findings else f"data check finds no error in {name}"


def check_run(folder: Path) -> str | None:
    """The predictions that `report` takes are those of the evaluation."""
    files = evaluation_files(folder / "run", "test", SampleSettings())
    found = read_evaluation(files.evaluation)
    predictions = files.find_predictions(found)
    if predictions is None:
        return "the evaluation has no predictions"
    with predictions.open(encoding="utf-8") as lines:
        drawn = {sum(count for _, count in json.loads(line)["samples"]) for line in lines}
    return None if drawn == {found.samples.number} else f"{drawn} samples, but {found.samples.number} in the figures"


def read_tree(folder: Path) -> Tree:
    """All files and empty folders below a folder, also hidden ones."""
    tree = {}
    for path in sorted(folder.rglob("*")):
        if path.is_file():
            tree[str(path.relative_to(folder))] = digest(path)
        elif not any(path.iterdir()):
            tree[str(path.relative_to(folder))] = EMPTY
    return tree


def digest(path: Path, final: Path | None = None) -> str:
    """A hash of what a file says, without processor times and clock times; `final` is the name that it will get."""
    try:
        parts = list(_content(path, final or path))
    except Exception:
        parts = [b"damaged", path.read_bytes() if path.is_file() else b"missing"]
    found = hashlib.sha256()
    for part in parts:
        found.update(part if isinstance(part, bytes) else repr(part).encode())
    return found.hexdigest()[:16]


def _content(path: Path, final: Path) -> Iterator[object]:
    if final.suffix == ".safetensors":
        with safe_open(path, "numpy") as file:
            yield _timeless(json.loads(file.metadata()["p3iv"]))
            for name in sorted(file.keys()):
                yield name
                yield file.get_tensor(name).tobytes()
    elif final.suffix == ".npz":
        with np.load(path) as arrays:
            for name in sorted(arrays):
                yield (name, arrays[name].shape, str(arrays[name].dtype))
                yield arrays[name].tobytes()
    elif final.suffix == ".json" and final.parent.name != "parts":
        yield _timeless(json.loads(path.read_bytes()))
    elif final.suffix == ".csv" and final.parent.name != "tables":
        yield read_rows(path)
    elif final.suffix in (".html", ".md", ".tex", ".csv", ".json"):
        yield re.sub(r"[\d.]+", "#", path.read_text(encoding="utf-8"))  # their figures are in the files above
    else:
        yield path.read_bytes()


def read_rows(path: Path) -> list[object]:
    """The rows of a CSV file without times."""
    with path.open(newline="", encoding="utf-8") as file:
        return [_timeless(row) for row in csv.DictReader(file)]


_TIMES = ("cpu_s", "seconds", "training_cpu_s", "milliseconds_per_plan")


def _timeless(value: object) -> object:
    if isinstance(value, dict):
        return {key: _timeless(inner) for key, inner in sorted(value.items(), key=str) if key not in _TIMES}
    if isinstance(value, list):
        return [_timeless(inner) for inner in value]
    return value


def differences(found: Tree, expected: Tree) -> Iterator[str]:
    """What is missing, changed or additional."""
    for name in sorted(found.keys() | expected.keys()):
        if found.get(name) != expected.get(name):
            state = "missing" if name not in found else "additional" if name not in expected else "different"
            yield f"{name} is {state}"


def copy_folder(source: Path, destination: Path) -> None:
    """Replace what is in a folder by a copy; times of files are kept, as `extract` looks at them."""
    shutil.rmtree(destination, ignore_errors=True)  # a mounted folder stays
    shutil.copytree(source, destination, symlinks=True, dirs_exist_ok=True)
