"""Build the wheel and the sdist, install the wheel without extras in an empty environment, and try it there.

usage: python -m tools.try_install

Prints a line for everything that was tried and exits with 1 if something failed. It needs about 1.3 GB in the temporary
folder while it runs. `make check` runs it.
"""

from __future__ import annotations

import json
import sys
import tarfile
import tempfile
import time
import zipfile
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from functools import partial
from pathlib import Path

import numpy as np

from tools.environments import CONSTRAINTS, ROOT, Done, Environment, InstallError, build, make_environment

PACKAGE = ROOT / "src" / "p3iv"
MAX_WHEEL_MB, MAX_SDIST_MB = 8, 12
NEVER_PACKED = ("__pycache__", ".venv", ".git", ".mypy_cache", ".ruff_cache", ".hypothesis", "site", "demo", "dist")

# What `p3iv plan FILE.onnx` needs beside the wheel, which is then installed with --no-deps.
TORCH_FREE = ("numpy", "onnxruntime", "pydantic", "pyyaml", "filelock", "typer", "rich", "markupsafe")

NUM_VIDEOS, NUM_SECONDS, WIDTH = 12, 14, 8
STEPS = ("boil water", "warm the cup", "pour water", "drink")

SMALL = ("--set", "optim.epochs=1")
WRITES = (  # one after the other
    ("data", "import", "folder", "source", "kitchen", "--features", "rows", "--language", "language.npz"),
    ("data", "import", "folder", "source", "simulated", "--language", "language.npz"),
    ("data", "simulate", "simulated"),
    ("data", "export", "kitchen", "project.json", "--format", "via"),
    ("data", "import", "annotations", "project.json", "annotated", "--videos", "videos"),
    ("data", "import", "folder", "source", "packed"),
    ("extract", "packed", "--encoder", "precomputed", "--weights", "rows", "--text-encoder", "keep"),
    ("data", "import", "folder", "source", "filmed", "--videos", "videos"),
    ("data", "import", "folder", "source", "listed"),
    ("data", "make", "tabletop", "tabletop", "--videos", "6", "--skip-rendering"),
    ("data", "check", "kitchen"),
    ("data", "stats", "kitchen", "--horizons", "3"),
    ("align", "kitchen"),
    ("train", "kitchen", "--out", "plus", "--planner", "p3iv-plus", *SMALL),
    ("train", "kitchen", "--out", "fitted", "--planner", "p3iv-plus", "--folds", "2", "--fit-all", *SMALL),
    ("data", "enough", "kitchen"),
    ("train", "simulated", "--out", "p3iv", *SMALL),
    ("train", "packed", "--out", "graph", "--planner", "graph", *SMALL),
    ("evaluate", "plus", "--samples", "20"),
)
READS = (  # two at a time
    ("report", "plus"),
    ("score", "plus/predictions.jsonl", "--actions", "plus/actions.json"),
    ("plan", "plus", "--start", "rows/v0.npy", "--goal", "goal.npy", "--svg", "plan.svg"),
    ("plan", "p3iv", "--start", "v0@1", "--goal", "v0@9", "--samples", "9", "--json"),
    ("compare", "kitchen", "--planners", "random,majority", "--seeds", "0", "--horizons", "3", "--out", "compared"),
    ("reproduce", "--list"),
    ("reproduce", "unique-plans", "--data", "kitchen", "--out", "reproduced"),
    ("info", "plus"),
    ("info", "tabletop-demo"),
    ("info", "--json"),
)
REFUSED = (  # with what to install, at once
    ("demo", "refused"),
    ("data", "make", "tabletop", "refused"),
    ("extract", "filmed"),
    ("data", "embed", "listed"),
    ("plan", "plus", "--start", "videos/v0.mp4@1", "--goal", "goal.npy", "--encoder", "efficientnet-lite0"),
    ("compare", "kitchen", "--engine", "ray", "--out", "refused"),
    ("train", "kitchen", "--out", "refused", "--track", "tensorboard", *SMALL),
    ("export", "plus", "--out", "refused.onnx"),
    ("serve", "plus"),
    ("push", "plus", "someone/kitchen", "--licence", "apache-2.0"),
)
IN_PYTHON = """
import sys
from pathlib import Path

import numpy as np

from p3iv import Planner

planner = Planner.from_pretrained("plus")
plans = planner.plan(np.load("rows/v0.npy")[0], np.load("goal.npy"))
assert 0 < plans.plan_probability <= 1 and len(plans.plan) == planner.horizon == 3, plans
home = Path(sys.modules["p3iv"].__file__)
assert home.is_relative_to(sys.prefix), f"p3iv was imported from {home}"
"""
ALL_HELP = """
from typer.main import get_command
from typer.testing import CliRunner
from p3iv.cli.app import app

def names(group, above=()):
    for name, command in group.commands.items():
        yield (*above, name)
        if hasattr(command, "commands"):
            yield from names(command, (*above, name))

for words in names(get_command(app)):
    shown = CliRunner().invoke(app, [*words, "--help"])
    assert shown.exit_code == 0 and "Usage: " in shown.output, (words, shown.output)
    print(*words, sep=" ", end=", ")
"""

