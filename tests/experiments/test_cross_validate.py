"""Cross-validation over videos and the planner of all videos: pooled scores, intervals, interruptions."""

from __future__ import annotations

import json
import math
import shutil
from pathlib import Path
from statistics import mean

import pytest
import torch

import p3iv
from commands import RunP3iv
from conftest import MakeOnce
from p3iv.config import preset_config
from p3iv.data.folder import open_dataset
from p3iv.data.tensors import load_planning_data
from p3iv.errors import CheckpointError, ConfigError, PlanError, TrainingError
from p3iv.evaluation.cross_validated import read_cross_validation
from p3iv.experiments.cross_validate import CrossValidationResult
from p3iv.metrics.intervals import t_quantile
from p3iv.planners.checkpoint import load_planner
from p3iv.planners.header import BEST, read_header
from p3iv.training.fixed import FixedChoices, choices_of, median_choices
from p3iv.types import Progress

SETTINGS = {"optim.epochs": 3, "model.width": 16, "model.feed_forward": 16}
NUM_VIDEOS = 8


def ignore(_: object) -> None:
    pass


def cross_validate(data: Path, run: Path, **more: object) -> CrossValidationResult:
    wanted = {"planner": "p3iv-plus", "folds": 2, "fit_all": True, "settings": SETTINGS, "on_note": ignore} | more
    result = p3iv.train(data, run, **wanted)  # type: ignore[arg-type]
    assert isinstance(result, CrossValidationResult)
    return result


@pytest.fixture(scope="module")
def few(make_once: MakeOnce) -> Path:
    return make_once("few videos", lambda folder: p3iv.make_tabletop(folder, videos=NUM_VIDEOS, skip_rendering=True))


@pytest.fixture(scope="module")
def fitted(make_once: MakeOnce, few: Path) -> Path:
    """A run of two folds with the planner of all videos."""
    return make_once("fitted to few", lambda run: cross_validate(few, run))


@pytest.fixture(scope="module")
def fitted_to_lengths(make_once: MakeOnce, few: Path) -> Path:
    """The same for one planner of several lengths."""
    return make_once("lengths fitted to few", lambda run: cross_validate(few, run, horizon="1-3"))


def lines_of(run: Path) -> list[dict[str, object]]:
    files = sorted(run.glob("folds/*/refit/predictions.jsonl"))
    return [json.loads(line) for file in files for line in file.read_text(encoding="utf-8").splitlines()]


def test_every_window_is_planned_once_without_its_video(fitted: Path, few: Path) -> None:
    dataset = open_dataset(few)
    found = read_cross_validation(fitted / "cross_validation.json")
    assert {each.video for each in found.videos} == {video.id for video in dataset.videos}
    assert len({line["window"] for line in lines_of(fitted)}) == len(lines_of(fitted)) == found.num_windows
    for number in (1, 2):
        data = load_planning_data(dataset, read_header(fitted / "folds" / str(number) / "refit" / BEST).config.data)
        tested = {each.video for each in found.videos if each.fold == number}
        assert {window.video for window in data.test.windows} == tested
        assert not tested & {window.video for window in data.train.windows}


def test_pooled_scores_are_those_of_score(fitted: Path, tmp_path: Path) -> None:
    pooled = tmp_path / "all.jsonl"
    pooled.write_text("".join(json.dumps(line) + "\n" for line in lines_of(fitted)))
    scored = p3iv.score(pooled, fitted / "folds" / "1" / "refit" / "actions.json")
    assert read_cross_validation(fitted / "cross_validation.json").plans == scored.plans


def test_the_interval_is_the_literal_one(fitted: Path) -> None:
    """One video left out at a time, Student's quantile, Wilson's interval with a number of windows of that variance."""
    found = read_cross_validation(fitted / "cross_validation.json")
    right = {each.video: round(each.success_rate * each.num_windows) for each in found.videos}
    size = {each.video: each.num_windows for each in found.videos}

    def rate(videos: list[str]) -> float:
        return sum(right[video] for video in videos) / sum(size[video] for video in videos)

    videos = sorted(right)
    p = rate(videos)
    without = [rate([other for other in videos if other != video]) for video in videos]
    variance = (len(videos) - 1) / len(videos) * sum((each - p) ** 2 for each in without)
    effective = sum(size.values()) ** 2 / sum(number**2 for number in size.values())
    pull = 0.05 / effective
    number = (p * (1 - p) + pull) / (variance + pull / effective)
    k = t_quantile(effective - 1) ** 2 / number
    half = math.sqrt(k * p * (1 - p) + k**2 / 4)
    interval = found.plans["success_rate"]
    assert interval.value == pytest.approx(p)
    assert interval.low == pytest.approx((p + k / 2 - half) / (1 + k))
    assert interval.high == pytest.approx((p + k / 2 + half) / (1 + k))
    assert 0 < interval.high - interval.low < 1


