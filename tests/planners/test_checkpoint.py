"""Checkpoint files: what is refused, and with which sentence."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from safetensors import safe_open
from safetensors.torch import load_file, save_file

from p3iv.errors import CheckpointError
from p3iv.planners.checkpoint import BEST, load_ensemble, load_planner, read_checkpoint


def copy_with(path: Path, copy: Path, **changes: Any) -> Path:
    """A copy of a checkpoint with other entries in its header."""
    with safe_open(path, framework="pt") as file:
        content = json.loads(file.metadata()["p3iv"])
    save_file(load_file(path), copy, metadata={"p3iv": json.dumps(content | changes)})
    return copy


def test_an_unchanged_copy_loads(p3iv_run: Path, tmp_path: Path) -> None:
    copy = copy_with(p3iv_run / BEST, tmp_path / "copy.safetensors")
    assert load_planner(copy).header == load_planner(p3iv_run / BEST).header


def test_a_checkpoint_of_another_format_says_how_to_make_it_again(p3iv_run: Path, tmp_path: Path) -> None:
    old = copy_with(p3iv_run / BEST, tmp_path / "old.safetensors", format=2)
    with pytest.raises(CheckpointError, match=r"checkpoint format 2, .* format 3\. Train it again: p3iv train"):
        read_checkpoint(old)


def test_a_file_without_a_header_is_not_a_checkpoint(p3iv_run: Path, tmp_path: Path) -> None:
    save_file(load_file(p3iv_run / BEST), tmp_path / "bare.safetensors")
    with pytest.raises(CheckpointError, match="is not a p3iv checkpoint"):
        load_planner(tmp_path / "bare.safetensors")


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"names": ["a", "b"]}, "has another vocabulary than"),
        ({"data_fingerprint": "x"}, "was trained on other features, windows or another split"),
    ],
)
def test_planners_of_different_data_cannot_form_an_ensemble(
    p3iv_run: Path, tmp_path: Path, changes: dict[str, Any], message: str
) -> None:
    other = copy_with(p3iv_run / BEST, tmp_path / "other.safetensors", **changes)
    with pytest.raises(CheckpointError, match=rf"{message}.*cannot form an ensemble"):
        load_ensemble([p3iv_run / BEST, other])
