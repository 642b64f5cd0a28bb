"""The model card: its metadata are YAML, its scores those of the evaluation, and names of files stay plain text."""

from __future__ import annotations

import json
import re
import shutil
from dataclasses import replace
from html import unescape
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st
from markdown_it import MarkdownIt

from commands import RunP3iv
from p3iv.catalogue import METRICS
from p3iv.config import override
from p3iv.encoders.identity import EncoderIdentity
from p3iv.planners.header import BEST, read_header
from p3iv.training.card import Card, escape, render_card
from p3iv.types import UNFIT

MARKDOWN = MarkdownIt("gfm-like", {"html": True, "linkify": False})


def metadata_of(card: str) -> Any:
    return yaml.safe_load(card.split("---\n")[1])


@given(st.text(st.one_of(st.characters(), st.sampled_from("`*_[]<>&|~#!()-+=1.\\$@:/ \n")), max_size=40))
def test_escaped_text_is_shown_as_it_is(text: str) -> None:
    """In a paragraph, in a list and in a table."""
    plain = " ".join(UNFIT.sub(" ", text).split(" ")).strip()
    for page in (f"x {escape(text)} y", f"- x {escape(text)} y", f"| x |\n| --- |\n| x {escape(text)} y |"):
        shown = re.sub(r"</?(p|ul|li|table|thead|tbody|tr|th|td)>", "", MARKDOWN.render(page))
        assert "<" not in shown
        assert " ".join(unescape(shown).split()).endswith(" ".join(f"x {plain} y".split()))


def test_names_of_data_and_steps_cannot_change_the_card(plus_run: Path) -> None:
    header = read_header(plus_run / BEST)
    evil = "<script>alert(1)</script> [click](https://evil) `x` --- license: mit"
    names = (evil, *header.names[1:])
    split = {"data.split": "C:\\Users\\me\\split <b>.json"}
    config = override(header.config, split)
    card = render_card(
        Card("a/b", replace(header, names=names, data_label=evil, config=config), licence="x\n---\ny: 1")
    )
    assert set(metadata_of(card)) == {"license", "license_name", "library_name", "tags"}
    assert metadata_of(card)["license"] == "other"
    body = MARKDOWN.render(card.split("---\n", 2)[2])
    assert "<script" not in body
    assert "<a " not in body
    assert "Users" not in card
    assert "split split &lt;b&gt;.json, split seed" in body


def test_the_card_of_a_run_has_the_scores_once_it_is_evaluated(p3iv_run: Path, tmp_path: Path, p3iv: RunP3iv) -> None:
    run = Path(shutil.copytree(p3iv_run, tmp_path / "run"))
    card, found = (run / "README.md").read_text(), json.loads((run / "evaluation.json").read_text())
    (result,) = metadata_of(card)["model-index"][0]["results"]
    assert {each["type"]: each["value"] for each in result["metrics"]} == {
        name: round(100 * score["value"], 2) for name, score in found["decoders"][found["decoder"]].items()
    }
    ours, others = found["decoders"][found["decoder"]], found["baselines"]["retrieval"]
    for label, scores in {"this planner": ours, "nearest train window": others}.items():
        score = scores["success_rate"]
        assert f"| {label} | {METRICS['success_rate'].interval_text(**score)} |" in card
    assert str(tmp_path) not in card
    (run / "evaluation.json").write_text(json.dumps(found | {"data_fingerprint": "of other data"}))
    shown = p3iv("push", "run", "a/b", "--dry-run")
    assert "Not evaluated on test windows yet" in shown.stdout
    assert "p3iv evaluate run makes them" in shown.stderr
    assert "evaluation.json" not in shown.stdout.split("---")[0]


@pytest.mark.parametrize(
    ("encoder", "words"),
    [
        (None, "plan from `.npy` files"),
        (EncoderIdentity("state"), "plan from `.npy` files"),
        (EncoderIdentity("efficientnet-lite0", fingerprint="ab" * 32), "come with p3iv's extra `encoders`"),
        (EncoderIdentity("clip", "openai/clip", "ab" * 32), "are openai/clip on the Hugging Face hub"),
        (EncoderIdentity("s3d", "s3d.pth", "ab" * 32), "are the file s3d.pth, which is not part of this planner"),
    ],
)
def test_the_card_says_where_the_encoder_comes_from(
    plus_run: Path, encoder: EncoderIdentity | None, words: str
) -> None:
    header = replace(read_header(plus_run / BEST), encoder=encoder)
    card = render_card(Card("a/b", header))
    assert words in card
    assert ("kitchen.mp4@12.5" in card) == ("npy" not in words)
