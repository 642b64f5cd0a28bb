"""Step embeddings without videos: `p3iv data embed`, and what `p3iv data import` does by itself."""

from __future__ import annotations

import shutil
from pathlib import Path

import numpy as np
import pytest

from commands import RunP3iv
from p3iv.data.check import check_dataset
from p3iv.data.embedding import EmbeddingReport, EmbeddingRequest, embed_dataset
from p3iv.data.folder import open_dataset, read_card
from p3iv.encoders.registry import build_text_encoder
from p3iv.errors import DatasetError
from p3iv.features.language import read_language, write_language

STEPS = "video,task,step,start_s,end_s,text\na,tea,boil,0,2,boil the water\na,tea,pour,3,4,\n"


@pytest.fixture
def kitchen(tmp_path: Path) -> Path:
    folder = tmp_path / "kitchen"
    folder.mkdir()
    (folder / "steps.csv").write_text(STEPS)
    return folder


def embed(folder: Path, *, overwrite: bool = False) -> EmbeddingReport:
    return embed_dataset(EmbeddingRequest(folder, overwrite=overwrite))


def test_every_step_gets_the_embedding_of_its_text(kitchen: Path) -> None:
    report = embed(kitchen)
    assert (report.num_steps, report.num_new_steps, report.width) == (2, 2, 384)
    table, dataset = read_language(kitchen / "language.npz"), open_dataset(kitchen)
    assert table.names == dataset.vocabulary.names == ("boil", "pour")
    expected = build_text_encoder("minilm").encode_text(["boil the water", "pour"]).numpy()
    assert np.allclose(table.embedding, expected, atol=1e-6)
    assert dataset.card.text_encoder == report.text_encoder
    assert [finding.severity for finding in check_dataset(kitchen)] == ["warning", "warning"]  # few videos, no features


def test_complete_embeddings_stay_and_a_new_step_gets_one(kitchen: Path) -> None:
    embed(kitchen)
    content = (kitchen / "language.npz").read_bytes()
    assert embed(kitchen).num_new_steps == 0
    assert (kitchen / "language.npz").read_bytes() == content
    (kitchen / "steps.csv").write_text(f"{STEPS}a,tea,stir,5,6,\n")
    with pytest.raises(DatasetError, match=rf"no embedding for 1 step: stir\. Type: p3iv data embed {kitchen}\."):
        open_dataset(kitchen)
    assert embed(kitchen).num_new_steps == 1
    assert open_dataset(kitchen).vocabulary.names == ("boil", "pour", "stir")


def test_embeddings_of_another_origin_are_replaced_only_on_request(kitchen: Path) -> None:
    write_language(kitchen / "language.npz", ["boil", "pour"], np.eye(2, 5))
    with pytest.raises(DatasetError, match=r"has embeddings by an unknown encoder\. Pass --overwrite"):
        embed(kitchen)
    assert read_language(kitchen / "language.npz").embedding.shape == (2, 5)
    assert embed(kitchen, overwrite=True).width == 384


def test_an_import_makes_the_embeddings_that_embed_makes(p3iv: RunP3iv, kitchen: Path, tmp_path: Path) -> None:
    done = p3iv("data", "import", "folder", kitchen, "imported")
    note = "note: no --language was given, so embeddings of 2 steps were made by minilm (language.npz)"
    assert note in done.stderr.splitlines()
    imported = (tmp_path / "imported" / "language.npz").read_bytes()
    again = p3iv("data", "embed", "imported")
    assert again.stdout.endswith("nothing to do (--overwrite makes them again)\n")
    assert p3iv("data", "embed", kitchen).returncode == 0
    assert (kitchen / "language.npz").read_bytes() == imported
    assert read_card(tmp_path / "imported").text_encoder == read_card(kitchen).text_encoder
    shutil.rmtree(tmp_path / "imported")
    assert "no --language was given" not in p3iv("data", "import", "folder", kitchen, "imported").stderr
