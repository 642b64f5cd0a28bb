"""`Planner` and `p3iv plan` give the plans that evaluation counted, and load no more than they need."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from commands import RunP3iv
from p3iv.data.folder import open_dataset
from p3iv.data.tensors import PlanningData, load_planning_data
from p3iv.errors import ConfigError, DatasetError, P3ivError, PlanError
from p3iv.evaluation.evaluate import EvaluationRequest, evaluate
from p3iv.moments import Moment, MomentReader
from p3iv.planner import Planner
from p3iv.planners.header import BEST, read_header
from p3iv.plans.distribution import PlanDistribution
from p3iv.plans.draws import SampleSettings


@pytest.fixture(scope="module")
def run(p3iv_run: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy that may be evaluated again."""
    return Path(shutil.copytree(p3iv_run, tmp_path_factory.mktemp("runs") / "run"))


def test_api_command_and_evaluation_draw_the_same_plans(
    run: Path, tabletop: Path, tmp_path: Path, p3iv: RunP3iv
) -> None:
    planner = Planner.from_pretrained(run)
    data = load_planning_data(open_dataset(tabletop), planner.header.config.data)
    window = data.test.windows[3]
    alone = planner.plan(data.test.start[3], data.test.goal[3], num_samples=200, seed=4, mode="argmax")
    together = planner.plan_many(data.test.start[:6], data.test.goal[:6], num_samples=200, seed=4, mode="argmax")
    assert together[3] == alone
    ends = [f"{window.video}@{second}" for second in (window.start_s, window.goal_s)]
    options = ("--samples", "200", "--seed", "4", "--mode", "argmax", "--json")
    done = p3iv("plan", run, "--start", ends[0], "--goal", ends[1], *options)
    assert done.returncode == 0, done.stderr
    assert PlanDistribution.from_json(done.stdout) == alone
    assert planner.plan(*ends, num_samples=200, seed=4, mode="argmax") == alone
    for side in ("start", "goal"):
        np.save(tmp_path / f"{side}.npy", getattr(data.test, side)[3].numpy())
    files = ("--start", tmp_path / "start.npy", "--goal", tmp_path / "goal.npy")
    done = p3iv("plan", run, *files, *options)
    assert PlanDistribution.from_json(done.stdout) == alone
    evaluate(EvaluationRequest(run, settings=SampleSettings(200, seed=4)))
    line = json.loads((run / "predictions.jsonl").read_text().splitlines()[3])
    assert line["samples"] == [[list(steps), count] for steps, count in alone.samples]
    assert line["plan"] == list(alone.plan)
    assert line["plan_probability"] == pytest.approx(alone.plan_probability)


def test_the_command_prints_one_probability_per_plan_and_samples_only_if_asked(
    run: Path, tabletop: Path, p3iv: RunP3iv
) -> None:
    planner = Planner.from_pretrained(run)
    data = load_planning_data(open_dataset(tabletop), planner.header.config.data)
    window = data.test.windows[0]
    ends = [f"{window.video}@{second}" for second in (window.start_s, window.goal_s)]
    command = ("plan", run, "--start", ends[0], "--goal", ends[1], "--top", "2")
    done = p3iv(*command)
    assert done.returncode == 0, done.stderr
    plans = planner.plan(*ends)
    assert plans.samples == ()
    best, other, rest = (
        f"{100 * share:.1f} %" for share in (*plans.probabilities[:2], 1 - sum(plans.probabilities[:2]))
    )
    first, second, third = plans.plan
    assert done.stdout == (
        f"plan (probability {best}):\n  1. {first}\n  2. {second}\n  3. {third}\n\nmost probable plans:\n"
        f"{best:>9}  {' -> '.join(plans.plan)}\n{other:>9}  {' -> '.join(plans.plans[1])}\n{rest:>9}  all other plans\n"
    )
    sampled = p3iv(*command, "--samples", "50")
    assert sampled.stdout.startswith("plan (probability ")
    assert re.search(r"\n\d+ distinct plans in 50 samples, the most frequent:\n", sampled.stdout)
    refused = p3iv(*command, "--mode", "argmax")
    assert refused.returncode == 1
    assert "pass --samples N, too" in refused.stderr


