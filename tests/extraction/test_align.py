from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from p3iv.data.folder import DatasetCard, open_dataset
from p3iv.encoders.identity import EncoderIdentity
from p3iv.errors import ConfigError, DatasetError
from p3iv.extraction.align import AlignmentRequest, align_dataset, info_nce
from p3iv.features.language import read_language, write_language
from p3iv.features.store import StoreWriter
from p3iv.features.store_index import KeptSeconds
from p3iv.readers.folder import write_split
from p3iv.types import Split
from p3iv.validation import MAX_NAME

ACTIONS = [f"step {number}" for number in range(12)]
WIDTH, LANGUAGE_WIDTH = 20, 16


def make_dataset(folder: Path, *, spoil: str = "", sparse: bool = False) -> Path:
    """Videos of four steps; the features of a step are a fixed function of its text, plus noise."""
    rng = np.random.default_rng(0)
    texts = rng.normal(size=(12, LANGUAGE_WIDTH)).astype(np.float32)
    looks = np.tanh(texts @ rng.normal(size=(LANGUAGE_WIDTH, WIDTH)))
    folder.mkdir()
    lines, videos = ["video,task,step,start_s,end_s"], [f"v{number}" for number in range(24)]
    with StoreWriter(folder / "features", width=WIDTH, dtype="float32") as store:
        for video in videos:
            chosen = rng.permutation(12)[:4]
            rows = np.repeat(looks[chosen], 3, axis=0) + 0.3 * rng.normal(size=(12, WIDTH))
            rows = rows * 100 if video == spoil else rows
            kept = KeptSeconds(20, tuple(range(12))) if sparse else None
            store.add(video, rows, kept)
            lines += [f"{video},tea,{ACTIONS[action]},{3 * n},{3 * n + 2.5}" for n, action in enumerate(chosen)]
    (folder / "steps.csv").write_text("\n".join(lines))
    write_split(folder / "split.json", Split(tuple(videos[:14]), tuple(videos[14:19]), tuple(videos[19:])))
    write_language(folder / "language.npz", ACTIONS, texts, [str(number) for number in range(12)])
    eye, words = EncoderIdentity("eye"), EncoderIdentity("words")
    DatasetCard("kitchen", encoder=eye, text_encoder=words, feature_fingerprint=store.fingerprint).write(folder)
    return folder


def test_texts_move_near_the_features_of_their_steps(tmp_path: Path) -> None:
    folder = make_dataset(tmp_path / "kitchen")
    before = (folder / "language.npz").read_bytes()
    report = align_dataset(AlignmentRequest(folder, split="release"))
    assert (report.num_videos, report.num_steps, report.num_val_steps) == (14, 56, 20)
    assert report.after.first > 0.8 > report.before.first
    table = read_language(folder / "language.npz")
    assert table.names == tuple(ACTIONS)
    assert table.ids == tuple(str(number) for number in range(12))
    assert table.embedding.shape == (12, WIDTH)
    assert np.allclose(np.linalg.norm(table.embedding, axis=1), 1, atol=1e-5)
    assert (folder / "language_text.npz").read_bytes() == before
    dataset = open_dataset(folder)
    assert str(dataset.card.text_encoder) == "words aligned to eye (split release 0, seed 0)"


def test_the_same_seed_gives_the_same_bytes_also_the_second_time(tmp_path: Path) -> None:
    folder = make_dataset(tmp_path / "kitchen")
    torch.manual_seed(3)
    first = align_dataset(AlignmentRequest(folder, split="release", steps=20))
    content = (folder / "language.npz").read_bytes()
    torch.manual_seed(4)
    assert align_dataset(AlignmentRequest(folder, split="release", steps=20)) == first
    assert (folder / "language.npz").read_bytes() == content
    align_dataset(AlignmentRequest(folder, split="release", steps=20, seed=1))
    assert (folder / "language.npz").read_bytes() != content


@pytest.mark.parametrize(("spoil", "is_seen"), [("v3", True), ("v16", False), ("v20", False)])
def test_only_training_videos_are_learnt_from(tmp_path: Path, spoil: str, is_seen: bool) -> None:
    contents = []
    for name in ("", spoil):
        folder = make_dataset(tmp_path / f"kitchen{name}", spoil=name)
        align_dataset(AlignmentRequest(folder, split="release", steps=5))
        contents.append((folder / "language.npz").read_bytes())
    assert (contents[0] != contents[1]) is is_seen


def test_seconds_that_were_left_out_are_not_missed(tmp_path: Path) -> None:
    report = align_dataset(AlignmentRequest(make_dataset(tmp_path / "kitchen", sparse=True), split="release", steps=5))
    assert report.num_steps == 56


def test_long_names_of_encoders_are_cut(tmp_path: Path) -> None:
    folder = make_dataset(tmp_path / "kitchen")
    replace(open_dataset(folder).card, encoder=EncoderIdentity("e" * MAX_NAME)).write(folder)
    align_dataset(AlignmentRequest(folder, split="release", steps=1))
    assert str(open_dataset(folder).card.text_encoder).startswith("words aligned to eee")


def test_info_nce_is_least_where_pairs_agree() -> None:
    rows = torch.eye(4)
    assert info_nce(rows, rows) < info_nce(rows, rows.roll(1, 0))
    assert info_nce(rows, rows, temperature=1e6).item() == pytest.approx(np.log(4), abs=1e-4)


def test_what_cannot_be_aligned_says_so(tmp_path: Path) -> None:
    folder = make_dataset(tmp_path / "kitchen")
    with pytest.raises(ConfigError, match="--split window shares videos"):
        AlignmentRequest(folder, split="window")
    (folder / "language.npz").unlink()
    with pytest.raises(DatasetError, match=r"Make both with `p3iv extract"):
        align_dataset(AlignmentRequest(folder))
