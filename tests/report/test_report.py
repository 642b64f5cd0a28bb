from __future__ import annotations

import csv
import json
import re
import shutil
import tracemalloc
from html.parser import HTMLParser
from pathlib import Path

import pytest

from clips import write_clip
from p3iv.api.runs import published_for
from p3iv.errors import ConfigError, DatasetError, PlanError
from p3iv.evaluation.evaluate import EvaluationRequest, evaluate
from p3iv.plans.draws import SampleSettings
from p3iv.report.gallery import scan_predictions
from p3iv.report.run_files import ReportError, read_run
from p3iv.report.write import write_report
from p3iv.tabletop.make import make_tabletop
from report.runs import Line, add_prediction, change, leaf, make_run, prediction_line, scores, write_predictions

VOID = {"br", "img", "meta"}


class Checker(HTMLParser):
    """Collects tags and text, and stops at a tag that closes another one."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.texts: list[str] = []
        self.feed(page)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        assert len(dict(attrs)) == len(attrs), f"{tag} has an attribute twice: {attrs}"
        self.tags.append((tag, dict(attrs)))
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.texts.append(data)

    @property
    def text(self) -> str:
        return " ".join(" ".join(self.texts).split())


def report_of(run: Path) -> tuple[str, Checker]:
    write_report(run, find_published=published_for)
    page = (run / "report.html").read_text(encoding="utf-8")
    return page, Checker(page)


@pytest.mark.parametrize(("horizon", "num_actions", "num_tasks"), [(1, 3, 1), (3, 12, 5), (6, 778, 180), (10, 40, 30)])
def test_pages_of_any_size_are_valid(tmp_path: Path, horizon: int, num_actions: int, num_tasks: int) -> None:
    run = make_run(tmp_path / "run", horizon=horizon, num_actions=num_actions, num_tasks=num_tasks)
    page, checker = report_of(run)
    names = [name for name, _ in checker.tags]
    assert names.count("article") == 8
    assert names[0] == "html"
    assert checker.tags[0][1]["lang"] == "en"
    assert "Table 1." in checker.text
    assert f"task {num_tasks - 1}" in checker.text
    assert len(page) < 2_000_000
    for number in re.findall(r'(?:x|y|width|height|cx|cy|r|d|points)="([^"]*)"', page):
        assert "nan" not in number
        assert "inf" not in number


def test_the_page_loads_nothing_from_outside(tmp_path: Path) -> None:
    page, checker = report_of(make_run(tmp_path / "run"))
    assert "http:" not in page
    assert "https:" not in page
    assert "url(" not in page
    assert not {"script", "link", "iframe", "object", "form", "base"} & {name for name, _ in checker.tags}
    policy = next(attrs["content"] for name, attrs in checker.tags if name == "meta" and "http-equiv" in attrs)
    assert policy is not None
    assert policy.startswith("default-src 'none'; style-src 'unsafe-inline'; img-src data:;")
    assert str(tmp_path) not in page
    drawings = [attrs for name, attrs in checker.tags if name == "svg"]
    assert all(attrs.get("aria-label") or attrs.get("aria-hidden") == "true" for attrs in drawings)


def test_hostile_names_stay_text(tmp_path: Path) -> None:
    names = [
        "<script>alert(1)</script>",
        '"><img src=x onerror=y>',
        "</title></svg><b>",
        "&lt;",
        "\x00\u202e",
        "ok",
    ]
    run = make_run(tmp_path / "run", names=names, data='<i>x</i> (<b onload="y">)', settings={"data.split": "<s>.json"})
    line = prediction_line(0, names=names) | {"task": "<script>", "window": "<script>", "video": "<script>"}
    add_prediction(run, line)
    change(
        run,
        num_windows=21,
        notes=["<script>"],
        tasks=[{"task": "<script>", "num_windows": 1, "scores": scores(0.1)}],
        decoder="<script>",
        decoders={"<script>": scores(0.1)},
        modes={"<script>": {"kl": leaf(0.3)}},
    )
    page, checker = report_of(run)
    tags = {name for name, _ in checker.tags}
    assert not {"script", "i", "s"} & tags
    assert page.count("<img") == 0
    assert not any(key.startswith("on") for _, attrs in checker.tags for key in attrs)
    assert "<script>alert(1)</script>" in checker.text


def test_the_same_run_gives_the_same_bytes(tmp_path: Path) -> None:
    data = tmp_path / "data"
    (data / "videos").mkdir(parents=True)
    write_clip(data / "videos" / "video-0.mp4", range(0, 6000, 500))
    runs = [make_run(tmp_path / name, dataset=data) for name in ("one", "two")]
    first, second = (write_report(run).path.read_bytes() for run in runs)
    assert first == second
    assert write_report(runs[0]).path.read_bytes() == first


def test_a_planner_that_samples_in_one_way_has_one_column_of_samples(tmp_path: Path) -> None:
    run = make_run(tmp_path / "run")
    change(run, modes={mode: {"kl": leaf(0.3)} for mode in ("argmax", "categorical", "chain")})
    _, checker = report_of(run)
    assert checker.text.count("this planner has one way to draw them") == 1
    assert "under each latent" not in checker.text
    assert "drawn per latent" not in checker.text
    change(run, modes={"argmax": {"kl": leaf(0.3)}, "categorical": {"kl": leaf(0.2)}})
    _, checker = report_of(run)
    assert "this planner has one way to draw them" not in checker.text
    assert "drawn per latent" in checker.text


def test_a_procedure_without_an_interval_is_explained(tmp_path: Path) -> None:
    run = make_run(tmp_path / "run")
    clause = "none where all windows of a procedure are from one video"
    assert clause not in report_of(run)[1].text
    alone = {name: {"value": 0.5, "low": None, "high": None} for name in scores(0.5)}
    change(run, tasks=[{"task": "tea", "num_windows": 2, "scores": alone}])
    assert clause in report_of(run)[1].text


def test_right_and_wrong_windows_both_appear(tmp_path: Path) -> None:
    _, checker = report_of(make_run(tmp_path / "run"))
    assert checker.text.count("✓ right") == 4
    assert checker.text.count("✗ 2 of 3 steps right") == 4


def test_pictures_have_descriptions_and_a_broken_video_loses_only_its_own(tmp_path: Path) -> None:
    data = tmp_path / "data"
    (data / "videos").mkdir(parents=True)
    for number in range(7):
        write_clip(data / "videos" / f"video-{number}.mp4", range(0, 6000, 500), size=(320, 180))
    run = make_run(tmp_path / "run", dataset=data, num_windows=40)
    whole = write_report(run, num_cases=12)
    assert (whole.num_cases, whole.num_pictures, whole.notes) == (12, 24, ())
    page = whole.path.read_text()
    assert len(page) < 2_000_000
    images = [attrs for name, attrs in Checker(page).tags if name == "img"]
    assert all(image["alt"] and str(image["src"]).startswith("data:image/jpeg;base64,") for image in images)
    (data / "videos" / "video-0.mp4").write_bytes(b"broken")
    result = write_report(run, num_cases=12)
    assert result.num_cases == 12
    assert 0 < result.num_pictures < 24
    assert result.notes == (f"{24 - result.num_pictures} pictures could not be read from the videos",)
    moved = data.rename(tmp_path / "moved")
    assert "No pictures: the dataset folder has moved" in report_of(run)[1].text
    with pytest.raises(DatasetError, match="no steps"):
        write_report(run, data=moved)
    (moved / "steps.csv").write_text("video,task,step,start_s,end_s\n")
    assert write_report(run, data=moved, num_cases=12).num_pictures == result.num_pictures
    (moved / "videos" / "video-1.mp4").rename(tmp_path / "other.mp4")
    shutil.rmtree(moved / "videos")
    (moved / "videos").mkdir()
    (tmp_path / "other.mp4").rename(moved / "videos" / "other.mp4")
    none_shown = write_report(run, data=moved)
    assert none_shown.notes == (f"no pictures: {moved} has none of the videos that were evaluated; pass --data DIR",)


def test_pictures_of_another_dataset_are_refused(p3iv_run: Path, tabletop: Path, tmp_path: Path) -> None:
    run = Path(shutil.copytree(p3iv_run, tmp_path / "run"))
    assert not any("is not the dataset" in note for note in write_report(run, data=tabletop).notes)
    make_tabletop(tmp_path / "other", num_videos=40, seed=5, render=False)  # the same names of videos
    with pytest.raises(DatasetError, match=r"other is not the dataset that was evaluated: video .* has other steps"):
        write_report(run, data=tmp_path / "other")
    evaluate(EvaluationRequest(run, tmp_path / "other", settings=SampleSettings(5)))
    (note,) = write_report(run).notes
    assert note.startswith(f"no pictures: {tabletop} is not the dataset that was evaluated")
    write_report(run, data=tmp_path / "other")


@pytest.mark.parametrize(
    ("data", "words"),
    [
        ("crosstask (SIMULATED text-like features)", "SIMULATED FEATURES"),
        ("tabletop (state features)", "TABLETOP Generated videos"),
    ],
)
def test_simulated_and_generated_data_are_named_first(tmp_path: Path, data: str, words: str) -> None:
    page, checker = report_of(make_run(tmp_path / "run", data=data))
    assert words in checker.text.partition("What was trained")[0]
    assert page.count(data) >= 6


def test_published_numbers_are_beside_the_metric_that_they_are(tmp_path: Path) -> None:
    run = make_run(tmp_path / "run", data="crosstask (SIMULATED text-like features)")
    page, checker = report_of(run)
    first, second = re.findall(r'<tr class="published">.*?</tr>', page)
    assert re.findall(r"<td[^>]*>([^<]+)", first) == ["23.3", "(50.0)", "(73.9)"]
    assert re.findall(r"<td[^>]*>([^<]+)", second) == ["23.3", "50.0", "73.9", "\N{EN DASH}"]
    assert "Published: P3IV (CVPR 2022), Table 3; crosstask, T = 3, protocol 1" in checker.text
    assert "This run has SIMULATED features." in checker.text
    assert "P3IV (CVPR 2022)" not in report_of(make_run(tmp_path / "own"))[1].text
    second_protocol = make_run(tmp_path / "two", data="crosstask (x features)", settings={"data.protocol": 2})
    assert "protocol 2: one window per video" in report_of(second_protocol)[1].text


def test_sections_without_data_are_left_out(tmp_path: Path) -> None:
    run = make_run(tmp_path / "run")
    for name in ("environment.json", "metrics.csv", "predictions.jsonl"):
        (run / name).unlink()
    change(run, tasks=[], positions=[], baselines={}, differences={})
    result = write_report(run)
    checker = Checker(result.path.read_text())
    assert (result.num_windows, result.num_cases) == (0, 0)
    assert "no predictions.jsonl" in result.notes[0]
    assert "50.0" in checker.text
    for title in ("Training", "By procedure", "Calibration", "Plans, window by window"):
        assert title not in checker.text


def test_windows_without_times_samples_or_probability_are_shown(tmp_path: Path) -> None:
    run = make_run(tmp_path / "run", num_windows=2)
    empty: Line = {"start_s": None, "goal_s": None, "plan_probability": None, "samples": []}
    lines = [json.dumps(prediction_line(number) | empty) for number in range(2)]
    write_predictions(run, "\n".join(lines))
    assert write_report(run).num_cases == 2
    _, checker = report_of(run)
    assert "Calibration" not in checker.text


def test_files_of_different_evaluations_are_refused(tmp_path: Path) -> None:
    run = make_run(tmp_path / "run")
    lines = (run / "predictions.jsonl").read_text()
    (run / "predictions.jsonl").write_text(lines.replace("step number 1", "step number 2"))
    with pytest.raises(PlanError, match=r"do not belong together: .* Type: p3iv evaluate") as caught:
        write_report(run)
    assert str(caught.value).startswith(f"{run / 'predictions.jsonl'} and evaluation.json")
    assert not (run / "report.html").exists()
    (run / ".predictions.jsonl.new").write_text(lines)  # where a killed evaluation leaves them
    assert write_report(run).num_windows == 20


def test_notes_do_not_show_folders_of_the_machine(tmp_path: Path) -> None:
    run = make_run(tmp_path / "run")
    change(run, notes=["/home/ann/data/mine is not what the planner was trained on: 70/30"])
    _, checker = report_of(run)
    assert "Note: mine is not what the planner was trained on: 70/30" in checker.text


def test_a_transfer_test_names_both_datasets(tmp_path: Path) -> None:
    run = make_run(tmp_path / "run", data="mine (clip features)")
    assert "trained on mine" not in report_of(run)[1].text
    change(run, data="other (clip features)")
    assert "Data trained on mine (clip features), evaluated on other (clip features)" in report_of(run)[1].text


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ("{", "not JSON: "),
        ("[]", "a list; expected an object"),
        ({"format": 1}, "has format 1, and this version of p3iv reads format 3. Make it again: p3iv evaluate"),
        ({"horizon": 0}, "`horizon` is 0; expected greater than or equal to 1. Make it again"),
        ({"num_windows": None}, "`num_windows` is null; expected a valid integer"),
        ({"decoders": [1]}, "`decoders` is a list; expected an object"),
        ({"decoders": {"mode": {"kl": {"value": "high"}}}}, "`decoders.mode.kl.value` is 'high'; expected a valid"),
    ],
)
def test_a_broken_evaluation_is_refused_and_no_report_is_left(
    tmp_path: Path, changes: str | dict[str, object], message: str
) -> None:
    run = make_run(tmp_path / "run")
    if isinstance(changes, str):
        (run / "evaluation.json").write_text(changes)
    else:
        change(run, **changes)
    with pytest.raises(PlanError) as caught:
        write_report(run)
    assert message in str(caught.value)
    assert not (run / "report.html").exists()


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"plan": [1, 2, 3]}, "`plan[0]` is 1; expected a valid string"),
        ({"samples": [[["a", "b", "c"], 0]]}, "`samples[0][1]` is 0; expected greater than or equal to 1"),
        ({"samples": 3}, "`samples` is 3; expected a valid array"),
        ({"plan_probability": 1.5}, "`plan_probability` is 1.5"),
    ],
)
def test_a_broken_line_is_named(tmp_path: Path, changes: dict[str, object], message: str) -> None:
    run = make_run(tmp_path / "run", num_windows=2)
    add_prediction(run, prediction_line(2) | changes)
    with pytest.raises(PlanError, match=r"predictions\.jsonl:3: ") as caught:
        write_report(run)
    assert message in str(caught.value)


def test_for_a_run_without_an_evaluation_the_message_says_what_to_type(tmp_path: Path) -> None:
    run = make_run(tmp_path / "run")
    (run / "evaluation.json").unlink()
    with pytest.raises(ReportError, match="Type: p3iv evaluate"):
        write_report(run)
    with pytest.raises(ReportError, match="is not a run folder"):
        write_report(tmp_path)
    with pytest.raises(ConfigError, match="--cases -1"):
        write_report(run, num_cases=-1)


def test_a_large_file_is_read_line_by_line(tmp_path: Path) -> None:
    line = json.dumps(prediction_line(1, num_actions=60, num_samples=500)).encode() + b"\n"
    path = tmp_path / "predictions.jsonl"
    path.write_bytes(line * (2_000_000 // len(line)))
    tracemalloc.start()
    scan = scan_predictions(path)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert len(scan.candidates) * len(line) == path.stat().st_size
    assert peak < 700_000


def test_a_trained_and_evaluated_run_has_a_report(p3iv_run: Path, tmp_path: Path) -> None:
    run = Path(shutil.copytree(p3iv_run, tmp_path / "run"))
    result = write_report(run)
    checker = Checker(result.path.read_text())
    assert (result.num_cases, result.notes) == (8, ("no pictures: the dataset folder has no videos",))
    for words in ("TABLETOP", "its most likely plan", "against the true distribution", "drawn from the chain"):
        assert words in checker.text


def test_what_a_killed_report_left_is_removed(p3iv_run: Path, tmp_path: Path) -> None:
    run = tmp_path / "run"
    shutil.copytree(p3iv_run, run)
    (run / ".report.html.abcdefgh.part").touch()
    write_report(run, num_cases=0)
    assert not [path for path in run.iterdir() if path.name.startswith(".")]


def test_the_kept_epoch_is_that_of_the_checkpoint(plus_run: Path, tmp_path: Path) -> None:
    """P3IV+ does not keep the epoch of the best success rate, so metrics.csv alone does not say which one it is."""
    run = Path(shutil.copytree(plus_run, tmp_path / "run"))
    with (run / "metrics.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    kept = read_run(run).kept_epoch
    for row in rows:
        row["val_success_rate"] = "0.0" if int(row["epoch"]) == kept else "0.9"
    with (run / "metrics.csv").open("w", newline="") as file:
        writer = csv.DictWriter(file, rows[0])
        writer.writeheader()
        writer.writerows(rows)
    assert not any("evaluate it again" in note for note in write_report(run).notes)
    content = json.loads((run / "evaluation.json").read_text())
    change(run, epoch=content["epoch"] + 1)
    assert any(note.endswith(f"keeps that of epoch {kept}: evaluate it again") for note in write_report(run).notes)