def test_plans_are_ranked_by_their_probability_which_samples_approach(run: Path, data: PlanningData) -> None:
    planner, pair = Planner.from_pretrained(run), (data.test.start[3], data.test.goal[3])
    plans = planner.plan(*pair, num_samples=1500)
    assert plans.source == "chain"
    assert list(plans.probabilities) == sorted(plans.probabilities, reverse=True)
    counts = dict(plans.samples)
    for steps, probability in plans.top(5):
        assert planner.probability(*pair, steps) == pytest.approx(probability)
        assert counts.get(steps, 0) / 1500 == pytest.approx(probability, abs=0.06)
    assert planner.plan(*pair, number=3).plans == plans.plans[:3]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"number": 0}, "number=0, but it must be a whole number from 1 to 10000"),
        ({"number": 10**9}, "number=1000000000, but"),
        ({"num_samples": 0}, "samples=0, but it must be a whole number from 1"),
        ({"mode": "argmax"}, "mode='argmax' says how plans are sampled: pass num_samples"),
    ],
)
def test_options_without_effect_are_refused(
    run: Path, data: PlanningData, options: dict[str, Any], message: str
) -> None:
    with pytest.raises(P3ivError, match=message):
        Planner.from_pretrained(run).plan(data.test.start[0], data.test.goal[0], **options)


@pytest.mark.parametrize(
    ("start", "message"),
    [
        ("nowhere.mp4@3", "There is no file 'nowhere.mp4', and "),
        ("tabletop-0003.mp@3", "has no features of such a video. Did you mean tabletop-0003 or "),
        ("tabletop-0003@2000", "end at 47 seconds: give a time from 0 to 47."),
        ("kitchen", "There is no file 'kitchen'. A moment is "),
        ("x@-3", "'-3' is not a time in seconds or as mm:ss from 0. A moment is "),
        ("x@1:05", "There is no file 'x', and "),
        ("x@1:2:3:4", "'1:2:3:4' is not a time in seconds or as mm:ss. A moment is "),
        ("x@5s", "'5s' is not a time in seconds or as mm:ss; type @5."),
        ("x@1:05 min", "'1:05 min' is not a time in seconds or as mm:ss; type @1:05."),
        ("x@", "'' is not a time in seconds or as mm:ss. A moment is "),
        ("row.npy@5", "row.npy is a file of features: give it without a time."),
        ("still.PNG@5", "still.PNG is a picture: give it without a time."),
        ("gone.npy", "There is no file 'gone.npy'. A moment is "),
        ("a" * 300, "There is no file 'aaa"),
    ],
)
def test_a_moment_that_is_none_gets_a_sentence(
    run: Path, p3iv: RunP3iv, tmp_path: Path, start: str, message: str
) -> None:
    for file in ("row.npy", "still.PNG"):
        (tmp_path / file).touch()
    done = p3iv("plan", run, "--start", start, "--goal", start)
    assert done.returncode == 1
    assert message in done.stderr


def test_the_drawing_is_named(run: Path, p3iv: RunP3iv, tmp_path: Path) -> None:
    done = p3iv("plan", run, "--start", "tabletop-0003@3", "--goal", "tabletop-0003@9", "--svg", "plan.svg")
    assert done.stdout.endswith("\n\n-> plan.svg\n"), done.stderr
    assert (tmp_path / "plan.svg").is_file()


def test_options_of_encoders_are_refused_for_features(run: Path, p3iv: RunP3iv) -> None:
    for option in (("--encoder", "nonsense"), ("--weights", "mine.pth"), ("--allow-download",)):
        done = p3iv("plan", run, "--start", "some@1", "--goal", "row.npy", *option)
        assert done.returncode == 1
        assert "but these are features already: leave the option out" in done.stderr


