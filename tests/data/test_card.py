from __future__ import annotations

from pathlib import Path

import pytest

from p3iv.data.folder import read_card, unknown_keys
from p3iv.errors import DatasetError


@pytest.mark.parametrize("value", ["true", ".inf", ".nan", "0", "-1", "1001", "1e999", "1" + "0" * 400, "'2'", "null"])
def test_features_per_second_is_a_number_that_makes_sense(tmp_path: Path, value: str) -> None:
    (tmp_path / "dataset.yaml").write_text(f"name: mine\nfeatures_per_second: {value}\n")
    with pytest.raises(DatasetError, match=r"`features_per_second` is .*; expected "):
        read_card(tmp_path)


@pytest.mark.parametrize("content", ["", "- a", "name: 3", "simulated: true", "name: [", "name: mine\nsimulated: 1\n"])
def test_what_is_no_card_is_refused(tmp_path: Path, content: str) -> None:
    (tmp_path / "dataset.yaml").write_text(content)
    with pytest.raises(DatasetError, match=r"dataset\.yaml"):
        read_card(tmp_path)


def test_a_misspelt_key_is_seen(tmp_path: Path) -> None:
    (tmp_path / "dataset.yaml").write_text("name: mine\nsimulate: true\n2: 3\n")
    assert unknown_keys(tmp_path) == ["simulate", "2"]
    assert not read_card(tmp_path).simulated
