from __future__ import annotations

from pathlib import Path

import pytest

from p3iv.errors import SourceError, SplitError
from p3iv.readers.folder import read_split, write_split
from p3iv.types import Split


@pytest.mark.parametrize("split", [Split(("a", "é"), ("b",), ("c",)), Split((), (), ())])
def test_a_split_reads_back_the_same(tmp_path: Path, split: Split) -> None:
    write_split(tmp_path / "new" / "split.json", split)
    assert read_split(tmp_path / "new" / "split.json") == split


def test_val_may_be_left_out(tmp_path: Path) -> None:
    (tmp_path / "split.json").write_text('\ufeff{"test": ["b"], "train": ["a"]}', encoding="utf-8")
    assert read_split(tmp_path / "split.json") == Split(("a",), (), ("b",))


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("[]", "not an object"),
        ("{", "not JSON"),
        ('{"train": []}', "test is null, expected a list"),
        ('{"train": [], "test": [], "dev": []}', "key 'dev', expected each of train, val, test once"),
        ('{"train": [], "test": [], "train": []}', "key 'train', expected each of train, val, test once"),
        ('{"train": "abc", "test": []}', "train is 'abc', expected a list"),
        ('{"train": [1], "test": []}', "a video of train is 1, expected a text"),
        ('{"train": ["\\ud800"], "test": []}', "a video of train is"),
        ('{"train": [], "test": [], "val": null}', "val is null"),
    ],
)
def test_other_keys_and_types_are_refused(tmp_path: Path, content: str, message: str) -> None:
    (tmp_path / "split.json").write_text(content, encoding="utf-8")
    with pytest.raises(SourceError, match=rf'{message}.*Give {{"train"'):
        read_split(tmp_path / "split.json")


@pytest.mark.parametrize("split", [Split(("a", "v9"), ("v9",), ()), Split(("v9", "v9"), (), ())])
def test_a_video_listed_twice_is_refused_by_name(tmp_path: Path, split: Split) -> None:
    with pytest.raises(SplitError, match="'v9' is listed under train and again"):
        write_split(tmp_path / "split.json", split)
    content = f'{{"train": {list(split.train)}, "val": {list(split.val)}, "test": []}}'.replace("'", '"')
    (tmp_path / "split.json").write_text(content, encoding="utf-8")
    with pytest.raises(SplitError, match="'v9' is listed under train and again"):
        read_split(tmp_path / "split.json")