def test_a_moment_after_the_end_is_refused(run: Path, tabletop: Path) -> None:
    dataset = open_dataset(tabletop)
    reader = MomentReader(read_header(run / BEST))
    reader.use_dataset(dataset)
    with pytest.raises(DatasetError, match="end at"):
        reader.read(f"{dataset.videos[0].id}@100000")


def test_observations_of_another_shape_are_refused(run: Path) -> None:
    planner = Planner.from_pretrained(run)
    width = planner.header.shape.feature_width
    for start in (np.zeros(width + 1), np.zeros((2, width)), np.full(width, np.nan)):
        with pytest.raises(PlanError, match="start"):
            planner.plan(start, np.zeros(width))
    with pytest.raises(PlanError, match="one of each"):
        planner.plan_many(np.zeros((2, width)), np.zeros((1, width)))


def test_pairs_are_planned_when_they_are_asked_for(run: Path, data: PlanningData) -> None:
    planner, asked = Planner.from_pretrained(run), []

    def pairs() -> Iterator[tuple[Moment, Moment]]:
        for number in range(4):
            asked.append(number)
            yield data.test.start[number], data.test.goal[number]
        raise AssertionError("nobody asked for a fifth pair")

    plans = planner.plan_each(pairs(), num_samples=20)
    assert asked == []
    first = next(plans)
    assert asked == [0]
    found = [first, *(next(plans) for _ in range(3))]
    assert asked == [0, 1, 2, 3]
    assert found == planner.plan_many(data.test.start[:4], data.test.goal[:4], num_samples=20)
    assert found[2] == planner.plan(data.test.start[2], data.test.goal[2], num_samples=20)


@pytest.mark.parametrize("name", ["p3iv_run", "plus_run"])
def test_best_plans_are_the_first_of_plan(name: str, data: PlanningData, request: pytest.FixtureRequest) -> None:
    planner, pair = Planner.from_pretrained(request.getfixturevalue(name)), (data.test.start[1], data.test.goal[1])
    best = planner.best_plans(*pair, 4)
    assert best == tuple(planner.plan(*pair).top(4))
    assert len(planner.best_plans(*pair)) == 5
    assert planner.best_plans(*pair, 1)[0] == best[0]


@pytest.mark.parametrize("name", ["p3iv_run", "plus_run"])
@pytest.mark.parametrize("mode", [None, "argmax", "categorical", "chain"])
def test_fewer_samples_are_the_beginning_of_more(
    name: str, mode: str | None, data: PlanningData, request: pytest.FixtureRequest
) -> None:
    planner, pair = Planner.from_pretrained(request.getfixturevalue(name)), (data.test.start[1], data.test.goal[1])
    many = planner.sample(*pair, 200, seed=3, mode=mode)
    counted = planner.plan(*pair, num_samples=200, seed=3, mode=mode).samples
    assert len(many) == 200
    assert {len(plan) for plan in many} == {planner.horizon}
    assert set().union(*many) <= set(planner.names)
    assert Counter(many) == dict(counted)
    if name == "plus_run" or mode in ("argmax", "categorical"):  # the chain of P3IV averages as many latents as samples
        assert planner.sample(*pair, 30, seed=3, mode=mode) == many[:30]
    assert planner.sample(*pair, 200, seed=4, mode=mode) != many


def test_a_planner_says_what_it_is_and_where(run: Path, plus_run: Path, data: PlanningData) -> None:
    planner = Planner.from_pretrained(run, device="cpu")
    assert repr(planner) == "<Planner run: p3iv, 3 steps of 90 actions, torch on cpu>"
    assert (planner.horizon, len(planner.names), planner.backend, planner.device) == (3, 90, "torch", "cpu")
    assert repr(Planner.from_pretrained(plus_run / BEST)).startswith("<Planner model.safetensors: p3iv-plus, 3 steps")
    before = planner.plan(data.test.start[0], data.test.goal[0])
    assert planner.to("cpu") is planner
    assert planner.plan(data.test.start[0], data.test.goal[0]) == before
    with pytest.raises(ConfigError, match="device"):
        planner.to("toaster")