ASK = """
import json
import sys

import numpy as np

from p3iv import Planner

planner, random, answers = Planner.from_pretrained(sys.argv[1]), np.random.default_rng(5), []
assert (planner.backend == "onnx") == ("torch" not in sys.modules), sorted(sys.modules)
for number in range(int(sys.argv[3])):
    start, goal = random.normal(size=(2, planner.header.shape.feature_width))
    plans = planner.plan(start, goal, number=2)
    answers.append([plans.plans, plans.probabilities, planner.sample(start, goal, 100, seed=number)])
open(sys.argv[2], "w").write(json.dumps(answers))
"""
NUM_PAIRS = {"plus": 1000, "p3iv": 100}  # on which torch and the exported planner are compared

Trial = Callable[[], str]  # returns what there is to add about a success; raises AssertionError or InstallError


class Trials:
    """Runs trials, prints a line for each, and keeps what failed."""

    def __init__(self) -> None:
        self.failed: list[str] = []

    def try_(self, title: str, trial: Trial) -> bool:
        """Run one trial; whether it succeeded."""
        began = time.monotonic()
        try:
            said, fault = trial(), None
        except (AssertionError, InstallError) as error:
            said, fault = "", str(error)
        lines = [f"{'FAILED' if fault else 'ok    '} {time.monotonic() - began:5.1f} s  {title}{said}"]
        if fault:
            self.failed.append(title)
            lines += [f"    {line}" for line in fault.strip().splitlines()]
        print("\n".join(lines), flush=True)
        return fault is None


def main() -> int:
    """Try everything in a temporary folder."""
    began, trials = time.monotonic(), Trials()
    with tempfile.TemporaryDirectory(prefix="p3iv-install-") as temporary:
        folder = Path(temporary)
        for name in ("dist", "tree", "work"):
            (folder / name).mkdir()
        if trials.try_("wheel and sdist are built", lambda: _build(folder)):
            try_files(trials, folder / "dist", folder / "tree")
            with ThreadPoolExecutor() as pool:  # the two installations at the same time
                base, torch_free = (pool.submit(install, folder) for install in (_install_base, _install_torch_free))
                try_base_install(trials, folder / "base", folder / "work", base)
                try_torch_free(trials, folder / "torch-free", folder / "work", torch_free)
    verdict = f"failed: {'; '.join(trials.failed)}" if trials.failed else "everything works"
    print(f"{verdict} ({time.monotonic() - began:.0f} s)")
    return 1 if trials.failed else 0


def _build(folder: Path) -> str:
    build(folder / "dist", ROOT)  # the sdist, and the wheel from it
    build(folder / "tree", ROOT, "--wheel")
    sizes = [f"{path.name} {path.stat().st_size / 1e6:.1f} MB" for path in sorted((folder / "dist").iterdir())]
    return f": {', '.join(sizes)}"


def try_files(trials: Trials, dist: Path, tree: Path) -> None:
    """What is in the wheel and in the sdist."""
    wheel, sdist = _only(dist, "*.whl"), _only(dist, "*.tar.gz")
    trials.try_("the wheel has the files of the package and no others", lambda: _check_wheel(wheel))
    trials.try_("the sdist has sources, tests and documents, and no caches", lambda: _check_sdist(sdist))
    trials.try_("the wheel of the sdist is that of the tree", lambda: _compare(wheel, _only(tree, "*.whl")))