@pytest.mark.parametrize("done", [0.5, 1.1, 2.5, 4.1])  # of five trainings: two for each fold, one of all videos
def test_a_resumed_cross_validation_equals_an_uninterrupted_one(
    done: float, fitted: Path, few: Path, tmp_path: Path
) -> None:
    def stop(at: Progress) -> None:
        assert at.total == 5
        if at.done > done:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        cross_validate(few, tmp_path / "run", progress=stop)
    with pytest.raises(TrainingError, match="--resume"):
        cross_validate(few, tmp_path / "run")
    cross_validate(few, tmp_path / "run", resume=True)
    assert_same(tmp_path / "run", fitted)


def test_a_resumed_cross_validation_of_several_lengths_equals_an_uninterrupted_one(
    fitted_to_lengths: Path, few: Path, tmp_path: Path
) -> None:
    run = Path(shutil.copytree(fitted_to_lengths, tmp_path / "run"))
    shutil.rmtree(run / "folds" / "2" / "refit")
    shutil.rmtree(run / "checkpoints")
    (run / "cross_validation.json").unlink()
    cross_validate(few, run, horizon="1-3", resume=True)
    assert_same(run, fitted_to_lengths)


def assert_same(run: Path, other: Path) -> None:
    for name in ("cross_validation.json", str(BEST), "folds/1/refit/evaluation.json", "config.yaml"):
        assert (run / name).read_bytes() == (other / name).read_bytes()


def test_resuming_changes_nothing_and_refuses_other_folds(fitted: Path, few: Path, tmp_path: Path) -> None:
    run = Path(shutil.copytree(fitted, tmp_path / "run"))
    cross_validate(few, run, resume=True)
    assert (run / BEST).read_bytes() == (fitted / BEST).read_bytes()
    with pytest.raises(CheckpointError, match="fold-1-of-2"):
        cross_validate(few, run, resume=True, folds=3)


def test_the_planner_is_fitted_to_every_video(fitted: Path, few: Path) -> None:
    header = read_header(fitted / BEST)
    data = load_planning_data(open_dataset(few), header.config.data)
    assert header.data_fingerprint == data.fingerprint
    assert {window.video for window in data.train.windows} == {video.id for video in open_dataset(few).videos}
    assert len(data.val) == len(data.test) == 0
    ends = [side.double().mean(dim=0) for side in (data.train.start, data.train.goal)]
    network = load_planner(fitted / BEST).planner
    assert network.get_buffer("linear.mean").tolist() == pytest.approx([*ends[0].tolist(), *ends[1].tolist()], abs=1e-5)


def test_what_validation_would_choose_is_the_median_of_the_folds(fitted: Path) -> None:
    found = read_cross_validation(fitted / "cross_validation.json")
    chosen = [
        choices_of(load_planner(fitted / "folds" / str(fold.number) / BEST), fold.scheduled_epochs)
        for fold in found.folds
    ]
    planner = load_planner(fitted / BEST)
    assert planner.transitions.smoothing == pytest.approx(mean(each.smoothing for each in chosen))
    for name in ("temperature", "effects.weight"):
        value = float(planner.planner.get_buffer(name))
        assert value == pytest.approx(mean(float(each.buffers[name]) for each in chosen))
    assert planner.header.progress.epoch == median_choices(chosen).epochs_of(SETTINGS["optim.epochs"])


def test_a_planner_of_several_lengths_takes_all_its_choices_from_the_folds(fitted_to_lengths: Path, few: Path) -> None:
    """Every number that the folds chose on validation videos: one by one, the median; here the mean of two."""
    folds = [load_planner(fitted_to_lengths / "folds" / number / BEST).planner for number in "12"]
    planner = load_planner(fitted_to_lengths / BEST).planner
    assert planner.chosen_buffers
    for name in planner.chosen_buffers:
        both = torch.stack([fold.get_buffer(name) for fold in folds])
        torch.testing.assert_close(planner.get_buffer(name), both.mean(dim=0))
    data = load_planning_data(open_dataset(few), read_header(fitted_to_lengths / BEST).config.data)
    assert {window.video for window in data.train.windows} == {video.id for video in open_dataset(few).videos}


def test_a_planner_of_several_lengths_plans_and_follows(fitted_to_lengths: Path, few: Path, p3iv: RunP3iv) -> None:
    run, video = str(fitted_to_lengths), open_dataset(few).videos[0].id
    planned = p3iv("plan", run, "--start", f"{video}@1", "--goal", f"{video}@12", "--data", str(few), "--json")
    assert sum(each["probability"] for each in json.loads(planned.stdout)["lengths"]) == pytest.approx(1.0)
    followed = p3iv("follow", run, video, "--data", str(few), "--json")
    steps = {json.loads(line)["now"][0]["step"] for line in followed.stdout.splitlines()}
    assert len(steps) > 1


def test_at_least_one_and_at_most_all_epochs_are_trained() -> None:
    assert FixedChoices(0.001, 1.0, {}).epochs_of(10) == 1
    assert FixedChoices(0.5, 1.0, {}).epochs_of(10) == 5
    assert FixedChoices(1.0, 1.0, {}).epochs_of(10) == 10