LOADED = """
import sys, p3iv
assert "torch" not in sys.modules
from p3iv import Planner
{use}
print(*sorted(name for name in sys.modules if name.split(".")[0] == "p3iv"))
"""


def loaded_modules(use: str = "") -> list[str]:
    """The modules of p3iv that a new process has loaded after `from p3iv import Planner` and some use of it."""
    code = LOADED.format(use=use)
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split()


def test_importing_the_planner_loads_little() -> None:
    modules = loaded_modules()
    assert len(modules) <= 50
    unwanted = ("p3iv.training", "p3iv.planners.baselines", "p3iv.experiments", "p3iv.encoders.base", "p3iv.extraction")
    assert [name for name in modules if name.startswith(unwanted)] == []


def test_loading_and_using_a_planner_loads_no_other_planner_and_no_training(run: Path) -> None:
    width = Planner.from_pretrained(run).header.shape.feature_width
    modules = loaded_modules(f"Planner.from_pretrained({str(run)!r}).plan([0.5] * {width}, [0.1] * {width})")
    unwanted = (
        "p3iv.training",
        "p3iv.planners.baselines",
        "p3iv.planners.plus",
        "p3iv.experiments",
        "p3iv.encoders.base",
    )
    assert "p3iv.planners.p3iv.network" in modules
    assert [name for name in modules if name.startswith(unwanted)] == []


def test_the_package_has_no_other_names() -> None:
    import p3iv

    with pytest.raises(AttributeError, match="no attribute 'Plannner'"):
        _ = p3iv.Plannner  # type: ignore[attr-defined]


def test_backends_and_files_that_do_not_fit_get_a_sentence_each(run: Path, tmp_path: Path, p3iv: RunP3iv) -> None:
    assert p3iv("export", run, "--out", "one.onnx").returncode == 0
    exported = tmp_path / "one.onnx"
    cases: tuple[tuple[dict[str, Any], str], ...] = (
        ({"path": exported, "backend": "torch"}, "is an exported planner, which torch cannot load"),
        ({"path": run / BEST, "backend": "onnx"}, "is a checkpoint, but backend=onnx needs"),
        ({"path": run, "ensemble": [exported]}, "are all .onnx files, or none is"),
        ({"path": run, "backend": "tensorflow"}, "backend='tensorflow', but it must be torch or onnx"),
        ({"path": None}, "None is not a planner|null is not a planner"),
    )
    for arguments, message in cases:
        with pytest.raises(P3ivError, match=message):
            Planner.from_pretrained(**arguments)
    with pytest.raises(PlanError, match="is an exported planner: copy the file"):
        Planner.from_pretrained(exported).save_pretrained(tmp_path / "shared")
    with pytest.raises(PlanError, match="plan_many takes lists of moments"):
        Planner.from_pretrained(run).plan_many("a@1", "b@2")
    with pytest.raises(PlanError, match="is not a pair"):
        list(Planner.from_pretrained(run).plan_each([("a@1",)]))  # type: ignore[list-item]


WITHOUT_TORCH = """
import importlib.util, sys
find = importlib.util.find_spec
importlib.util.find_spec = lambda name, *more: None if name == "torch" else find(name, *more)
sys.modules["torch"] = None
from p3iv import Planner
from p3iv.errors import ConfigError
try:
    Planner.from_pretrained("tabletop-demo")
except ConfigError as error:
    print(error)
"""


def test_a_checkpoint_without_torch_says_what_to_install() -> None:
    done = subprocess.run([sys.executable, "-c", WITHOUT_TORCH], capture_output=True, text=True, check=False)
    assert "needs torch, and torch is not installed. Type: pip install torch; or export" in done.stdout, done.stderr


def test_notes_are_warnings_about_the_line_that_called(run: Path, tabletop: Path) -> None:
    header = replace(Planner.from_pretrained(run).header, feature_fingerprint=None)
    with pytest.warns(UserWarning, match="cannot be checked") as found:
        MomentReader(header).use_dataset(open_dataset(tabletop))
    assert [each.filename for each in found] == [__file__]