def _check_wheel(path: Path) -> str:
    names = {name for name in _contents(path) if ".dist-info/" not in name}
    files = [file for file in PACKAGE.rglob("*") if file.is_file() and "__pycache__" not in file.parts]
    expected = {file.relative_to(PACKAGE.parent).as_posix() for file in files}
    assert names == expected, f"missing: {sorted(expected - names)}; not expected: {sorted(names - expected)}"
    for needed in ("/py.typed", ".css", ".toml", ".safetensors", ".mp4"):
        assert any(name.endswith(needed) for name in names), f"there is no {needed}"
    _check_size(path, MAX_WHEEL_MB)
    return f": {len(names)}"


def _check_sdist(path: Path) -> str:
    with tarfile.open(path) as archive:
        names = [name.partition("/")[2] for name in archive.getnames()]
    unwanted = [name for name in names if set(NEVER_PACKED) & set(name.split("/")) or name.endswith(".pyc")]
    assert not unwanted, f"not expected: {unwanted}"
    for needed in ("pyproject.toml", "constraints.txt", "Makefile", "LICENSE", "README.md", "tests/conftest.py"):
        assert needed in names, f"{needed} is missing"
    _check_size(path, MAX_SDIST_MB)
    return f": {len(names)} files"


def _check_size(path: Path, most: float) -> None:
    size = path.stat().st_size / 1e6
    assert size <= most, f"{path.name} has {size:.1f} MB; {most} at most"


def _compare(one: Path, other: Path) -> str:
    first, second = _contents(one), _contents(other)
    different = sorted(name for name in first.keys() | second.keys() if first.get(name) != second.get(name))
    assert not different, f"these files differ: {different}"
    return ""


def _contents(wheel: Path) -> dict[str, int]:
    """The files of a wheel and their checksums."""
    with zipfile.ZipFile(wheel) as archive:
        return {info.filename: info.CRC for info in archive.infolist()}


def _only(folder: Path, pattern: str) -> Path:
    (path,) = folder.glob(pattern)
    return path


def _install_base(folder: Path) -> str:
    environment = make_environment(folder / "base")
    environment.install("--constraint", CONSTRAINTS, _only(folder / "dist", "*.whl"))
    return f": {_megabytes(environment.folder):,.0f} MB"


def _install_torch_free(folder: Path) -> str:
    environment = make_environment(folder / "torch-free")
    environment.install("--constraint", CONSTRAINTS, *TORCH_FREE)
    environment.install("--no-deps", _only(folder / "dist", "*.whl"))
    assert "torch" not in environment.versions(), "torch was installed"
    return f": {_megabytes(environment.folder):,.0f} MB"


def try_base_install(trials: Trials, folder: Path, work: Path, installed: Future[str]) -> None:
    """Run every command in an installation without extras: those that need an extra must say so at once."""
    if not trials.try_("the wheel is installed without extras in an empty environment", installed.result):
        return
    environment = Environment(folder)
    _write_small_data(work)
    for program, words in (("pip", ("check",)), ("p3iv", ("--version",)), *(("p3iv", words) for words in WRITES)):
        trials.try_(_title(program, words), partial(_succeed, environment, program, words, work))
    independent = {
        **{_title("p3iv", words): partial(_succeed, environment, "p3iv", words, work) for words in READS},
        **{f"refused: {_title('p3iv', words)}": partial(_refuse, environment, words, work) for words in REFUSED},
        "--help of every command": partial(_succeed, environment, "python", ("-c", ALL_HELP), work),
        "from p3iv import Planner": partial(_succeed, environment, "python", ("-c", IN_PYTHON), work),
    }
    with ThreadPoolExecutor(max_workers=2) as pool:
        list(pool.map(trials.try_, independent.keys(), independent.values()))