@pytest.mark.parametrize("name", ["fitted", "fitted_to_lengths"])
def test_evaluate_and_report_show_the_cross_validated_scores(
    name: str, request: pytest.FixtureRequest, p3iv: RunP3iv, tmp_path: Path
) -> None:
    run = Path(shutil.copytree(request.getfixturevalue(name), tmp_path / "run"))
    evaluated, reported = p3iv("evaluate", "run", "--json"), p3iv("report", "run")
    assert evaluated.returncode == reported.returncode == 0
    assert "no test side" in evaluated.stderr
    assert "no test side" in reported.stderr
    assert json.loads(evaluated.stdout) == json.loads((run / "cross_validation.json").read_text())
    assert "There is no test side" in (run / "report.html").read_text(encoding="utf-8")
    card = (run / "README.md").read_text(encoding="utf-8")
    interval = read_cross_validation(run / "cross_validation.json").plans["success_rate"]
    assert f"{100 * interval.value:.1f} [{100 * interval.low:.1f}, {100 * interval.high:.1f}]" in card
    assert "there is no test side" in card


def test_a_planner_of_all_videos_is_scored_on_other_ones(fitted: Path, few: Path, tmp_path: Path) -> None:
    run = Path(shutil.copytree(fitted, tmp_path / "run"))
    with pytest.raises(PlanError, match=r"no test side.*--data DIR"):
        p3iv.evaluate(run, data=few, on_note=ignore)
    fresh = p3iv.make_tabletop(tmp_path / "fresh", videos=4, seed=5, skip_rendering=True)
    found = p3iv.evaluate(run, data=fresh, samples=4, on_note=ignore)
    assert found.num_videos == 4


def test_a_shared_planner_keeps_its_cross_validation(fitted: Path, tmp_path: Path) -> None:
    folder = p3iv.Planner.from_pretrained(fitted).save_pretrained(tmp_path / "shared")
    assert (folder / "cross_validation.json").read_bytes() == (fitted / "cross_validation.json").read_bytes()
    assert "Cross-validated scores" in (folder / "README.md").read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("wanted", "why"),
    [
        ({"planner": "graph"}, "--fit-all works with p3iv and p3iv-plus|p3iv, p3iv-plus"),
        ({"planner": "graph", "horizon": "1-3"}, "--fit-all works with p3iv-plus;"),
        ({"split": "release"}, "divide the videos themselves"),
        ({"folds": 1}, "at least 2"),
    ],
)
def test_what_cannot_be_done_is_refused_before_anything_is_written(
    wanted: dict[str, object], why: str, few: Path, tmp_path: Path
) -> None:
    with pytest.raises(ConfigError, match=why):
        cross_validate(few, tmp_path / "run", **({"settings": {}} | wanted))
    assert not (tmp_path / "run").exists()


def test_split_all_needs_folds(few: Path, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="--fit-all"):
        p3iv.train(few, tmp_path / "run", planner="p3iv-plus", split="all", on_note=ignore)
    assert preset_config("p3iv-plus").data.split == "video"


def test_planners_that_need_validation_are_cross_validated_as_they_are(few: Path, tmp_path: Path) -> None:
    result = cross_validate(few, tmp_path / "run", planner="retrieval", fit_all=False, settings={})
    assert not result.is_fitted
    assert result.scores.num_videos == NUM_VIDEOS
    assert not (tmp_path / "run" / "folds" / "1" / "refit").exists()


def test_enough_says_where_there_are_too_few(few: Path, p3iv: RunP3iv) -> None:
    done = p3iv("data", "enough", str(few), "--out", "enough")
    assert done.returncode == 0
    assert "Too few to say: 8 videos" in done.stdout


def test_enough_makes_a_curve_that_the_report_shows(p3iv: RunP3iv, tmp_path: Path) -> None:
    p3iv("data", "make", "tabletop", "data", "--videos", "12", "--skip-rendering")
    small = [word for name, value in SETTINGS.items() for word in ("--set", f"{name}={value}")]
    words = ("data", "enough", "data", "--folds", "2", *small)
    first = p3iv(*words, "--json")
    curve = json.loads(first.stdout)["curve"]
    assert [point["num_videos"] for point in curve["points"]] == [1.5, 3.0, 6.0]
    assert curve["num_windows"] == len(lines_of(tmp_path / "data" / "enough" / "all"))
    before = (tmp_path / "data" / "enough" / "enough.json").read_bytes()
    assert "success rate is about" in p3iv(*words).stdout
    assert (tmp_path / "data" / "enough" / "enough.json").read_bytes() == before
    assert p3iv("train", "data", "--out", "run", "--planner", "p3iv-plus", "--folds", "2", *small).returncode == 0
    assert p3iv("report", "run").returncode == 0
    assert "Are there enough videos?" in (tmp_path / "run" / "report.html").read_text(encoding="utf-8")
    assert "no errors" in p3iv("data", "check", "data").stdout


def test_enough_in_python(few: Path, tmp_path: Path) -> None:
    found = p3iv.data_enough(few, out=tmp_path / "enough")
    assert found.curve is None
    assert "needs 10" in str(found.too_few)
    assert not (tmp_path / "enough").exists()
