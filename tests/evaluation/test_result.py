"""evaluation.json is read back as it was written, and another version of it gets one sentence."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from p3iv.errors import PlanError
from p3iv.evaluation.result import read_evaluation, write_evaluation
from p3iv.metrics.intervals import Interval


def test_an_evaluation_is_read_back(p3iv_run: Path, tmp_path: Path) -> None:
    evaluation = read_evaluation(p3iv_run / "evaluation.json")
    write_evaluation(tmp_path / "evaluation.json", evaluation)
    assert (tmp_path / "evaluation.json").read_bytes() == (p3iv_run / "evaluation.json").read_bytes()
    assert evaluation.plan_scores == evaluation.decoders["viterbi"]


def test_a_score_without_an_interval_is_null_in_json(p3iv_run: Path, tmp_path: Path) -> None:
    evaluation = read_evaluation(p3iv_run / "evaluation.json")
    alone = evaluation.model_copy(update={"baselines": {"random": {"success_rate": Interval(0.5)}}})
    write_evaluation(tmp_path / "evaluation.json", alone)
    content = json.loads((tmp_path / "evaluation.json").read_text())
    assert content["baselines"]["random"]["success_rate"] == {"value": 0.5, "low": None, "high": None}
    read = read_evaluation(tmp_path / "evaluation.json").baselines["random"]["success_rate"]
    assert (read.value, read.has_ends) == (0.5, False)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"format": 1}, r"evaluation.json has format 1, and this version of p3iv reads format 3. Make it again: p3iv"),
        ({"horizon": 0}, "`horizon` is 0; expected greater than or equal to 1. Make it again: p3iv evaluate"),
        ({"side": "all"}, "`side` is 'all'; expected 'train', 'val' or 'test'"),
    ],
)
def test_a_file_that_cannot_be_used_says_how_to_make_it_again(
    p3iv_run: Path, tmp_path: Path, changes: dict[str, object], message: str
) -> None:
    content = json.loads((p3iv_run / "evaluation.json").read_text())
    (tmp_path / "evaluation.json").write_text(json.dumps(content | changes))
    with pytest.raises(PlanError, match=message):
        read_evaluation(tmp_path / "evaluation.json")