def try_torch_free(trials: Trials, folder: Path, work: Path, installed: Future[str]) -> None:
    """Plan from an exported planner in an installation without torch."""
    if not trials.try_("the wheel is installed without torch in an empty environment", installed.result):
        return
    developer, environment = Environment(Path(sys.prefix)), Environment(folder)
    export = ("-m", "p3iv", "export", "plus", "--out", "plus.onnx", "--encoder-precision", "none")
    trials.try_("p3iv export plus", partial(_succeed, developer, "python", export, work))
    words = ("plan", "plus.onnx", "--start", "rows/v0.npy", "--goal", "goal.npy")
    trials.try_(f"without torch: {_title('p3iv', words)}", partial(_succeed, environment, "p3iv", words, work))
    for run in NUM_PAIRS:
        title = f"without torch: plans and samples of {run} are those of torch"
        trials.try_(title, partial(_compare_with_torch, developer, environment, run, work))


def _compare_with_torch(developer: Environment, torch_free: Environment, run: str, work: Path) -> str:
    """Plan with torch, and with the exported planner where there is no torch; compare the answers."""
    number = str(NUM_PAIRS[run])
    export = ("-m", "p3iv", "export", run, "--out", f"{run}.onnx", "--encoder-precision", "none", "--overwrite")
    _succeed(developer, "python", export, work)
    _succeed(developer, "python", ("-c", ASK, run, "torch.json", number), work)
    _succeed(torch_free, "python", ("-c", ASK, f"{run}.onnx", "onnx.json", number), work)
    ours, theirs = (json.loads((work / file).read_text(encoding="utf-8")) for file in ("torch.json", "onnx.json"))
    samples = different = 0
    for (plans, shares, drawn), (other_plans, other_shares, other_drawn) in zip(ours, theirs, strict=True):
        is_clear = shares[0] - shares[1] > 1e-5
        assert plans[0] == other_plans[0] or not is_clear, f"{plans[0]} with torch, {other_plans[0]} without"
        assert abs(shares[0] - other_shares[0]) <= 1e-4, (
            f"probability {shares[0]} with torch, {other_shares[0]} without"
        )
        samples += len(drawn)
        different += sum(one != other for one, other in zip(drawn, other_drawn, strict=True))
    assert different <= samples / 10_000, f"{different} of {samples} samples differ"
    return f": {number} pairs, {different} of {samples} samples differ"


def _write_small_data(folder: Path) -> None:
    """Annotations (source/steps.csv), features (rows/*.npy) and step embeddings (language.npz) of a few videos."""
    rng = np.random.default_rng(0)
    lines = ["video,task,step,start_s,end_s"]
    (folder / "source").mkdir()
    (folder / "rows").mkdir()
    (folder / "videos").mkdir()
    (folder / "videos" / "v0.mp4").touch()
    for number in range(NUM_VIDEOS):
        order = STEPS if number % 2 else (STEPS[1], STEPS[0], *STEPS[2:])
        lines += [f"v{number},make tea,{step},{3 * at + 1},{3 * at + 3}" for at, step in enumerate(order)]
        np.save(folder / "rows" / f"v{number}.npy", rng.normal(size=(NUM_SECONDS, WIDTH)).astype(np.float32))
    (folder / "source" / "steps.csv").write_text("\n".join(lines) + "\n", encoding="utf-8")
    np.savez(folder / "language.npz", step=np.array(STEPS), embedding=rng.normal(size=(len(STEPS), WIDTH)))
    np.save(folder / "goal.npy", rng.normal(size=WIDTH).astype(np.float32))


def _succeed(environment: Environment, program: str, words: Sequence[str], work: Path) -> str:
    done = environment.run(program, *words, cwd=work)
    assert done.returncode == 0, f"exit code {done.returncode}\n{_printed(done)}"
    return ""


def _refuse(environment: Environment, words: Sequence[str], work: Path) -> str:
    done = environment.run("p3iv", *words, cwd=work)
    said = done.stderr.strip().splitlines()
    assert (done.returncode, done.stdout, len(said)) == (1, "", 1), _printed(done)
    assert "Type: pip install '" in said[0], said[0]
    assert not [*work.glob("refused*")], "something was written"
    return ""


def _printed(done: Done) -> str:
    return (done.stdout + done.stderr)[-3000:]


def _title(program: str, words: Sequence[str]) -> str:
    return " ".join((program, *words))


def _megabytes(folder: Path) -> float:
    return sum(path.lstat().st_size for path in folder.rglob("*") if not path.is_dir()) / 1e6


if __name__ == "__main__":
    sys.exit(main())
